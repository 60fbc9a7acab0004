"""The stages of a planned batch on Spark: select, count, blocks, reduce buckets, window state.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, sections 2.1 and 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.aggregation import Prepared
from skewless.spark.batch import place, place_by, worker_of
from skewless.spark.blocks import BUCKET, END, HASH, LATEST, TUPLES, Block, References
from skewless.spark.keys import KeyColumns, quoted
from skewless.spark.pane_step import WindowStep
from skewless.spark.pane_windows import Clock
from skewless.spark.python_workers import map_batches
from skewless.spark.stateful import run_workers
from skewless.spark.versions import arrow_schema, session_zone
from skewless.state_store.step import Receipt, Task

__all__ = ["WEIGHT", "Work", "counted", "partial_fields", "run_stages", "selected"]

#: What a row weighs in the plan, if that is not 1.
WEIGHT = "__skewless_weight"
_BLOCK = "__skewless_block"


class Work(NamedTuple):
    """A planned query: what does not change from batch to batch."""

    df: DataFrame
    keys: KeyColumns
    policy: Policy | Routing
    time: str
    weight: Column | None
    prepared: Prepared
    step: WindowStep
    """What a worker does with the partial results, but for the watermarks."""
    reducers: int
    """Reduce buckets, and owners of window states."""
    early: bool
    """Whether a batch is placed by the counts of the one before."""


def partial_fields(work_keys: list[StructField], prepared: Prepared) -> list[StructField]:
    """Return the columns of a reduced partial result."""
    return [
        *work_keys,
        StructField(END, LongType()),
        StructField(LATEST, TimestampType()),
        StructField(TUPLES, LongType()),
        *prepared.state.fields,
    ]


def selected(work: Work, batch_df: DataFrame) -> DataFrame:
    """Return what the stages read of a batch: keys, time, inputs, hash, end of the pane, weight."""
    names = dict.fromkeys([*work.keys.names, work.time, *work.prepared.inputs])
    ntz = isinstance(batch_df.schema[work.time].dataType, TimestampNTZType)
    at = quoted(work.time)
    stamp = F.expr(
        f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {at})"
        if ntz
        else f"unix_micros({at})"
    )
    pane = F.lit(work.step.spans.pane).cast("bigint")
    more = [] if work.weight is None else [work.weight.alias(WEIGHT)]
    return batch_df.select(
        *[F.col(quoted(name)) for name in names],
        work.keys.hash.alias(HASH),
        (stamp - F.pmod(stamp, pane) + pane).alias(END),
        *more,
    )


def counted(kept: DataFrame, in_time: Column) -> tuple[int, int]:
    """Read the batch; return the rows that are in time, and those that have a time."""
    one = F.lit(1)
    counts = kept.agg(F.count(F.when(in_time, one)), F.count(F.col(END))).first()
    assert counts is not None  # noqa: S101 - an aggregate without keys has one row
    return int(counts[0]), int(counts[1])


def run_stages(
    work: Work, rows: DataFrame, routing: Routing, task: Task, clock: Clock, updates: bool
) -> tuple[list[Receipt], list[int], list[int]]:
    """Run the map, reduce and state stages; return receipts, loads of blocks and of buckets."""
    prepared, keys = work.prepared, work.keys
    fields = [rows.schema[name] for name in keys.names]
    first = [StructField(BUCKET, IntegerType()), *fields]
    first += [StructField(name, LongType()) for name in (END, LATEST, TUPLES)]
    layout = StructType([*first, *prepared.state.fields])
    block = Block(
        prepared.aggregator,
        prepared.inputs,
        keys.names,
        work.time,
        work.step.spans.pane,
        References.of(routing),
        work.reducers,
        work.policy.seed,
        arrow_schema(layout, session_zone(rows.sparkSession)),
    )
    placed = place(rows, routing.n_workers, worker_of(rows, keys, routing)[0])
    columns = [F.col(quoted(name)) for name in block.columns()]
    mapped = map_batches(placed.select(*columns), block.__call__, layout)
    loads = Observation()
    mapped = mapped.withColumn(_BLOCK, F.spark_partition_id()).observe(
        loads, *_sums(_BLOCK, routing.n_workers), *_sums(BUCKET, work.reducers)
    )
    # A key has one bucket, so that to group by the bucket too changes nothing, and takes no exchange.
    merged = (
        place_by(mapped.drop(_BLOCK), work.reducers, BUCKET)
        .groupBy(F.col(BUCKET), *keys.columns, F.col(END))
        .agg(*prepared.merged(), F.max(LATEST).alias(LATEST), F.sum(TUPLES).alias(TUPLES))
    )
    # Spark's watermark knows milliseconds.
    latest = F.timestamp_micros(F.col(LATEST) - F.pmod(F.col(LATEST), F.lit(1_000))).alias(LATEST)
    reduced = prepared.joined(merged).select(
        *keys.columns,
        F.col(END),
        latest,
        F.col(TUPLES),
        *[F.col(quoted(f.name)) for f in prepared.state.fields],
    )
    step = work.step.at(clock, updates=updates)
    task = task._replace(update=task.update._replace(call=step))
    receipts = run_workers(reduced, keys, task, [F.col(END)])
    told = loads.get
    return receipts, _told(told, _BLOCK, routing.n_workers), _told(told, BUCKET, work.reducers)


def _sums(name: str, n: int) -> list[Column]:
    return [F.sum(F.when(F.col(name) == i, F.col(TUPLES))).alias(f"{name}_{i}") for i in range(n)]


def _told(told: dict[str, Any], name: str, n: int) -> list[int]:
    return [int(told[f"{name}_{i}"] or 0) for i in range(n)]
