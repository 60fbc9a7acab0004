"""Which of its candidates hold a key in a window: exact, one look-up for all candidates of a key.

The candidates of a key are a function of the key, so an entry notes, per candidate, the last slide in
which that worker got the key; the worker holds it if this slide is in the window. A tumbling window
has one slide: nothing has to expire, and every entry of an older slide is an empty place.

In a sliding window a journal lists, slide by slide, which key came to which of its candidates (a pair).
When a slide leaves the window, its part of the journal is read once more, and those of its pairs
expire that have not come since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix, spread
from skewless.windows.candidates import next_candidate
from skewless.windows.table import EMPTY, SMALLEST, aligned, capacity_for, most_entries

__all__ = [
    "HeldKeys",
    "choose_candidates",
    "fetch_held",
    "find_held",
    "held_bytes_bound",
    "held_has_room",
    "hold",
    "holds",
    "no_held_keys",
    "turn_held",
    "two_candidates",
    "with_room_for_held",
]

#: Words of an entry: the key; the last slide in which it came, or `EMPTY`; the last slide of each
#: candidate.
_KEY, _LATEST, _LAST = 0, 1, 2
#: The last slide of a candidate that does not hold the key.
_NEVER = np.int64(-(2**62))
#: How a record of the journal holds a place and a candidate, of which there are at most 64.
_SHIFT, _CANDIDATE = 6, 63
#: Records of the smallest journal.
_SHORTEST = 64


class HeldKeys(NamedTuple):
    """The keys of the window by candidate."""

    entry: NDArray[np.int64]
    """int64, (power of two, 2 + d): words of each key, open addressing."""
    used: NDArray[np.int64]
    """int64, (1,): places that are not empty."""
    journal: NDArray[np.int64]
    """int64, (power of two, or 0 if the window tumbles,): pairs, ``place << 6 | candidate``; record r
    is at r modulo the length."""
    first: NDArray[np.int64]
    """int64, (slides in a window,): first record of each slide, by slide modulo their number."""
    ends: NDArray[np.int64]
    """int64, (2,): oldest record in the window, and the next one to be written."""


def no_held_keys(d: int, n_slides: int) -> HeldKeys:
    """Return the state before the first key, for `d` candidates a key.

    Examples
    --------
    >>> no_held_keys(2, 1).entry.shape, no_held_keys(2, 60).first.shape
    ((1024, 4), (60,))
    """
    return HeldKeys(
        _no_entries(SMALLEST, _LAST + d),
        np.zeros(1, np.int64),
        np.zeros(_SHORTEST if n_slides > 1 else 0, np.int64),
        np.zeros(n_slides, np.int64),
        np.zeros(2, np.int64),
    )


def _no_entries(capacity: int, words: int) -> NDArray[np.int64]:
    entry = aligned(capacity, words)
    entry.fill(EMPTY)
    return entry


def held_bytes_bound(n_keys: int, d: int, n_slides: int) -> int:
    """Return the bytes of the state when at most `n_keys` keys are in the window at one time.

    Examples
    --------
    >>> held_bytes_bound(100, 2, 1)
    32800
    """
    journal = max(_SHORTEST, 2 * n_keys * d * n_slides) if n_slides > 1 else 0
    return 8 * ((_LAST + d) * capacity_for(n_keys, SMALLEST) + journal + n_slides + 3)


def with_room_for_held(held: HeldKeys, d: int, oldest: int, seed: np.uint64) -> HeldKeys:
    """Return the keys of the window that begins with slide `oldest`, with room for as many new ones."""
    serial = np.arange(held.ends[0], held.ends[1])
    records = held.journal[serial & (len(held.journal) - 1)]
    if held.used[0] >= most_entries(len(held.entry)):
        live = np.flatnonzero(held.entry[:, _LATEST] >= oldest)
        entry = _no_entries(capacity_for(len(live), len(held.entry)), _LAST + d)
        place = np.empty(len(held.entry), np.int64)
        _refill(entry, held.entry, live, seed, place)
        records = place[records >> _SHIFT] << _SHIFT | records & _CANDIDATE
        held = held._replace(entry=entry, used=np.array([len(live)], np.int64))
    length = len(held.journal)
    journal = np.zeros(2 * length if 0 < length == len(records) else length, np.int64)
    journal[serial & (len(journal) - 1)] = records
    return held._replace(journal=journal)


@lean_kernel
def _refill(
    entry: NDArray[np.int64],
    old: NDArray[np.int64],
    live: NDArray[np.int64],
    seed: np.uint64,
    place_of: NDArray[np.int64],
) -> None:
    """Copy the `live` entries of an `old` table to an empty one; write where each goes."""
    mask = np.uint64(len(entry) - 1)
    for i in live:
        place = mix(np.uint64(old[i, _KEY]), seed) & mask
        while entry[place, _LATEST] != EMPTY:
            place = (place + np.uint64(1)) & mask
        for word in range(entry.shape[1]):
            entry[place, word] = old[i, word]
        place_of[i] = np.int64(place)


@inline_kernel
def held_has_room(held: HeldKeys, most: int) -> bool:
    """Say whether one more key and pair fit, where the table takes at most `most` keys."""
    length = len(held.journal)
    return bool(held.used[0] < most and (length == 0 or held.ends[1] - held.ends[0] < length))


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
    """Write the candidates of `key` to ``choice[0]``, as many as it has room for."""
    choice[0, 0] = choice[1, 0] = spread(mixed, n)
    for j in range(1, choice.shape[1]):
        choice[0, j] = next_candidate(key, seed, j, n, choice[1])


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
def hold(held: HeldKeys, place: np.uint64, j: int, slide: int, oldest: int) -> int:
    """Note that candidate `j` gets the key at `place`; return 1 if it did not hold it before, else 0."""
    word = np.uint64(_LAST + j)
    last = held.entry[place, word]
    held.entry[place, word] = slide
    if last != slide and len(held.journal) > 0:
        record = held.ends[1] & (len(held.journal) - 1)
        held.journal[record] = np.int64(place) << _SHIFT | np.int64(j)
        held.ends[1] += 1
    return int(last < oldest)


@lean_kernel
def turn_held(
    held: HeldKeys,
    slide: int,
    gap: int,
    n: np.uint64,
    seed: np.uint64,
    cardinality: NDArray[np.int64],
    choice: NDArray[np.int64],
) -> None:
    """Begin `slide`, `gap` slides after the last one; take what expires off its workers' keys."""
    entry, ends, n_slides = held.entry, held.ends, len(held.first)
    if n_slides == 1:
        held.used[0] = 0
        cardinality[:] = 0
        return
    oldest, mask = slide - n_slides + 1, len(held.journal) - 1
    keep = ends[1] if gap >= n_slides else held.first[(slide + 1) % n_slides]
    for serial in range(ends[0], keep):
        pair = held.journal[serial & mask]
        place, j = pair >> _SHIFT, pair & _CANDIDATE
        last = entry[place, _LAST + j]
        if _NEVER < last < oldest:
            entry[place, _LAST + j] = _NEVER
            key = np.uint64(entry[place, _KEY])
            choose_candidates(key, mix(key, seed), n, seed, choice)
            cardinality[choice[0, j]] -= 1
    ends[0] = keep
    for step in range(min(gap, n_slides)):
        held.first[(slide - step) % n_slides] = ends[1]
