"""The length of the longest common subsequence of two token sequences.

The work is m * n / 30 digit operations in place of m * n steps. A long row is cut into blocks, and
each block hands the carries of its additions on to the next (Crochemore et al. 2001), so that
neither memory nor a step grows with the texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.scheduling.checkpoint import checkpoint

BLOCK_BITS = 16_384
_SHORT = 512
_CHUNK = 512


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many tokens the longest common subsequence has."""
    row, column = (first, second) if len(first) >= len(second) else (second, first)
    if len(row) > _SHORT:
        # Tokens that the other side lacks are in no common subsequence.
        shared = set(row).intersection(column)
        row = [token for token in row if token in shared]
        column = [token for token in column if token in shared]
        if row == column:
            return len(row)
    if len(row) <= _SHORT:
        return _short(row, column)
    return _blocks(row, column)


def _short(row: Sequence[str], column: Sequence[str]) -> int:
    masks: dict[str, int] = {}
    bit = 1
    for token in row:
        masks[token] = masks.get(token, 0) | bit
        bit <<= 1
    full = zeros = bit - 1
    for token in column:
        mask = masks.get(token)
        if mask is not None:
            met = zeros & mask
            zeros = ((zeros + met) | (zeros - met)) & full
    return len(row) - zeros.bit_count()


def _blocks(row: Sequence[str], column: Sequence[str]) -> int:
    carries = bytearray(len(column))  # into the block at hand, by token of the column
    length = 0
    for start in range(0, len(row), BLOCK_BITS):
        block = row[start : start + BLOCK_BITS]
        masks: dict[str, int] = {}
        for place, token in enumerate(block):
            masks[token] = masks.get(token, 0) | (1 << place)
        width = len(block)
        full = zeros = (1 << width) - 1
        checkpoint()
        for begin in range(0, len(column), _CHUNK):
            for index in range(begin, min(begin + _CHUNK, len(column))):
                mask = masks.get(column[index], 0)
                carry = carries[index]
                if mask or carry:
                    met = zeros & mask
                    total = zeros + met + carry
                    carries[index] = total >> width
                    zeros = (total & full) | (zeros - met)
            checkpoint()
        length += width - zeros.bit_count()
    return length
