"""Dalton: hash the cold keys; a contextual bandit per hot key learns where to split or move it.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import inline_kernel, lean_kernel, next_random, spread, unit_interval
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows import hot_keys, rows
from skewless.windows.fragments import expire_slide, holder, seen, touch
from skewless.windows.hot_keys import LINK, HotKeys
from skewless.windows.loads import SlidingLoads, evict_load, no_loads
from skewless.windows.rows import FRAGMENTS, MARK, Rows, has_room, no_rows
from skewless.windows.values import best_worker, set_value, value_of

__all__ = ["Dalton"]

#: Tuples whose entries are fetched together, so that their cache misses overlap; a power of two.
_AHEAD = 64


class DaltonState(NamedTuple):
    """Statistics of the keys, Q-table with fragmentation vector, load vector, clock, generator."""

    keys: HotKeys
    """Frequencies of all keys, and which are hot (Definition 3.3)."""
    rows: Rows
    """Per hot key: Q per worker, and the workers that hold it (Definition 3.2)."""
    loads: SlidingLoads
    """Tuples per worker in the window (Definition 3.1)."""
    slide: NDArray[np.int64]
    """int64, (2,): slide, counted from the first tuple's (-1 before it), and its block of `loads`."""
    start: NDArray[np.int64]
    """int64, (1,): when the slide began, in the unit of time."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""
    words: NDArray[np.uint64]
    """uint64, (1,): random generator."""


class _Settings(NamedTuple):
    n_workers: int
    slide: int
    stats_window: int
    epsilon: float
    gamma: float
    p1: float
    max_split: int
    seed: np.uint64


class Dalton(Partitioner):
    """Hash cold keys; send a hot key where its learned reward is highest, and explore a little.

    Use it when the hot keys change and nobody knows them beforehand, and each fragment of a key has
    its price. Not when the distribution is uniform: then it is plain hashing at a higher cost.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    window : int of at least 1
        Length of the window that load and fragments are balanced in, in the unit of ``Chunk.time``.
    slide : int of at least 1
        Step of the window, at most `window`.
    stats_window : int of at least 1, optional
        Length of the tumbling window in which hot keys are found; a slide by default.
    epsilon : float in [0, 1]
        Part of the tuples of hot keys that go to a random worker, to explore.
    gamma : float in (0, 1]
        Step size of learning (Eq. 5): how fast old rewards are forgotten.
    p1 : float in [0, 1]
        Weight of the load imbalance in the reward; the fragmentation has ``1 - p1``.
    max_split : int of at least 1, optional
        Once a key has this many fragments in the window, exploration stays among them.
    seed : int in [0, 9223372036854775807]
        Which hash function, and which random choices.

    Notes
    -----
    Guarantee: a key that never has 1/n of the load of a statistics window has one worker, that of
    `Hash`; at most n keys become hot in a window that is no longer than the one before (Theorem
    3.4). None on the balance: the reward trades it against fragments.

    Cost: a cold tuple one look-up; a hot one also a reward and, when another worker becomes the best,
    the O(log n) contests of a tournament; a slide n subtractions and one visit per expired fragment.
    Where n comes near the tuples of a statistics window, every key is hot and costs a row of its own:
    give `stats_window` some 20 tuples a worker. State: 32 bytes for each key of the window in a table
    at most 5/8 full, 256 for each key that was hot in it, 16 for each of their fragments, about 20 a
    worker for a hot key tried on more than 9 workers, 8 a worker and slide.

    Deviations from the paper: nothing is hot in the first statistics window or after an empty one
    (the threshold is unknown). Frequencies are exact. `max_split` is not in the paper. Of equal
    values the key's hash home wins, then the lowest worker. The window moves on by whole slides and
    contains the slide that has begun.

    Examples
    --------
    >>> partitioner = Dalton(4, window=600, slide=10)
    >>> loads = np.bincount(partitioner.route(Chunk(None, [7] * 1000)), minlength=4)
    >>> int(loads.min()), int(loads.max())
    (188, 386)

    References
    ----------
    PVLDB 16(3), sections 3.1 to 3.3, doi:10.14778/3570690.3570699.
    """

    splits_keys = True
    moves_keys = True
    window: int
    slide: int
    stats_window: int | None
    epsilon: float
    gamma: float
    p1: float
    max_split: int | None
    state: DaltonState

    def __init__(
        self,
        n_workers: Count,
        *,
        window: Count = 60_000,
        slide: Count = 1_000,
        stats_window: Count | None = None,
        epsilon: Annotated[float, Range(0, 1)] = 0.1,
        gamma: Annotated[float, Range(0, 1, low_open=True)] = 0.1,
        p1: Annotated[float, Range(0, 1)] = 0.5,
        max_split: Count | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers,
            window=window,
            slide=slide,
            stats_window=stats_window,
            epsilon=epsilon,
            gamma=gamma,
            p1=p1,
            max_split=max_split,
            seed=seed,
        )
        if slide > window:
            raise ParameterError(
                f"Dalton: slide must be at most the window of {window}, got {slide}; tuples between "
                f"two windows would belong to none."
            )
        fresh = no_rows(self.n_slides, n_workers)
        self.state = DaltonState(
            keys=hot_keys.no_hot_keys(len(fresh.row)),
            rows=fresh,
            loads=no_loads(self.n_slides, n_workers),
            slide=np.array([-1, 0], np.int64),
            start=np.zeros(1, np.int64),
            last=np.zeros(1, np.int64),
            words=np.array([seed], np.uint64),
        )

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
                f"Dalton: time must not decrease from chunk to chunk, got {chunk.time[0]} after "
                f"{self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        settings = _Settings(
            self.n_workers,
            self.slide,
            self.stats_window or self.slide,
            float(self.epsilon),
            float(self.gamma),
            float(self.p1),
            self.max_split or self.n_workers + 1,
            np.uint64(self.seed),
        )
        ahead = np.empty(_AHEAD, np.uint64), np.empty(_AHEAD, np.int64)
        done = _route(self.state, settings, chunk.time, chunk.key, 0, out, *ahead)
        while done < len(chunk):
            self.state = _with_room(self.state, settings.seed)
            done = _route(self.state, settings, chunk.time, chunk.key, done, out, *ahead)
        self.state.last[0] = chunk.time[-1]
        return out

    @property
    def state_bytes(self) -> int:
        """Bytes that the state holds now."""
        return _bytes(self.state)

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two of `stats_window` in a row. The bound holds even if all
        keys were hot on all workers; section 3.2 expects about n hot keys a statistics window.
        """
        loads = 8 * (self.n_slides + 1) * self.n_workers + 8
        learned = rows.rows_bytes_bound(n_keys, self.n_slides, self.n_workers)
        return hot_keys.hot_keys_bytes_bound(n_keys) + learned + loads + 40

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Learn from the sample; judge by a second pass that does not explore."""
        if self.state.slide[0] >= 0:
            self._clock = max(self._clock, int(self.state.last[0]) + 1)
        sample = self._next(keys)
        self.route(sample)
        judge = copy.deepcopy(self)
        judge.epsilon = 0.0
        return judge.route(Chunk(sample.time + len(sample), keys))


def _bytes(part: tuple[Any, ...]) -> int:
    return sum(_bytes(each) if isinstance(each, tuple) else each.nbytes for each in part)


def _with_room(state: DaltonState, seed: np.uint64) -> DaltonState:
    """Return the same state with room for more keys and fragments."""
    larger = rows.with_room(state.rows)
    oldest = int(state.slide[0]) - len(state.loads.slides) + 1
    keys = hot_keys.with_room_for_keys(state.keys, larger, oldest, seed)
    return state._replace(keys=keys, rows=larger)


@lean_kernel
def _begin(state: DaltonState, settings: _Settings, now: int) -> None:
    state.slide[0] = 0
    state.start[0] = now // settings.slide * settings.slide
    state.keys.start[0] = now // settings.stats_window * settings.stats_window


@lean_kernel
def _turn_slide(state: DaltonState, length: int, now: int) -> None:
    """Begin the slide that `now` lies in; the slides that leave the window expire."""
    gap = (now - state.start[0]) // length
    before, n_slides = state.slide[0], len(state.loads.slides)
    state.start[0] += gap * length
    state.slide[0] += gap
    for step in range(1, min(gap, n_slides) + 1):
        slot = (before + step) % n_slides
        evict_load(state.loads, slot)
        expire_slide(state.rows, slot, state.slide[0] - n_slides + 1)
    state.slide[1] = state.slide[0] % n_slides


@inline_kernel
def _choose(state: DaltonState, settings: _Settings, own: int, home: int, oldest: int) -> int:
    """Line 4, and the exploration of section 3.2."""
    if unit_interval(next_random(state.words)) >= settings.epsilon:
        best: int = best_worker(state.rows.row, state.rows.winner, own, home)
        return best
    bits, held = next_random(state.words), state.rows.row[own, FRAGMENTS]
    if held < settings.max_split:
        return int(spread(bits, np.uint64(settings.n_workers)))
    return holder(state.rows, own, int(spread(bits, np.uint64(held))), oldest)


@lean_kernel
def _route(
    state: DaltonState,
    settings: _Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
) -> int:
    """Algorithm 1 from tuple `first` on; return the number of the tuple that finds no room."""
    keys_, rows_, loads, entry = state.keys, state.rows, state.loads, state.keys.table.entry
    row, value, last, winner = rows_.row, rows_.value, rows_.last, rows_.winner
    n, n_slides, room = settings.n_workers, len(loads.slides), has_room(rows_)
    if state.slide[0] < 0:
        _begin(state, settings, times[first])
    oldest = state.slide[0] - n_slides + 1
    for i in range(first, len(keys)):
        ahead = (i - first) & (len(mixed) - 1)
        if ahead == 0:
            hot_keys.fetch(entry, row, settings.seed, keys[i : i + len(mixed)], mixed, link)
        if times[i] - keys_.start[0] >= settings.stats_window:
            hot_keys.turn_statistics(keys_, rows_, settings.stats_window, times[i], oldest)
        if times[i] - state.start[0] >= settings.slide:
            _turn_slide(state, settings.slide, times[i])
            oldest = state.slide[0] - n_slides + 1
        # Lines 1 to 3.
        home = int(spread(mixed[ahead], np.uint64(n)))
        place = hot_keys.count_key(keys_, mixed[ahead], keys[i]) if room else -1
        if place < 0:
            return i
        own = hot_keys.row_of(entry, row, place, keys[i])
        if hot_keys.is_heavy(keys_, place, n):
            own = hot_keys.heat(keys_, rows_, place, keys[i], own, home, oldest)
            room = has_room(rows_)
        hot = own >= 0 and row[own, MARK] >= 0
        worker = _choose(state, settings, own, home, oldest) if hot else home  # lines 4 and 8
        out[i] = worker
        loads.slides[state.slide[1], worker] += 1  # line 9
        loads.window[worker] += 1
        loads.total[0] += 1
        if own < 0:
            entry[place, LINK] = state.slide[0]
            continue
        cell = seen(row, last, own, worker, state.slide[0], oldest)
        if cell < 0:
            cell = touch(rows_, own, worker, state.slide[0], oldest, home)
            room = has_room(rows_)
        if hot:
            # Lines 5 and 6: Eq. 3, 4 and 5.
            load, mean = float(loads.window[worker]), loads.total[0] / n
            imbalance = (load - mean) / max(load, mean)
            aggregation = row[own, FRAGMENTS] / n
            reward = -(settings.p1 * imbalance + (1.0 - settings.p1) * aggregation)
            q = value_of(row, value, own, cell)
            set_value(row, value, winner, own, cell, home, q + settings.gamma * (reward - q))
    return len(keys)
