"""Which of its candidates hold a key in a window: exact, one look-up for all candidates of a key.

The candidates of a key are a function of the key, so an entry notes, per candidate, the last slide in
which that worker got the key; the worker holds it if this slide is in the window. A tumbling window
has one slide: nothing has to expire, and every entry of an older slide is an empty place.

In a sliding window each key that a worker holds (a pair) is in the list of a slide. When that slide
leaves the window, the pair expires, or follows to the list of its last slide: one visit per pair and
window, as for the fragments of `skewless.windows.fragments`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix, spread
from skewless.windows.table import EMPTY, SMALLEST, aligned, capacity_for

__all__ = [
    "HeldKeys",
    "choose_candidates",
    "expire_held",
    "fetch_held",
    "find_held",
    "held_bytes_bound",
    "hold",
    "holds",
    "no_held_keys",
    "two_candidates",
    "with_room_for_held",
]

#: Words of an entry: the key; the last slide in which it came, or `EMPTY`; then the last slide of each
#: candidate and, in a sliding window, the next pair of the list that each candidate's pair is in.
_KEY, _LATEST, _LAST = 0, 1, 2
#: The last slide of a candidate that never got the key.
_NEVER = np.int64(-(2**62))


class HeldKeys(NamedTuple):
    """The keys of the window by candidate."""

    entry: NDArray[np.int64]
    """int64, (power of two, 2 + d or 2 + 2 d): words of each key, open addressing."""
    used: NDArray[np.int64]
    """int64, (1,): places that are not empty."""
    bucket: NDArray[np.int64]
    """int64, (slides in a window or 0,): first pair by slide modulo the slides in a window, or -1; a
    pair is ``place * d + candidate``."""


def no_held_keys(d: int, n_slides: int) -> HeldKeys:
    """Return the state before the first key, for `d` candidates a key.

    Examples
    --------
    >>> no_held_keys(2, 1).entry.shape, no_held_keys(2, 60).entry.shape
    ((1024, 4), (1024, 6))
    """
    words = _LAST + (d if n_slides == 1 else 2 * d)
    bucket = np.full(0 if n_slides == 1 else n_slides, -1, np.int64)
    return HeldKeys(_no_entries(SMALLEST, words), np.zeros(1, np.int64), bucket)


def _no_entries(capacity: int, words: int) -> NDArray[np.int64]:
    entry = aligned(capacity, words)
    entry.fill(EMPTY)
    return entry


def held_bytes_bound(n_keys: int, d: int, n_slides: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys are in the window at one time.

    Examples
    --------
    >>> held_bytes_bound(100, 2, 1)
    32776
    """
    words = _LAST + (d if n_slides == 1 else 2 * d)
    return 8 * (words * capacity_for(n_keys, SMALLEST) + 1 + (n_slides if n_slides > 1 else 0))


def with_room_for_held(held: HeldKeys, d: int, oldest: int, seed: np.uint64) -> HeldKeys:
    """Return the keys of the window that begins with slide `oldest`, with room for as many new ones."""
    live = held.entry[held.entry[:, _LATEST] >= oldest]
    entry = _no_entries(capacity_for(len(live), len(held.entry)), held.entry.shape[1])
    kept = HeldKeys(entry, np.array([len(live)], np.int64), np.full_like(held.bucket, -1))
    _refill(kept, live, d, oldest, seed)
    return kept


@lean_kernel
def _refill(held: HeldKeys, live: NDArray[np.int64], d: int, oldest: int, seed: np.uint64) -> None:
    entry = held.entry
    mask = np.uint64(len(entry) - 1)
    for i in range(len(live)):
        place = mix(np.uint64(live[i, _KEY]), seed) & mask
        while entry[place, _LATEST] != EMPTY:
            place = (place + np.uint64(1)) & mask
        for word in range(_LAST + d):
            entry[place, word] = live[i, word]
        if len(held.bucket) > 0:
            for j in range(d):
                if entry[place, _LAST + j] >= oldest:
                    _link(held, d, np.int64(place), j)


