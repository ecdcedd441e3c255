"""Files of language models, and of their replies, for tests of real servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.fakes.providers.scripted_provider import ScriptedProvider


def priced(put_in: float, put_out: float) -> str:
    """Return the lines of a model whose million tokens cost so much."""
    return f"input_per_million = {put_in}\noutput_per_million = {put_out}\n"


def llm_config(
    folder: Path,
    provider: ScriptedProvider,
    models: Mapping[str, str] = {"m": ""},
    *,
    provider_lines: str = "",
    currency: str = "USD",
    rest: str = "",
) -> str:
    """Write folder/llm.toml with models of a provider, and return its path.

    `models` has more lines of each model's table by its name. It is the provider's model of that
    name, or else the provider's first.
    """
    whole = f'currency = "{currency}"\n[[providers]]\nname = "scripted"\n'
    whole += f'base_url = "{provider.base_url}"\n{provider_lines}\n'
    for name, lines in models.items():
        model = name if name in provider.models else provider.models[0]
        whole += f'[[models]]\nname = "{name}"\nprovider = "scripted"\nmodel = "{model}"\n{lines}\n'
    path = folder / "llm.toml"
    path.write_text(whole + rest)
    return str(path)


def fake_llm_config(folder: Path, replies: Mapping[str, Iterable[object]], lines: str = "") -> str:
    """Write folder/llm.toml with models that reply from files beside it, and return its path.

    `replies` has those of each model by its name, and `lines` are more of each model's table.
    """
    whole = ""
    for name, said in replies.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in said))
        whole += (
            f'[[providers]]\nname = "{name}"\ndialect = "fake"\nreplies = "{name}.jsonl"\n'
            f'[[models]]\nname = "{name}"\nprovider = "{name}"\nmodel = "scripted-1"\n{lines}\n'
        )
    path = folder / "llm.toml"
    path.write_text(whole)
    return str(path)
