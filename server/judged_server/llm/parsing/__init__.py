"""What a language model's reply means: from a ChatReply to a ParsedReply."""

from judged_server.llm.parsing.reply import PARSER_VERSION, read

__all__ = ["PARSER_VERSION", "read"]
