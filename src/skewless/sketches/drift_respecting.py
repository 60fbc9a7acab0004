"""The counter-based histogram of Dynamic Repartitioning: it keeps more counters while keys drift.

Z. Zvara, P. G. N. Szabo, B. Balazs, A. Benczur: Optimizing Distributed Data Stream Processing by Tracing
and Dynamic Repartitioning, extended version (heavy hitter counting).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import ParameterError
from skewless.kernel import lean_kernel, mix, next_random, unit_interval
from skewless.parameters import Count, Range, Seed
from skewless.sketches.base import Sketch
from skewless.sketches.slot_index import chains_for, find_slot, link_slot

__all__ = ["DriftRespecting", "DriftRespectingState"]


class DriftRespectingState(NamedTuple):
    """The counters; those in use come first."""

    key: NDArray[np.uint64]
    """uint64, (slots,): keys."""
    counts: NDArray[np.float64]
    """float64, (slots,): estimated tuples of each key."""
    link: NDArray[np.int32]
    """int32, (slots, 2): next slot of the chain, and the chain."""
    head: NDArray[np.int32]
    """int32, (power of two,): first slot of each chain."""
    history: NDArray[np.uint64]
    """uint64, (0 or take,): heaviest keys at the last check."""
    tally: NDArray[np.int64]
    """int64, (4,): counters in use, boundary, checks without drift in a row, all tuples."""
    rate: NDArray[np.float64]
    """float64, (4,): sampling rate, count of a sampled tuple, smoothed drift, sampled weight."""
    words: NDArray[np.uint64]
    """uint64, (1,): random generator."""


class DriftRespecting(Sketch):
    """Count a sample in counters whose number grows while the heaviest keys change.

    Use it to compare with what the paper ran. Not where a bound matters: `SpaceSaving` has one.

    Parameters
    ----------
    take : int of at least 1
        Heaviest keys that are compared from check to check (k).
    step : int of at least 1
        Counters by which the boundary moves (S).
    beta : float in [1, 1000]
        Divides the sampling rate at each check.
    boundary : int of at least 1
        Counters at which the first check is made (B0); at least `take` and above `cut`.
    cut : int of at least 1
        How far below the boundary a cut goes (C).
    drift : float in [0, 1]
        Smoothed drift above which counters are added instead of cut (D).
    patience : int of at least 1
        Checks without drift after which the boundary comes down (G).
    smoothing : float in [0, 1]
        Weight of the former drift (w).
    seed : int in [0, 9223372036854775807]
        Which random sample.

    Notes
    -----
    Guarantee: none; the number of counters is not bounded while the drift stays above `drift`.

    Cost: a random number and, for a sampled tuple, a look-up; a sort of the counters at each check.
    State: 24 bytes a slot and 8 to 16 for the index; the slots are less than twice the boundary.

    Deviations from the paper: D and w are real numbers; the deployed programs read them as integers,
    so as 0. Of equal counts the lower key ranks higher. A largest distance of 0 or less counts as a
    drift of 1 where keys are missing. `merge` is not defined: samples of two rates have no common state.

    Examples
    --------
    >>> sketch = DriftRespecting()
    >>> sketch.update(np.array([7, 7, 7, 1], np.uint64))
    >>> sketch.estimate([7, 1]).tolist()
    [0.75, 0.25]

    References
    ----------
    https://github.com/zzvara/dynamic-repartitioning-paper
    """

    take: int
    step: int
    beta: float
    boundary: int
    cut: int
    drift: float
    patience: int
    smoothing: float
    state: DriftRespectingState

    def __init__(
        self,
        *,
        take: Count = 20,
        step: Count = 20,
        beta: Annotated[float, Range(1, 1000)] = 2.0,
        boundary: Count = 80,
        cut: Count = 40,
        drift: Annotated[float, Range(0, 1)] = 0.5,
        patience: Count = 5,
        smoothing: Annotated[float, Range(0, 1)] = 0.8,
        seed: Seed = 0,
    ) -> None:
        self._take(
            take=take,
            step=step,
            beta=beta,
            boundary=boundary,
            cut=cut,
            drift=drift,
            patience=patience,
            smoothing=smoothing,
            seed=seed,
        )
        if boundary < take or boundary <= cut:
            raise ParameterError(
                f"DriftRespecting: boundary must be at least take, {take}, and above cut, {cut}, got "
                f"{boundary}; a cut must leave counters."
            )
        self.state = DriftRespectingState(
            *_room(boundary),
            np.empty(0, np.uint64),
            np.array([0, boundary, 0, 0], np.int64),
            np.array([1.0, 1.0, drift, 0.0]),
            np.array([seed], np.uint64),
        )

    def update(self, keys: ArrayLike) -> None:
        """Count `keys`."""
        found, seed = self._keys(keys), np.uint64(self.seed)
        done = 0
        while done < len(found):
            done = _update(self.state, found, done, seed)
            if self.state.tally[0] >= self.state.tally[1]:
                self._check()

    def estimate(self, keys: ArrayLike) -> NDArray[np.float64]:
        """Return the estimated share of each key, 0 without a counter."""
        found = self._keys(keys)
        out = np.zeros(len(found))
        _ask(self.state, found, np.uint64(self.seed), out)
        return out / max(1.0, float(self.state.rate[3]))

    def top(self, n: int | None = None) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """Return the `n` heaviest keys, or all, and their shares."""
        key, counts = self._sorted()
        return key[:n], counts[:n] / max(1.0, float(self.state.rate[3]))

    def _sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        used = int(self.state.tally[0])
        key, counts = self.state.key[:used], self.state.counts[:used]
        order = np.lexsort((key, -counts))
        return key[order], counts[order]

    def _check(self) -> None:
        state, tally, rate, k = self.state, self.state.tally, self.state.rate, self.take
        rate[0] /= self.beta
        rate[1] *= self.beta
        key, counts = self._sorted()
        kept = len(key)
        drifting = len(state.history) == 0
        if not drifting:
            now = self._distance(key, counts)
            rate[2] = self.smoothing * rate[2] + (1 - self.smoothing) * now
            drifting = bool(rate[2] > self.drift)
        if drifting:
            tally[1] += self.step
            tally[2] = 0
        else:
            tally[2] += 1
            if tally[2] >= self.patience and tally[1] > self.boundary:
                tally[1] = max(self.boundary, tally[1] - self.step)
                tally[2] = 0
            kept = min(kept, int(tally[1]) - self.cut)
        room = _room(max(len(state.key), int(tally[1])))
        room[0][:kept], room[1][:kept] = key[:kept], counts[:kept]
        tally[0] = kept
        self.state = DriftRespectingState(*room, key[:k].copy(), *state[5:])
        _relink(self.state, np.uint64(self.seed))

    def _distance(self, key: NDArray[np.uint64], counts: NDArray[np.float64]) -> float:
        """Return how far the former heaviest keys have fallen, over the farthest they could."""
        k, n = self.take, len(key)
        least = float(counts[k - 1])
        distance = 0.0
        place = {each: i for i, each in enumerate(key.tolist())}
        for lost in _lost(self.state.history, key[:k]):
            at = place.get(lost, n)
            distance += (at - k) + (least - (float(counts[at]) if at < n else 0.0))
        farthest = k * ((least - k + n) + (least - 2 * k + n)) / 2
        return distance / farthest if farthest > 0 else float(distance > 0)


def _lost(history: NDArray[np.uint64], top: NDArray[np.uint64]) -> list[int]:
    """Return the keys of `history` that are not in `top`, in order.

    Examples
    --------
    >>> _lost(np.array([3, 1, 2], np.uint64), np.array([1], np.uint64))
    [3, 2]
    """
    return [int(key) for key in history[~np.isin(history, top)]]


def _room(
    n_slots: int,
) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    return (
        np.zeros(n_slots, np.uint64),
        np.zeros(n_slots),
        np.full((n_slots, 2), -1, np.int32),
        np.full(chains_for(n_slots), -1, np.int32),
    )


@lean_kernel
def _relink(state: DriftRespectingState, seed: np.uint64) -> None:
    for slot in range(state.tally[0]):
        link_slot(state.head, state.link, slot, mix(state.key[slot], seed))


@lean_kernel
def _update(
    state: DriftRespectingState, keys: NDArray[np.uint64], first: int, seed: np.uint64
) -> int:
    """Count from tuple `first` on; return the tuple after that which calls for a check."""
    tally, rate = state.tally, state.rate
    for i in range(first, len(keys)):
        tally[3] += 1
        if unit_interval(next_random(state.words)) >= rate[0]:
            continue
        rate[3] += rate[1]
        mixed = mix(keys[i], seed)
        slot = find_slot(state.head, state.link, state.key, keys[i], mixed)
        if slot < 0:
            slot = tally[0]
            tally[0] += 1
            state.key[slot] = keys[i]
            state.counts[slot] = 0.0
            link_slot(state.head, state.link, slot, mixed)
        state.counts[slot] += rate[1]
        if tally[0] >= tally[1]:
            return i + 1
    return len(keys)


@lean_kernel
def _ask(
    state: DriftRespectingState,
    keys: NDArray[np.uint64],
    seed: np.uint64,
    out: NDArray[np.float64],
) -> None:
    for i in range(len(keys)):
        slot = find_slot(state.head, state.link, state.key, keys[i], mix(keys[i], seed))
        if slot >= 0:
            out[i] = state.counts[slot]
