"""Dalton: hash the cold keys; a contextual bandit per hot key learns where to split or move it.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022.
"""

from __future__ import annotations

import copy
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import inline_kernel, lean_kernel, mix, next_random, spread, unit_interval
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows import cold_log, hot_exchange, hot_keys
from skewless.windows.cold_log import ColdLog
from skewless.windows.fragments import holder, seen, touch
from skewless.windows.hot_keys import LINK, HotKeys
from skewless.windows.hot_rewards import (
    buffer_reward,
    rewards_have_room,
    with_room_for_rewards,
)
from skewless.windows.hot_window import (
    begin_window,
    hot_window_bytes_bound,
    no_hot_window,
    turn_window,
    window_has_room,
    with_room,
)
from skewless.windows.loads import SlidingLoads
from skewless.windows.rows import FRAGMENTS, MARK, Rows, has_room
from skewless.windows.table import Table
from skewless.windows.values import best_worker, set_value, value_of

__all__ = ["Dalton"]

#: Tuples whose entries are fetched together, so that their cache misses overlap; a power of two.
_AHEAD = 64


class DaltonState(NamedTuple):
    """Statistics of the keys, Q-table with fragmentation vector, load vector, clock, generator."""

    keys: HotKeys
    """Frequencies of all keys, and which are hot (Definition 3.3)."""
    cold: ColdLog
    """Fragments of the keys that have no row, in case that they become hot."""
    rows: Rows
    """Per hot key: Q per worker, and the workers that hold it (Definition 3.2)."""
    loads: SlidingLoads
    """Tuples per worker in the window (Definition 3.1)."""
    slide: NDArray[np.int64]
    """int64, (1,): slide, counted from the first tuple's; -1 before it."""
    start: NDArray[np.int64]
    """int64, (1,): when the slide began, in the unit of time."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""
    words: NDArray[np.uint64]
    """uint64, (1,): random generator."""


class DaltonSettings(NamedTuple):
    """Parameters as the kernels read them."""

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
        Length of the tumbling window in which hot keys are found; by default a slide, but at least
        ``8 * n_workers``.
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
    Where n comes near the tuples of a statistics window, every key is hot and costs a row of its own.
    State: 32 bytes for each key of a statistics window in a table at most 5/8 full, 16 to 256 for
    each cold key of the window in a log (up to 384 when a statistics window of at most n tuples made
    an index necessary), 336 for each key that was hot in it, 16 for each of their fragments, about 20
    a worker for a hot key tried on more than 9 workers, 8 a worker and slide.

    Deviations from the paper: nothing is hot in the first statistics window or after an empty one
    (the threshold is unknown). A statistics window is a slide in the paper; below some 8 tuples a
    worker nearly every key that occurs would be hot, hence the default. Frequencies are exact.
    `max_split` is not in the paper. Of equal values the key's hash home wins, then the lowest
    worker. The window moves on by whole slides and contains the slide that has begun.

    Examples
    --------
    >>> partitioner = Dalton(4, window=600, slide=10)
    >>> loads = np.bincount(partitioner.route(Chunk(None, [7] * 1000)), minlength=4)
    >>> int(loads.min()), int(loads.max())
    (188, 388)

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
        window_ = no_hot_window(self.n_slides, n_workers)
        self.state = DaltonState(*window_, words=np.array([seed], np.uint64))

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
        settings = DaltonSettings(
            self.n_workers,
            self.slide,
            self.stats_window or max(self.slide, 8 * self.n_workers),
            float(self.epsilon),
            float(self.gamma),
            float(self.p1),
            self.max_split or self.n_workers + 1,
            np.uint64(self.seed),
        )
        self.state, _ = advance(self.state, settings, chunk.time, chunk.key, out)
        self.state.last[0] = chunk.time[-1]
        return out

    def forwards(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Say of each key whether its partial result for this window may skip the final aggregation.

        Asked when a slide ends (section 4.2): true for a key that is not hot and has not more than one
        worker in the window, so that the partial result is the result.
        """
        found = Chunk(None, keys).key
        out = np.ones(len(found), np.bool_)
        hot_exchange.forwards(self.state, found, np.uint64(self.seed), False, out)
        return out

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two of `stats_window` in a row. The bound holds even if all
        keys were hot on all workers; section 3.2 expects about n hot keys a statistics window.
        """
        return hot_window_bytes_bound(n_keys, self.n_slides, self.n_workers) + 8

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Learn from the sample; judge by a second pass that does not explore."""
        if self.state.slide[0] >= 0:
            self._clock = max(self._clock, int(self.state.last[0]) + 1)
        sample = self._next(keys)
        self.route(sample)
        judge = copy.deepcopy(self)
        judge.epsilon = 0.0
        return judge.route(Chunk(sample.time + len(sample), keys))


