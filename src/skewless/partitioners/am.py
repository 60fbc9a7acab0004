"""AM (group affinity): a key keeps its worker for the window, a new one takes that with fewer keys.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.parameters import Count, Seed
from skewless.partitioners.affinity import affine_many, affine_two
from skewless.partitioners.cardinality import (
    CardinalityAware,
    Choices,
    Scratch,
    Settings,
)

__all__ = ["AM"]


class AM(CardinalityAware):
    """Send a key where it already is in this window, a new one to its candidate with fewer keys.

    Use it when each key of a window costs its worker about the same, however many tuples it has, and
    no key may be split. Not where tuples are the cost: `CAM` evens those out, at the same price.

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
    window has no more fragments than keys (the lower bound of Proposition 1), and the distinct keys of
    the workers are those of a game of balls and d choices: some ``log(log(n)) / log(d)`` above their
    mean. None on the tuples. With HyperLogLog a key may be taken for known where it is not, and then
    has more than one worker, at most d. It goes uncounted as well: beyond some 4,096 keys a worker most
    new keys seem to be at their first candidate, and the balance comes near that of hashing.

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
    >>> AM(2).route(Chunk(None, [7, 7, 7, 7, 1, 2, 3, 4, 5, 6])).tolist()
    [1, 1, 1, 1, 0, 0, 1, 0, 1, 1]

    References
    ----------
    PVLDB 10(11), section 4.2, algorithm 3, doi:10.14778/3137628.3137639.
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
        route = affine_two if self._plain else affine_many
        value = self.state.cardinality
        return route(self.state, settings, chunk.time, chunk.key, first, out, scratch, value)
