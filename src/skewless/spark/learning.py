"""The feedback loop of a running query: what a batch observed becomes the policy of a later one.

`observe` metrics of each micro-batch reach a listener on the driver; it lets the policy learn from
them and writes the next version to the policy log, which the query reads in its next micro-batch.
Nothing here blocks a batch, and no error in here reaches the query.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import logging
import threading
import weakref
from collections import deque
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from skewless.active_workers import Elastic, used_workers
from skewless.errors import DataError
from skewless.histogram import Histogram, bucket_of
from skewless.operations.batch_metrics import Timing
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.monitor import Monitor
from skewless.spark.policy_log import PolicyLog

__all__ = ["BatchRecord", "Loop", "follow", "observed"]

#: Batches kept in memory.
_KEPT_RECORDS = 1000
#: Batches among which the largest says how many rows a policy learns from.
_RECENT = 8

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
    *,
    count_keys: bool = False,
) -> list[Column]:
    """Return the metrics that a batch reports: rows, policy version, loads, heavy keys, buckets."""
    tracked = max(1024, 8 * n_hot)
    more = [F.approx_count_distinct(key_hash).alias("n_keys")] if count_keys else []
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
            self._follow(batch, record)
        finally:
            self.busy = False

    def _follow(self, batch: int, record: BatchRecord) -> None:
        routing = self.routing
        if self.policy is not None:
            routing = self.policy.learn(self._recent(record), self.routing)
        if routing != self.routing or not self._is_on_disk():
            self.routing = routing
            self._write(batch=batch, rows=record.rows, max_over_mean=record.max_over_mean)

    def _recent(self, record: BatchRecord) -> Histogram:
        """Return the counts of as many rows as the largest recent batch had.

        A batch that is smaller, such as the last rows of the day, says little by itself: it is filled
        up with what was known before, in proportion.
        """
        self._sizes.append(record.rows)
        recent, missing = record.histogram, max(self._sizes) - record.rows
        if self._known is not None and missing > 0:
            recent = recent.plus(self._known, min(1.0, missing / max(1, self._known.total)))
            recent = recent.top(2 * max(2 * self.n_workers, 64), self.n_buckets, seed=self.seed)
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


def _dense(top: Any, n: int) -> NDArray[np.int64]:
    counts = np.zeros(n, np.int64)
    for item, count in _pairs(top):
        counts[item] = count
    return counts


class _Listener(StreamingQueryListener):
    """One per Spark session: hands each batch's metrics to the loop that asked for them."""

    def __init__(self) -> None:
        self.loops: dict[str, Loop] = {}
        self.lock = threading.Lock()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note the end; the loop stays, for a restart of the same frame."""
        self.end(str(event.runId), event.exception)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Learn from a batch."""
        progress = event.progress
        for name, metrics in (progress.observedMetrics or {}).items():
            if name in self.loops:
                self.learn(name, int(progress.batchId), metrics, Timing.of(progress.json))

    def end(self, run: str, error: str | None) -> None:
        """Note that a run of a query has ended."""
        for loop in list(self.loops.values()):
            loop.monitor.end(run, error)

    def learn(
        self, name: str, batch: int, metrics: dict[str, Any], timing: Timing | None = None
    ) -> None:
        """Let the loop of that name learn; whatever fails must not reach the query."""
        loop = self.loops.get(name)
        if loop is None:
            return
        try:
            with self.lock:
                loop.learn(batch, metrics, timing)
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: batch %d taught nothing", batch)


class _JvmListener:
    """The same, called by the JVM: takes from an event the few fields that a loop needs.

    PySpark's own wrapper turns every field of the event into Python objects first, a hundred calls to
    the JVM and about half a second of two cores for each micro-batch.
    """

    def __init__(self, listener: _Listener, jvm: Any) -> None:
        self.listener = listener
        self._rows = jvm.org.apache.spark.sql.api.python.PythonSQLUtils

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note the end."""
        try:
            error = event.exception()
            text = str(error.get()) if error.isDefined() else None
            self.listener.end(str(event.runId().toString()), text)
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: the end of a query is not noted")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Learn from a batch."""
        try:
            progress = event.progress()
            metrics = progress.observedMetrics()
            for name in list(metrics):
                if name in self.listener.loops:
                    # Spark's own pickle of its own row, over the socket that PySpark trusts.
                    row = cloudpickle.loads(self._rows.toPyRow(metrics[name]))
                    # Its times and offsets as one text: one call, not one for each field.
                    timing = Timing.of(progress.json())
                    self.listener.learn(name, int(progress.batchId()), row, timing)
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: a batch taught nothing")

    class Java:
        """What py4j implements."""

        implements: ClassVar[list[str]] = [
            "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
        ]


def _listen(session: SparkSession, listener: _Listener) -> None:
    """Register the listener: with the JVM directly where there is one, else as PySpark does."""
    if hasattr(session, "_jsparkSession"):
        jvm = session._jvm
        wrapper = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(  # type: ignore[union-attr]
            _JvmListener(listener, jvm)
        )
        # What PySpark makes when asked for it, and what it removes by.
        listener._jlistenerobj = wrapper
    session.streams.addListener(listener)


def _leave(session: SparkSession, listener: _Listener) -> None:
    with contextlib.suppress(Exception):
        session.streams.removeListener(listener)


_listeners: weakref.WeakKeyDictionary[SparkSession, _Listener] = weakref.WeakKeyDictionary()


def follow(session: SparkSession, name: str, loop: Loop) -> None:
    """Let `loop` learn from every batch that reports metrics under `name`."""
    listener = _listeners.get(session)
    if listener is None:
        listener = _listeners[session] = _Listener()
        _listen(session, listener)
        # A program may end without stopping Spark; the JVM must not call into it any more.
        atexit.register(_leave, session, listener)
    listener.loops[name] = loop
