"""What AM and CAM share: a key stays where it is in the window, a new one goes to the least candidate.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017, section 4.2: Algorithms 3 and 4 differ in what is least, and in nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import lean_kernel
from skewless.partitioners.cardinality import (
    CardinalityState,
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

__all__ = ["affine_many", "affine_two"]


@lean_kernel
def affine_two(
    state: CardinalityState,
    settings: Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    scratch: Scratch,
    value: NDArray[np.int64],
) -> int:
    """Algorithms 1, and 3 or 4, from tuple `first` on; return the number of the tuple without room.

    A key that no candidate holds goes to the one with the least `value`.
    """
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
                j = np.uint64(not_one & (at_two | (value[two] < value[one])))
                worker = two if j else one
                load[worker] += 1
                cardinality[worker] += hold(held, place, j, slide, oldest)
                out[i] = worker
                i += 1
    return i


@lean_kernel
def affine_many(
    state: CardinalityState,
    settings: Settings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int32],
    scratch: Scratch,
    value: NDArray[np.int64],
) -> int:
    """Do what `affine_two` does, with any number of candidates, or with HyperLogLog."""
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
                    j = least_of(value, choice)
                out[i] = send(state, where, choice, j, known)
                i += 1
    return i
