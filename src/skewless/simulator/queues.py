"""When things happen if tuples flow one at a time: bounded queues from the sources to the combiners.

A tuple is due at its source; it enters its partitioner's queue as soon as there is room; the
partitioner takes it in turn, routes it, and hands it over as soon as the combiner's queue has room,
waiting if it has none; the combiner takes it in turn. So a full queue holds up whoever writes to it,
back to the source, and nothing is ever dropped. When the last tuple of a pane is through, the
fragments that have to be merged go to their reducers, each of which works on one pane after the other.

All times are float64 microseconds. For tuple k of a queue with room for Q, in that queue's order:
it enters when tuple k - Q has left; it is begun when tuple k - 1 has left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import kernel, lean_kernel
from skewless.simulator.stragglers import Spans, factor_at

__all__ = ["PaneTimes", "TupleQueues", "grown"]


class PaneTimes(NamedTuple):
    """What is known of each pane's time."""

    waiting: NDArray[np.int64]
    """int64: tuples that are not at their combiner yet."""
    closed: NDArray[np.bool_]
    """bool: whether the sources have given all its tuples."""
    end_us: NDArray[np.float64]
    """float64: when it ended at the sources: its last tuple was due, or its interval was over."""
    done_us: NDArray[np.float64]
    """float64: when the combiners were through with it."""
    out_us: NDArray[np.float64]
    """float64: when all its results were out; infinite until that is known."""
    lag_us: NDArray[np.float64]
    """float64: longest that a tuple was held back at its source."""
    merge_us: NDArray[np.float64]
    """float64, (panes, m): work of each reducer."""


class QueueState(NamedTuple):
    """Queues, and who is busy until when."""

    entered: NDArray[np.int64]
    """int64, (P + n,): tuples that entered each queue so far, partitioners first."""
    left_us: NDArray[np.float64]
    """float64, (P + n,): when the last one left."""
    ring_us: NDArray[np.float64]
    """float64, (P + n, Q): when each of the last Q left."""
    reducer_us: NDArray[np.float64]
    """float64, (m,): until when each reducer is busy."""
    next_out: NDArray[np.int64]
    """int64, (1,): first pane whose results are not out."""


class Tuples(NamedTuple):
    """Tuples in the order in which they are due."""

    due_us: NDArray[np.float64]
    workers: NDArray[np.int32]
    panes: NDArray[np.int64]
    owners: NDArray[np.int32]

    def rows(self, which: NDArray[np.int64]) -> Tuples:
        """Return some of them."""
        return Tuples(
            self.due_us[which], self.workers[which], self.panes[which], self.owners[which]
        )

    def plus(self, more: Tuples) -> Tuples:
        """Return these and more."""
        if not len(self.panes):
            return more
        return Tuples(
            np.concatenate((self.due_us, more.due_us)),
            np.concatenate((self.workers, more.workers)),
            np.concatenate((self.panes, more.panes)),
            np.concatenate((self.owners, more.owners)),
        )


_NONE = Tuples(np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))


class Setting(NamedTuple):
    """What the kernel needs to know."""

    route_us: float
    work_us: float
    in_flight: int
    saturated: bool


def grown(times: PaneTimes, n_panes: int) -> PaneTimes:
    """Return the same times with room for `n_panes` panes."""
    have = len(times.waiting)
    if n_panes <= have:
        return times
    more = max(n_panes, 2 * have, 64) - have
    fills = (0, False, 0.0, 0.0, math.inf, 0.0, 0.0)
    return PaneTimes(
        *(
            np.concatenate((part, np.full((more, *part.shape[1:]), fill, part.dtype)))
            for part, fill in zip(times, fills, strict=True)
        )
    )


def no_panes(n_reducers: int) -> PaneTimes:
    """Return the times of no pane."""
    real = np.empty(0)
    return PaneTimes(
        np.empty(0, np.int64),
        np.empty(0, np.bool_),
        real,
        real,
        real,
        real,
        np.empty((0, n_reducers)),
    )


