"""Keys of providers: read from the environment or a file, and shown to nobody.

Who sends it is up to `providers`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from judged_server.llm.config.configured import ProviderConfiguration

_MAX_BYTES = 16 << 10


class KeyMissing(Exception):
    """There is no usable key. The message says where it was looked for and what to do."""


def key_of(provider: ProviderConfiguration, environ: Mapping[str, str]) -> SecretStr | None:
    """Return the key of a provider, None where it needs none. Raises KeyMissing.

    In a file it is the whole, but for white space around it.
    """
    if provider.key_env:
        where = f"the environment variable {provider.key_env}"
        value = environ.get(provider.key_env, "").strip()
        if not value:
            raise KeyMissing(f"{where} is not set; set it to the key")
    elif provider.key_file is not None:
        where = f"the key file {provider.key_file}"
        try:
            with provider.key_file.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise KeyMissing(
                f"{where} can't be read ({error.strerror}); write the key into it"
            ) from None
        if len(content) > _MAX_BYTES:
            raise KeyMissing(f"{where} is too large to be a key; write the key alone")
        value = content.decode("ascii", "replace").strip()
        if not value:
            raise KeyMissing(f"{where} is empty; write the key into it")
    else:
        return None
    # Anything else could end the header it travels in and begin another.
    if not _is_key(value):
        raise KeyMissing(f"{where} holds characters that no key has; write the key alone")
    return SecretStr(value)


def _is_key(value: str) -> bool:
    return all("!" <= character <= "~" for character in value)
