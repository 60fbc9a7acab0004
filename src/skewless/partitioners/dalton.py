"""Dalton: hash the cold keys; a contextual bandit per hot key learns where to split or move it.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022.
"""

from __future__ import annotations

import copy
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import kernel, lean_kernel, mix, next_random, spread, unit_interval
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows.fragments import expire_slide, forget_values, holder, seen, touch
from skewless.windows.loads import SlidingLoads, evict_load, no_loads
from skewless.windows.rows import FRAGMENTS, MARK, Rows, has_room, is_row_of, new_row, no_rows
from skewless.windows.rows import rows_bytes_bound, with_room
from skewless.windows.table import EMPTY, Table, capacity_for, empty_table, find, most_entries
from skewless.windows.table import refill, table_bytes_bound
from skewless.windows.values import best_worker, set_value, value_of

__all__ = ["Dalton"]

# Words of a table entry beside the key. The link is the last slide in which a key without a row went
# to its home, or -1, or -2 - (its row).
_WINDOW, _COUNT, _LINK = 1, 2, 3
# Tuples whose entries are fetched together, so that their cache misses overlap.
_AHEAD = 64


class DaltonState(NamedTuple):
    """Statistics of the keys, Q-table with fragmentation vector, load vector, clocks, generator."""

    table: Table
    """Per key: statistics window of the count, count in it, link to the row (Definition 3.3)."""
    rows: Rows
    """Per hot key: Q per worker and the workers that hold it; mark = last window it was hot in."""
    loads: SlidingLoads
    """Tuples per worker in the window (Definition 3.1)."""
    hot: NDArray[np.int64]
    """int64, (2, rows): rows that became hot in the even and in the odd statistics windows."""
    n_hot: NDArray[np.int64]
    """int64, (2,): how many rows each list of `hot` holds."""
    total: NDArray[np.int64]
    """int64, (2,): tuples of the statistics window so far, and of the one before."""
    number: NDArray[np.int64]
    """int64, (2,): statistics window and slide, counted from the first tuple's; -1 before it."""
    start: NDArray[np.int64]
    """int64, (2,): when this statistics window and this slide began, in the unit of time."""
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
    Guarantee: a key that never had ``1/n`` of the tuples of a statistics window has one worker, that
    of `Hash`; at most n keys become hot in a window that is no longer than the one before (Theorem
    3.4). None on the balance: the reward trades it against fragments.

    Cost: a cold tuple one look-up; a hot one also a reward and, when another worker becomes the best,
    the O(log n) contests of a tournament; a slide n subtractions and one visit per expired fragment.
    State: 32 bytes for each key of a window in a table at most 5/8 full, 256 for each key that was
    hot in it, 16 for each of their fragments, about 20 a worker for a hot key tried on more than 8
    workers, 8 a worker and slide.

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
            n_workers=n_workers, window=window, slide=slide, stats_window=stats_window,
            epsilon=epsilon, gamma=gamma, p1=p1, max_split=max_split, seed=seed,
        )
        if slide > window:
            raise ParameterError(
                f"Dalton: slide must be at most the window of {window}, got {slide}; tuples between "
                f"two windows would belong to none."
            )
        rows = no_rows(self.n_slides, n_workers)
        self.state = DaltonState(
            table=empty_table(),
            rows=rows,
            loads=no_loads(self.n_slides, n_workers),
            hot=np.zeros((2, len(rows.row)), np.int64),
            n_hot=np.zeros(2, np.int64),
            total=np.zeros(2, np.int64),
            number=np.full(2, -1, np.int64),
            start=np.zeros(2, np.int64),
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
        if self.state.number[1] >= 0 and chunk.time[0] < self.state.last[0]:
            raise DataError(
                f"Dalton: time must not decrease from chunk to chunk, got {chunk.time[0]} after "
                f"{self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        settings = _Settings(
            self.n_workers, self.slide, self.stats_window or self.slide, float(self.epsilon),
            float(self.gamma), float(self.p1), self.max_split or self.n_workers + 1,
            np.uint64(self.seed),
        )
        ahead = np.empty(_AHEAD, np.uint64), np.empty(_AHEAD, np.int64)
        done = _route(self.state, settings, chunk.time, chunk.key, 0, out, *ahead)
        while done < len(chunk):
            self.state = _with_room(self.state, settings)
            done = _route(self.state, settings, chunk.time, chunk.key, done, out, *ahead)
        self.state.last[0] = chunk.time[-1]
        return out

    @property
    def state_bytes(self) -> int:
        """Bytes that the state holds now."""
        return sum(
            sum(array.nbytes for array in part) if isinstance(part, tuple) else part.nbytes
            for part in self.state
        )

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two of `stats_window` in a row. The bound holds even if all
        keys were hot on all workers; section 3.2 expects about n hot keys a statistics window.
        """
        loads = 8 * (self.n_slides + 1) * self.n_workers + 8
        rows = rows_bytes_bound(n_keys, self.n_slides, self.n_workers)
        hot = 16 * max(16, 2 * n_keys)
        return table_bytes_bound(n_keys) + rows + loads + hot + 80

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Learn from the sample; judge by a second pass that does not explore."""
        if self.state.number[1] >= 0:
            self._clock = max(self._clock, int(self.state.last[0]) + 1)
        self.route(self._next(keys))
        judge = copy.deepcopy(self)
        judge.epsilon = 0.0
        return judge.route(judge._next(keys))


def _with_room(state: DaltonState, settings: _Settings) -> DaltonState:
    """Return the same state with larger pools, or a table without stale entries."""
    rows = with_room(state.rows)
    table = state.table
    if table.used[0] >= most_entries(len(table.entry)):
        live = _live(state)
        kept = empty_table(capacity_for(int(live.sum()), len(table.entry)))
        refill(kept, table.entry[live], settings.seed)
        table = kept
    hot = np.zeros((2, len(rows.row)), np.int64)
    hot[:, : state.hot.shape[1]] = state.hot
    return state._replace(table=table, rows=rows, hot=hot)


@kernel
def _live(state: DaltonState) -> NDArray[np.bool_]:
    """Mark the entries that count in this statistics window, or whose key is in the window."""
    entry = state.table.entry
    oldest = state.number[1] - len(state.loads.slides) + 1
    live = np.zeros(len(entry), np.bool_)
    for place in range(len(entry)):
        link = entry[place, _LINK]
        if entry[place, _WINDOW] == EMPTY:
            continue
        if entry[place, _WINDOW] == state.number[0]:
            live[place] = True
        elif link <= -2:
            live[place] = is_row_of(state.rows.row, -2 - link, np.uint64(entry[place, 0]))
        else:
            live[place] = link >= max(oldest, 0)
    return live


@lean_kernel
def _turn_statistics(state: DaltonState, length: int, now: int) -> None:
    """Begin the statistics window that `now` lies in; expire the rows of section 3.3."""
    gap = (now - state.start[0]) // length
    state.start[0] += gap * length
    state.number[0] += gap
    state.total[1] = state.total[0] if gap == 1 else 0
    state.total[0] = 0
    oldest = state.number[1] - len(state.loads.slides) + 1
    for parity in range(2):
        if gap == 1 and parity != state.number[0] & 1:
            continue  # hot in the window that has just closed: still hot in this one
        for i in range(state.n_hot[parity]):
            row = state.hot[parity, i]
            if 0 <= state.rows.row[row, MARK] < state.number[0] - 1:
                forget_values(state.rows, row, oldest)
        state.n_hot[parity] = 0


@lean_kernel
def _turn_slide(state: DaltonState, length: int, now: int) -> None:
    """Begin the slide that `now` lies in; the slides that leave the window expire."""
    gap = (now - state.start[1]) // length
    state.start[1] += gap * length
    before = state.number[1]
    state.number[1] += gap
    n_slides = len(state.loads.slides)
    oldest = state.number[1] - n_slides + 1
    for step in range(1, min(gap, n_slides) + 1):
        slot = (before + step) % n_slides
        evict_load(state.loads, slot)
        expire_slide(state.rows, slot, oldest)


@lean_kernel
def _begin(state: DaltonState, settings: _Settings, now: int) -> None:
    state.number[:] = 0
    state.start[0] = now // settings.stats_window * settings.stats_window
    state.start[1] = now // settings.slide * settings.slide


@lean_kernel
def _fetch(
    entry: NDArray[np.int64],
    row: NDArray[np.int64],
    seed: np.uint64,
    keys: NDArray[np.uint64],
    mixed: NDArray[np.uint64],
    link: NDArray[np.int64],
) -> None:
    """Mix some keys, and read their entries and rows so that the cache holds them."""
    mask = np.uint64(len(entry) - 1)
    for i in range(len(keys)):
        mixed[i] = mix(keys[i], seed)
    for i in range(len(keys)):  # a short loop, so that many reads are under way at a time
        link[i] = entry[mixed[i] & mask, _LINK]
    for i in range(len(keys)):
        if -len(row) <= link[i] + 1 < 0:
            link[i] = row[-2 - link[i], MARK]


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
    """Route the tuples from `first` on; return the number of the tuple that finds no room."""
    rows, loads, entry, used = state.rows, state.loads, state.table.entry, state.table.used
    row, value, last, winner = rows.row, rows.value, rows.last, rows.winner
    n, n_slides = settings.n_workers, len(loads.slides)
    most, room = most_entries(len(entry)), has_room(rows)
    if state.number[1] < 0:
        _begin(state, settings, times[first])
    slot = state.number[1] % n_slides
    for i in range(first, len(keys)):
        ahead = (i - first) & (len(mixed) - 1)
        if ahead == 0:
            _fetch(entry, row, settings.seed, keys[i : i + len(mixed)], mixed, link)
        if times[i] - state.start[0] >= settings.stats_window:
            _turn_statistics(state, settings.stats_window, times[i])
        if times[i] - state.start[1] >= settings.slide:
            _turn_slide(state, settings.slide, times[i])
            slot = state.number[1] % n_slides
        window, slide = state.number[0], state.number[1]
        oldest = slide - n_slides + 1
        home = spread(mixed[ahead], np.uint64(n))
        place = find(entry, mixed[ahead], keys[i])
        if entry[place, _WINDOW] == EMPTY:
            if used[0] >= most:
                return i
            used[0] += 1
            entry[place, 0] = np.int64(keys[i])
            entry[place, _WINDOW] = window
            entry[place, _COUNT] = 0
            entry[place, _LINK] = -1
        if not room:
            return i

        # Algorithm 1, lines 1 to 3: frequency, heavy hitter test, expiry.
        if entry[place, _WINDOW] != window:
            entry[place, _WINDOW] = window
            entry[place, _COUNT] = 0
        entry[place, _COUNT] += 1
        state.total[0] += 1
        known = entry[place, _LINK]
        own = -2 - known if known <= -2 else -1  # the key's row
        if own >= 0 and not is_row_of(row, own, keys[i]):
            own = -1
        if state.total[1] > 0 and entry[place, _COUNT] * n >= state.total[1]:
            if own < 0:
                own = new_row(row, rows.free, keys[i])
                entry[place, _LINK] = -2 - own
                if known >= max(oldest, 0):  # a cold tuple of this window is at the home
                    touch(rows, own, home, known, oldest, home)
                room = has_room(rows)
            if row[own, MARK] != window:
                row[own, MARK] = window
                state.hot[window & 1, state.n_hot[window & 1]] = own
                state.n_hot[window & 1] += 1

        hot = own >= 0 and row[own, MARK] >= 0
        worker = home  # line 8
        if hot and unit_interval(next_random(state.words)) >= settings.epsilon:
            worker = best_worker(row, winner, own, home)  # line 4
        elif hot:
            bits, held = next_random(state.words), row[own, FRAGMENTS]
            if held < settings.max_split:
                worker = spread(bits, np.uint64(n))
            else:
                worker = holder(rows, own, spread(bits, np.uint64(held)), oldest)

        # Line 9: the load vector and the fragmentation vector.
        loads.slides[slot, worker] += 1
        loads.window[worker] += 1
        loads.total[0] += 1
        out[i] = worker
        if own < 0:
            entry[place, _LINK] = slide
            continue
        cell = seen(row, last, own, worker, slide, oldest)
        if cell < 0:
            cell = touch(rows, own, worker, slide, oldest, home)
            room = has_room(rows)
        if hot:
            # Lines 5 and 6: Eq. 3, 4 and 5.
            load, mean = float(loads.window[worker]), loads.total[0] / n
            imbalance = (load - mean) / max(load, mean)
            aggregation = row[own, FRAGMENTS] / n
            reward = -(settings.p1 * imbalance + (1.0 - settings.p1) * aggregation)
            q = value_of(row, value, own, cell)
            set_value(row, value, winner, own, cell, home, q + settings.gamma * (reward - q))
    return len(keys)
