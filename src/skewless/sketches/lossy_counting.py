"""Lossy Counting: every key above a share of the stream, counted a little too low.

G. S. Manku, R. Motwani: Approximate Frequency Counts over Data Streams, VLDB 2002.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.kernel import lean_kernel, mix
from skewless.parameters import Range, Seed
from skewless.sketches.base import Sketch
from skewless.sketches.slot_index import chains_for, find_slot, link_slot

__all__ = ["LossyCounting", "LossyCountingState"]


class LossyCountingState(NamedTuple):
    """The entries; those in use come first."""

    key: NDArray[np.uint64]
    """uint64, (slots,): keys."""
    counts: NDArray[np.int64]
    """int64, (slots,): tuples of the key since its entry was made (f in the paper)."""
    missed: NDArray[np.int64]
    """int64, (slots,): tuples of it before, at most (Delta in the paper)."""
    link: NDArray[np.int32]
    """int32, (slots, 2): next slot of the chain, and the chain."""
    head: NDArray[np.int32]
    """int32, (power of two,): first slot of each chain."""
    clock: NDArray[np.int64]
    """int64, (4,): entries in use, tuples in the current bucket, buckets before it, all tuples."""


class LossyCounting(Sketch):
    """Count every key, and after each bucket of tuples drop those that are too rare to matter.

    Use it when each key above a share must be found and counts may be low but never high. Not where
    memory is fixed: `SpaceSaving` never grows.

    Parameters
    ----------
    epsilon : float in [1e-09, 1]
        Error, as a share of all tuples; a bucket has ``ceil(1 / epsilon)`` tuples.
    seed : int in [0, 9223372036854775807]
        Which hash function places keys in the index; it changes no count.

    Notes
    -----
    Guarantee: ``estimate <= true <= estimate + missed``, with `missed` at most ``epsilon * total`` for
    each key, and for a key without an entry too (section 4.2). The bound holds after `merge`, where the
    errors of both sides add up.

    Cost: a look-up a tuple; a visit of every entry a bucket. State: 32 bytes a slot and 8 to 16 for the
    index; the slots double when they run out, so they are at most twice the ``log(epsilon * total) /
    epsilon`` entries of the paper plus a bucket. Slots are not given back.

    Deviations from the paper: none for a stream; merging is not in the paper.

    Examples
    --------
    >>> sketch = LossyCounting(0.25)
    >>> sketch.update(np.array([7, 7, 7, 1, 2, 7], np.uint64))
    >>> sketch.estimate([7, 1, 2]).tolist()
    [4, 0, 1]

    References
    ----------
    VLDB 2002, section 4.2, doi:10.1016/B978-155860869-6/50038-X.
    """

    epsilon: float
    state: LossyCountingState

    def __init__(self, epsilon: Annotated[float, Range(1e-9, 1)], *, seed: Seed = 0) -> None:
        self._take(epsilon=epsilon, seed=seed)
        self.state = _empty(64)

    @property
    def bucket_tuples(self) -> int:
        """Tuples in a bucket (w in the paper)."""
        return math.ceil(1 / self.epsilon)

    @property
    def total(self) -> int:
        """Tuples so far."""
        return int(self.state.clock[3])

    @property
    def missed(self) -> int:
        """What a key without an entry can count at most."""
        return int(self.state.clock[2])

    def update(self, keys: ArrayLike) -> None:
        """Count `keys`."""
        found, seed = self._keys(keys), np.uint64(self.seed)
        done = _update(self.state, found, 0, self.bucket_tuples, seed)
        while done < len(found):
            self._make_room(2 * len(self.state.key))
            done = _update(self.state, found, done, self.bucket_tuples, seed)

    def merge(self, other: LossyCounting) -> None:
        """Add the counts of `other`; a key that one side lacks may have been missed there."""
        self._same(other)
        mine, theirs = self._used(), other._used()
        keys = np.union1d(mine[0], theirs[0])
        counts, missed = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for (has, count, before), lacking in ((mine, self.missed), (theirs, other.missed)):
            at = np.searchsorted(keys, has)
            doubt = np.full(len(keys), lacking, np.int64)
            doubt[at] = before
            counts[at] += count
            missed += doubt
        clock = self.state.clock + other.state.clock
        # Two part buckets may make a whole one: then it ends now.
        clock[2] += clock[1] // self.bucket_tuples
        clock[1] %= self.bucket_tuples
        keep = counts + missed > clock[2]
        clock[0] = int(keep.sum())
        self.state = _empty(max(64, 1 << int(clock[0]).bit_length()))._replace(clock=clock)
        self._fill(keys[keep], counts[keep], missed[keep])

    def estimate(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Return the lower bound of each key's count, 0 without an entry."""
        found = self._keys(keys)
        out = np.zeros(len(found), np.int64)
        _ask(self.state, found, np.uint64(self.seed), out)
        return out

    def top(self, share: float) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return keys and counts of all that may reach `share` of the tuples, by descending count.

        None that reaches it is missing, and none is below ``share - epsilon``.
        """
        key, counts, _ = self._used()
        chosen = counts >= (share - self.epsilon) * self.total
        order = np.lexsort((key[chosen], -counts[chosen]))
        return key[chosen][order], counts[chosen][order]

    def _used(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
        n = int(self.state.clock[0])
        return self.state.key[:n], self.state.counts[:n], self.state.missed[:n]

    def _make_room(self, n_slots: int) -> None:
        used = self._used()
        self.state = _empty(n_slots)._replace(clock=self.state.clock)
        self._fill(*used)

    def _fill(
        self, keys: NDArray[np.uint64], counts: NDArray[np.int64], missed: NDArray[np.int64]
    ) -> None:
        self.state.key[: len(keys)] = keys
        self.state.counts[: len(keys)] = counts
        self.state.missed[: len(keys)] = missed
        _relink(self.state, np.uint64(self.seed))


def _empty(n_slots: int) -> LossyCountingState:
    return LossyCountingState(
        np.zeros(n_slots, np.uint64),
        np.zeros(n_slots, np.int64),
        np.zeros(n_slots, np.int64),
        np.full((n_slots, 2), -1, np.int32),
        np.full(chains_for(n_slots), -1, np.int32),
        np.zeros(4, np.int64),
    )


@lean_kernel
def _relink(state: LossyCountingState, seed: np.uint64) -> None:
    """Build the index of the entries in use."""
    for chain in range(len(state.head)):
        state.head[chain] = -1
    for slot in range(state.clock[0]):
        link_slot(state.head, state.link, slot, mix(state.key[slot], seed))


@lean_kernel
def _prune(state: LossyCountingState, seed: np.uint64) -> None:
    """Delete the entries with ``f + Delta <= b`` at the end of bucket b."""
    kept = 0
    for slot in range(state.clock[0]):
        if state.counts[slot] + state.missed[slot] > state.clock[2]:
            state.key[kept] = state.key[slot]
            state.counts[kept] = state.counts[slot]
            state.missed[kept] = state.missed[slot]
            kept += 1
    state.clock[0] = kept
    _relink(state, seed)


@lean_kernel
def _update(
    state: LossyCountingState,
    keys: NDArray[np.uint64],
    first: int,
    bucket_tuples: int,
    seed: np.uint64,
) -> int:
    """Count from tuple `first` on; return the number of the tuple that finds no slot."""
    clock = state.clock
    for i in range(first, len(keys)):
        mixed = mix(keys[i], seed)
        slot = find_slot(state.head, state.link, state.key, keys[i], mixed)
        if slot >= 0:
            state.counts[slot] += 1
        elif clock[0] == len(state.key):
            return i
        else:
            slot = clock[0]
            clock[0] += 1
            state.key[slot] = keys[i]
            state.counts[slot] = 1
            state.missed[slot] = clock[2]  # Delta = b_current - 1
            link_slot(state.head, state.link, slot, mixed)
        clock[1] += 1
        clock[3] += 1
        if clock[1] == bucket_tuples:
            clock[1] = 0
            clock[2] += 1
            _prune(state, seed)
    return len(keys)


@lean_kernel
def _ask(
    state: LossyCountingState, keys: NDArray[np.uint64], seed: np.uint64, out: NDArray[np.int64]
) -> None:
    for i in range(len(keys)):
        slot = find_slot(state.head, state.link, state.key, keys[i], mix(keys[i], seed))
        if slot >= 0:
            out[i] = state.counts[slot]
