"""Dalton: hash the cold keys; a contextual bandit per hot key learns where to split or move it.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022.
"""

from __future__ import annotations

import copy
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.partitioners.dalton_estimates import (
    Estimates,
    advance_estimating,
    estimates_bytes,
    no_estimates,
)
from skewless.partitioners.dalton_learner import (
    DaltonSettings,
    DaltonState,
    advance,
    default_stats_window,
)
from skewless.windows import hot_exchange
from skewless.windows.hot_window import hot_window_bytes_bound, no_hot_window

__all__ = ["Dalton"]

_STATISTICS = ("exact", "count_min", "hybrid")


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
        ``8 * n_workers``, and 4,096 if the window is as long.
    statistics : str
        How frequencies are counted: ``"exact"``, by a sketch (``"count_min"``), or ``"hybrid"``, which
        takes the sketch for a statistics window if the one before had many keys.
    switch_keys : int of at least 1
        How many keys are many for ``"hybrid"``.
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
    3.4). A sketch misses no hot key, but takes one in 150,000 others for hot, and some near 1/n.
    None on the balance: the reward trades it against fragments.

    Cost: a cold tuple one look-up; a hot one also a reward and, when another worker becomes the
    best, the O(log n) contests of a tournament; a slide n subtractions and one visit per expired
    fragment. Where n comes near the tuples of a statistics window, every key is hot and costs a row
    of its own.
    State: 32 bytes for each key of a statistics window in a table at most 5/8 full, 16 to 256 for
    each cold key of the window in a log (up to 384 when a statistics window of at most n tuples
    made an index necessary, and always with a sketch), 336 for each key that was hot in it, 16 for
    each of their fragments, about 20 a worker for a hot key tried on more than 9 workers, 8 a
    worker and slide; a sketch, 440 bytes a worker and 4 kilobytes, takes the place of the first
    table.

    Deviations from the paper: nothing is hot in the first statistics window or after an empty one
    (the threshold is unknown). A statistics window is a slide in the paper; with few tuples a
    worker chance decides which keys are hot, hence the default. Frequencies are exact
    unless `statistics` says otherwise; the paper switches at run time. `max_split` is not in the
    paper. Of equal values the key's hash home wins, then the lowest worker. The window moves on by
    whole slides and contains the slide that has begun.

    Examples
    --------
    >>> partitioner = Dalton(4, window=600, slide=10, stats_window=32)
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
    statistics: str
    switch_keys: int
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
        statistics: str = "exact",
        switch_keys: Count = 50_000,
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
            statistics=statistics,
            switch_keys=switch_keys,
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
        if statistics not in _STATISTICS:
            raise ParameterError(
                f"Dalton: statistics must be one of {', '.join(_STATISTICS)}, got {statistics!r}."
            )
        self.estimates: Estimates | None = None
        if statistics != "exact":
            self.estimates = no_estimates(n_workers, sketching=statistics == "count_min")
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
            self.stats_window or default_stats_window(self.n_workers, self.window, self.slide),
            float(self.epsilon),
            float(self.gamma),
            float(self.p1),
            self.max_split or self.n_workers + 1,
            np.uint64(self.seed),
        )
        if self.estimates is None:
            self.state, _ = advance(self.state, settings, chunk.time, chunk.key, out)
        else:
            switch = self.switch_keys if self.statistics == "hybrid" else 0
            self.state = advance_estimating(
                self.state, self.estimates, settings, switch, chunk.time, chunk.key, out
            )
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

    @property
    def state_bytes(self) -> int:
        """Bytes that the state and the sketches hold now."""
        sketches = estimates_bytes(self.n_workers) if self.estimates else 0
        return super().state_bytes + sketches

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two of `stats_window` in a row. The bound holds even if all
        keys were hot on all workers; section 3.2 expects about n hot keys a statistics window.
        """
        sketches = estimates_bytes(self.n_workers) if self.estimates else 0
        return hot_window_bytes_bound(n_keys, self.n_slides, self.n_workers) + 8 + sketches

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Learn from the sample; judge by a second pass that does not explore."""
        if self.state.slide[0] >= 0:
            self._clock = max(self._clock, int(self.state.last[0]) + 1)
        sample = self._next(keys)
        self.route(sample)
        judge = copy.deepcopy(self)
        judge.epsilon = 0.0
        return judge.route(Chunk(sample.time + len(sample), keys))
