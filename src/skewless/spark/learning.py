"""The feedback loop of a running query: what a batch observed becomes the policy of a later one.

`observe` metrics of each micro-batch reach a listener on the driver; it lets the policy learn from
them and writes the next version to the policy log, which the query reads in its next micro-batch.
Nothing here blocks a batch, and no error in here reaches the query.
"""

from __future__ import annotations

import base64
import copy
import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.active_workers import Elastic, used_workers
from skewless.errors import DataError
from skewless.histogram import Histogram, bucket_of
from skewless.operations.batch_metrics import Timing
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.monitor import Monitor
from skewless.spark.policy_log import PolicyLog

__all__ = ["BatchRecord", "Loop", "observed"]

#: Batches kept in memory.
_KEPT_RECORDS = 1000
#: Batches among which the largest says how many rows a policy learns from.
_RECENT = 8
#: Max/mean load up to which a routing stays in force, and the part of a fair share below which a key that
#: it splits counts as gone.
_BALANCED, _GONE = 1.1, 0.05
#: Rows per worker below which a batch does not outweigh what was known.
_JUDGED = 100

_log = logging.getLogger("skewless")


class BatchRecord(NamedTuple):
    """What one micro-batch observed."""

    batch: int
    """Batch id of the query."""
    version: int
    """Policy version that routed the batch; 0 is plain hashing."""
    rows: int
    """Rows routed."""
    loads: NDArray[np.int64]
    """int64, (n_workers,): rows per worker."""
    histogram: Histogram
    """Heavy keys and bucket totals of the batch."""
    active: int | None = None
    """Workers that its routing gave anything to; ``None`` if the routing is not known any more."""

    @property
    def max_over_mean(self) -> float:
        """Rows of the fullest worker over the mean of the active ones."""
        active = self.active or len(self.loads)
        return float(self.loads.max() * active / self.loads.sum()) if self.rows else 1.0


def observed(
    version: Column,
    worker: Column,
    key_hash: Column,
    bucket: Column,
    n_workers: int,
    n_hot: int,
    n_buckets: int,
    sync: Column | None = None,
    *,
    count_keys: bool = False,
) -> list[Column]:
    """Return the metrics that a batch reports: rows, policy version, loads, heavy keys, buckets.

    In exact mode also the SYNC messages of its tasks.
    """
    tracked = max(1024, 8 * n_hot)
    more = [] if sync is None else [F.collect_list(sync).alias("syncs")]
    if count_keys:
        more.append(F.approx_count_distinct(key_hash).alias("n_keys"))
    return [
        *more,
        F.count(F.lit(1)).alias("rows"),
        F.max(version).alias("version"),
        _top(worker, n_workers).alias("loads"),
        _top(bucket, n_buckets).alias("buckets"),
        F.call_function("approx_top_k", key_hash, F.lit(n_hot), F.lit(tracked)).alias("keys"),
    ]


def _top(column: Column, n_values: int) -> Column:
    # The sketch counts exactly while it tracks more items than there are values.
    return F.call_function("approx_top_k", column, F.lit(n_values), F.lit(2 * n_values + 64))


class Synchronises(Protocol):
    """What decides in exact mode when to publish, and what."""

    def due(self, batch: int, lag: int, messages: Sequence[bytes], now_s: float) -> bool:
        """Take what a batch reported; say whether it is time to publish."""

    def publish(self, folder: Path, version: int) -> None:
        """Write what the tasks of a version begin with."""


