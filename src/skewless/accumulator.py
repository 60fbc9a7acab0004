"""Prompt's frequency-aware buffer: keys come out nearly sorted by count the moment a batch ends.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 4.1 and Algorithm 1.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.kernel import kernel, mix
from skewless.parameters import Count, Range, check

__all__ = ["Accumulated", "Accumulator"]

#: Tuples taken at a time: there is room for so many new keys.
_PIECE = 4096

Time = Annotated[int, Range(0)]


class AccumulatorState(NamedTuple):
    """HTable and CountTree of the batch so far; a key is known by its slot, in order of arrival."""

    place: NDArray[np.int64]
    """int64, (power of two,): slot of a key by hash, open addressing, or -1."""
    key: NDArray[np.uint64]
    """uint64, (S,): key hash."""
    counts: NDArray[np.int64]
    """int64, (S, 4): tuples so far, tuples when the tree was told last, time of that, updates left."""
    step: NDArray[np.float64]
    """float64, (S, 2): tuples, and units of time, after which the tree is told again."""
    tree: NDArray[np.int64]
    """int64, (S, 3): left child, right child and parent of a slot's node in the treap, or -1."""
    slot: NDArray[np.int64]
    """int64, (N,): slot of each tuple, in order of arrival: the chains of HTable."""
    size: NDArray[np.int64]
    """int64, (4,): tuples, keys, root of the tree or -1, updates of the tree."""


class Accumulated(NamedTuple):
    """A batch as its end leaves it: keys by falling count, nearly, and the tuples of each."""

    keys: NDArray[np.uint64]
    """uint64, (K,): key hashes, in the order of the tree."""
    counts: NDArray[np.int64]
    """int64, (K,): exact tuples of each key."""
    offsets: NDArray[np.int64]
    """int64, (K + 1,): where the tuples of each key begin in `tuples`."""
    tuples: NDArray[np.int64]
    """int64, (N,): numbers of the tuples by order of arrival, key by key."""
    n_updates: int
    """Updates of the tree in the batch, new keys not counted."""

    @property
    def histogram(self) -> Histogram:
        """The exact counts, for a planner."""
        return Histogram(self.keys, self.counts)


class Accumulator:
    """Buffer a micro-batch, and keep its keys nearly sorted by count while tuples arrive.

    Use it where the batch must be partitioned at once when its interval ends. Where a sort at the end
    costs nothing that matters, `Histogram.of` is simpler, and exact in the order too.

    Parameters
    ----------
    start : int of at least 0
        Begin of the batch interval, in the unit of ``Chunk.time``.
    length : int of at least 1
        Length of the interval.
    n_expected : int of at least 1
        Tuples expected in it, N_Est: data rate times interval.
    mean_keys : int of at least 1
        Different keys expected, K_Avg.
    budget : int of at least 1
        Most updates of a key in the tree.

    Notes
    -----
    Guarantee: counts and tuple lists are exact; the order is that of counts which lag behind, each by
    less than its last frequency step. At most ``budget`` updates a key, O(K log K) in all. Cost: one
    look-up a tuple, and O(log K) expected for an update. State: 112 to 224 bytes a key, room for 4,096
    more keys, and 8 to 16 bytes a tuple.

    Deviations from the paper. The tests ``step == delta`` are ``delta >= step``: steps are real
    numbers. A key whose budget is used up is not updated again, where line 19 would divide by zero.
    Every update notes its time. The balanced tree is a treap with priorities from the key's hash, so
    that it is a function of the data alone; equal counts are in the order of the hash.

    Examples
    --------
    >>> buffer = Accumulator(0, 100, n_expected=8, mean_keys=3)
    >>> buffer.update(Chunk([1, 2, 3, 4, 5, 6], [7, 8, 7, 7, 9, 9]))
    >>> batch = buffer.finish()
    >>> batch.keys.tolist(), batch.counts.tolist(), batch.tuples.tolist()
    ([7, 9, 8], [3, 2, 1], [0, 2, 3, 4, 5, 1])

    References
    ----------
    SIGMOD 2020, section 4.1, doi:10.1145/3318464.3389713.
    """

    state: AccumulatorState

    def __init__(
        self,
        start: Time,
        length: Count,
        *,
        n_expected: Count,
        mean_keys: Count,
        budget: Count = 10,
    ) -> None:
        check(
            "Accumulator",
            type(self).__init__,
            start=start,
            length=length,
            n_expected=n_expected,
            mean_keys=mean_keys,
            budget=budget,
        )
        if budget > 2**31:
            raise ParameterError(f"Accumulator: budget must be at most {2**31}, got {budget}.")
        self.start, self.length = start, length
        self.n_expected, self.mean_keys, self.budget = n_expected, mean_keys, budget
        self.state = _nothing()

    def update(self, chunk: Chunk) -> None:
        """Take tuples, in order of time.

        Raises
        ------
        DataError
            A tuple lies outside of the batch interval.
        """
        if len(chunk) == 0:
            return
        first, last = int(chunk.time[0]), int(chunk.time[-1])
        end = self.start + self.length
        if first < self.start or last >= end:
            raise DataError(
                f"Accumulator: times must lie in the batch interval [{self.start}, {end}), got "
                f"{first if first < self.start else last}; finish the batch and begin the next."
            )
        for begin in range(0, len(chunk), _PIECE):
            part = slice(begin, begin + _PIECE)
            self.state = _with_room(self.state, min(_PIECE, len(chunk) - begin))
            _take(
                self.state,
                self.n_expected / self.budget,
                self.n_expected / (self.mean_keys * self.budget),
                self.budget,
                end,
                chunk.time[part],
                chunk.key[part],
            )

    def finish(self) -> Accumulated:
        """Return the batch; the buffer is empty then, and its interval the next one."""
        state, n_tuples, n_keys = self.state, int(self.state.size[0]), int(self.state.size[1])
        order = np.empty(n_keys, np.int64)
        offsets, tuples = np.zeros(n_keys + 1, np.int64), np.empty(n_tuples, np.int64)
        _unload(state, order, offsets, tuples)
        done = Accumulated(
            state.key[order], state.counts[order, 0], offsets, tuples, int(state.size[3])
        )
        self.state = _nothing()
        self.start += self.length
        return done


