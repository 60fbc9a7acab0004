"""What a batch did, told to whoever watches: one line in the metrics file, one in the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skewless.active_workers import used_workers
from skewless.histogram import Histogram
from skewless.operations import BatchMetrics, MetricsFile, Timing
from skewless.operations.batch_metrics import HotKey
from skewless.routing import Routing

__all__ = ["Monitor"]

#: Keys named with each batch, and versions whose routing is kept.
_HOT, _KEPT_ROUTINGS = 10, 8

_log = logging.getLogger("skewless")
#: Every batch of every query, at level INFO: one line of JSON.
_batches = logging.getLogger("skewless.batches")


class _Record(Protocol):
    """What is needed of a batch's record."""

    @property
    def batch(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def loads(self) -> NDArray[np.int64]: ...
    @property
    def histogram(self) -> Histogram: ...


class Monitor:
    """Notes the batches of one query.

    Parameters
    ----------
    folder
        The folder of the policy log.
    """

    def __init__(self, folder: str | Path) -> None:
        self.file = MetricsFile(folder)
        self._run: str | None = None
        self._started_s: float | None = None
        self._rows = self._batches = 0
        self._routings: dict[int, Routing] = {}

    def remember(self, version: int, routing: Routing) -> None:
        """Keep what a version routes by: a batch that ran under it may be told of a moment later."""
        self._routings[version] = routing
        while len(self._routings) > _KEPT_ROUTINGS:
            del self._routings[min(self._routings)]

    def note(
        self,
        record: _Record,
        policy: str,
        timing: Timing,
        n_keys: int | None = None,
    ) -> BatchMetrics:
        """Write a batch down, in the file and in the log; return what was written.

        Parameters
        ----------
        record
            What the batch observed.
        policy
            The policy that learns, as text.
        timing
            What Spark's progress added.
        n_keys
            Different keys in the batch, if they were counted.
        """
        if timing.run != self._run:  # a restart of the same frame
            self._run, self._started_s, self._rows, self._batches = timing.run, None, 0, 0
        interval = None
        if timing.started_s is not None:
            if self._started_s is not None and timing.started_s > self._started_s:
                interval = round(timing.started_s - self._started_s, 3)
            self._started_s = timing.started_s
        self._rows += record.rows
        self._batches += 1
        metrics = BatchMetrics(
            record.batch,
            record.version,
            record.rows,
            tuple(record.loads.tolist()),
            policy,
            n_keys=None if n_keys is None else int(n_keys),
            interval_s=interval,
            rows_total=self._rows,
            batches_total=self._batches,
            timing=timing,
        )
        routing = self._routings.get(record.version)
        if routing is not None:
            metrics = metrics._replace(
                active=used_workers(routing),
                hot=_hot(record.histogram, routing),
                hot_keys=len(routing.keys),
                split_keys=len(routing.split_keys),
                extra_fragments=routing.extra_fragments,
            )
        self._write(metrics)
        return metrics

    def _write(self, metrics: BatchMetrics) -> None:
        if _batches.isEnabledFor(logging.INFO):
            _batches.info("%s", metrics.to_line())
        try:
            self.file.append(metrics)
        except OSError as error:
            _log.warning("skewless: cannot note batch %d: %s", metrics.batch, error)

    def end(self, run: str, error: str | None) -> None:
        """Write down that a run has ended, if it is the one whose batches were noted."""
        if run != self._run:
            return
        try:
            self.file.end(run, error)
        except OSError as failure:
            _log.warning("skewless: cannot note the end of the query: %s", failure)


def _hot(histogram: Histogram, routing: Routing) -> tuple[HotKey, ...]:
    keys, counts = histogram.keys[:_HOT], histogram.counts[:_HOT]
    fan_out = np.ones(len(keys), np.int64)
    place = np.searchsorted(routing.keys, keys)
    known = place < len(routing.keys)
    known[known] = routing.keys[place[known]] == keys[known]
    fan_out[known] = np.diff(routing.offsets)[place[known]]
    rows = zip(keys.view(np.int64).tolist(), counts.tolist(), fan_out.tolist(), strict=True)
    return tuple(HotKey(*row) for row in rows)
