"""LM (hybrid load): each tuple to the candidate with the least mixture of tuples and distinct keys.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import inline_kernel, lean_kernel
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.cardinality import (
    CardinalityAware,
    CardinalityState,
    Choices,
    Scratch,
    Settings,
    has_room,
    look_up,
    send,
    turn,
)
from skewless.windows.held_keys import fetch_held, find_held, held_has_room, hold, two_candidates
from skewless.windows.table import most_entries

__all__ = ["LM"]


class LM(CardinalityAware):
    """Send a tuple to the candidate of its key whose load, in tuples and distinct keys, is least.

    Use it when tuples and distinct keys both make a worker's work in a window, and a key may be split.
    Not where fragments cost: keys are split as freely as by `PKG`.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    d : int in [1, 64]
        Candidates per key; at most `n_workers` are used.
    window : int of at least 1
        Length of the window, in the unit of ``Chunk.time``.
    slide : int of at least 1, optional
        Step of the window, at most `window`; by default the window tumbles.
    cardinality : str
        How workers' keys are remembered: ``"exact"``, or ``"hyper_log_log"`` in memory that does not
        grow with the keys; the latter needs a tumbling window.
    p : float in [0, 1]
        Weight of the tuples; that of the keys is ``1 - p``. With 1 it is `PKG` in windows, with 0 `CM`.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    The load is ``p L' + (1 - p) CL'``: L' and CL' are the tuples and the distinct keys of a worker, each
    scaled so that the least of all workers is at 0 and the most at 1 (Eq. 7 to 9), and 0 if all are
    equal.

    Guarantee: a key has at most d workers in a window, so the fragments are at most d times the keys.
    None on tuples or keys alone: a worker that has most of one may be preferred for the other.

    Cost: d hashes and one look-up a tuple. The least and the most of all workers are found anew for
    each chunk and slide, O(n), and kept up to date in between in O(1) amortised, as counts only grow.
    A slide also costs one visit for each pair of a key and its worker that came in the slide that
    leaves. State: ``16 + 8 d`` bytes for each key of the window in a table at most 5/8 full, and 8 bytes
    a worker and slide; with a `slide` also 8 bytes for each pair of each slide in a journal.
    HyperLogLog: 4,112 bytes a worker instead of the table.

    Deviations from the paper: the candidates of a key are always distinct. Windows begin at multiples
    of their length. Hybrid loads that differ by rounding only are equal, and the first candidate is
    taken. The sliding window is not in the paper: it contains the slide that has begun, and what leaves
    it is forgotten exactly. HyperLogLog estimates are rounded to whole keys.

    Examples
    --------
    >>> LM(2).route(Chunk(None, [7, 7, 7, 7, 8, 9])).tolist()
    [1, 0, 1, 0, 0, 1]

    References
    ----------
    PVLDB 10(11), sections 3.1 and 4.3, Eq. 7 to 9 and algorithm 5, doi:10.14778/3137628.3137639.
    """

    p: float

    def __init__(
        self,
        n_workers: Count,
        *,
        d: Choices = 2,
        window: Count = 60_000,
        slide: Count | None = None,
        cardinality: str = "exact",
        p: Annotated[float, Range(0, 1)] = 0.5,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers,
            d=d,
            window=window,
            slide=slide,
            cardinality=cardinality,
            p=p,
            seed=seed,
        )
        self._begin()

    def _decide(
        self,
        settings: Settings,
        chunk: Chunk,
        first: int,
        out: NDArray[np.int32],
        scratch: Scratch,
    ) -> int:
        weights = float(self.p), np.empty((2, 1), np.int64)
        route = _route_two if self._plain else _route_many
        return route(self.state, settings, chunk.time, chunk.key, first, out, scratch, *weights)


@lean_kernel
def _least(value: NDArray[np.int64], at_least: NDArray[np.int64]) -> int:
    """Return the least value of all workers, and write how many have it."""
    least = value[0]
    for worker in range(1, len(value)):
        least = min(least, value[worker])
    at_least[0] = 0
    for worker in range(len(value)):
        at_least[0] += value[worker] == least
    return int(least)


@lean_kernel
def _most(value: NDArray[np.int64]) -> int:
    """Return the greatest value of all workers."""
    most = value[0]
    for worker in range(1, len(value)):
        most = max(most, value[worker])
    return int(most)


@inline_kernel
def _weights(p: float, load_span: int, key_span: int) -> tuple[float, float]:
    """Return the factors of tuples and keys in Eq. 9, times both spans (the denominators of Eq. 7 and 8).

    A span that is 0 may count as 1: the numerator is 0 as well.
    """
    return p * max(key_span, 1), (1.0 - p) * max(load_span, 1)


@inline_kernel
def _is_less(weights: tuple[float, float], load: int, keys: int) -> bool:
    """Say whether Eq. 9 is less for a worker with `load` tuples and `keys` keys more than another.

    The minima in Eq. 7 and 8 cancel. Sums within rounding of 0 are ties.
    """
    by_load = load * weights[0]
    return by_load + keys * weights[1] < -1e-12 * abs(by_load)


@lean_kernel
def _route_two(
    state: CardinalityState,
    settings: Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    scratch: Scratch,
    p: float,
    low: NDArray[np.int64],
) -> int:
    """Algorithms 1 and 5 from tuple `first` on; return the number of the tuple that finds no room."""
    held, load, cardinality = state.held, state.loads.window, state.cardinality
    entry, mixed, most = held.entry, scratch.mixed, most_entries(len(held.entry))
    n, seed = settings.n_workers, settings.seed
    i = first
    while i < len(keys):
        turn(state, settings, times[i], scratch.choice)
        most_load, least_load = _most(load), _least(load, low[0])
        most_keys, least_keys = _most(cardinality), _least(cardinality, low[1])
        left_load, left_keys = low[0, 0], low[1, 0]  # workers that have the least
        start, slide = state.start[0], state.slide[0]
        oldest = slide - len(state.loads.slides) + 1
        floor = slide if len(held.journal) == 0 else np.int64(0)
        while i < len(keys) and times[i] - start < settings.slide:
            some = min(len(mixed), len(keys) - i)
            fetch_held(entry, seed, keys[i : i + some], mixed, scratch.latest)
            for m in range(some):
                if times[i] - start >= settings.slide:
                    break
                if not held_has_room(held, most):
                    return i
                one, two = two_candidates(keys[i], mixed[m], n, seed)
                place = find_held(entry, held.used, mixed[m], keys[i], 2, slide, floor)
                weights = _weights(p, most_load - least_load, most_keys - least_keys)
                more_keys = cardinality[two] - cardinality[one]
                # Lines 1 to 3, without a branch.
                j = np.uint64(_is_less(weights, load[two] - load[one], more_keys))
                worker = two if j else one
                new = hold(held, place, j, slide, oldest)
                left_load -= load[worker] == least_load
                left_keys -= new & (cardinality[worker] == least_keys)
                load[worker] += 1
                cardinality[worker] += new
                most_load = max(most_load, load[worker])
                most_keys = max(most_keys, cardinality[worker])
                if left_load == 0:
                    least_load = _least(load, low[0])
                    left_load = low[0, 0]
                if left_keys == 0:
                    least_keys = _least(cardinality, low[1])
                    left_keys = low[1, 0]
                out[i] = worker
                i += 1
    return i


@lean_kernel
def _route_many(
    state: CardinalityState,
    settings: Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    scratch: Scratch,
    p: float,
    low: NDArray[np.int64],
) -> int:
    """Do what `_route_two` does, with any number of candidates, or with HyperLogLog."""
    choice, mixed = scratch.choice, scratch.mixed
    load, cardinality = state.loads.window, state.cardinality
    i = first
    while i < len(keys):
        turn(state, settings, times[i], choice)
        most_load, least_load = _most(load), _least(load, low[0])
        most_keys, least_keys = _most(cardinality), _least(cardinality, low[1])
        left_load, left_keys = low[0, 0], low[1, 0]
        start = state.start[0]
        while i < len(keys) and times[i] - start < settings.slide:
            some = min(len(mixed), len(keys) - i)
            fetch_held(state.held.entry, settings.seed, keys[i : i + some], mixed, scratch.latest)
            for m in range(some):
                if times[i] - start >= settings.slide:
                    break
                if not has_room(state):
                    return i
                where = look_up(state, settings, keys[i], mixed[m], choice)
                weights = _weights(p, most_load - least_load, most_keys - least_keys)
                best = 0
                for j in range(1, choice.shape[1]):  # lines 1 to 3
                    c, b = choice[0, j], choice[0, best]
                    if _is_less(weights, load[c] - load[b], cardinality[c] - cardinality[b]):
                        best = j
                before = cardinality[choice[0, best]]
                worker = send(state, where, choice, best, False)
                now = cardinality[worker]
                left_load -= load[worker] - 1 == least_load
                left_keys -= now != before and before == least_keys
                most_load, most_keys = max(most_load, load[worker]), max(most_keys, now)
                if left_load == 0:
                    least_load = _least(load, low[0])
                    left_load = low[0, 0]
                if left_keys == 0 or now < before:  # an estimate may fall where its formula changes
                    most_keys, least_keys = _most(cardinality), _least(cardinality, low[1])
                    left_keys = low[1, 0]
                out[i] = worker
                i += 1
    return i
