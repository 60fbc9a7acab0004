"""Which cold keys were at their home in a sliding window: a log, searched only when it has to be.

Almost every cold key is never asked for. So a tuple of one costs an append at most, and the index of
the log (key to last position) is made when the first question comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix

__all__ = [
    "ColdLog",
    "append_cold",
    "cold_log_bytes_bound",
    "expire_cold",
    "index_cold",
    "last_cold",
    "log_is_full",
    "no_cold",
    "with_index",
    "with_room_for_cold",
]

#: Entries of the smallest log.
_SMALLEST = 16_384


class ColdLog(NamedTuple):
    """Keys by the slide in which they were at their home, oldest first."""

    entry: NDArray[np.int64]
    """int64, (L, 2): key, slide."""
    ends: NDArray[np.int64]
    """int64, (3,): first entry of the window, end of the entries, end of the indexed entries."""
    latest: NDArray[np.int32]
    """int32, (0 or 2 L,): last entry of a key, or -1; open addressing."""


def no_cold() -> ColdLog:
    """Return a log without entries.

    Examples
    --------
    >>> no_cold().ends.tolist()
    [0, 0, 0]
    """
    entry = np.empty((_SMALLEST, 2), np.int64)
    return ColdLog(entry, np.zeros(3, np.int64), np.empty(0, np.int32))


def cold_log_bytes_bound(n_keys: int) -> int:
    """Return the bytes of a log in whose window at most `n_keys` keys are cold.

    Examples
    --------
    >>> cold_log_bytes_bound(100)
    393240
    """
    return 24 * max(_SMALLEST, 16 * n_keys) + 24


def with_index(log: ColdLog) -> ColdLog:
    """Return the same log with an empty index."""
    log.ends[2] = log.ends[0]
    return log._replace(latest=np.full(2 * len(log.entry), -1, np.int32))


def with_room_for_cold(log: ColdLog, seed: np.uint64) -> ColdLog:
    """Return the log without what has left the window, or only the last entry of each key, or longer.

    Examples
    --------
    >>> log = no_cold()
    >>> log.ends[1] = len(log.entry)
    >>> log.entry[:] = 7
    >>> with_room_for_cold(log, np.uint64(0)).ends.tolist()
    [0, 1, 0]
    """
    live = log.entry[log.ends[0] : log.ends[1]]
    length = len(log.entry)
    if 2 * len(live) > length:
        log = with_index(log)
        index_cold(log.entry, log.ends, log.latest, seed)
        live = log.entry[np.sort(log.latest[log.latest >= 0])]
        if 8 * len(live) > length:
            length *= 2
    entry = np.empty((length, 2), np.int64)
    entry[: len(live)] = live
    return ColdLog(entry, np.array([0, len(live), 0]), np.empty(0, np.int32))


@inline_kernel
def log_is_full(log: ColdLog) -> bool:
    """Say whether the next entry needs `with_room_for_cold`."""
    return bool(log.ends[1] == len(log.entry))


@inline_kernel
def append_cold(
    entry: NDArray[np.int64], ends: NDArray[np.int64], key: np.uint64, slide: int
) -> None:
    """Note that a cold key went to its home in `slide`."""
    end = np.uint64(ends[1])
    entry[end, 0] = np.int64(key)
    entry[end, 1] = slide
    ends[1] += 1


@lean_kernel
def expire_cold(log: ColdLog, oldest: int) -> None:
    """Forget the entries before slide `oldest`."""
    begin, end = log.ends[0], log.ends[1]
    while begin < end and log.entry[begin, 1] < oldest:
        begin += 1
    log.ends[0] = begin
    log.ends[2] = max(begin, log.ends[2])


@lean_kernel
def index_cold(
    entry: NDArray[np.int64], ends: NDArray[np.int64], index: NDArray[np.int32], seed: np.uint64
) -> None:
    """Index the entries that are not indexed yet; a log never has more than its index has room for."""
    for position in range(ends[2], ends[1]):
        key = np.uint64(entry[position, 0])
        index[_find(entry, index, mix(key, seed), key)] = position
    ends[2] = ends[1]


@inline_kernel
def _find(
    entry: NDArray[np.int64], index: NDArray[np.int32], mixed: np.uint64, key: np.uint64
) -> np.uint64:
    mask, wanted = np.uint64(len(index) - 1), np.int64(key)
    place = mixed & mask
    while index[place] >= 0 and entry[index[place], 0] != wanted:
        place = (place + np.uint64(1)) & mask
    return place


@lean_kernel
def last_cold(log: ColdLog, mixed: np.uint64, key: np.uint64) -> int:
    """Return the last slide in which `key` was at its home as a cold key, or -1; all are indexed."""
    if len(log.latest) == 0:
        return -1
    position = log.latest[_find(log.entry, log.latest, mixed, key)]
    return int(log.entry[position, 1]) if position >= log.ends[0] else -1
