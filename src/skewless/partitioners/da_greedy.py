"""DAGreedy: hash the cold keys; a hot key goes where load and locality together are best right now.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, section 5 (a baseline there).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import inline_kernel, lean_kernel, mix, spread
from skewless.parameters import Count, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows import cold_log, hot_keys
from skewless.windows.cold_log import ColdLog
from skewless.windows.fragments import seen, touch
from skewless.windows.hot_keys import LINK, HotKeys
from skewless.windows.hot_window import (
    begin_window,
    hot_window_bytes_bound,
    no_hot_window,
    turn_window,
    window_has_room,
    with_room,
)
from skewless.windows.loads import SlidingLoads
from skewless.windows.rows import (
    BOUND,
    DEAD,
    FRAGMENTS,
    LAST,
    MARK,
    SHAPE,
    UNSEEN,
    VALUE,
    WORKER,
    Rows,
    has_room,
)
from skewless.windows.tournament import play, play_all, width_for
from skewless.windows.values import best_worker, rank_all, set_value, value_of

__all__ = ["DAGreedy"]

#: Tuples whose keys are mixed together; a power of two.
_AHEAD = 64
#: Of workers of equal worth none is preferred but by its number.
_NOBODY = -1


class DAGreedyState(NamedTuple):
    """Statistics of the keys, who holds the hot ones, load vector, clock; and the least loaded worker.

    The value of a worker in a row is ``1 / (1 + its load)`` as it was looked up last. Loads only grow
    within a slide, so a value is never too low, and the best one that is up to date is the best.
    """

    keys: HotKeys
    """Frequencies of all keys, and which are hot (Definition 3.3)."""
    cold: ColdLog
    """Fragments of the keys that have no row, in case that they become hot."""
    rows: Rows
    """Per hot key: the workers that hold it, and a value of each."""
    loads: SlidingLoads
    """Tuples per worker in the window (Definition 3.1)."""
    slide: NDArray[np.int64]
    """int64, (1,): slide, counted from the first tuple's; -1 before it."""
    start: NDArray[np.int64]
    """int64, (1,): when the slide began, in the unit of time."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""
    spare: NDArray[np.float64]
    """float64, (n_workers,): minus the load of each worker."""
    least: NDArray[np.int32]
    """int32, (power of two,): tournament over `spare`; the least loaded worker in column 1."""


class _Settings(NamedTuple):
    n_workers: int
    slide: int
    stats_window: int
    seed: np.uint64


class DAGreedy(Partitioner):
    """Hash cold keys; send a hot key to a worker that holds it, unless another is far less loaded.

    Use it as the yardstick for `Dalton`: the same hot keys, and the same two costs, taken greedily.
    Or where a windowed stream must be balanced from the first hot tuple on, without exploring. Not
    when nothing is hot: then it is plain hashing at a higher cost.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    window : int of at least 1
        Length of the window that load and fragments are counted in, in the unit of ``Chunk.time``.
    slide : int of at least 1
        Step of the window, at most `window`.
    stats_window : int of at least 1, optional
        Length of the tumbling window in which hot keys are found; by default a slide, but at least
        ``8 * n_workers``.
    seed : int in [0, 9223372036854775807]
        Which hash function.

    Notes
    -----
    A hot tuple goes to the worker with the highest score: 0.5 if it holds the key in the window, less
    ``0.5 (L - mean) / mean`` for its load L. So a key leaves the workers that hold it once another
    one is below the least loaded of them by more than the mean load. Loads are those before the
    tuple; ties go to the lowest worker.

    Guarantee: a key that never has 1/n of the load of a statistics window has one worker, that of
    `Hash`. The load may exceed the least one by the mean, so max/mean comes near 2 where hot keys
    alone make the load.

    Cost: a tuple one look-up and the contests of a tournament, O(log n) at most; a hot one also those
    among the workers that hold it. A slide costs O(n), and one visit for each fragment of a hot key.
    State: as `Dalton`, and 12 to 16 bytes a worker.

    Deviations from the paper: it names the baseline without a full rule; the score is that of the
    authors' published experiments. The threshold is that of Definition 3.3, a hundred times higher
    than theirs. Nothing is hot in the first statistics window or after an empty one.

    Examples
    --------
    >>> partitioner = DAGreedy(4, window=600, slide=10)
    >>> loads = np.bincount(partitioner.route(Chunk(None, [7] * 1000)), minlength=4)
    >>> int(loads.min()), int(loads.max())
    (250, 250)

    References
    ----------
    PVLDB 16(3), section 5, doi:10.14778/3570690.3570699.
    """

    splits_keys = True
    moves_keys = True
    window: int
    slide: int
    stats_window: int | None
    state: DAGreedyState

    def __init__(
        self,
        n_workers: Count,
        *,
        window: Count = 60_000,
        slide: Count = 1_000,
        stats_window: Count | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers, window=window, slide=slide, stats_window=stats_window, seed=seed
        )
        if slide > window:
            raise ParameterError(
                f"DAGreedy: slide must be at most the window of {window}, got {slide}; tuples between "
                f"two windows would belong to none."
            )
        spare, least = np.zeros(n_workers), np.zeros(width_for(n_workers), np.int32)
        play_all(spare, least, _NOBODY)
        window_ = no_hot_window(self.n_slides, n_workers)
        self.state = DAGreedyState(*window_, spare=spare, least=least)

    @property
    def n_slides(self) -> int:
        """Slides in a window, the one that has begun included."""
        return -(-self.window // self.slide)

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32.

        Raises
        ------
        DataError
            The chunk begins before the latest tuple of the chunks before it.
        """
        out = np.empty(len(chunk), np.int32)
        if len(chunk) == 0:
            return out
        if self.state.slide[0] >= 0 and chunk.time[0] < self.state.last[0]:
            raise DataError(
                f"DAGreedy: time must not decrease from chunk to chunk, got {chunk.time[0]} after "
                f"{self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        settings = _Settings(
            self.n_workers,
            self.slide,
            self.stats_window or max(self.slide, 8 * self.n_workers),
            np.uint64(self.seed),
        )
        mixed = np.empty(_AHEAD, np.uint64)
        done = _route(self.state, settings, chunk.time, chunk.key, 0, out, mixed)
        while done < len(chunk):
            keys, cold, larger = with_room(self.state, settings.seed)
            self.state = self.state._replace(keys=keys, cold=cold, rows=larger)
            done = _route(self.state, settings, chunk.time, chunk.key, done, out, mixed)
        self.state.last[0] = chunk.time[-1]
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two of `stats_window` in a row. The bound holds even if all
        keys were hot on all workers.
        """
        n = self.n_workers
        return hot_window_bytes_bound(n_keys, self.n_slides, n) + 8 * n + 4 * width_for(n)


@inline_kernel
def _worth(load: int) -> float:
    """Return a value that falls with the load and is above that of a worker without the key."""
    return 1.0 / (1.0 + load)


@lean_kernel
def _look_again(rows: Rows, i: int, load: NDArray[np.int64], oldest: int) -> None:
    """Bring the values of row `i` up to date: loads have fallen, or the row has just become hot."""
    row, shape = rows.row, rows.row[i, SHAPE]
    if shape <= -2:
        value, last = rows.value[-2 - shape], rows.last[-2 - shape]
        for worker in range(len(value)):
            value[worker] = _worth(load[worker]) if last[worker] >= oldest else UNSEEN
        rank_all(row, rows.value, rows.winner, i)
        return
    for cell in range(shape):
        worker = row[i, WORKER + 3 * cell]
        holds = row[i, LAST + 3 * cell] >= oldest
        row.view(np.float64)[i, VALUE + 3 * cell] = _worth(load[worker]) if holds else UNSEEN
    if shape > 0:  # the first cell must be the best: let it fall from above all others
        first = row.view(np.float64)[i, VALUE]
        row.view(np.float64)[i, BOUND] = 2.0
        set_value(row, rows.value, rows.winner, i, 0, _NOBODY, first)


@lean_kernel
def _refresh(state: DAGreedyState) -> None:
    """Bring all values up to date after a slide has left the window."""
    rows, load = state.rows, state.loads.window
    oldest = state.slide[0] - len(state.loads.slides) + 1
    for i in range(len(rows.row)):
        if rows.row[i, SHAPE] != DEAD and rows.row[i, MARK] >= 0:
            _look_again(rows, i, load, oldest)
    for worker in range(len(load)):
        state.spare[worker] = -load[worker]
    play_all(state.spare, state.least, _NOBODY)


@inline_kernel
def _least_holder(rows: Rows, load: NDArray[np.int64], i: int, oldest: int) -> int:
    """Return the least loaded worker that holds the key of row `i`, or -1."""
    row = rows.row
    while True:
        best = best_worker(row, rows.winner, i, _NOBODY)
        if best < 0:
            return -1
        shape = row[i, SHAPE]
        dense, cell = shape <= -2, best if shape <= -2 else 0
        value = value_of(row, rows.value, i, cell)
        if value <= UNSEEN:
            return -1
        last = rows.last[-2 - shape, best] if dense else row[i, LAST]
        now = _worth(load[np.uint64(best)]) if last >= oldest else UNSEEN
        if now == value:
            return int(best)
        set_value(row, rows.value, rows.winner, i, cell, _NOBODY, now)


@inline_kernel
def _choose(state: DAGreedyState, own: int, oldest: int, total: int) -> int:
    """Return the worker with the highest score for the key of row `own`; `total` is all load."""
    load = state.loads.window
    least = int(state.least[1]) if len(state.least) > 1 else 0
    if state.rows.row[own, FRAGMENTS] == 0:
        return least
    holder = _least_holder(state.rows, load, own, oldest)
    if holder < 0:
        return least
    # Its score is the higher one if (L_holder - L_least) / mean < 1, in whole numbers.
    gap = len(load) * (load[np.uint64(holder)] - load[np.uint64(least)])
    return holder if gap < total or (gap == total and holder < least) else least


@inline_kernel
def _load(state: DAGreedyState, worker: int) -> None:
    """Count a tuple at `worker`."""
    state.loads.window[np.uint64(worker)] += 1
    state.spare[np.uint64(worker)] -= 1.0
    play(state.spare, state.least, worker, _NOBODY)


@inline_kernel
def _serve(state: DAGreedyState, own: int, home: int, slide: int, oldest: int, total: int) -> int:
    """Route a tuple of a key with a row, and note who holds the key."""
    rows, row = state.rows, state.rows.row
    hot = row[own, MARK] >= 0
    worker = _choose(state, own, oldest, total) if hot else home
    _load(state, worker)
    cell = seen(row, rows.last, own, worker, slide, oldest)
    if cell < 0:
        cell = touch(rows, own, worker, slide, oldest, _NOBODY)
    if hot:
        now = _worth(state.loads.window[np.uint64(worker)])
        set_value(row, rows.value, rows.winner, own, cell, _NOBODY, now)
    return worker


@lean_kernel
def _heat(
    state: DAGreedyState,
    place: np.uint64,
    key: np.uint64,
    mixed: np.uint64,
    seed: np.uint64,
    own: int,
    home: int,
    oldest: int,
) -> int:
    """Make a heavy key hot; return its row, with values."""
    known = own >= 0 and state.rows.row[own, MARK] >= 0
    i: int = hot_keys.heat(
        state.keys, state.rows, state.cold, place, key, mixed, seed, own, home, oldest
    )
    if not known:
        _look_again(state.rows, i, state.loads.window, oldest)
    return i


@lean_kernel
def _route(
    state: DAGreedyState,
    settings: _Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    mixed: NDArray[np.uint64],
) -> int:
    """Route from tuple `first` on; return the number of the tuple that finds no room."""
    if state.slide[0] < 0:
        begin_window(state, settings.slide, settings.stats_window, times[first])
    keys_, cold, rows_ = state.keys, state.cold, state.rows
    entry, used, place_of, row = keys_.table.entry, keys_.table.used, keys_.place, rows_.row
    n, n_slides, seed = settings.n_workers, len(state.loads.slides), settings.seed
    i, room, none = first, window_has_room(state), np.uint64(len(entry))
    while i < len(keys):
        if times[i] >= min(keys_.start[0] + settings.stats_window, state.start[0] + settings.slide):
            turn_window(state, settings.slide, settings.stats_window, n, seed, times[i])
            _refresh(state)
            room = window_has_room(state)
        until = min(keys_.start[0] + settings.stats_window, state.start[0] + settings.slide)
        slide, number, heavy = state.slide[0], keys_.number[0], keys_.heavy[0]
        oldest, begin, stopped = slide - n_slides + 1, i, False
        total = state.loads.total[0] - begin
        while i < len(keys) and times[i] < until and not stopped:
            some = min(len(mixed), len(keys) - i)
            for j in range(some):
                mixed[j] = mix(keys[i + j], seed)
            for j in range(some):
                if times[i] >= until:
                    break
                key = keys[i]
                place = (
                    hot_keys.count_key(entry, used, place_of, row, number, mixed[j], key)
                    if room
                    else none
                )
                if place == none:
                    stopped = True
                    break
                home = int(spread(mixed[j], np.uint64(n)))
                own = hot_keys.row_of(entry, row, place, key)
                if entry[place, hot_keys.COUNT] >= heavy and (own < 0 or row[own, MARK] != number):
                    own = _heat(state, place, key, mixed[j], seed, own, home, oldest)
                    room = window_has_room(state)
                if own >= 0:
                    out[i] = _serve(state, own, home, slide, oldest, total + i)
                    room = room and has_room(rows_)
                else:
                    out[i] = home
                    _load(state, home)
                    if entry[place, LINK] != slide:
                        entry[place, LINK] = slide
                        cold_log.append_cold(cold.entry, cold.ends, key, slide)
                        room = room and not cold_log.log_is_full(cold)
                i += 1
        keys_.total[0] += i - begin
        state.loads.total[0] += i - begin
        if stopped:
            return i
    return i