def _nothing() -> AccumulatorState:
    return AccumulatorState(
        np.full(16, -1, np.int64),
        np.empty(0, np.uint64),
        np.empty((0, 4), np.int64),
        np.empty((0, 2), np.float64),
        np.empty((0, 3), np.int64),
        np.empty(0, np.int64),
        np.array([0, 0, -1, 0]),
    )


def _with_room(state: AccumulatorState, n_tuples: int) -> AccumulatorState:
    """Return the same state with room for so many more tuples, all of new keys if need be."""
    tuples, keys = int(state.size[0]) + n_tuples, int(state.size[1]) + n_tuples
    if tuples > len(state.slot):
        state = state._replace(slot=_longer(state.slot, tuples))
    if keys > len(state.key):
        grown = {
            name: _longer(getattr(state, name), keys) for name in ("key", "counts", "step", "tree")
        }
        state = state._replace(**grown)
    if 2 * keys > len(state.place):
        place = np.full(1 << (2 * keys - 1).bit_length(), -1, np.int64)
        _place_all(place, state.key, int(state.size[1]))
        state = state._replace(place=place)
    return state


def _longer(array: NDArray, length: int) -> NDArray:  # type: ignore[type-arg]
    grown = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _place_all(place: NDArray[np.int64], keys: NDArray[np.uint64], n_keys: int) -> None:
    for slot in range(n_keys):
        place[_find(place, keys, keys[slot])] = slot


@kernel
def _find(place: NDArray[np.int64], keys: NDArray[np.uint64], key: np.uint64) -> np.uint64:
    mask = np.uint64(len(place) - 1)
    at = mix(key, np.uint64(0)) & mask
    while place[at] >= 0 and keys[place[at]] != key:
        at = (at + np.uint64(1)) & mask
    return at


