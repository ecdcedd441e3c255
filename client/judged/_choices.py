"""The contract's names of choices, as the Python that a caller types."""

from __future__ import annotations

import re

_CLASSES = {
    "CACHE_MODE": "CacheMode",
    "INTERVAL_METHOD": "IntervalMethod",
    "MATCHING_MODE": "Matching",
    "NO_GOLD_POLICY": "NoGold",
    "RATING_LEVEL": "RatingLevel",
    "UNJUDGED_POLICY": "Unjudged",
    "VERDICT_SOURCE": "Source",
    "VERDICT_STATUS": "Status",
}
_FULL_NAME = re.compile(rf"\b({'|'.join(_CLASSES)})_([A-Z]+(?:_[A-Z]+)*)\b")


def in_python(message: str) -> str:
    """Return a server's message with "MATCHING_MODE_ANY" as "Matching.ANY", and so on."""
    return _FULL_NAME.sub(lambda found: f"{_CLASSES[found[1]]}.{found[2]}", message)