@inline_kernel
def two_candidates(
    key: np.uint64, mixed: np.uint64, n: np.uint64, seed: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Return the candidates of `key`, which are two; `mixed` is the key mixed by function `seed`."""
    one = np.uint64(1)
    first = np.uint64(spread(mixed, n))
    second = np.uint64(spread(mix(key, seed + one), n - one))
    return first, second + np.uint64(second >= first)


@inline_kernel
def choose_candidates(
    key: np.uint64, mixed: np.uint64, n: np.uint64, seed: np.uint64, choice: NDArray[np.int64]
) -> None:
    """Write the candidates of `key` to ``choice[0]``, as many as it has room for.

    Candidate j is drawn from the workers that the candidates before it have left.
    """
    first = spread(mixed, n)
    choice[0, 0] = choice[1, 0] = first
    for j in range(1, choice.shape[1]):
        c = spread(mix(key, seed + np.uint64(j)), n - np.uint64(j))
        at = 0
        while at < j and c >= choice[1, at]:  # the candidates so far, ascending
            c += 1
            at += 1
        for k in range(j, at, -1):
            choice[1, k] = choice[1, k - 1]
        choice[1, at] = c
        choice[0, j] = c


@lean_kernel
def fetch_held(
    entry: NDArray[np.int64],
    seed: np.uint64,
    keys: NDArray[np.uint64],
    mixed: NDArray[np.uint64],
    latest: NDArray[np.int64],
) -> None:
    """Mix some keys, and read where their entries may be, so that the cache misses overlap."""
    for j in range(len(keys)):
        mixed[j] = mix(keys[j], seed)
    if len(entry) > 0:
        mask = np.uint64(len(entry) - 1)
        for j in range(len(keys)):
            latest[j] = entry[mixed[j] & mask, _LATEST]


@inline_kernel
def find_held(
    entry: NDArray[np.int64],
    used: NDArray[np.int64],
    mixed: np.uint64,
    key: np.uint64,
    d: int,
    slide: int,
    floor: int,
) -> np.uint64:
    """Return the place of `key`, which comes in `slide`; there must be room for one more key.

    Places whose latest slide is below `floor` are empty: in a tumbling window those of older slides.
    """
    mask, wanted = np.uint64(len(entry) - 1), np.int64(key)
    place = mixed & mask
    while entry[place, _LATEST] >= floor:
        if entry[place, _KEY] == wanted:
            entry[place, _LATEST] = slide
            return place
        place = (place + np.uint64(1)) & mask
    used[0] += 1
    entry[place, _KEY] = wanted
    entry[place, _LATEST] = slide
    for word in range(_LAST, _LAST + d):
        entry[place, np.uint64(word)] = _NEVER
    return place


@inline_kernel
def holds(entry: NDArray[np.int64], place: np.uint64, j: int, oldest: int) -> bool:
    """Say whether candidate `j` holds the key at `place` in the window that begins with `oldest`."""
    return bool(entry[place, _LAST + j] >= oldest)


@inline_kernel
def hold(held: HeldKeys, d: int, place: np.uint64, j: int, slide: int, oldest: int) -> int:
    """Note that candidate `j` gets the key at `place`; return 1 if it did not hold it before, else 0."""
    entry, word = held.entry, np.uint64(_LAST + j)
    new = entry[place, word] < oldest
    entry[place, word] = slide
    if new and len(held.bucket) > 0:
        _link(held, d, np.int64(place), j)
    return int(new)


@inline_kernel
def _link(held: HeldKeys, d: int, place: int, j: int) -> None:
    """Put the pair of candidate `j` into the list of its last slide."""
    slot = held.entry[place, _LAST + j] % len(held.bucket)
    held.entry[place, _LAST + d + j] = held.bucket[slot]
    held.bucket[slot] = place * d + j


@lean_kernel
def expire_held(
    held: HeldKeys,
    slot: int,
    oldest: int,
    n: np.uint64,
    seed: np.uint64,
    cardinality: NDArray[np.int64],
    choice: NDArray[np.int64],
) -> None:
    """Expire the pairs of a slide that left the window, and take them off their workers' keys."""
    entry, d = held.entry, choice.shape[1]
    pair = held.bucket[slot]
    held.bucket[slot] = -1
    while pair >= 0:
        place, j = pair // d, pair % d
        pair = entry[place, _LAST + d + j]
        if entry[place, _LAST + j] >= oldest:
            _link(held, d, place, j)
        else:
            key = np.uint64(entry[place, _KEY])
            choose_candidates(key, mix(key, seed), n, seed, choice)
            cardinality[choice[0, j]] -= 1
