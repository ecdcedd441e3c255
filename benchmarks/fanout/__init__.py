"""Questions to language models: ours, the vendor's SDK and a bare loop."""
