"""Windows planned batch by batch on Spark: equal to plain Python and plain Spark, once over a crash."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.keys import hash64
from skewless.spark.planned_batches import PlannedStream
from tests.oracles import reduce_buckets as buckets_oracle
from tests.oracles import stream_windows as oracle
from tests.spark import streams
from tests.unit.multiset import Multiset

# The sinks and hooks of these tests are closures in this process.
pytestmark = pytest.mark.classic

S = streams.SECOND_US
SIZE, SLIDE, DELAY = 10 * S, 4 * S, 3 * S
WINDOW: dict[str, Any] = {"watermark": "3 seconds", "mode": "planned"}


class Span(skewless.Aggregator):
    """Merges without an inverse, of several types."""

    inputs = ("v", "k")
    state = "n bigint, least bigint, names array<string>, seen boolean"
    result = "n_rows bigint, least bigint, n_names bigint, seen boolean"
    merges = {"n": "sum", "least": "min", "names": "concat", "seen": "bool_or"}

    def create(self):
        return {"n": 0, "least": None, "names": [], "seen": False}

    def update(self, state, rows):
        values = [v for v in rows["v"].to_pylist() if v is not None]
        return {
            "n": state["n"] + rows.num_rows,
            "least": min(
                [*values, *([] if state["least"] is None else [state["least"]])], default=None
            ),
            "names": [*state["names"], *(name or "" for name in rows["k"].to_pylist())],
            "seen": state["seen"] or bool(values),
        }

    def finish(self, state):
        return {
            "n_rows": state["n"],
            "least": state["least"],
            "n_names": len(state["names"]),
            "seen": state["seen"],
        }


@pytest.fixture(scope="module", autouse=True)
def two_partitions(spark: SparkSession) -> Iterator[None]:
    """Keep the queries short."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    return streams.unruly(1, n_batches=3)


