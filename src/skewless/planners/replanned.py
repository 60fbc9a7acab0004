"""Replanned: a planner driven as a partitioner, which plans anew at the end of each window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.parameters import Count
from skewless.partitioners.base import Partitioner
from skewless.planners.base import Planner
from skewless.routing import Moves, Routing

__all__ = ["Replanned"]

#: Tuples that are collected before they are counted.
_BATCH = 16_384
#: The window before the first tuple.
_NONE = np.iinfo(np.int64).min


class ReplannedState(NamedTuple):
    """Counts of the running window, and whose turn it is."""

    window: NDArray[np.int64]
    """int64, (1,): number of the running window, ``time // every``."""
    turn: NDArray[np.int64]
    """int64: turn counters of the routing in force (`Routing.turns`)."""
    key: NDArray[np.uint64]
    """uint64, (keys,): keys counted in this window, ascending."""
    tuples: NDArray[np.int64]
    """int64, (keys,): how many of each."""
    recent: NDArray[np.uint64]
    """uint64, (16384,): keys of tuples that are not counted yet."""
    n_recent: NDArray[np.int64]
    """int64, (1,): how many `recent` holds."""


class Replanned(Partitioner):
    """Route by a planner's routing, and let the planner make a new one at the end of each window.

    Use it when the hot keys of one window are still hot in the next, and moving a key between
    windows is cheap (its state starts empty, or the driver carries it). Not when a window holds
    only a few tuples per worker: the plan then follows noise.

    Parameters
    ----------
    planner : Planner
        What plans; it knows the number of workers and the seed.
    every : int of at least 1
        Length of a window in the unit of ``Chunk.time``; windows start at multiples of it.
    history : Histogram or None
        What is known before the first tuple. None starts with plain hashing.

    Notes
    -----
    Guarantee: within a window the routing does not change. What changed owner at the last change is
    in `moves`. A window without tuples changes nothing. Cost: the routing's own, and one count of
    the keys a window. State: 16 bytes for each key of the window, at most 32 for each hot key, and
    128 KiB for tuples that are still to be counted; the routing itself comes on top.

    Deviations from the paper: none; this is how a planner is driven, and the plan is the planner's.

    Examples
    --------
    >>> from skewless.planners.wrap_around import WrapAround
    >>> policy = Replanned(WrapAround(4), every=1000)
    >>> workers = policy.route(Chunk(None, [7] * 2000))
    >>> [np.bincount(window, minlength=4).tolist() for window in np.split(workers, 2)]
    [[0, 0, 0, 1000], [250, 250, 250, 250]]
    >>> policy.moves.total
    750.0

    References
    ----------
    R. McNaughton, Scheduling with Deadlines and Loss Functions, Management Science 6(1), 1959,
    doi:10.1287/mnsc.6.1.1 (the planner of the example; each planner names its own paper).
    """

    splits_keys = True
    moves_keys = True
    planner: Planner
    every: int
    history: Histogram | None
    routing: Routing
    moves: Moves | None
    state: ReplannedState

    def __init__(self, planner: Planner, *, every: Count, history: Histogram | None = None) -> None:
        if not isinstance(planner, Planner):
            raise ParameterError(
                f"Replanned: planner must be a planner such as WrapAround(64), got {planner!r}."
            )
        if not (history is None or isinstance(history, Histogram)):
            raise ParameterError(
                f"Replanned: history must be a Histogram or None, got {history!r}."
            )
        self._take(planner=planner, every=every, history=history)
        self.n_workers, self.seed = planner.n_workers, planner.seed
        none = Histogram([], [], seed=planner.seed)
        self.routing = planner.plan(none if history is None else history)
        self.moves = None
        self.state = ReplannedState(
            np.full(1, _NONE),
            self.routing.turns(),
            np.empty(0, np.uint64),
            np.empty(0, np.int64),
            np.empty(_BATCH, np.uint64),
            np.zeros(1, np.int64),
        )

    def __repr__(self) -> str:
        return f"Replanned({self.planner!r}, every={self.every})"

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        out = np.empty(len(chunk), np.int32)
        window = chunk.time // self.every
        edges = np.flatnonzero(np.diff(window)) + 1
        for start, stop in zip([0, *edges], [*edges, len(chunk)], strict=True):
            if start == stop:
                continue
            if self.state.window[0] not in (_NONE, window[start]):
                self._replan()
            self.state.window[0] = window[start]
            out[start:stop] = self.routing.route(chunk.key[start:stop], turn=self.state.turn)
            self._count(chunk.key[start:stop])
        return out

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the planner's routing: there is nothing to condense."""
        return self.planner.plan(histogram, previous)

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 48 bytes for each of `n_keys` keys of a window, and 128 KiB."""
        return 48 * n_keys + 8 * _BATCH + 64

    def _count(self, keys: NDArray[np.uint64]) -> None:
        state = self.state
        n = int(state.n_recent[0])
        if n + len(keys) > _BATCH:
            self._merge(keys)
        else:
            state.recent[n : n + len(keys)] = keys
            state.n_recent[0] += len(keys)

    def _merge(self, keys: NDArray[np.uint64]) -> None:
        """Count what was collected, and `keys`."""
        state = self.state
        fresh = np.concatenate((state.recent[: state.n_recent[0]], keys))
        key, count = np.unique(fresh, return_counts=True)
        state.n_recent[0] = 0
        if len(state.key):
            counts = np.concatenate((state.tuples, count))
            key, which = np.unique(np.concatenate((state.key, key)), return_inverse=True)
            count = np.zeros(len(key), np.int64)
            np.add.at(count, which, counts)
        self.state = state._replace(key=key, tuples=count.astype(np.int64))

    def _replan(self) -> None:
        self._merge(np.empty(0, np.uint64))
        closed = Histogram(self.state.key, self.state.tuples, seed=self.seed)
        routing = self.planner.plan(closed, self.routing)
        self.moves = routing.moves(self.routing, closed)
        self.routing = routing
        self.state = self.state._replace(
            turn=routing.turns(), key=np.empty(0, np.uint64), tuples=np.empty(0, np.int64)
        )
