"""Partial Key Grouping (PKG, Greedy-d): each key has d candidate workers, each tuple the less loaded.

M. A. U. Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini: The Power of
Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import lean_kernel, mix, spread
from skewless.parameters import Count, Seed
from skewless.partitioners.base import Partitioner
from skewless.windows.candidates import next_candidate

__all__ = ["PKG"]

#: Whose tuples a source takes for the load of a worker: section V, G, L and LP.
_ESTIMATES = ("global", "local", "probed")


class PKGState(NamedTuple):
    """What the sources believe to be the loads, and whose turn it is."""

    load: NDArray[np.int64]
    """int64, (sources, n_workers), one row if all share it: each source's estimate, in its own tuples,
    or in those of all sources if it probes."""
    turn: NDArray[np.int64]
    """int64, (1,): the source of the next tuple."""
    sent: NDArray[np.int64]
    """int64, (n_workers,), empty if nobody probes: tuples that all have sent since the start."""
    clock: NDArray[np.int64]
    """int64, (2,): time at which to probe next, time of the latest tuple; kept if somebody probes."""


class PKG(Partitioner):
    """Send a tuple to the least loaded of its key's `d` candidate workers.

    Use it when the heaviest key carries less than ``d / n_workers`` of the tuples and no statistics
    can be kept. Not above that share: d workers then carry the key alone, and all others idle.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    d : int of at least 1
        Candidates per key; at most `n_workers` are used. 2 is PKG, more is Greedy-d.
    estimates : str, "global", "local" or "probed"
        The load that a source compares: what all sources have sent; what it has sent itself; or, once
        per `period`, what all have sent, and until the next time what it sends, times `sources`.
    sources : int of at least 1
        Sources that take turns: tuple i is one of source ``i % sources``.
    period : int of at least 1, optional
        Time between two probes, in the unit of ``Chunk.time``; for ``estimates="probed"`` only.
    seed : int in [0, 9223372036854775807]
        Which hash functions.

    Notes
    -----
    Guarantee: at most d workers per key; for d >= 2 and a heaviest share of at most ``1/(5 n)`` the
    imbalance stays O(m/n) over m tuples (Theorem 4.2). Local estimates of S sources cost no more than
    the sum of what each source's own loads lack in balance (section III-B).

    Cost: d hashes and d reads a tuple; a probe one write per source and worker. State: 8 bytes per
    worker and source (global estimates: per worker), 8 a worker more if loads are probed.

    Deviations from the paper: the candidates of a key are always distinct (candidate j is drawn from
    the workers that are left), where independent hashes coincide once in n keys and leave such a key
    unsplit. Ties go to the first candidate. All sources probe at the first tuple at or after a multiple
    of `period`. From then on a tuple counts as many as there are sources: the others send as much, and
    if each took its own for one, all would make up for the whole imbalance, each by itself.

    Examples
    --------
    >>> PKG(4).route(Chunk(None, [7, 7, 7, 7])).tolist()
    [3, 1, 3, 1]
    >>> PKG(4, sources=2).route(Chunk(None, [7, 7, 7, 7])).tolist()
    [3, 3, 1, 1]

    References
    ----------
    ICDE 2015, sections III to V, doi:10.1109/ICDE.2015.7113279.
    """

    splits_keys = True
    moves_keys = False
    state: PKGState
    d: int
    estimates: str
    sources: int
    period: int | None

    def __init__(
        self,
        n_workers: Count,
        *,
        d: Count = 2,
        estimates: str = "local",
        sources: Count = 1,
        period: Count | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers,
            d=d,
            estimates=estimates,
            sources=sources,
            period=period,
            seed=seed,
        )
        if d > 64:
            raise ParameterError(
                f"PKG: d must be at most 64, got {d}; use Shuffle to spread further."
            )
        if estimates not in _ESTIMATES:
            raise ParameterError(
                f"PKG: estimates must be 'global', 'local' or 'probed', got {estimates!r}."
            )
        probed = estimates == "probed"
        if probed and period is None:
            raise ParameterError(
                "PKG: period must be an int of at least 1 with estimates='probed', got None; say after "
                "how much time the true loads are looked up."
            )
        if period is not None and not probed:
            raise ParameterError(
                f"PKG: period must be None with estimates={estimates!r}, got {period}; loads are "
                "looked up with estimates='probed' only."
            )
        self.state = PKGState(
            np.zeros((1 if estimates == "global" else sources, n_workers), np.int64),
            np.zeros(1, np.int64),
            np.zeros(n_workers if probed else 0, np.int64),
            np.full(2, np.iinfo(np.int64).min),
        )

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32.

        Raises
        ------
        DataError
            The loads are probed and the chunk begins before the latest tuple of the chunks before it.
        """
        out = np.empty(len(chunk), np.int32)
        n, seed, d = np.uint64(self.n_workers), np.uint64(self.seed), min(self.d, self.n_workers)
        if self.period is not None and len(chunk) > 0:
            self._tell_time(chunk)
        if d == 2 and len(self.state.load) == 1 and self.period is None:
            _route_two(self.state.load[0], n, seed, chunk.key, out)
        else:
            taken = np.empty(d, np.int64)
            _route_many(self.state, seed, self.period or 0, chunk.time, chunk.key, out, taken)
        return out

    def _tell_time(self, chunk: Chunk) -> None:
        if chunk.time[0] < self.state.clock[1]:
            raise DataError(
                f"PKG: time must not decrease from chunk to chunk, got {chunk.time[0]} after "
                f"{self.state.clock[1]}; number the tuples of a chunk on from the chunk before."
            )
        self.state.clock[1] = chunk.time[-1]

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return 8 bytes per worker and load vector, and 24, however many keys there are."""
        vectors = 1 if self.estimates == "global" else self.sources + (self.estimates == "probed")
        return 8 * self.n_workers * vectors + 24


@lean_kernel
def _route_two(
    load: NDArray[np.int64],
    n_workers: np.uint64,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> None:
    others = n_workers - np.uint64(1)
    for i in range(len(keys)):
        first = np.uint64(spread(mix(keys[i], seed), n_workers))
        second = np.uint64(spread(mix(keys[i], seed + np.uint64(1)), others))
        second += np.uint64(second >= first)
        # Section III: P_t(k) = argmin of the load over H_1(k), H_2(k). Which of the two is a coin's
        # toss that no processor foresees; written with both loads at hand it compiles to no branch.
        one, other = load[first], load[second]
        chosen = second if other < one else first
        load[chosen] = min(one, other) + 1
        out[i] = np.int32(chosen)


@lean_kernel
def _route_many(
    state: PKGState,
    seed: np.uint64,
    period: int,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
    taken: NDArray[np.int64],
) -> None:
    """Route by d candidates, several sources, or probed loads; `taken` is room for d candidates."""
    load, sent, d = state.load, state.sent, len(taken)
    n_workers, source = np.uint64(load.shape[1]), state.turn[0]
    # Between two probes a source sends 1/S of all tuples: each of its own stands for S.
    weight = len(load) if period > 0 else 1
    for i in range(len(keys)):
        if period > 0 and times[i] >= state.clock[0]:
            state.clock[0] = times[i] // period * period + period
            # Section V, LP: "the local estimate vector is set to the actual load of the workers".
            for worker in range(len(sent)):
                for each in range(len(load)):
                    load[each, worker] = sent[worker]
        chosen = np.uint64(next_candidate(keys[i], seed, 0, n_workers, taken))
        least = load[source, chosen]
        for j in range(1, d):
            c = np.uint64(next_candidate(keys[i], seed, j, n_workers, taken))
            other = load[source, c]
            chosen = c if other < least else chosen
            least = min(least, other)
        load[source, chosen] = least + weight
        if period > 0:
            sent[chosen] += 1
        source = source + 1 if source + 1 < len(load) else 0
        out[i] = np.int32(chosen)
    state.turn[0] = source
