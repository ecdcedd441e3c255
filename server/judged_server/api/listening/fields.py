"""About how many short fields the bytes of a message have, those within its messages included.

Parsed, a field takes memory however short it is: 16 MiB of empty groups become 1 GB. So they are
counted before the message is parsed: wherever a known tag stands before a length and that length
before another tag. A few are counted that are parts of texts; none is missed but before a field
that the contract does not know.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from google.protobuf.descriptor import Descriptor
from numpy.typing import NDArray

from judged_server import errors

MOST_FIELDS = 2_000_000
"""In one message; a million contexts with their ids are as many."""
_PART = 1 << 20
"""Bytes that are looked at together, which takes twenty times as much memory at most."""
_MORE = 0x80
"""Set in each byte of a number but its last."""
_WIRE_TYPES, _HAS_LENGTH = (0, 1, 2, 5), 2
_LOOKED_AT = 0x87
"""The bits of a tag of one byte that tell that a length follows, and that it is one byte."""


def count_fields(raw: bytes, kind: Descriptor) -> int:
    """Return the number of a message's fields of less than 128 bytes.

    Raises LimitExceeded above MOST_FIELDS.
    """
    begins, follows = _tags(kind)
    values, end, count = np.frombuffer(raw, np.uint8), len(raw), 0
    for start in range(0, end - 1, _PART):
        part = values[start : min(start + _PART, end - 1)]
        at = np.flatnonzero((part & _LOOKED_AT) == _HAS_LENGTH) + start
        at = at[begins[values[at]]]
        lengths = values[at + 1]
        after = (at + 2 + lengths)[lengths < _MORE]
        inside = after[after < end]
        count += int(np.count_nonzero(follows[values[inside]]) + np.count_nonzero(after == end))
    if count > MOST_FIELDS:
        raise errors.LimitExceeded("message", "fields, by its tags", MOST_FIELDS, count)
    return count


@cache
def _tags(kind: Descriptor) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which bytes are tags of what has a length, in all of a message, and which of any."""
    begins, follows = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
    left, seen = [kind], {kind}
    while left:
        for field in left.pop().fields:
            number = field.number << 3
            for wire_type in _WIRE_TYPES:
                tag = number | wire_type
                follows[tag if tag < _MORE else tag % _MORE | _MORE] = True
            if number | _HAS_LENGTH < _MORE:
                begins[number | _HAS_LENGTH] = True
            if (inner := field.message_type) is not None and inner not in seen:
                seen.add(inner)
                left.append(inner)
    return begins, follows
