"""cAM (group affinity with imbalance minimisation): a key keeps its worker, a new key takes the emptier.

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
    contains,
    has_room,
    least_of,
    look_up,
    send,
    turn,
)
from skewless.windows.held_keys import (
    fetch_held,
    find_held,
    held_has_room,
    hold,
    holds,
    two_candidates,
)
from skewless.windows.table import most_entries

__all__ = ["CAM"]


class CAM(CardinalityAware):
    """Send a key where it already is in this window, a new one to its less loaded candidate.

    Use it when a window has many keys and merging their fragments is what the result waits for, as long
    as no key alone overloads a worker. Not for a few heavy keys: they stay whole, as with hashing.

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
    Guarantee: counted exactly, a key has one worker as long as it stays in the window, so a tumbling
    window has no more fragments than keys (the lower bound of Proposition 1). None on the balance
    beyond that a new key goes to the less loaded of d workers; a heavy key is not split. With
    HyperLogLog a key may be taken for known where it is not, and then has more than one worker, at
    most d. Beyond some 4,096 keys a worker this happens to most new keys, which all go to their first
    candidate then.

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
    >>> CAM(2).route(Chunk(None, [7, 7, 7, 7, 1, 2, 3, 4, 5, 6])).tolist()
    [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]

    References
    ----------
    PVLDB 10(11), section 4.2, algorithm 4, doi:10.14778/3137628.3137639.
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
    """Algorithms 1 and 4 from tuple `first` on; return the number of the tuple that finds no room."""
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
                # Lines 1, 4 and 10, without a branch.
                not_one = not holds(entry, place, 0, oldest)
                at_two = holds(entry, place, 1, oldest)
                j = np.uint64(not_one & (at_two | (load[two] < load[one])))
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
        start, oldest = state.start[0], state.slide[0] - len(state.loads.slides) + 1
        while i < len(keys) and times[i] - start < settings.slide:
            some = min(len(mixed), len(keys) - i)
            fetch_held(state.held.entry, settings.seed, keys[i : i + some], mixed, scratch.latest)
            for m in range(some):
                if times[i] - start >= settings.slide:
                    break
                if not has_room(state):
                    return i
                where = look_up(state, settings, keys[i], mixed[m], choice)
                j, known = 0, False
                while j < choice.shape[1] and not known:  # lines 1 and 4
                    known = contains(state, where, choice, j, oldest)
                    j += not known
                if not known:  # lines 8 to 10
                    j = least_of(state.loads.window, choice)
                out[i] = send(state, where, choice, j, known)
                i += 1
    return i
