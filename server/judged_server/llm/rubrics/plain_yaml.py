"""YAML down to what TOML has as well: texts, numbers, true and false, lists, and tables."""

from __future__ import annotations

import re

import yaml
from yaml.error import Mark

from judged_server.llm.config.file_tables import text_of
from judged_server.settings import SettingsError

_TEXT = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"


def read_yaml(raw: bytes, source: str) -> object:
    """Return what a file of one document holds; `source` is named in errors.

    Raises SettingsError.
    """
    text = text_of(raw, source)
    try:
        content: object = _PlainLoader(text).get_single_data()
    except RecursionError:
        why = "it nests too deep"
    except yaml.YAMLError as error:
        why = _told(error)
    except (ValueError, ArithmeticError):
        why = "a number or a date in it is none; put it in quotes if it is a text"
    else:
        return content
    raise SettingsError(f"{source} is not YAML as it is read here: {why}")


class _PlainLoader(yaml.SafeLoader):
    """Refuses what is left out while nodes are put together, before any value is made."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _refused("anchors (&) and aliases (*) are not for rubrics; write it out", event)
        if event.tag is not None:
            raise _refused("tags (!) are not for rubrics; leave it out", event)
        is_key = isinstance(parent, yaml.MappingNode) and index is None
        if is_key and not isinstance(event, yaml.ScalarEvent):
            # The usual way to get here is a bare `user: {{nonce}} ...`.
            raise _refused("a text with braces must stand in quotes, or in a block below |", event)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: dict[str, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, value in node.value:
            if key.tag != _TEXT:
                raise _refused("a key must be a text", key)
            name = key.value if re.fullmatch(r"[\w-]{1,40}", key.value) else "a key"
            if key.value in seen:
                raise _refused(f"{name} is there for the second time; keep one", key)
            if value.tag == _NULL:
                raise _refused(f"{name} has no value; give it one, or leave it out", key)
            seen.add(key.value)
        return node


def _refused(why: str, at: yaml.Event | yaml.Node) -> yaml.YAMLError:
    mark = at.start_mark
    return yaml.MarkedYAMLError(problem=why, problem_mark=mark if isinstance(mark, Mark) else None)


def _told(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, on one line and without the lines of the file."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return str(error).partition("\n")[0]
    mark = error.problem_mark
    where = "" if mark is None else f" (at line {mark.line + 1}, column {mark.column + 1})"
    return error.problem + where
