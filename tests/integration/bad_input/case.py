"""A bad request and the path that its refusal names; most stand in `requests`, a file a call.

There a case is its path, or the code of its status where it is another, and below it the request in
protobuf's text format. $LONG stands for a text above the limit. Behind a # is the field of the
contract that is bad, where the path names another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from judged.v1 import judge_service_pb2, statistics_service_pb2

LONG = "x" * ((1 << 20) + 1)
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    path: str  # the path the error must name
    request: Callable[[], Any]
    code: str = "INVALID_ARGUMENT"
    field: str = ""

    @property
    def covers(self) -> set[str]:
        """The fields that lead to the one that is bad, each as Message.field."""
        kind, found = self.request().DESCRIPTOR, {self.field}
        for part in self.path.split(".") if self.path else ():
            field = kind.fields_by_name.get(part.partition("[")[0])
            if field is not None:  # else it is a oneof
                found.add(f"{kind.full_name.removeprefix('judged.v1.')}.{field.name}")
                kind = field.message_type
        return found


def written() -> Iterator[Case]:
    """Yield the cases of all files."""
    for file in sorted((FOLDER / "requests").glob("*.txt")):
        for head, lines in below(file):
            path, _, field = head.partition("  # ")
            make = partial(parsed, file.stem, " ".join(lines))
            if path.isupper():
                yield Case("", make, path, field)
            else:
                yield Case(path, make, field=field)


def below(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line of a file that is not indented, and those below it that are."""
    head, lines = "", list[str]()
    for line in file.read_text("utf-8").splitlines():
        if line.startswith(" "):
            lines.append(line.strip())
            continue
        if head:
            yield head, lines
        head, lines = line, []
    yield head, lines


def parsed(call: str, text: str) -> Any:
    """Return the request of a call that a text says."""
    name = f"{call}Request"
    kind = getattr(judge_service_pb2, name, None) or getattr(statistics_service_pb2, name)
    return text_format.Parse(text.replace("$LONG", LONG), kind())
