"""SpaceSaving: the most frequent keys of a stream, counted in a fixed number of slots.

A. Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
Streams, ICDT 2005.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.kernel import inline_kernel, kernel, lean_kernel, mix
from skewless.parameters import Range, Seed
from skewless.sketches.base import Sketch
from skewless.sketches.slot_index import chains_for, find_slot, link_slot, unlink_slot

__all__ = ["SpaceSaving", "SpaceSavingState", "Top", "no_counts", "offer"]


class SpaceSavingState(NamedTuple):
    """The counters, and where the least of them is looked for."""

    key: NDArray[np.uint64]
    """uint64, (capacity,): monitored keys by slot; the slots fill up in order."""
    counts: NDArray[np.int64]
    """int64, (capacity,): weight of the key at most, 0 in a slot that was never used."""
    errors: NDArray[np.int64]
    """int64, (capacity,): how much of `counts` may belong to others."""
    link: NDArray[np.int32]
    """int32, (capacity, 2): next slot of the chain, and the chain."""
    head: NDArray[np.int32]
    """int32, (power of two,): first slot of each chain."""
    least: NDArray[np.int64]
    """int64, (4,): used slots, least count, slots before that one exceed it, total weight."""


class Top(NamedTuple):
    """Keys by descending count; of equal counts the lower key first."""

    key: NDArray[np.uint64]
    """uint64: the keys."""
    counts: NDArray[np.int64]
    """int64: upper bounds of their weights."""
    errors: NDArray[np.int64]
    """int64: ``counts - errors`` is a lower bound."""


class SpaceSaving(Sketch):
    """Count the keys of `capacity` slots; a key without a slot takes over that of the least count.

    Use it to find the heavy keys of a stream in fixed memory, with bounds for each. Not to ask for
    the count of any key: `CountMin` answers for all.

    Parameters
    ----------
    capacity : int in [1, 1073741824]
        Monitored keys.
    seed : int in [0, 9223372036854775807]
        Which hash function places keys in the index; it changes no count.

    Notes
    -----
    Guarantee: for each monitored key ``count - error <= true <= count``; for any other ``true`` is at
    most the least count, which is at most ``total / capacity``. So every key above that share is
    monitored. The same holds after `merge`.

    Cost: a look-up for a monitored key. A newcomer also looks for the least count, which only rises:
    a cursor walks the counts once or twice per value of it, and as ``capacity * least <= total`` this is
    O(1) a tuple, amortised. With weights the least count may take a new value each time: then a
    newcomer costs up to O(capacity). State: 32 bytes a slot and 8 to 16 for the index.

    Deviations from the paper: the counts are an array with a cursor, not a list of buckets of equal
    counts. Of keys with the least count the lowest slot is taken over.

    Examples
    --------
    >>> sketch = SpaceSaving(2)
    >>> sketch.update(np.array([7, 7, 7, 1, 2, 7], np.uint64))
    >>> sketch.top(2)
    Top(key=array([7, 2], dtype=uint64), counts=array([4, 2]), errors=array([0, 1]))

    References
    ----------
    ICDT 2005, section 3, doi:10.1007/978-3-540-30570-5_27. Merging: P. K. Agarwal et al., Mergeable
    Summaries, PODS 2012, doi:10.1145/2213556.2213562.
    """

    capacity: int
    state: SpaceSavingState

    def __init__(self, capacity: Annotated[int, Range(1, 2**30)], *, seed: Seed = 0) -> None:
        self._take(capacity=capacity, seed=seed)
        self.state = no_counts(capacity)

    @property
    def total(self) -> int:
        """Weight of all keys so far."""
        return int(self.state.least[3])

    @property
    def least(self) -> int:
        """What a key that is not monitored can weigh at most."""
        full = self.state.least[0] == self.capacity
        return int(self.state.counts.min()) if full else 0

    def update(self, keys: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Count `keys`, each by 1 or by its weight; a weight of 0 changes nothing."""
        found = self._keys(keys)
        if weights is None:
            _update(self.state, found, np.uint64(self.seed))
        else:
            each = self._weights(weights, len(found))
            _update_weighted(self.state, found, each, np.uint64(self.seed))

    def merge(self, other: SpaceSaving) -> None:
        """Add the counts of `other`; a key that one side lacks weighs there at most its least."""
        self._same(other)
        mine, theirs = self._used(), other._used()
        keys = np.union1d(mine.key, theirs.key)
        count, error = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for part, lacking in ((mine, self.least), (theirs, other.least)):
            has = np.searchsorted(keys, part.key)
            more, doubt = np.full((2, len(keys)), lacking, np.int64)
            more[has], doubt[has] = part.counts, part.errors
            count += more
            error += doubt
        best = np.lexsort((keys, -count))[: self.capacity]
        total = self.total + other.total
        self.state = no_counts(self.capacity)
        self.state.least[3] = total
        _place(self.state, keys[best], count[best], error[best], np.uint64(self.seed))

    def estimate(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Return the most that each key can weigh."""
        found = self._keys(keys)
        out = np.full(len(found), self.least, np.int64)
        _ask(self.state, found, out, np.uint64(self.seed))
        return out

    def top(self, n: int | None = None) -> Top:
        """Return the `n` highest counts, or all."""
        used = self._used()
        best = np.lexsort((used.key, -used.counts))[:n]
        return Top(used.key[best], used.counts[best], used.errors[best])

    def _used(self) -> Top:
        n = int(self.state.least[0])
        return Top(self.state.key[:n], self.state.counts[:n], self.state.errors[:n])


def no_counts(capacity: int) -> SpaceSavingState:
    """Return the state before the first key.

    Examples
    --------
    >>> no_counts(80).head.shape
    (256,)
    """
    return SpaceSavingState(
        np.zeros(capacity, np.uint64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.full((capacity, 2), -1, np.int32),
        np.full(chains_for(capacity), -1, np.int32),
        np.zeros(4, np.int64),
    )


@inline_kernel
def _least_slot(count: NDArray[np.int64], least: NDArray[np.int64]) -> int:
    """Return the lowest slot of the least count, of slots that are all in use."""
    level, slot = least[1], least[2]
    while slot < len(count) and count[slot] != level:
        slot += 1
    if slot == len(count):  # the least count has risen
        level, slot = count[0], 0
        for i in range(1, len(count)):
            if count[i] < level:
                level, slot = count[i], i
        least[1] = level
    least[2] = slot
    return slot


@inline_kernel
def offer(state: SpaceSavingState, key: np.uint64, mixed: np.uint64, weight: int) -> int:
    """Count `key` by `weight`; return its slot, or -1 - slot if it has just got that slot.

    `mixed` are mixed bits of the key; their low bits place it in the index.
    """
    count, least = state.counts, state.least
    least[3] += weight
    slot = find_slot(state.head, state.link, state.key, key, mixed)
    if slot >= 0:
        count[slot] += weight
        return slot
    if least[0] < len(count):
        slot = least[0]
        least[0] += 1
    else:
        # Algorithm 1, "replace the element with the least counter": its count becomes the error.
        slot = _least_slot(count, least)
        unlink_slot(state.head, state.link, slot)
        state.errors[slot] = count[slot]
    state.key[slot] = key
    count[slot] += weight
    link_slot(state.head, state.link, slot, mixed)
    return -1 - slot


@lean_kernel
def _update(state: SpaceSavingState, keys: NDArray[np.uint64], seed: np.uint64) -> None:
    for i in range(len(keys)):
        offer(state, keys[i], mix(keys[i], seed), 1)


@lean_kernel
def _update_weighted(
    state: SpaceSavingState,
    keys: NDArray[np.uint64],
    weights: NDArray[np.int64],
    seed: np.uint64,
) -> None:
    for i in range(len(keys)):
        if weights[i] > 0:
            offer(state, keys[i], mix(keys[i], seed), weights[i])


@kernel
def _place(
    state: SpaceSavingState,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    errors: NDArray[np.int64],
    seed: np.uint64,
) -> None:
    """Fill an empty state."""
    for slot in range(len(keys)):
        state.key[slot] = keys[slot]
        state.counts[slot] = counts[slot]
        state.errors[slot] = errors[slot]
        link_slot(state.head, state.link, slot, mix(keys[slot], seed))
    state.least[0] = len(keys)


@lean_kernel
def _ask(
    state: SpaceSavingState,
    keys: NDArray[np.uint64],
    out: NDArray[np.int64],
    seed: np.uint64,
) -> None:
    for i in range(len(keys)):
        slot = find_slot(state.head, state.link, state.key, keys[i], mix(keys[i], seed))
        if slot >= 0:
            out[i] = state.counts[slot]
