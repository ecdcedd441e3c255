"""Models on disk: fetching, checking, describing and opening them."""