def advance(
    state: DaltonState,
    settings: DaltonSettings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
    rewards: Table | None = None,
) -> tuple[DaltonState, Table | None]:
    """Route tuples, with a larger state where one is needed; return it.

    With a buffer, rewards are put there and change no value.
    """
    ahead = np.empty(_AHEAD, np.uint64), np.empty(_AHEAD, np.int64)
    done = _route(state, settings, times, keys, 0, out, *ahead, rewards)
    while done < len(keys):
        hot, cold, larger = with_room(state, settings.seed)
        state = state._replace(keys=hot, cold=cold, rows=larger)
        if rewards is not None and not rewards_have_room(rewards):
            rewards = with_room_for_rewards(rewards, settings.seed)
        done = _route(state, settings, times, keys, done, out, *ahead, rewards)
    return state, rewards


@inline_kernel
def _choose(state: DaltonState, settings: DaltonSettings, own: int, home: int, oldest: int) -> int:
    """Line 4, and the exploration of section 3.2."""
    if unit_interval(next_random(state.words)) >= settings.epsilon:
        best: int = best_worker(state.rows.row, state.rows.winner, own, home)
        return best
    bits, held = next_random(state.words), state.rows.row[own, FRAGMENTS]
    if held < settings.max_split:
        return int(spread(bits, np.uint64(settings.n_workers)))
    return holder(state.rows, own, int(spread(bits, np.uint64(held))), oldest)


@inline_kernel
def _serve(
    state: DaltonState,
    settings: DaltonSettings,
    own: int,
    home: int,
    slide: int,
    oldest: int,
    mean: float,
    key: np.uint64,
    mixed: np.uint64,
    rewards: Table | None,
) -> int:
    """Lines 4 to 9 for a key with a row; `mean` is the load of a worker with this tuple."""
    rows_, load = state.rows, state.loads.window
    row, hot = rows_.row, rows_.row[own, MARK] >= 0
    worker = _choose(state, settings, own, home, oldest) if hot else home
    load[np.uint64(worker)] += 1  # line 9
    cell = seen(row, rows_.last, own, worker, slide, oldest)
    if cell < 0:
        cell = touch(rows_, own, worker, slide, oldest, home)
    if hot:
        # Lines 5 and 6: Eq. 3, 4 and 5.
        loaded = float(load[np.uint64(worker)])
        imbalance = (loaded - mean) / max(loaded, mean)
        aggregation = row[own, FRAGMENTS] / settings.n_workers
        reward = -(settings.p1 * imbalance + (1.0 - settings.p1) * aggregation)
        if rewards is None:
            q = value_of(row, rows_.value, own, cell)
            q += settings.gamma * (reward - q)
            set_value(row, rows_.value, rows_.winner, own, cell, home, q)
        else:
            buffer_reward(rewards, mixed, key, worker, settings.gamma, reward)
    return worker


@inline_kernel
def _has_row_room(rows: Rows, rewards: Table | None) -> bool:
    if rewards is None:
        return has_room(rows)
    return has_room(rows) and rewards_have_room(rewards)


@inline_kernel
def _has_room(state: DaltonState, rewards: Table | None) -> bool:
    return window_has_room(state) and _has_row_room(state.rows, rewards)


@lean_kernel
def _route(
    state: DaltonState,
    settings: DaltonSettings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
    rewards: Table | None,
) -> int:
    """Algorithm 1 from tuple `first` on; return the number of the tuple that finds no room.

    Totals are counted by the number of the tuple, and the clock is asked for the next event only.
    """
    if state.slide[0] < 0:
        begin_window(state, settings.slide, settings.stats_window, times[first])
    keys_, cold, rows_, load = state.keys, state.cold, state.rows, state.loads.window
    entry, used, place_of = keys_.table.entry, keys_.table.used, keys_.place
    row = rows_.row
    n, n_slides, seed = settings.n_workers, len(state.loads.slides), settings.seed
    i, room, none = first, _has_room(state, rewards), np.uint64(len(entry))
    while i < len(keys):
        # Until the next slide or statistics window begins.
        if times[i] >= min(keys_.start[0] + settings.stats_window, state.start[0] + settings.slide):
            turn_window(state, settings.slide, settings.stats_window, n, seed, times[i])
            room = _has_room(state, rewards)
        until = min(keys_.start[0] + settings.stats_window, state.start[0] + settings.slide)
        slide, number, heavy = state.slide[0], keys_.number[0], keys_.heavy[0]
        oldest, begin, stopped = slide - n_slides + 1, i, False
        total = state.loads.total[0] - begin + 1
        while i < len(keys) and times[i] < until and not stopped:
            some = min(len(mixed), len(keys) - i)
            for j in range(some):
                mixed[j] = mix(keys[i + j], seed)
            if heavy == 1:  # every key has a row, so the rows may fill more than the cache
                hot_keys.fetch_rows(place_of, row, mixed[:some], link[:some])
            for j in range(some):
                if times[i] >= until:
                    break
                key = keys[i]
                # Lines 1 to 3.
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
                    own = hot_keys.heat(
                        keys_, rows_, cold, place, key, mixed[j], seed, own, home, oldest
                    )
                    room = _has_room(state, rewards)
                if own >= 0:
                    mean = (total + i) / n
                    out[i] = _serve(
                        state, settings, own, home, slide, oldest, mean, key, mixed[j], rewards
                    )
                    room = room and _has_row_room(rows_, rewards)
                else:
                    out[i] = home  # line 8
                    load[np.uint64(home)] += 1
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
