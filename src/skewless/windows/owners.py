"""The worker of each key, chosen at its first tuple and kept for ever: an exact table.

Word 1 of an entry is the worker. Nothing is ever deleted, so the table grows with the keys of the
stream: that is the price of a choice that must be remembered.
"""

from __future__ import annotations

import numpy as np

from skewless.kernel import inline_kernel
from skewless.windows.table import (
    SMALLEST,
    Table,
    capacity_for,
    empty_table,
    most_entries,
    refill,
)

__all__ = ["OWNER", "more_owners", "no_owners", "owners_bytes_bound", "set_owner"]

#: The word of an entry that holds the worker.
OWNER = 1


def no_owners() -> Table:
    """Return the table before the first tuple.

    Examples
    --------
    >>> no_owners().entry.shape
    (1024, 2)
    """
    return empty_table(SMALLEST, 2)


def more_owners(owners: Table, seed: np.uint64) -> Table:
    """Return the same workers in a table that takes twice the keys; `seed` is that of the mixer."""
    live = owners.entry[owners.entry[:, OWNER] >= 0]
    larger = empty_table(2 * len(owners.entry), 2)
    refill(larger, live, seed)
    return larger


def owners_bytes_bound(n_keys: int) -> int:
    """Return the bytes of a table that has met `n_keys` keys.

    Examples
    --------
    >>> owners_bytes_bound(640), owners_bytes_bound(641)
    (16392, 32776)
    """
    return 16 * capacity_for(-(-n_keys // 2), SMALLEST) + 8


@inline_kernel
def set_owner(owners: Table, place: int, key: np.uint64, worker: int) -> bool:
    """Note the worker of a new key at its place; return False, with nothing done, if all is full."""
    if owners.used[0] >= most_entries(len(owners.entry)):
        return False
    owners.used[0] += 1
    owners.entry[place, 0] = np.int64(key)
    owners.entry[place, OWNER] = worker
    return True
