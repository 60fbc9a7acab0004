"""Dalton's frequencies by a Count-Min sketch, in some statistics windows or in all.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, sections 3.3, 5 and 5.3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel, mix, spread
from skewless.partitioners.dalton_learner import (
    AHEAD,
    DaltonSettings,
    DaltonState,
    route_exactly,
    serve,
)
from skewless.sketches.count_min import CountMinState, add_conservative, no_cells
from skewless.sketches.hyper_log_log import HyperLogLogState, distinct, insert, no_registers
from skewless.windows import cold_log, hot_keys
from skewless.windows.hot_window import begin_window, turn_window, window_has_room, with_room
from skewless.windows.rows import MARK, has_room

__all__ = ["DEPTH", "Estimates", "advance_estimating", "estimates_bytes", "no_estimates"]

#: Rows of the sketch. One counter is wrong by 1/n of the window with a probability of ``1 / (4 e)`` at
#: most, all five with 7 in a million: so rarely is a key hot that hardly occurs.
DEPTH = 5
_PRECISION, _REGISTER_BITS = 12, 5


class Estimates(NamedTuple):
    """What is counted where keys are not kept."""

    sketch: CountMinState
    """Frequencies of this statistics window."""
    registers: HyperLogLogState
    """Its distinct keys."""
    sketching: NDArray[np.bool_]
    """bool, (1,): whether this statistics window is counted by the sketch."""


def no_estimates(n_workers: int, *, sketching: bool) -> Estimates:
    """Return empty sketches; the error of a count is 1/(4n) of the tuples of a window at most.

    Examples
    --------
    >>> no_estimates(8, sketching=True).sketch.cell.shape
    (5, 87)
    """
    return Estimates(
        no_cells(math.ceil(4 * math.e * n_workers), DEPTH),
        no_registers(1, _PRECISION, _REGISTER_BITS),
        np.array([sketching]),
    )


def estimates_bytes(n_workers: int) -> int:
    """Return the bytes of the sketches.

    Examples
    --------
    >>> estimates_bytes(8)
    7609
    """
    return 8 * DEPTH * math.ceil(4 * math.e * n_workers) + 8 + (1 << _PRECISION) + 24 + 1


def advance_estimating(
    state: DaltonState,
    estimates: Estimates,
    settings: DaltonSettings,
    switch_keys: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> DaltonState:
    """Route tuples, with a larger state where one is needed; return it.

    A statistics window is counted by the sketch if the one before had `switch_keys` keys; by the same
    as all others if that is 0.
    """
    ahead = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int64)
    done = _route(state, estimates, settings, switch_keys, times, keys, 0, out, *ahead)
    while done < len(keys):
        hot, cold, larger = with_room(state, settings.seed)
        if estimates.sketching[0] and len(cold.latest) == 0:
            cold = cold_log.with_index(cold)
        state = state._replace(keys=hot, cold=cold, rows=larger)
        done = _route(state, estimates, settings, switch_keys, times, keys, done, out, *ahead)
    return state


@lean_kernel
def _forget(estimates: Estimates) -> None:
    sketch, registers = estimates.sketch, estimates.registers
    for row in range(len(sketch.cell)):
        for place in range(sketch.cell.shape[1]):
            sketch.cell[row, place] = 0
    sketch.total[0] = 0
    for place in range(registers.register.shape[1]):
        registers.register[0, place] = 0
    registers.zeros[0] = registers.register.shape[1]
    registers.harmonic[0] = float(registers.register.shape[1])


@lean_kernel
def _turn(
    state: DaltonState, estimates: Estimates, settings: DaltonSettings, switch_keys: int, now: int
) -> None:
    """Begin a statistics window, and choose how its tuples are counted."""
    sketching, gap = estimates.sketching, (now - state.keys.start[0]) // settings.stats_window
    if switch_keys > 0:
        n_keys = 0.0
        if gap == 1:
            counted = float(state.keys.table.used[0])
            n_keys = distinct(estimates.registers, 0) if sketching[0] else counted
        sketching[0] = n_keys >= switch_keys
    turn_window(
        state, settings.slide, settings.stats_window, settings.n_workers, settings.seed, now
    )
    if sketching[0]:
        _forget(estimates)


@lean_kernel
def _route(
    state: DaltonState,
    estimates: Estimates,
    settings: DaltonSettings,
    switch_keys: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
) -> int:
    """Route from tuple `first` on, window by window; return the number of that without room."""
    if state.slide[0] < 0:
        begin_window(state, settings.slide, settings.stats_window, times[first])
    i = first
    while i < len(keys):
        if times[i] - state.keys.start[0] >= settings.stats_window:
            _turn(state, estimates, settings, switch_keys, times[i])
        end, high = i, len(keys)
        while end < high:  # the end of the statistics window
            middle = (end + high) >> 1
            if times[middle] - state.keys.start[0] < settings.stats_window:
                end = middle + 1
            else:
                high = middle
        if estimates.sketching[0]:
            estimated = switch_keys > 0
            i = _route_estimated(
                state, estimates, settings, estimated, times, keys, i, end, out, mixed
            )
        else:
            i = route_exactly(state, settings, times[:end], keys[:end], i, out, mixed, link, None)
        if i < end:
            return i
    return i


@lean_kernel
def _route_estimated(
    state: DaltonState,
    estimates: Estimates,
    settings: DaltonSettings,
    count_keys: bool,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    end: int,
    out: NDArray[np.int32],
    mixed: NDArray[np.uint64],
) -> int:
    """Algorithm 1 for tuples of one statistics window whose frequencies are estimated."""
    keys_, cold, rows, load = state.keys, state.cold, state.rows, state.loads.window
    row, number, heavy = rows.row, keys_.number[0], keys_.heavy[0]
    n, n_slides, seed = settings.n_workers, len(state.loads.slides), settings.seed
    sketched = seed + np.uint64(1)
    i, indexed = first, len(cold.latest) > 0
    room = indexed and window_has_room(state)
    while i < end and room:
        if times[i] - state.start[0] >= settings.slide:
            turn_window(state, settings.slide, settings.stats_window, n, seed, times[i])
            room = window_has_room(state)
        slide, begin = state.slide[0], i
        oldest, total = slide - n_slides + 1, state.loads.total[0] - begin + 1
        while i < end and times[i] - state.start[0] < settings.slide and room:
            some = min(len(mixed), end - i)
            for j in range(some):
                mixed[j] = mix(keys[i + j], seed)
            for j in range(some):
                if not room or times[i] - state.start[0] >= settings.slide:
                    break
                key = keys[i]
                # Lines 1 to 3.
                frequency = add_conservative(estimates.sketch, key, 1, sketched)
                if count_keys:
                    insert(estimates.registers, 0, mixed[j])
                home = int(spread(mixed[j], np.uint64(n)))
                own = hot_keys.find_row(keys_, row, mixed[j], key)
                if frequency >= heavy and (own < 0 or row[own, MARK] != number):
                    own = _heat(state, key, mixed[j], seed, own, home, oldest)
                    room = window_has_room(state)
                if own >= 0:
                    mean = (total + i) / n
                    out[i] = serve(
                        state, settings, own, home, slide, oldest, mean, key, mixed[j], None
                    )
                    room = room and has_room(rows)
                else:
                    out[i] = home  # line 8
                    load[np.uint64(home)] += 1
                    cold_log.append_cold(cold.entry, cold.ends, key, slide)
                    room = room and not cold_log.log_is_full(cold)
                i += 1
        keys_.total[0] += i - begin
        state.loads.total[0] += i - begin
    return i


@lean_kernel
def _heat(
    state: DaltonState,
    key: np.uint64,
    mixed: np.uint64,
    seed: np.uint64,
    own: int,
    home: int,
    oldest: int,
) -> int:
    """Make a heavy key hot that has no entry of its own; return its row."""
    cold = state.cold
    if own < 0:
        cold_log.index_cold(cold.entry, cold.ends, cold.latest, seed)
        own = hot_keys.adopt(state.keys, state.rows, cold, key, mixed, seed, home, oldest)
    nowhere = np.uint64(0)
    i: int = hot_keys.heat(
        state.keys, state.rows, cold, nowhere, key, mixed, seed, own, home, oldest
    )
    return i