class TupleQueues:
    """The queues of the tuple-at-a-time model, fed chunk by chunk.

    Parameters
    ----------
    n_combiners, n_reducers, n_partitioners
        How many there are of each.
    queue
        Tuples that a queue holds, the one in service included.
    in_flight
        A pane's tuples reach no combiner before the results of the pane so many before it are out.
    route_us, work_us
        What a tuple takes at its partitioner and at its combiner.
    spans
        Slow combiners.
    saturated
        Whether every tuple is due at once.

    Notes
    -----
    Exact: whatever happens first is done first, ties to the lower partitioner. Tuples wait in memory
    while it is unknown whether another partitioner will be earlier, which is until that one has come
    as far. Cost: some 30 ns a tuple. State: ``8 Q`` bytes for each partitioner and combiner.
    """

    def __init__(
        self,
        n_combiners: int,
        n_reducers: int,
        n_partitioners: int,
        *,
        queue: int,
        in_flight: int,
        route_us: float,
        work_us: float,
        spans: Spans,
        saturated: bool,
    ) -> None:
        self.n_partitioners, self.spans = n_partitioners, spans
        self.setting = Setting(float(route_us), float(work_us), in_flight, saturated)
        stations = n_partitioners + n_combiners
        self.state = QueueState(
            np.zeros(stations, np.int64),
            np.zeros(stations),
            np.zeros((stations, queue)),
            np.zeros(n_reducers),
            np.zeros(1, np.int64),
        )
        self.times = no_panes(n_reducers)
        self._held = _NONE
        self._upto = 0.0

    def close(
        self, pane: int, loads: NDArray[np.int64], merge_us: NDArray[np.float64], end_us: float
    ) -> None:
        """Say that a pane has got its last tuple, what it costs the reducers, and when it ended."""
        self.times = grown(self.times, pane + 1)
        self.times.closed[pane] = True
        self.times.merge_us[pane] = merge_us
        self.times.end_us[pane] = max(self.times.end_us[pane], end_us)

    def feed(
        self,
        due_us: NDArray[np.float64],
        workers: NDArray[np.int32],
        panes: NDArray[np.int64],
        owners: NDArray[np.int32],
    ) -> None:
        """Take tuples in the order in which they are due; panes before the last one are closed."""
        if not len(due_us):
            return
        self.times = grown(self.times, int(panes[-1]) + 1)
        first = int(panes[0])
        self.times.waiting[first : int(panes[-1]) + 1] += np.bincount(panes - first)
        self._upto = float(due_us[-1])
        self._run(Tuples(due_us, workers, panes, owners), last=False)

    def finish(self) -> None:
        """Let everything that is still under way come through."""
        self._run(_NONE, last=True)

    def _run(self, fresh: Tuples, *, last: bool) -> None:
        tuples = self._held.plus(fresh)
        n = len(tuples.panes)
        if self.n_partitioners == 1:
            order, counts = np.arange(n), np.array([n])
        else:
            order = np.argsort(tuples.owners, kind="stable")
            counts = np.bincount(tuples.owners, minlength=self.n_partitioners).astype(np.int64)
        ends = np.cumsum(counts)
        at = ends - counts
        _run(
            self.state,
            self.times,
            self.spans,
            self.setting,
            math.inf if last else self._upto,
            order,
            tuples.due_us,
            tuples.workers,
            tuples.panes,
            at,
            ends,
            np.empty(self.n_partitioners),
        )
        left = [order[begin:end] for begin, end in zip(at.tolist(), ends.tolist(), strict=True)]
        self._held = tuples.rows(np.sort(np.concatenate(left)))


@lean_kernel
def _let_out(state: QueueState, times: PaneTimes) -> None:
    """Merge the panes that the combiners are through with, in order."""
    pane = state.next_out[0]
    while pane < len(times.waiting) and times.closed[pane] and times.waiting[pane] == 0:
        begin = max(times.done_us[pane], times.end_us[pane])
        if pane > 0:
            begin = max(begin, times.done_us[pane - 1])
        times.done_us[pane] = begin
        out = begin
        for r in range(len(state.reducer_us)):
            if times.merge_us[pane, r] > 0.0:
                state.reducer_us[r] = max(state.reducer_us[r], begin) + times.merge_us[pane, r]
            out = max(out, state.reducer_us[r])
        times.out_us[pane] = out
        pane += 1
    state.next_out[0] = pane


@lean_kernel
def _taken_at(state: QueueState, p: int, due: float) -> float:
    """Return when a partitioner's next tuple enters its queue."""
    queue = state.ring_us.shape[1]
    count = state.entered[p]
    if count >= queue:
        return max(due, state.ring_us[p, count % queue])
    return due


@lean_kernel
def _ready_at(
    state: QueueState, times: PaneTimes, setting: Setting, p: int, due: float, pane: int
) -> float:
    """Return when a partitioner has its next tuple routed; infinite while that cannot be told."""
    ready = max(_taken_at(state, p, due), state.left_us[p]) + setting.route_us
    before = pane - setting.in_flight
    if before >= 0:
        ready = max(ready, times.out_us[before])
    return ready


@lean_kernel
def _pass_on(state: QueueState, q: int, now: float) -> None:
    """Note that a queue's next tuple has left it."""
    state.ring_us[q, state.entered[q] % state.ring_us.shape[1]] = now
    state.entered[q] += 1
    state.left_us[q] = now


@kernel
def _run(
    state: QueueState,
    times: PaneTimes,
    spans: Spans,
    setting: Setting,
    upto_us: float,
    order: NDArray[np.int64],
    due_us: NDArray[np.float64],
    workers: NDArray[np.int32],
    panes: NDArray[np.int64],
    at: NDArray[np.int64],
    ends: NDArray[np.int64],
    ready: NDArray[np.float64],
) -> None:
    """Hand tuples over, the first that is ready first, until one that is not here might be first."""
    n_partitioners, queue = len(at), state.ring_us.shape[1]
    _let_out(state, times)
    stale = True
    changed = 0
    while True:
        earliest = 0
        for p in range(n_partitioners):
            if stale or p == changed:
                if at[p] < ends[p]:
                    i = order[at[p]]
                    ready[p] = _ready_at(state, times, setting, p, due_us[i], panes[i])
                else:
                    ready[p] = max(state.left_us[p], upto_us) + setting.route_us
            if ready[p] < ready[earliest]:
                earliest = p
        stale = False
        if at[earliest] == ends[earliest] or ready[earliest] == np.inf:
            return
        p, now = earliest, ready[earliest]
        i = order[at[p]]
        pane = panes[i]
        taken = _taken_at(state, p, due_us[i])
        if setting.saturated:
            times.end_us[pane] = max(times.end_us[pane], taken)
        else:
            times.lag_us[pane] = max(times.lag_us[pane], taken - due_us[i])
        c = n_partitioners + workers[i]
        if state.entered[c] >= queue:
            now = max(now, state.ring_us[c, state.entered[c] % queue])
        _pass_on(state, p, now)
        begin = max(now, state.left_us[c])
        done = begin + setting.work_us * factor_at(spans, workers[i], begin)
        _pass_on(state, c, done)
        times.done_us[pane] = max(times.done_us[pane], done)
        times.waiting[pane] -= 1
        at[p] += 1
        changed = p
        if times.waiting[pane] == 0 and times.closed[pane]:
            _let_out(state, times)
            stale = True
