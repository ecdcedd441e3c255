"""How each provider spells a request and a reply: pure functions, one module a dialect.

A further dialect is a module here and a line in the table. `fake` has no wire: it answers from a
file.
"""

from judged_server.llm.providers import anthropic, fake, gemini, openai
from judged_server.llm.providers.reading import Capabilities, Dialect

DIALECTS = {
    "openai": openai.DIALECT,
    "anthropic": anthropic.DIALECT,
    "gemini": gemini.DIALECT,
}

FAKE = "fake"

CAPABILITIES = {
    **{name: dialect.capabilities for name, dialect in DIALECTS.items()},
    FAKE: fake.CAPABILITIES,
}
"""By the names that the configuration knows."""

__all__ = ["CAPABILITIES", "DIALECTS", "FAKE", "Capabilities", "Dialect"]
