"""Levenshtein distance of many strings, compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import kernel

__all__ = ["ONE", "Strings", "agreement", "edit_distance", "packed"]

#: Code points of strings, and where each starts; one more entry than strings.
Strings = tuple[NDArray[np.uint32], NDArray[np.int64]]
#: Weights are whole multiples of ``1 / ONE``, so that sums do not depend on their order.
ONE = 1 << 20


def packed(strings: Sequence[str]) -> Strings:
    """Return the code points of all strings in one array, and where each string starts.

    Examples
    --------
    >>> packed(["ab", "", "c"])
    (array([97, 98, 99], dtype=uint32), array([0, 2, 2, 3]))
    """
    starts = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=starts[1:])
    text = "".join(strings).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(text, np.uint32), starts


@kernel
def edit_distance(codes: NDArray[np.uint32], a: int, a_end: int, b: int, b_end: int) -> int:
    """Return the fewest insertions, deletions and replacements from one slice of `codes` to another."""
    n = b_end - b
    row = np.arange(n + 1)
    for i in range(a, a_end):
        corner, row[0] = row[0], i - a + 1
        for j in range(n):
            above = row[j + 1]
            best = corner if codes[i] == codes[b + j] else corner + 1
            best = min(best, row[j] + 1)
            best = min(best, above + 1)
            corner, row[j + 1] = above, best
    return row[n]


@kernel
def agreement(codes: NDArray[np.uint32], starts: NDArray[np.int64], i: int, j: int) -> int:
    """Return ``2 s - 1`` in units of ``1 / ONE``; s is 1 minus the distance over the longer length."""
    longest = max(starts[i + 1] - starts[i], starts[j + 1] - starts[j])
    if longest == 0:
        return 1 << 20
    d = edit_distance(codes, starts[i], starts[i + 1], starts[j], starts[j + 1])
    # Half up, in whole numbers: (L - 2 d) / L, times ONE.
    return ((longest - 2 * d) * (1 << 21) + longest) // (2 * longest)