@pytest.fixture(scope="module")
def folder(tables: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("planned") / "in"
    streams.write_batches(made, tables)
    return made


def groups(spark: SparkSession, folder: Path, state: Path, policy: Any = "prompt", **options: Any):
    workers = 3 if isinstance(policy, str) else None
    stream = streams.stream(spark, folder)
    return skewless.group_by(
        stream, "k", policy=policy, workers=workers, state=str(state), **options
    )


def run(stream: PlannedStream, folder: Path, mode: str = "append") -> list[dict[Any, Any]]:
    """Run what there is in the source; return the windows of each batch."""
    found: dict[int, list[dict[str, Any]]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        found[batch] = rows.toArrow().to_pylist()

    query = (
        stream.writeStream.outputMode(mode)
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(240)
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()
    return [keyed(found[batch]) for batch in sorted(found)]


def keyed(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    windows = {}
    for row in rows:
        times = [row["window"][name] for name in ("start", "end")]
        known = [each if each.tzinfo else each.replace(tzinfo=dt.timezone.utc) for each in times]
        at = [round(each.timestamp() * S) for each in known]
        assert (*at, row["k"]) not in windows
        windows[(*at, row["k"])] = tuple(
            value for name, value in row.items() if name not in ("window", "k")
        )
    return windows


def multiset(values: list[object]) -> tuple[Any, ...]:
    return len(values), sorted(v for v in values if v is not None)


def spanned(values: list[object]) -> tuple[Any, ...]:
    known = [v for v in values if v is not None]
    return len(values), min(known, default=None), len(values), bool(known)


def reference(tables: list[pa.Table], mode: str, slide: int, result: Any) -> list[dict[Any, Any]]:
    return [
        {
            (end - SIZE, end, key): result(values)
            for (end, key), values in (complete if mode == "append" else updated).items()
        }
        for complete, updated in oracle.windows(streams.rows_of(tables), SIZE, slide, DELAY)
    ][: len(tables)]


def in_time(tables: list[pa.Table], slide: int) -> list[list[tuple[int, Any]]]:
    """Return (time, key) of the rows of each batch that some open window holds."""
    return [
        [
            (time, key)
            for time, key, _ in rows
            if any(end > clock.late for end in oracle.ends(time, SIZE, slide))
        ]
        for rows, clock in oracle.clocks(streams.rows_of(tables), DELAY)
    ][: len(tables)]


def test_sliding_windows_are_those_of_the_reference_batch_by_batch(
    spark: SparkSession, tables: list[pa.Table], folder: Path, tmp_path: Path
) -> None:
    windows = groups(spark, folder, tmp_path / "s").window(
        "ts", "10 seconds", "4 seconds", **WINDOW
    )
    stream = windows.aggregate(Multiset(), reducers=2)
    assert run(stream, tmp_path) == reference(tables, "append", SLIDE, multiset)

    kept = in_time(tables, SLIDE)
    for record, rows, table in zip(stream.planned, kept, tables, strict=True):
        hashes = hash64(pa.array([key for _, key in rows], pa.string()))
        counts = Histogram.of(hashes)
        plan = skewless.Prompt(3).plan(counts)
        assert (record.rows, record.planned_from) == (len(rows), "batch")
        assert record.late_rows == table["ts"].is_valid().to_pylist().count(True) - len(rows)
        assert list(record.planned_loads) == plan.loads(counts).tolist()
        assert record.split_keys == len(plan.split_keys) > 0
        assert sum(record.block_loads) == sum(record.bucket_loads) == len(rows)
        assert (len(record.block_loads), len(record.bucket_loads)) == (3, 2)
        assert record.max_over_mean < 1.35  # by chance, at 130 rows a block
        assert 0 < record.planning_share < 1
        assert record.count_ms + record.plan_ms + record.read_ms + record.run_ms < record.total_ms
    assert stream.planned[-1].watermark_us is not None
    assert "planned from the counts of the batch itself" in stream.explain()
    assert "subtracted once" in stream.explain()


def test_blocks_and_buckets_of_whole_keys_are_the_planner_s_to_the_row(
    spark: SparkSession, tables: list[pa.Table], folder: Path, tmp_path: Path
) -> None:
    policy = skewless.OffGreedy(3)
    ntz = streams.stream(spark, folder).withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    by = skewless.group_by(ntz, "k", policy=policy, state=str(tmp_path / "s"))
    stream = by.window("ts", "10 seconds", **WINDOW).aggregate(Span(), reducers=4)
    assert run(stream, tmp_path, "update") == reference(tables, "update", SIZE, spanned)
    assert "merged from their panes" in stream.explain()
    for record, rows in zip(stream.planned, in_time(tables, SIZE), strict=True):
        hashes = hash64(pa.array([key for _, key in rows], pa.string()))
        plan = policy.plan(Histogram.of(hashes))
        owner = plan.route(hashes)
        assert record.block_loads == tuple(np.bincount(owner, minlength=3).tolist())
        assert record.block_loads == record.planned_loads
        buckets = [0] * 4
        for block in range(3):
            keys, sizes = np.unique(hashes[owner == block], return_counts=True)
            clusters = dict(zip(keys.tolist(), sizes.tolist(), strict=True))
            for key, bucket in buckets_oracle.reduce_buckets(clusters, set(), 4).items():
                buckets[bucket] += clusters[key]
        assert record.bucket_loads == tuple(buckets)


class Died(BaseException):
    """What a hook raises in place of a kill."""


def test_a_crash_before_the_commit_and_one_behind_it_count_nothing_twice(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = streams.unruly(4, n_rows=200)
    streams.write_batches(tmp_path / "in", tables[:3])
    found: list[dict[Any, Any]] = []
    points = iter(["between write and commit", "after commit"])
    for last in (False, False, True):
        if last:
            streams.write(tmp_path / "in", tables[3], 1, first=3)
        seen = 0
        point = None if last else next(points)

        def die(reached: str, point: str | None = point) -> None:
            nonlocal seen
            seen += reached == point
            if reached == point and seen == 2:
                raise RuntimeError(f"died {point}")

        windows = groups(spark, tmp_path / "in", tmp_path / "s", skewless.Prompt(2)).window(
            "ts", "10 seconds", "4 seconds", **WINDOW
        )
        stream = windows.aggregate(Multiset(), early=True)
        monkeypatch.setattr("skewless.state_store.faults.hook", die)
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        if last:
            assert query.awaitTermination(240)
        else:
            with pytest.raises(Exception, match=f"died {point}"):
                query.awaitTermination(240)
    # Batch 1 died before its commit, batch 2 behind it: the one ran again, the other did not.
    assert [record.batch for record in stream.planned] == [0, 1, 2, 3]
    assert [record.version for record in stream.batches] == [1, 2, 3, 4]
    assert [record.planned_from for record in stream.planned] == ["batch", *["previous"] * 3]
    for batch in range(4):
        out = tmp_path / "out" / f"batch={batch}"
        found.append(keyed(spark.read.parquet(str(out)).toArrow().to_pylist()))
    assert found == reference(tables, "append", SLIDE, multiset)
    assert stream.state().count() == stream.planned[-1].keys > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_streams_give_the_rows_and_columns_of_plain_spark(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    tables = streams.unruly(seed, n_batches=5, n_rows=300)
    streams.write_batches(tmp_path / "in", tables)
    far = pa.table(
        {"ts": pa.array([9_000 * S], pa.timestamp("us", "UTC")), "k": ["z"], "v": [1], "x": [0.0]}
    )
    # Spark ends with a batch without rows; here the next batch emits what the last one completed.
    for number in (5, 6):
        streams.write(tmp_path / "in", far, 1, first=number)
    stream = streams.stream(spark, tmp_path / "in")
    plain = (
        stream.withWatermark("ts", "3 seconds")
        .groupBy(F.window("ts", "10 seconds", "4 seconds"), "k")
        .agg(F.count("*").alias("n_rows"), F.array_sort(F.collect_list("v")).alias("values"))
    )
    by = groups(spark, tmp_path / "in", tmp_path / "s")
    ours = by.window("ts", "10 seconds", "4 seconds", **WINDOW).aggregate(Multiset())
    assert [(f.name, f.dataType) for f in ours.schema] == [
        (f.name, f.dataType) for f in plain.schema
    ]
    found: dict[Any, Any] = {}
    for windows in run(ours, tmp_path):
        assert not found.keys() & windows.keys()
        found.update(windows)
    (tmp_path / "plain").mkdir()
    rows = streams.run_updates(plain, tmp_path / "plain", "append")
    assert found == keyed([row for batch in rows for row in batch])
    assert len(found) > 100


@pytest.mark.slow
def test_a_weight_moves_the_plan_and_not_the_result_in_any_time_zone(
    spark: SparkSession, tables: list[pa.Table], folder: Path, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        _weigh(spark, tables, folder, tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _weigh(spark: SparkSession, tables: list[pa.Table], folder: Path, tmp_path: Path) -> None:
    heavy = F.when(F.col("k") == "k5", 40).otherwise(1)
    by = groups(spark, folder, tmp_path / "s", skewless.OffGreedy(2), weight=heavy)
    stream = by.window("ts", "10 seconds", **WINDOW).aggregate(Multiset())
    assert run(stream, tmp_path) == reference(tables, "append", SIZE, multiset)
    for record, rows in zip(stream.planned, in_time(tables, SIZE), strict=True):
        n_heavy = [key for _, key in rows].count("k5")
        assert sum(record.planned_loads) == len(rows) + 39 * n_heavy
        assert record.max_over_mean > 1.3


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"policy": "local"}, ParameterError, "'local' makes no plan"),
        ({"policy": "spark"}, ParameterError, "'spark' makes no plan"),
        ({"elastic": (1, 3)}, ParameterError, "elastic= changes the workers"),
        (
            {"state": None, "policy": "auto"},
            ParameterError,
            "mode='planned' keeps the window state",
        ),
        ({"window": {"running": True}}, ParameterError, "leave out running=True"),
        ({"window": {"panes": False}}, ParameterError, "panes=False"),
        ({"window": {"watermark": None}}, DataError, "give window"),
        ({"window": {"mode": "plan"}}, ParameterError, "'compiled', 'exact' or 'planned'"),
        ({"window": {"mode": "compiled"}, "weight": "v"}, ParameterError, "weight= drives"),
        ({"weight": "k"}, DataError, "weight must be numeric"),
        ({"weight": "v", "aggregate": {"early": True}}, ParameterError, "early=True goes by"),
        ({"aggregate": {"reducers": 0}}, ParameterError, "reducers must be an int"),
        ({"aggregate": {"keep": 0}}, ParameterError, "keep must be an int"),
        ({"merges": {"n": "sum", "counts": "hll_union"}}, ParameterError, "which only Spark does"),
        ({"merges": {"n": "sum", "counts": "sum"}}, ParameterError, "adds up numbers"),
    ],
)
def test_bad_input_is_refused_before_a_query_starts(
    options: dict[str, Any],
    error: type[Exception],
    sentence: str,
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
) -> None:
    of_group = {"policy": "prompt", "workers": 3, "state": str(tmp_path / "s")}
    of_group.update(
        {k: v for k, v in options.items() if k not in ("window", "aggregate", "merges")}
    )
    aggregator = Multiset()
    aggregator.merges = options.get("merges", Multiset.merges)
    with pytest.raises(error, match=sentence):
        skewless.group_by(streams.stream(spark, folder), "k", **of_group).window(
            "ts", "10 seconds", **{**WINDOW, **options.get("window", {})}
        ).aggregate(aggregator, **options.get("aggregate", {}))


def test_own_aggregates_complete_mode_and_keys_named_as_the_state_are_refused(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    windows = groups(spark, folder, tmp_path / "s").window("ts", "10 seconds", **WINDOW)
    with pytest.raises(ParameterError, match="Spark combines its own aggregates"):
        windows.agg(F.count("*"))
    stream = windows.aggregate(Multiset())
    with pytest.raises(ParameterError, match="must be 'append' or 'update', got 'complete'"):
        stream.writeStream.outputMode("complete")
    with pytest.raises(ParameterError, match=r"aggregate: set \.option"):
        stream.writeStream.start(str(tmp_path / "out"))
    renamed = streams.stream(spark, folder).withColumnRenamed("k", "_due")
    by = skewless.group_by(renamed, "_due", policy="prompt", workers=2, state=str(tmp_path / "s"))
    with pytest.raises(DataError, match="'_due' has the name of a column"):
        by.window("ts", "10 seconds", **WINDOW).aggregate(Multiset())
