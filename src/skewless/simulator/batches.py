"""When things happen if tuples flow in micro-batches: one batch is processed while the next collects.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, sections 1 and 3 (Eq. 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import kernel
from skewless.simulator.queues import PaneTimes, Setting, grown, no_panes
from skewless.simulator.stragglers import Spans, factor_at

__all__ = ["BatchQueues"]


class BatchQueues:
    """The clock of the micro-batch model: each pane is a batch.

    Parameters
    ----------
    n_reducers, n_partitioners
        How many there are of each.
    in_flight
        A batch's tuples are not taken before the results of the batch so many before it are out.
    route_us, work_us
        What a tuple takes at its partitioner and at its combiner.
    spans
        Slow combiners.
    saturated
        Whether every tuple is due at once.

    Notes
    -----
    Partitioners route while the batch collects. It is begun when it has ended, is routed, and the batch
    before it is done; it takes what its slowest combiner takes and then what its slowest reducer takes
    (Eq. 1). A combiner is as slow throughout a batch as at its begin.
    """

    def __init__(
        self,
        n_reducers: int,
        n_partitioners: int,
        *,
        in_flight: int,
        route_us: float,
        work_us: float,
        spans: Spans,
        saturated: bool,
    ) -> None:
        self.setting = Setting(float(route_us), float(work_us), in_flight, saturated)
        self.spans = spans
        self.times = no_panes(n_reducers)
        self._routed_us = np.zeros(n_partitioners)
        self._open: tuple[NDArray[np.float64], NDArray[np.int32]] = (
            np.empty(0),
            np.empty(0, np.int32),
        )

    def feed(
        self,
        due_us: NDArray[np.float64],
        workers: NDArray[np.int32],
        panes: NDArray[np.int64],
        owners: NDArray[np.int32],
    ) -> None:
        """Take the tuples of one batch, which is closed next."""
        self._open = (due_us, owners)

    def close(
        self, pane: int, loads: NDArray[np.int64], merge_us: NDArray[np.float64], end_us: float
    ) -> None:
        """Process a batch: tuples of each combiner, work of each reducer, and when it ended."""
        self.times = grown(self.times, pane + 1)
        self.times.closed[pane] = True
        self.times.end_us[pane] = end_us
        self.times.merge_us[pane] = merge_us
        _process(
            self.times,
            self.spans,
            self.setting,
            pane,
            self._routed_us,
            *self._open,
            loads,
            merge_us,
        )
        self._open = (np.empty(0), np.empty(0, np.int32))

    def finish(self) -> None:
        """Do nothing: each batch is processed when it is closed."""


@kernel
def _process(
    times: PaneTimes,
    spans: Spans,
    setting: Setting,
    pane: int,
    routed_us: NDArray[np.float64],
    due_us: NDArray[np.float64],
    owners: NDArray[np.int32],
    loads: NDArray[np.int64],
    merge_us: NDArray[np.float64],
) -> None:
    before = pane - setting.in_flight
    gate = times.out_us[before] if before >= 0 else 0.0
    routed, taken = 0.0, 0.0
    for i in range(len(due_us)):
        p = owners[i]
        taken = max(due_us[i], gate)
        routed_us[p] = max(routed_us[p], taken) + setting.route_us
        routed = max(routed, routed_us[p])
        if not setting.saturated:
            times.lag_us[pane] = max(times.lag_us[pane], taken - due_us[i])
    if setting.saturated:
        times.end_us[pane] = max(times.end_us[pane], routed)
    begin = max(routed, times.end_us[pane])
    if pane > 0:
        begin = max(begin, times.out_us[pane - 1])
    mapped = 0.0
    for w in range(len(loads)):
        if loads[w] > 0:
            mapped = max(mapped, loads[w] * setting.work_us * factor_at(spans, w, begin))
    merged = 0.0
    for r in range(len(merge_us)):
        merged = max(merged, merge_us[r])
    times.done_us[pane] = begin + mapped
    times.out_us[pane] = begin + mapped + merged
