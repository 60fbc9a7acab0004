"""CM (cardinality imbalance minimisation): each tuple to the candidate with fewer distinct keys.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.kernel import lean_kernel
from skewless.parameters import Count, Seed
from skewless.partitioners.cardinality import (
    CardinalityAware,
    CardinalityState,
    Choices,
    Scratch,
    Settings,
    has_room,
    least_of,
    look_up,
    send,
    turn,
)
from skewless.windows.held_keys import fetch_held, find_held, held_has_room, hold, two_candidates
from skewless.windows.table import most_entries

__all__ = ["CM"]


class CM(CardinalityAware):
    """Send a tuple to the candidate of its key that has the fewest distinct keys in this window.

    Use it when a worker's work in a window is its distinct keys, and a key may be split. Not for the
    balance of tuples, which it does not see: `PKG` evens those out, `LM` weighs both.

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
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: a key has at most d workers in a window, so the fragments are at most d times the keys.
    None on the tuples: a key stays with the candidate that has fewer keys until that one has more.

    Cost: d hashes and one look-up a tuple; flat in the number of workers. A slide costs O(n) and one
    visit for each pair of a key and its worker that came in the slide that leaves. State: ``16 + 8 d``
    bytes for each key of the window in a table at most 5/8 full, and 8 bytes a worker and slide; with a
    `slide` also 8 bytes for each pair of each slide in a journal. HyperLogLog: 4,112 bytes a worker
    instead of the table.

    Deviations from the paper: the candidates of a key are always distinct. Windows begin at multiples
    of their length. The sliding window is not in the paper: it contains the slide that has begun, and
    what leaves it is forgotten exactly. HyperLogLog estimates are rounded to whole keys.

    Examples
    --------
    >>> CM(2).route(Chunk(None, [7, 7, 7, 7, 8, 9])).tolist()
    [1, 0, 1, 1, 0, 1]

    References
    ----------
    PVLDB 10(11), section 4.1, algorithm 2, doi:10.14778/3137628.3137639.
    """

    def __init__(
        self,
        n_workers: Count,
        *,
        d: Choices = 2,
        window: Count = 60_000,
        slide: Count | None = None,
        cardinality: str = "exact",
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers, d=d, window=window, slide=slide, cardinality=cardinality, seed=seed
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
        route = _route_two if self._plain else _route_many
        return route(self.state, settings, chunk.time, chunk.key, first, out, scratch)


@lean_kernel
def _route_two(
    state: CardinalityState,
    settings: Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    scratch: Scratch,
) -> int:
    """Algorithms 1 and 2 from tuple `first` on; return the number of the tuple that finds no room."""
    held, load, cardinality = state.held, state.loads.window, state.cardinality
    entry, mixed, most = held.entry, scratch.mixed, most_entries(len(held.entry))
    n, seed = settings.n_workers, settings.seed
    i = first
    while i < len(keys):
        turn(state, settings, times[i], scratch.choice)
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
                j = np.uint64(cardinality[two] < cardinality[one])  # line 3, without a branch
                worker = two if j else one
                load[worker] += 1
                cardinality[worker] += hold(held, place, j, slide, oldest)
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
) -> int:
    """Do what `_route_two` does, with any number of candidates, or with HyperLogLog."""
    choice, mixed = scratch.choice, scratch.mixed
    i = first
    while i < len(keys):
        turn(state, settings, times[i], choice)
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
                j = least_of(state.cardinality, choice)  # lines 1 to 3
                out[i] = send(state, where, choice, j, False)
                i += 1
    return i
