"""A hash table over 64-bit keys that is built and searched a whole array at a time.

Knows nothing of tokens.
"""

from __future__ import annotations

import secrets

import numpy as np

from judged_server.domain import IntArray
from judged_server.judges.lexical.tokens import KeyArray

_NONE = -1


class HashIndex:
    """Where each key of an array stands. Never written to after it is made."""

    def __init__(self, keys: KeyArray) -> None:
        """Index `keys`, of which several may be equal; `representative` then names one of them."""
        # Sixteen slots a key leave few of them shared. The multiplier is new for every table, so
        # that keys cannot be chosen to fall into one slot.
        bits = max(4, len(keys).bit_length() + 2)
        self._keys = keys
        self._multiplier = np.uint64(secrets.randbits(64) | 1)
        self._shift = np.uint64(64 - bits)
        self._heads = np.full(1 << bits, _NONE, np.int32)
        self._next = np.full(len(keys) + 1, _NONE, np.int32)
        self.representative: IntArray = np.arange(len(keys))
        self._fill()

    def _slots(self, keys: KeyArray) -> KeyArray:
        return (keys * self._multiplier) >> self._shift

    def _fill(self) -> None:
        """Put every key at the head of its slot, or behind another key that got there first."""
        entries = np.arange(len(self._keys))
        chains, places = self._heads, self._slots(self._keys).astype(np.int64)
        while entries.size:
            chains[places] = entries  # of entries that want one place, one stays
            winners = chains[places]
            equal = self._keys[winners] == self._keys[entries]
            self.representative[entries[equal]] = winners[equal]
            entries = entries[~equal]
            chains, places = self._next, winners[~equal].astype(np.int64)

    def find(self, probes: KeyArray) -> tuple[IntArray, IntArray]:
        """Return the positions of those `probes` that are keys, and their representatives.

        Both are int64 of one length; the order is not defined.
        """
        if not len(self._keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions = np.arange(0)
        entries = self._heads[self._slots(probes)]
        # An empty slot says -1, the last key; comparing it is harmless, and cheaper than a mask.
        equal = self._keys[entries] == probes
        positions = np.flatnonzero(equal)
        found, places = [positions], [entries[positions]]
        following = self._next[entries]
        positions = np.flatnonzero((following != _NONE) & ~equal)
        entries = following[positions]
        while positions.size:
            equal = self._keys[entries] == probes[positions]
            found.append(positions[equal])
            places.append(entries[equal])
            following = self._next[entries]
            more = (following != _NONE) & ~equal
            positions, entries = positions[more], following[more]
        return np.concatenate(found), np.concatenate(places).astype(np.int64)

    def contains(self, probes: KeyArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which of `probes` are keys."""
        result = np.zeros(len(probes), np.bool_)
        result[self.find(probes)[0]] = True
        return result
