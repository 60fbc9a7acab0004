"""Windowed aggregates on a stream whose routing is learned while the query runs.

The result is one ordinary Structured Streaming frame: Spark's source, watermark, state store and sink
are untouched. The policy is a scalar subquery that Spark evaluates anew in every micro-batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from skewless.active_workers import Elastic
from skewless.errors import DataError, ParameterError
from skewless.histogram import bucket_count
from skewless.policy import Policy
from skewless.routing import Routing, Tables
from skewless.spark import expressions, learning, panes, policy_reader
from skewless.spark.aggregation import Prepared, combine
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import place, worker_of
from skewless.spark.keys import KeyColumns, quoted, resolve_column
from skewless.spark.policies import AUTO, LOCAL, SPARK, PolicyLike, resolve_policy
from skewless.spark.policy_log import PolicyLog
from skewless.spark.salt import salt_column

if TYPE_CHECKING:
    from skewless.spark.stateful import Stateful

__all__ = ["StreamGroups", "WindowedGroups"]

_POLICY, _HASH, _WORKER, _VERSION, _BUCKET = (
    "__skewless_policy",
    "__skewless_hash",
    "__skewless_worker",
    "__skewless_version",
    "__skewless_bucket",
)


class StreamGroups:
    """A grouped stream; `window` says by which time, `stateful` keeps a state per key."""

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: PolicyLike,
        workers: int | None,
        state: str | None,
    ) -> None:
        default = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        self._df, self._keys, self._workers = df, keys, workers or default
        self._policy = resolve_policy("group_by", policy, workers, default)
        self._state = state
        if isinstance(self._policy, Policy) and state is None:
            raise ParameterError(
                f"group_by: policy {self._policy!r} learns while the stream runs and needs state=, a "
                "folder beside the checkpoint that the driver and all executors can reach."
            )

    def window(
        self,
        time: str,
        size: str,
        slide: str | None = None,
        *,
        watermark: str | None = None,
        panes: bool = True,
    ) -> WindowedGroups:
        """Group by event-time windows too.

        Parameters
        ----------
        time
            Event-time column, a timestamp.
        size, slide
            Durations such as ``"60 seconds"``; a slide of ``None`` gives tumbling windows.
        watermark
            How late a row may be, a duration. ``None`` leaves the stream's own watermark as it is.
        panes
            Whether sliding windows of Spark's aggregates are put together from panes. Rows later than
            the watermark are then dropped with their pane, up to ``size - slide`` earlier than plain
            Spark would drop them from the last window that holds them; and the query must use append
            mode. ``False`` expands every row, exactly as plain Spark does.

        Raises
        ------
        DataError
            `time` is no timestamp column; a duration cannot be read; the slide exceeds the size.
        """
        verb = "window"
        name = resolve_column(verb, self._df, time)
        kind = self._df.schema[name].dataType
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise DataError(
                f"{verb}: column {name!r} must be a timestamp, got {kind.simpleString()}; convert it "
                "with to_timestamp or timestamp_seconds first."
            )
        size_us = _positive(verb, "size", size)
        slide_us = size_us if slide is None else _positive(verb, "slide", slide)
        if slide_us > size_us:
            raise DataError(
                f"{verb}: slide must not exceed size, got slide={slide!r} and size={size!r}."
            )
        if watermark is not None:
            _duration(verb, "watermark", watermark)
        return WindowedGroups(self, name, size, slide or size, size_us, slide_us, watermark, panes)

    def stateful(
        self,
        update: Callable[..., Any],
        state_schema: StructType | str,
        output_schema: StructType | str,
        **options: Any,
    ) -> Stateful:
        """Keep a state per key that moves with the key when the policy changes its owner.

        Parameters and guarantees: `skewless.spark.stateful.stateful`.
        """
        from skewless.spark.stateful import stateful

        args = self._df, self._keys, self._policy, self._workers, self._state
        return stateful(*args, update, state_schema, output_schema, **options)

    def agg(self, *_: Any, **__: Any) -> DataFrame:
        """Refuse: a stream is grouped by windows."""
        raise DataError("group_by: on a stream call .window(time, size, ...) before .agg.")

    aggregate = agg


_duration = panes.duration_us


def _positive(verb: str, name: str, text: str) -> int:
    value = _duration(verb, name, text)
    if value == 0:
        raise DataError(f"{verb}: {name} must be longer than nothing, got {text!r}.")
    return value


class WindowedGroups:
    """A stream grouped by keys and windows; `agg` and `aggregate` return a streaming frame."""

    def __init__(
        self,
        groups: StreamGroups,
        time: str,
        size: str,
        slide: str,
        size_us: int,
        slide_us: int,
        watermark: str | None,
        use_panes: bool,
    ) -> None:
        self._groups, self._time, self._watermark = groups, time, watermark
        self._size, self._slide, self._size_us, self._slide_us = size, slide, size_us, slide_us
        self._panes = use_panes
        self._loop: learning.Loop | None = None

    # -- the two answers ---------------------------------------------------------------------------

    def agg(self, *aggregates: Column) -> DataFrame:
        """Return Spark's aggregates per key and window, with plain Spark's rows and schema.

        Parameters
        ----------
        *aggregates
            Columns such as ``F.count("*")``.
        """
        if not aggregates or not all(isinstance(a, Column) for a in aggregates):
            raise DataError("agg: give one or more aggregate columns, such as F.count('*').")
        groups = self._groups
        window = F.window(F.col(quoted(self._time)), self._size, self._slide)
        plain = (
            self._watermarked(groups._df).groupBy(window, *groups._keys.columns).agg(*aggregates)
        )
        if groups._policy == SPARK:
            return plain
        heads = len(groups._keys.names) + 1
        fields = plain.schema.fields[heads:]
        parts = [
            panes.decompose(a, i, f)
            for i, (a, f) in enumerate(zip(aggregates, fields, strict=True))
        ]
        sliding = self._slide_us < self._size_us
        whole = [part for part in parts if part is not None]
        routed = self._watermarked(self._routed())
        if not (self._panes and sliding and len(whole) == len(parts)):
            return routed.groupBy(window, *groups._keys.columns).agg(*aggregates)
        return panes.pane_aggregate(
            routed,
            F.col(quoted(self._time)),
            self._size,
            self._slide,
            panes.pane_us(self._size_us, self._slide_us),
            groups._keys.columns,
            whole,
        )

    def aggregate(self, aggregator: Aggregator) -> DataFrame:
        """Return an aggregator's result columns per key and window, append mode.

        The combine stage updates one state per task, key and pane; the states then go into the windows
        as rows and are merged there by Spark's own aggregates.
        """
        groups = self._groups
        if self._watermark is None:
            raise DataError(
                "aggregate: give window(..., watermark=...): the watermark is set on the combined "
                "states, after the Python stage."
            )
        prepared = Prepared("aggregate", groups._df, groups._keys, aggregator)
        pane = panes.pane_us(self._size_us, self._slide_us)
        combined = combine(self._routed(), groups._keys, prepared, self._time, pane)
        window = F.window(F.col(quoted(self._time)), self._size, self._slide)
        merged = (
            combined.withWatermark(self._time, self._watermark)
            .groupBy(window, *groups._keys.columns)
            .agg(*prepared.merged())
        )
        kept: list[StructField] = merged.schema.fields[: len(groups._keys.names) + 1]
        return prepared.finish(merged, kept)

    # -- what happened -----------------------------------------------------------------------------

    @property
    def batches(self) -> list[learning.BatchRecord]:
        """What each micro-batch observed, since the frame was made."""
        return [] if self._loop is None else list(self._loop.records)

    def metrics(self) -> DataFrame:
        """Return the metrics of the query, one row per micro-batch, runs before this one included.

        Raises
        ------
        DataError
            Nothing is routed, or no batch has been noted yet.
        """
        if self._loop is None:
            raise DataError(
                f"metrics: policy {self._groups._policy!r} routes nothing, so nothing is noted; take a "
                "policy that learns, and state=."
            )
        from skewless.spark.query_metrics import read_metrics

        return read_metrics(self._groups._df.sparkSession, str(self._loop.log.folder))

    @property
    def idle(self) -> bool:
        """Whether the loop has learned from everything that it was told so far."""
        return self._loop is None or not self._loop.busy

    @property
    def routes(self) -> bool:
        """Whether the query routes by a policy log and reports every batch."""
        return self._loop is not None

    def explain(self) -> str:
        """Return the policy, its reason, and how rows are dealt, as text."""
        policy = self._groups._policy
        sliding = self._slide_us < self._size_us
        lines = [f"policy: {policy}"]
        if policy in (AUTO, SPARK):
            lines.append(
                "reason: Spark combines its own aggregates on the map side, so heavy keys do not "
                "reach one task; nothing is routed."
            )
        elif policy == LOCAL:
            lines.append("reason: rows are combined in the task that read them; nothing is routed.")
        else:
            lines.append(f"policy log: {self._groups._state}")
            lines.append(f"salt: {salt_column(self._groups._df, self._seed)[1]}")
        if sliding and self._panes and policy != SPARK:
            lines.append(
                "windows: one aggregation per pane, then panes into windows (append mode), for "
                "aggregates that can be put together from partial results."
            )
        return "\n".join(lines)

    # -- routing -----------------------------------------------------------------------------------

    def _watermarked(self, df: DataFrame) -> DataFrame:
        return df if self._watermark is None else df.withWatermark(self._time, self._watermark)

    @property
    def _seed(self) -> int:
        policy = self._groups._policy
        return policy.seed if isinstance(policy, (Policy, Routing)) else 0

    def _routed(self) -> DataFrame:
        groups = self._groups
        policy, df = groups._policy, groups._df
        if isinstance(policy, str):
            return df
        if isinstance(policy, Routing) and groups._state is None:
            return place(df, policy.n_workers, worker_of(df, groups._keys, policy)[0])
        return self._learned(policy, salt_column(df, policy.seed)[0])

    def _learned(self, policy: Policy | Routing, salt: Column) -> DataFrame:
        groups = self._groups
        df, session = groups._df, groups._df.sparkSession
        n, seed = policy.n_workers, policy.seed
        log = PolicyLog(str(groups._state))
        log.prepare()
        _require_shared(session, log)
        start = policy if isinstance(policy, Routing) else _initial(policy)
        if log.newest(n, seed) is None or isinstance(policy, Routing):
            log.write(start, policy=repr(policy))
        n_buckets = len(start.buckets) if len(start.buckets) > 1 else bucket_count(n)
        learner = policy if isinstance(policy, Policy) else None
        self._loop = learning.Loop(log, learner, n, seed, n_buckets)
        name = f"skewless-{uuid.uuid4()}"
        learning.follow(session, name, self._loop)
        current = _newest_policy(session, str(log.folder), n, seed, n_buckets)
        tables = expressions.struct_tables(F.col(_POLICY))
        routed = (
            _with_policy(df, current)
            .withColumn(_HASH, groups._keys.hash)
            .withColumn(_BUCKET, expressions.bucket_column(F.col(_HASH), n_buckets, seed))
            .withColumn(_WORKER, expressions.worker_column(tables, F.col(_HASH), salt, n, seed))
            .withColumn(_VERSION, F.col(_POLICY).getField("version"))
            .drop(_POLICY)
        )
        watched = routed.observe(
            name,
            *learning.observed(
                F.col(_VERSION),
                F.col(_WORKER),
                F.col(_HASH),
                F.col(_BUCKET),
                n,
                max(2 * n, 64),
                n_buckets,
                count_keys=isinstance(policy, Elastic),
            ),
        )
        routed = watched.drop(_HASH, _BUCKET, _VERSION)
        return place(routed, n, F.col(_WORKER)).drop(_WORKER)


def _initial(policy: Policy) -> Routing:
    """Return the routing before anything was seen: what the policy makes of nothing."""
    from skewless.partitioners import Shuffle

    if isinstance(policy, Shuffle):
        return Routing.shuffling(policy.n_workers)
    return Routing.hashing(policy.n_workers, seed=policy.seed)


def _newest_policy(
    session: SparkSession, folder: str, n_workers: int, seed: int, n_buckets: int
) -> DataFrame:
    """Return one row with the newest policy, a struct; every micro-batch reads it anew."""
    schema = f"version int, {expressions.TABLE_SCHEMA}"
    one = session.range(1, numPartitions=1).mapInArrow(
        policy_reader.reader(folder, n_workers, seed, n_buckets), schema
    )
    return one.select(F.struct("version", *Tables._fields).alias(_POLICY))


def _with_policy(df: DataFrame, policy: DataFrame) -> DataFrame:
    """Return the rows with the policy, as a scalar subquery; Spark before 4.0 joins it to them."""
    if hasattr(policy, "scalar"):
        return df.withColumn(_POLICY, policy.scalar())
    return df.crossJoin(F.broadcast(policy))


def _require_shared(session: SparkSession, log: PolicyLog) -> None:
    """Raise `DataError` if an executor cannot see the state folder (one small job; none if local)."""
    try:
        master = str(session.conf.get("spark.master", "local"))
    except Exception:  # noqa: BLE001 - a server may hide it; the probe below decides then
        master = "unknown"
    if master.startswith("local[") or master == "local":
        return
    token = log.folder / f".shared-{uuid.uuid4()}"
    token.touch()

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"seen": [token.exists()]})

    try:
        rows = session.range(8, numPartitions=8).mapInArrow(seen, "seen boolean").collect()
    finally:
        token.unlink(missing_ok=True)
    if not all(row["seen"] for row in rows):
        raise DataError(
            f"group_by: state={str(log.folder)!r} is not shared: an executor does not see what the "
            "driver wrote there; give a folder on storage that all of them mount."
        )
