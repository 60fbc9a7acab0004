"""Rewards that are kept until the values they belong to arrive: one entry per key and worker.

A learned value moves by ``Q <- Q + gamma (R - Q)`` (Dalton, Eq. 5). Several such steps are one step
``Q <- keep Q + gain`` for numbers that do not depend on Q, so that a buffer need not be longer than
the fragments that got a reward.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix
from skewless.windows.table import (
    EMPTY,
    SMALLEST,
    Table,
    capacity_for,
    empty_table,
    most_entries,
)

__all__ = [
    "Buffered",
    "buffer_reward",
    "buffered",
    "forget_rewards",
    "no_rewards",
    "rewards_bytes_bound",
    "rewards_have_room",
    "with_room_for_rewards",
]

_KEY, _WORKER, _KEEP, _GAIN = 0, 1, 2, 3
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Buffered(NamedTuple):
    """What the buffer holds, a row per key and worker."""

    keys: NDArray[np.uint64]
    """uint64, (B,): the key."""
    workers: NDArray[np.int64]
    """int64, (B,): the worker."""
    keep: NDArray[np.float64]
    """float64, (B,): the part of the value that stays."""
    gain: NDArray[np.float64]
    """float64, (B,): what is added to it."""


def no_rewards(capacity: int = SMALLEST) -> Table:
    """Return an empty buffer: a table of key, worker or `EMPTY`, and two floats.

    Examples
    --------
    >>> no_rewards().used.tolist()
    [0]
    """
    return empty_table(capacity)


def with_room_for_rewards(table: Table, seed: np.uint64) -> Table:
    """Return the same buffer, twice as long.

    Examples
    --------
    >>> len(with_room_for_rewards(no_rewards(), np.uint64(0)).entry)
    2048
    """
    longer = no_rewards(2 * len(table.entry))
    _refill(longer.entry, table.entry, seed)
    longer.used[:] = table.used
    return longer


def rewards_bytes_bound(n_pairs: int) -> int:
    """Return the bytes of a buffer that never held more than `n_pairs` pairs of key and worker.

    Examples
    --------
    >>> rewards_bytes_bound(100)
    32776
    """
    return 32 * capacity_for(n_pairs, SMALLEST) + 8


def buffered(table: Table) -> Buffered:
    """Return what the buffer holds.

    Examples
    --------
    >>> len(buffered(no_rewards()).keys)
    0
    """
    live = table.entry[table.entry[:, _WORKER] != EMPTY] if table.used[0] else table.entry[:0]
    real = live.view(np.float64)
    return Buffered(live[:, _KEY].view(np.uint64), live[:, _WORKER], real[:, _KEEP], real[:, _GAIN])


def forget_rewards(table: Table) -> None:
    """Empty the buffer.

    Examples
    --------
    >>> forget_rewards(no_rewards())
    """
    if table.used[0]:
        table.entry.fill(EMPTY)
        table.used[0] = 0


@inline_kernel
def rewards_have_room(table: Table) -> bool:
    """Say whether one more pair fits."""
    return bool(table.used[0] < most_entries(len(table.entry)))


@inline_kernel
def _find(entry: NDArray[np.int64], mixed: np.uint64, key: np.uint64, worker: int) -> np.uint64:
    mask, wanted = np.uint64(len(entry) - 1), np.int64(key)
    place = (mixed + np.uint64(worker) * _ODD) & mask
    while entry[place, _WORKER] != EMPTY and (
        entry[place, _KEY] != wanted or entry[place, _WORKER] != worker
    ):
        place = (place + np.uint64(1)) & mask
    return place


@inline_kernel
def buffer_reward(
    table: Table, mixed: np.uint64, key: np.uint64, worker: int, gamma: float, reward: float
) -> None:
    """Add one step of Eq. 5 to those that `worker` has for `key`; there is room."""
    entry = table.entry
    real = entry.view(np.float64)
    place = _find(entry, mixed, key, worker)
    if entry[place, _WORKER] == EMPTY:
        table.used[0] += 1
        entry[place, _KEY] = np.int64(key)
        entry[place, _WORKER] = worker
        real[place, _KEEP] = 1.0
        real[place, _GAIN] = 0.0
    real[place, _KEEP] *= 1.0 - gamma
    real[place, _GAIN] += gamma * (reward - real[place, _GAIN])


@lean_kernel
def _refill(entry: NDArray[np.int64], kept: NDArray[np.int64], seed: np.uint64) -> None:
    for i in range(len(kept)):
        if kept[i, _WORKER] != EMPTY:
            key = np.uint64(kept[i, _KEY])
            place = _find(entry, mix(key, seed), key, kept[i, _WORKER])
            for word in range(4):
                entry[place, word] = kept[i, word]
