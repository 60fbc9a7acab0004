"""The hash table of keys that windows and partitioners share: open addressing, 2 or 4 words an entry.

Word 0 is the key, word 1 tells an empty place (`EMPTY`) from a used one, the others are the owner's.
Entries are never deleted: a full table is rebuilt, and its owner says which entries are still worth
keeping. An entry is 16 or 32 bytes, so a look-up touches one cache line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix

__all__ = [
    "EMPTY",
    "SMALLEST",
    "Table",
    "aligned",
    "capacity_for",
    "empty_table",
    "find",
    "most_entries",
    "refill",
]

#: Word 1 of a place that holds no key.
EMPTY = np.int64(-(2**63))
#: Places of the smallest table.
SMALLEST = 1024


class Table(NamedTuple):
    """A table of keys."""

    entry: NDArray[np.int64]
    """int64, (capacity, 2 or 4): key, owner's word or `EMPTY`, two more words if the owner has them."""
    used: NDArray[np.int64]
    """int64, (1,): places that hold a key."""


def aligned(n_rows: int, n_words: int) -> NDArray[np.int64]:
    """Return uninitialised int64 rows that begin at a cache line.

    Examples
    --------
    >>> aligned(3, 4).ctypes.data % 64
    0
    """
    words = np.empty(n_rows * n_words + 8, np.int64)
    start = -words.ctypes.data % 64 // 8
    return words[start : start + n_rows * n_words].reshape(n_rows, n_words)


def empty_table(capacity: int = SMALLEST, n_words: int = 4) -> Table:
    """Return a table without keys; `capacity` is a power of two, an entry has 2 or 4 words.

    Examples
    --------
    >>> empty_table().entry.shape
    (1024, 4)
    """
    entry = aligned(capacity, n_words)
    entry.fill(EMPTY)
    return Table(entry, np.zeros(1, np.int64))


@lean_kernel
def most_entries(capacity: int) -> int:
    """Return how many keys a table of `capacity` places takes before it must be rebuilt."""
    return capacity // 8 * 5


def capacity_for(n_live: int, capacity: int) -> int:
    """Return the places of a rebuilt table: at least half of what it takes is left for new keys.

    Examples
    --------
    >>> capacity_for(100, 1024), capacity_for(1000, 1024)
    (1024, 4096)
    """
    while 2 * n_live > most_entries(capacity):
        capacity *= 2
    return capacity


@inline_kernel
def find(entry: NDArray[np.int64], mixed: np.uint64, key: np.uint64) -> int:
    """Return the place of `key`, or the empty place where it belongs."""
    mask = np.uint64(len(entry) - 1)
    place = mixed & mask
    wanted = np.int64(key)
    while entry[place, 1] != EMPTY and entry[place, 0] != wanted:
        place = (place + np.uint64(1)) & mask
    return int(np.int64(place))


@lean_kernel
def refill(table: Table, kept: NDArray[np.int64], seed: np.uint64) -> None:
    """Put the entries `kept` of another table into an empty one; `seed` is that of the mixer."""
    for i in range(len(kept)):
        key = np.uint64(kept[i, 0])
        place = find(table.entry, mix(key, seed), key)
        for word in range(kept.shape[1]):
            table.entry[place, word] = kept[i, word]
    table.used[0] = len(kept)
