"""Which slot holds a key: chains of slots by the hash of their key, with deletion.

`head` has a power of two of chains; slot i continues at ``link[i, 0]``, its chain is ``link[i, 1]``, and
-1 ends a chain. The owner keeps keys and values in arrays of its own, by slot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel

__all__ = ["chains_for", "find_slot", "link_slot", "unlink_slot"]


def chains_for(n_slots: int) -> int:
    """Return the number of chains for `n_slots` slots: a power of two, at least twice as many.

    Examples
    --------
    >>> chains_for(1), chains_for(100)
    (2, 256)
    """
    return 2 << (n_slots - 1).bit_length()


@inline_kernel
def find_slot(
    head: NDArray[np.int32],
    link: NDArray[np.int32],
    keys: NDArray[np.uint64],
    key: np.uint64,
    mixed: np.uint64,
) -> int:
    """Return the slot of `key`, whose mixed bits are `mixed`, or -1."""
    slot = np.int64(head[mixed & np.uint64(len(head) - 1)])
    while slot >= 0 and keys[slot] != key:
        slot = np.int64(link[slot, 0])
    return slot


@inline_kernel
def link_slot(
    head: NDArray[np.int32], link: NDArray[np.int32], slot: int, mixed: np.uint64
) -> None:
    """Put `slot` first in the chain of `mixed`."""
    chain = np.int64(mixed & np.uint64(len(head) - 1))
    link[slot, 0] = head[chain]
    link[slot, 1] = chain
    head[chain] = slot


@inline_kernel
def unlink_slot(head: NDArray[np.int32], link: NDArray[np.int32], slot: int) -> None:
    """Take `slot` out of its chain."""
    chain = np.int64(link[slot, 1])
    before = np.int64(head[chain])
    if before == slot:
        head[chain] = link[slot, 0]
        return
    while link[before, 0] != slot:
        before = np.int64(link[before, 0])
    link[before, 0] = link[slot, 0]
