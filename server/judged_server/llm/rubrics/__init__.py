"""What a language model is asked: rubrics as files, checked when read, and the prompts they make.

load_builtin, load_folder   files -> Rubric, or SettingsError with the file and the key
write, new_nonce            Rubric and texts -> ChatRequest
holds_reserved              whether a text holds what no honest one needs
"""

from judged_server.llm.rubrics.loading import load_builtin, load_folder
from judged_server.llm.rubrics.prompt import PROMPT_VERSION, holds_reserved, new_nonce, write
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, FieldValue, Form, Rubric

__all__ = [
    "MAX_CLAIMS",
    "PROMPT_VERSION",
    "FieldValue",
    "Form",
    "Rubric",
    "holds_reserved",
    "load_builtin",
    "load_folder",
    "new_nonce",
    "write",
]
