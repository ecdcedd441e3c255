"""Normalizes inputs of callers: ids become text, iterators become lists.

Independent of all other types of the client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache, partial
from numbers import Integral
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from judged.errors import InvalidArgument, WrongType

Value = TypeVar("Value")

LARGEST_GRADE = 2**31 - 1
"""The largest grade of a document, as in TREC's qrels."""

_NEARLY_THE_SAME = 0.9
"""The similarity, prefix included, from which a variable counts as misspelt."""
_TEXT = {str}
_NO_LISTS = (str, bytes, bytearray, Mapping)
"""Iterable types that are not lists of texts."""


def set_fields(value: object, **contents: object) -> None:
    """Set fields of a frozen dataclass during its construction."""
    for name, content in contents.items():
        object.__setattr__(value, name, content)


class Given:
    """Base of dataclasses that callers make: reads iterables into lists, and ids as text.

    The types of the fields say how each is read. Raises WrongType for values that are not lists or
    ids; items of lists are checked when they are sent.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, read in _readers(type(self)):  # type: ignore[arg-type]  # types are hashable
            object.__setattr__(self, name, read(getattr(self, name), name))


_Read = Callable[[Any, str], object]
"""Converts the given value of a field. Raises WrongType."""


@cache
def _readers(kind: Any) -> Sequence[tuple[str, _Read]]:  # noqa: ANN401 - a dataclass
    types = get_type_hints(kind)
    readers = ((part.name, _reader_of(part.name, types[part.name])) for part in fields(kind))
    return [(name, read) for name, read in readers if read is not None]


def _reader_of(name: str, declared: Any) -> _Read | None:  # noqa: ANN401 - a type
    if declared is str and (name.endswith("_id") or name == "system"):
        return need_id
    if get_origin(declared) is not Sequence:
        return None
    (inner,) = get_args(declared)
    read = as_list if inner is str or is_dataclass(inner) else as_column
    if name.endswith("_ids") or name == "clusters":
        read = as_ids
    elif get_origin(inner) is Sequence:
        return partial(need_list, read=lambda columns: list(map(as_column, columns)))
    return partial(need_list, read=read)


def as_list(values: Any) -> Any:  # noqa: ANN401 - invalid values are refused later, with their path
    """Return an iterable as a list or tuple; other values, such as one text, are unchanged."""
    return values if type(values) in (list, tuple) or not _is_walkable(values) else list(values)


def _is_walkable(values: object) -> bool:
    # Iterating over a data frame of pandas yields the names of its columns.
    is_frame = hasattr(values, "iterrows")
    return isinstance(values, Iterable) and not is_frame and not isinstance(values, _NO_LISTS)


def as_column(values: Any) -> Any:  # noqa: ANN401 - see as_list
    """Return a column unchanged if it can be iterated again, such as an array; else as a list."""
    if type(values) in (list, tuple) or hasattr(values, "__len__"):
        return values
    return as_list(values)


def as_id(value: Any) -> Any:  # noqa: ANN401 - see as_list
    """Return an id as text; values other than text and whole numbers are unchanged."""
    if type(value) is str or isinstance(value, str | bool) or not isinstance(value, Integral):
        return value
    return str(int(value))


def as_ids(values: Any) -> Any:  # noqa: ANN401 - see as_list
    """Return a list of ids as texts; values that are not ids are unchanged."""
    values = as_list(values)
    if type(values) not in (list, tuple) or all_texts(values):
        return values
    if set(map(type, values)) == {int}:  # a faster path for the usual case
        return list(map(str, values))
    return [as_id(value) for value in values]


def join_ids(ids: Collection[Any]) -> tuple[Collection[str], str | None]:
    """Return ids as texts, and the same joined by line feeds, or None if one is not an id."""
    try:
        return ids, "\n".join(ids)
    except TypeError:
        # Converting a whole array to Python numbers is much faster than one by one.
        plain = getattr(ids, "tolist", None)
        texts = as_ids(list(ids) if plain is None else plain())
    try:
        return texts, "\n".join(texts)
    except TypeError:
        return texts, None  # the caller knows the path, and raises


def need_by_ids(values: Mapping[str, Value], field: str) -> Mapping[str, Value]:
    """Return a mapping with its keys as texts.

    Raises WrongType unless it is a mapping of ids, and InvalidArgument for a repeated key.
    """
    if not isinstance(values, Mapping):
        raise WrongType.of_field(field, f"must be a mapping of ids, not {kind_of(values)}")
    if all_texts(values):
        return values
    found: dict[str, Value] = {}
    for key, value in values.items():
        name = need_id(key, f"{field}[{key!r}]")
        if name in found:
            rule = f"holds {name!r} twice: as text and as a number; ids are compared as text"
            raise InvalidArgument.of_field(field, rule)
        found[name] = value
    return found


def need_id(value: object, field: str) -> str:
    """Return an id as text. Raises WrongType with the field."""
    name = as_id(value)
    if not isinstance(name, str):
        rule = f"must be text or a whole number, not {type(value).__name__}"
        raise WrongType.of_field(field, rule)
    return name


def need_ids(values: object, field: str) -> Sequence[str]:
    """Return a list of ids as texts. Raises WrongType with the field and the index."""
    names: Sequence[str] = need_list(values, field, "ids", as_ids)
    if not all_texts(names):
        for place, name in enumerate(names):
            need_id(name, f"{field}[{place}]")
    return names


def set_grades(value: Any) -> None:  # noqa: ANN401 - a frozen value that has both
    """Make the fields `relevant_document_ids` and `grades` of a value consistent.

    Relevant ids without a grade get the grade 1; if all grades are 1, they are dropped. Raises
    WrongType for an invalid grade, and InvalidArgument for a contradiction.
    """
    if not value.grades:
        return
    found: dict[str, int] = {}
    for name, grade in need_by_ids(value.grades, "grades").items():
        is_bool = isinstance(grade, bool)
        whole = int(grade) if isinstance(grade, Integral) and not is_bool else None
        if whole is None or abs(whole) > LARGEST_GRADE:
            rule = f"must be a whole number within +-{LARGEST_GRADE}, not {grade!r:.40}"
            raise WrongType.of_field(f"grades[{name!r}]", rule)
        found[name] = whole
    for name in need_ids(value.relevant_document_ids, "relevant_document_ids"):
        if found.setdefault(name, 1) <= 0:
            rule = f"is {found[name]}, but the document is among those that are relevant"
            raise InvalidArgument.of_field(f"grades[{name!r}]", rule)
    set_fields(
        value,
        relevant_document_ids=[name for name, grade in found.items() if grade > 0],
        grades={} if set(found.values()) == {1} else found,
    )


def need_list(
    values: object, field: str, what: str = "", read: Callable[[Any], Any] = as_list
) -> Any:  # noqa: ANN401 - a list, or a column
    """Return an iterable as a list. Raises WrongType for other values, and for one text.

    `what` names the items of the list in the message.
    """
    if type(values) not in (list, tuple) and not _is_walkable(values):
        of = f" of {what}" if what else ""
        raise WrongType.of_field(field, f"must be a list{of}, not {kind_of(values)}")
    return read(values)


def refuse_empty(values: Sequence[object], field: str) -> None:
    """Raise InvalidArgument for an empty list; `field` is its name, in the plural."""
    if not values:
        raise InvalidArgument.of_field(field, f"must hold at least one {field[:-1]}")


def refuse_below(least: int, **numbers: int | None) -> None:
    """Raise InvalidArgument for the first number that is less; None is not checked."""
    for field, number in numbers.items():
        if number is not None and number < least:
            raise InvalidArgument.of_field(field, f"must be {least} or more")


def refuse_repeated(item_ids: Iterable[str]) -> None:
    """Raise InvalidArgument for an id of `items` that an earlier item has."""
    places: dict[str, int] = {}
    for i, item_id in enumerate(item_ids):
        if (first := places.setdefault(item_id, i)) != i:
            rule = f"repeats items[{first}].item_id; give every item an id of its own"
            raise InvalidArgument.of_field(f"items[{i}].item_id", rule)


def refuse_set(values: object, field: str) -> None:
    """Raise WrongType for a set, whose order differs from one process to the next."""
    if type(values) not in (list, tuple) and isinstance(values, AbstractSet):
        rule = f"is a {type(values).__name__}, which has no order; give a list, best first"
        raise WrongType.of_field(field, rule)


def read_number(text: str) -> float | None:
    """Return a text as a finite number; None if it is not one."""
    # float() accepts more than people write: "1_0" as ten, and digits of other scripts.
    if "_" in text or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def no_utf8(problem: UnicodeEncodeError) -> str:
    """Return the rule broken by a text that UTF-8 can't encode."""
    return f"holds a lone surrogate at character {problem.start}, which UTF-8 can't carry"


def all_texts(values: Iterable[object]) -> bool:
    """Return whether all values are plain texts."""
    return set(map(type, values)) <= _TEXT


def kind_of(value: object) -> str:
    """Return the name of a value's type for errors where a list was expected."""
    return "one text" if isinstance(value, str) else type(value).__name__


def misspelt_variables(names: Iterable[str], known: Collection[str], what: str) -> Iterator[str]:
    """Yield a warning for each JUDGED_* variable, in any case, that is similar to a known one.

    Also for each VERDICT_* variable that is known under the right prefix. Other variables may
    belong to other programs. `what` names the known ones, for example "option".
    """
    for name in sorted(set(names).difference(known)):
        meant = name.upper().replace("VERDICT_", "JUDGED_", 1)
        near = get_close_matches(meant, known, n=1, cutoff=_NEARLY_THE_SAME)
        if near and (name.upper().startswith("JUDGED_") or meant in known):
            yield f"{name} is no {what}, and is not read; did you mean {near[0]}?"
