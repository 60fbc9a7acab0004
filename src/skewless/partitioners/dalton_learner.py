"""What a Dalton partitioner remembers, and what it does with a tuple: the kernels of `Dalton`.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, sections 3.1 to 3.3, Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix, next_random, spread, unit_interval
from skewless.windows import cold_log, hot_keys
from skewless.windows.cold_log import ColdLog
from skewless.windows.fragments import holder, seen, touch
from skewless.windows.hot_keys import LINK, HotKeys
from skewless.windows.hot_rewards import (
    buffer_reward,
    rewards_have_room,
    with_room_for_rewards,
)
from skewless.windows.hot_window import begin_window, turn_window, window_has_room, with_room
from skewless.windows.loads import SlidingLoads
from skewless.windows.rows import FRAGMENTS, MARK, Rows, has_room
from skewless.windows.table import Table
from skewless.windows.values import best_worker, set_value, value_of

__all__ = [
    "AHEAD",
    "DaltonSettings",
    "DaltonState",
    "advance",
    "default_stats_window",
    "route_exactly",
    "serve",
]

#: Tuples whose entries are fetched together, so that their cache misses overlap; a power of two.
AHEAD = 64


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


def default_stats_window(n_workers: int, window: int, slide: int) -> int:
    """Return the length of the statistics window where none is given.

    A slide, as in the paper, but long enough to count: below some 8 tuples a worker chance alone makes a
    key hot, and keys near the threshold come and go; 4,096 tuples still fit the cache.

    Examples
    --------
    >>> default_stats_window(64, 60_000, 1_000), default_stats_window(4, 600, 10)
    (4096, 600)
    """
    return max(slide, 8 * n_workers, min(window, 4_096))


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
    ahead = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int64)
    done = route_exactly(state, settings, times, keys, 0, out, *ahead, rewards)
    while done < len(keys):
        hot, cold, larger = with_room(state, settings.seed)
        state = state._replace(keys=hot, cold=cold, rows=larger)
        if rewards is not None and not rewards_have_room(rewards):
            rewards = with_room_for_rewards(rewards, settings.seed)
        done = route_exactly(state, settings, times, keys, done, out, *ahead, rewards)
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
def serve(
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
def route_exactly(
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
                    out[i] = serve(
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