class Loop:
    """Learns from the batches of one query and writes what it learned."""

    def __init__(
        self, log: PolicyLog, policy: Policy | None, n_workers: int, seed: int, n_buckets: int
    ) -> None:
        self.log = log
        self.policy = copy.deepcopy(policy)
        self.n_workers, self.seed, self.n_buckets = n_workers, seed, n_buckets
        self.busy = False
        self.records: deque[BatchRecord] = deque(maxlen=_KEPT_RECORDS)
        self._sizes: deque[int] = deque(maxlen=_RECENT)
        self._known: Histogram | None = None
        self._made_for: dict[int, float] = {}
        self.syncs: Synchronises | None = None
        entry = log.newest(n_workers, seed)
        self.routing = entry.routing if entry else Routing.hashing(n_workers, seed=seed)
        self.version = entry.version if entry else 0
        self.monitor = Monitor(log.folder)
        self.monitor.remember(self.version, self.routing)
        if isinstance(self.policy, Elastic):
            self.policy.resume(used_workers(self.routing))
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile what learning needs, on a copy, so that the first batch does not wait for it."""
        if self.policy is not None:
            few = Histogram([1, 2], [3, 1], np.zeros(self.n_buckets, np.int64), seed=self.seed)
            copy.deepcopy(self.policy).learn(few, self.routing)

    def learn(self, batch: int, metrics: dict[str, Any], timing: Timing | None = None) -> None:
        """Learn from the metrics of one batch; write a version if the routing changed."""
        record = self._record(batch, metrics)
        if record is None:
            return
        self.busy = True
        self.records.append(record)
        try:
            n_keys = metrics["n_keys"] if "n_keys" in metrics else None  # noqa: SIM401 - a Row
            noted = self.monitor.note(record, self._name, timing or Timing(), n_keys)
            self.records[-1] = record = record._replace(active=noted.active)
            if isinstance(self.policy, Elastic):
                self.policy.scale(noted.timing.seconds, noted.interval_s, noted.rows, noted.n_keys)
            if self.syncs is None:
                self._follow(batch, record)
            else:
                self._synchronise(self.syncs, batch, record, _messages(metrics["syncs"]))
        finally:
            self.busy = False

    def _follow(self, batch: int, record: BatchRecord) -> None:
        routing = self.routing
        if self.policy is not None:
            recent = self._recent(record)
            routing = self._settled(self.policy.learn(recent, self.routing), recent)
        if routing != self.routing or not self._is_on_disk():
            self.routing = routing
            self._write(batch=batch, rows=record.rows, max_over_mean=record.max_over_mean)

    def _settled(self, learned: Routing, recent: Histogram) -> Routing:
        """Return what was learned, or the routing in force if that still does as well.

        Counts of two batches differ by chance, and a policy that follows them would send a key now to
        two workers, now to three. So a routing stays in force while it balances what was seen, and
        while the keys that it was made for keep their weight, and the active workers are as many.
        """
        if len(self.routing.buckets) not in (1, self.n_buckets):
            return learned  # of another size, from a log of before: it cannot be judged
        loads = self.routing.loads(recent)
        elastic = isinstance(self.policy, Elastic)
        active = used_workers(self.routing) if elastic else self.n_workers
        fair = float(loads.sum()) / active
        resized = elastic and used_workers(learned) != active
        balanced = loads.max() <= _BALANCED * fair and not resized
        if balanced and not self._outlived(recent, fair):
            return self.routing
        self._made_for = {
            key: weight / fair for key, weight in _weights(recent).items() if weight > fair / 2
        }
        return learned

    def _outlived(self, recent: Histogram, fair: float) -> bool:
        """Say whether a key has lost half of what the routing was made for, or a split one all of it."""
        now = _weights(recent)
        return any(
            now.get(key, 0) < fair * then / 2 for key, then in self._made_for.items()
        ) or any(now.get(key, 0) < _GONE * fair for key in self.routing.split_keys.tolist())

    def _synchronise(
        self, syncs: Synchronises, batch: int, record: BatchRecord, messages: list[bytes]
    ) -> None:
        """Learn from every batch; publish when it is due, whether the routing changed or not."""
        lag = max(0, self.version - record.version)
        if self.policy is not None:
            self.routing = self.policy.learn(self._recent(record), self.routing)
        if syncs.due(batch, lag, messages, time.monotonic()):
            syncs.publish(self.log.folder, self.log.next_version)
            self._write(batch=batch, rows=record.rows, max_over_mean=record.max_over_mean)

    def _recent(self, record: BatchRecord) -> Histogram:
        """Return counts of as many rows as the largest recent batch had.

        A batch that is smaller, such as the last rows of the day, says little by itself: it is filled
        up with what was known before. What was known counts for half the rows that the batch has, unless
        that are too few to judge by, so that a key cools in as many small batches as large ones.
        """
        self._sizes.append(record.rows)
        recent, size = record.histogram, max(self._sizes)
        if self._known is not None and record.rows < size:
            before = min(size - record.rows, max(record.rows // 2, _JUDGED * self.n_workers))
            share = size / (record.rows + before)
            recent = (
                Histogram([], [], np.zeros(self.n_buckets, np.int64), seed=self.seed)
                .plus(record.histogram, share)
                .plus(self._known, share * before / max(1, self._known.total))
                .top(2 * max(2 * self.n_workers, 64), self.n_buckets, seed=self.seed)
            )
        self._known = recent
        return recent

    def _is_on_disk(self) -> bool:
        try:
            return self.log.read(self.version).routing == self.routing
        except (DataError, OSError) as error:
            _log.warning("skewless: policy version %d is written anew: %s", self.version, error)
            return False

    def _write(self, **facts: Any) -> None:
        if isinstance(self.policy, Elastic):
            facts["scaling"] = self.policy.workers.reason
        self.version = self.log.write(self.routing, policy=self._name, **facts)
        self.monitor.remember(self.version, self.routing)

    @property
    def _name(self) -> str:
        return repr(self.policy) if self.policy is not None else "fixed routing"

    def _record(self, batch: int, metrics: dict[str, Any]) -> BatchRecord | None:
        rows = int(metrics["rows"] or 0)
        if rows == 0:
            return None
        loads = _dense(metrics["loads"], self.n_workers)
        buckets = _dense(metrics["buckets"], self.n_buckets)
        hashes = np.array([item for item, _ in _pairs(metrics["keys"])], np.int64).view(np.uint64)
        counts = np.array([count for _, count in _pairs(metrics["keys"])], np.int64)
        inside = bucket_of(hashes, self.n_buckets, self.seed)
        tail = buckets - np.bincount(inside, counts, self.n_buckets).astype(np.int64)
        histogram = Histogram(hashes, counts, np.maximum(tail, 0), seed=self.seed)
        return BatchRecord(batch, int(metrics["version"]), rows, loads, histogram)


def _pairs(top: Any) -> list[tuple[int, int]]:
    return [(int(row["item"]), int(row["count"])) for row in top or [] if row["item"] is not None]


def _weights(histogram: Histogram) -> dict[int, int]:
    return dict(zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True))


def _messages(found: Any) -> list[bytes]:
    """Return the messages as bytes; on Connect they come as text."""
    return [base64.b64decode(m) if isinstance(m, str) else bytes(m) for m in found or []]


def _dense(top: Any, n: int) -> NDArray[np.int64]:
    counts = np.zeros(n, np.int64)
    for item, count in _pairs(top):
        counts[item] = count
    return counts
