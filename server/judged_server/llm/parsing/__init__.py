"""What a language model's reply means: from a ChatReply to a ParsedReply."""
