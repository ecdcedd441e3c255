"""Ready systems: chat servers asked over HTTP, with nothing but the standard library.

from judged.evaluation import systems

system = systems.ollama("phi3:mini")
system("what is RAG")                       # an Answer
system("what is RAG", contexts=["RAG ..."])  # told to answer from these
"""

from judged.evaluation.systems.chat_http import ChatFailed
from judged.evaluation.systems.chat_servers import (
    ChatSystem,
    anthropic,
    gemini,
    llama_cpp,
    ollama,
    openai,
    vllm,
)

__all__ = [
    "ChatFailed",
    "ChatSystem",
    "anthropic",
    "gemini",
    "llama_cpp",
    "ollama",
    "openai",
    "vllm",
]