@kernel
def _take(
    state: AccumulatorState,
    tuples_per_update: float,
    first_step: float,
    budget: int,
    end: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> None:
    count, step, size = state.counts, state.step, state.size
    for i in range(len(keys)):
        now = times[i]
        size[0] += 1  # line 3
        at = _find(state.place, state.key, keys[i])
        slot = state.place[at]
        if slot < 0:  # lines 25 to 30
            slot = size[1]
            size[1] += 1
            state.place[at] = slot
            state.key[slot] = keys[i]
            count[slot, 0], count[slot, 1], count[slot, 2], count[slot, 3] = 1, 1, now, budget
            step[slot, 0], step[slot, 1] = first_step, (end - now) / budget
            _insert(state, slot)
        else:  # lines 5 to 23
            count[slot, 0] += 1
            if count[slot, 3] > 0:
                by_tuples = count[slot, 0] - count[slot, 1] >= step[slot, 0]
                if by_tuples or now - count[slot, 2] >= step[slot, 1]:
                    _remove(state, slot)
                    count[slot, 1], count[slot, 2] = count[slot, 0], now
                    count[slot, 3] -= 1
                    _insert(state, slot)
                    size[3] += 1
                    if by_tuples:  # line 13
                        step[slot, 0] = tuples_per_update * count[slot, 0] / size[0]
                    elif count[slot, 3] > 0:  # line 19
                        step[slot, 1] = (end - now) / count[slot, 3]
        state.slot[size[0] - 1] = slot


@kernel
def _unload(
    state: AccumulatorState,
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    tuples: NDArray[np.int64],
) -> None:
    """Walk the tree from the highest count down, and collect the tuples of each key."""
    tree, node, nth = state.tree, state.size[2], 0
    rank = np.empty(len(order), np.int64)
    while node >= 0 and tree[node, 1] >= 0:
        node = tree[node, 1]
    while node >= 0:
        order[nth], rank[node] = node, nth
        offsets[nth + 1] = offsets[nth] + state.counts[node, 0]
        nth += 1
        if tree[node, 0] >= 0:
            node = tree[node, 0]
            while tree[node, 1] >= 0:
                node = tree[node, 1]
        else:
            below, node = node, tree[node, 2]
            while node >= 0 and tree[node, 0] == below:
                below, node = node, tree[node, 2]
    filled = offsets[:-1].copy()
    for i in range(len(tuples)):
        at = rank[state.slot[i]]
        tuples[filled[at]] = i
        filled[at] += 1


# -- CountTree: a treap by (count that the tree was told, falling hash) ---------------------------------


@kernel
def _less(state: AccumulatorState, a: int, b: int) -> bool:
    left, right = state.counts[a, 1], state.counts[b, 1]
    return bool(left < right or (left == right and state.key[a] > state.key[b]))


@kernel
def _above(state: AccumulatorState, a: int, b: int) -> bool:
    left, right = mix(state.key[a], np.uint64(1)), mix(state.key[b], np.uint64(1))
    return bool(left > right or (left == right and state.key[a] > state.key[b]))


@kernel
def _hang(state: AccumulatorState, node: int, instead: int) -> None:
    """Let `instead` (or nothing, -1) take the place of `node` under its parent."""
    tree, parent = state.tree, state.tree[node, 2]
    if parent < 0:
        state.size[2] = instead
    else:
        tree[parent, 0 if tree[parent, 0] == node else 1] = instead
    if instead >= 0:
        tree[instead, 2] = parent


@kernel
def _rotate(state: AccumulatorState, child: int) -> None:
    """Lift a child above its parent."""
    tree, parent = state.tree, state.tree[child, 2]
    side = 0 if tree[parent, 0] == child else 1
    inner = tree[child, 1 - side]
    _hang(state, parent, child)
    tree[child, 1 - side], tree[parent, 2] = parent, child
    tree[parent, side] = inner
    if inner >= 0:
        tree[inner, 2] = parent


@kernel
def _insert(state: AccumulatorState, node: int) -> None:
    tree = state.tree
    tree[node, 0], tree[node, 1], tree[node, 2] = -1, -1, -1
    at, side = state.size[2], 0
    if at < 0:
        state.size[2] = node
        return
    while True:
        side = 0 if _less(state, node, at) else 1
        if tree[at, side] < 0:
            break
        at = tree[at, side]
    tree[at, side], tree[node, 2] = node, at
    while tree[node, 2] >= 0 and _above(state, node, tree[node, 2]):
        _rotate(state, node)


@kernel
def _remove(state: AccumulatorState, node: int) -> None:
    tree = state.tree
    while tree[node, 0] >= 0 and tree[node, 1] >= 0:
        left, right = tree[node, 0], tree[node, 1]
        _rotate(state, left if _above(state, left, right) else right)
    _hang(state, node, tree[node, 0] if tree[node, 0] >= 0 else tree[node, 1])
