"""Keys of providers: read from the environment or a file, and shown to nobody.

Who sends it is up to `providers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

_MAX_BYTES = 16 << 10


class KeyMissing(Exception):
    """There is no usable key. The message says where it was looked for and what to do."""


def key_from_environment(variable: str, environ: Mapping[str, str]) -> SecretStr:
    """Return the key that a variable holds. Raises KeyMissing."""
    value = environ.get(variable, "").strip()
    if not value:
        raise KeyMissing(f"the environment variable {variable} is not set; set it to the key")
    return _checked(value, f"the environment variable {variable}")


def key_from_file(path: Path) -> SecretStr:
    """Return the key that is the whole of a file, but for white space around it.

    Raises KeyMissing.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise KeyMissing(
            f"the key file {path} can't be read ({error.strerror}); write the key into it"
        ) from None
    if len(content) > _MAX_BYTES:
        raise KeyMissing(f"the key file {path} is too large to be a key; write the key alone")
    value = content.decode("ascii", "replace").strip()
    if not value:
        raise KeyMissing(f"the key file {path} is empty; write the key into it")
    return _checked(value, f"the key file {path}")


def _checked(value: str, where: str) -> SecretStr:
    # Anything else could end the header it travels in and begin another.
    if not all("!" <= character <= "~" for character in value):
        raise KeyMissing(f"{where} holds characters that no key has; write the key alone")
    return SecretStr(value)
