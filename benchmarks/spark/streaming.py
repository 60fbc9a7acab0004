"""What a windowed stream costs: plain Structured Streaming beside skewless, each over the same files.

Five tables. ``sliding``: a count of words in windows of 60 s every second, with Spark's own window
expression, by panes, and by running totals. ``auto``: a tumbling count under ``"auto"``, which leaves it
to Spark. ``routing``: rows sent to their workers and no more, by Spark's hash, by a fixed routing, by a
policy that learns from every batch; a routing spreads rows evenly, and even partitions compress less well
than a hot one, so Spark hashes a column without skew there too. ``modes``: the same count compiled and
exact. ``emulated``: a Python aggregator whose rows sleep, on sixteen slots, uniform and Zipf 1.5, small
states and large ones.

Every variant reads all files with ``availableNow``, some per batch, and its time is the sum of Spark's
own batch times from the second batch on: the first loads classes and compiles. Where rows sleep it is the
sum from the third batch on, since batches run back to back and what the first taught may come too late
for the second; the times of all batches are printed. Each answer is reduced to a count and a checksum
inside the query, and the variants' are compared. Variants take turns within a round.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from benchmarks.spark.grouping import Large, Small
from benchmarks.spark.session import local_session
from skewless.datasets.drawing import ranks

__all__ = ["run"]

SLOTS = 16
#: Micro-batches that a stream is read in, and those of one whose rows sleep.
BATCHES, SLEPT_BATCHES = 8, 5
#: The first batches, whose times do not count.
LEFT_OUT, SLEPT_LEFT_OUT = 1, 2
Variant = Callable[[DataFrame, str], DataFrame]


def run(
    rows: int = 10_000_000,
    slept_rows: int = 40_000,
    cost_us: float = 5_000.0,
    rounds: int = 2,
    tables: tuple[str, ...] = ("sliding", "auto", "routing", "modes", "emulated"),
) -> dict[str, Any]:
    """Measure every table, print it, and return everything measured."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as name:
        folder = Path(name)
        native = [table for table in tables if table != "emulated"]
        if native:
            spark = local_session(folder, 2, 8)
            try:
                for table in native:
                    found[table] = _NATIVE[table](spark, folder, rows, rounds)
            finally:
                spark.stop()
        if "emulated" in tables:
            spark = local_session(folder, SLOTS, SLOTS)
            try:
                found["emulated"] = _emulated(spark, folder, slept_rows, cost_us, rounds)
            finally:
                spark.stop()
    return {
        "benchmark": "spark/streaming",
        "rows": rows,
        "slept_rows": slept_rows,
        "cost_us": cost_us,
        "rounds": rounds,
        "tables": found,
    }


# -- the tables ------------------------------------------------------------------------------------


def _sliding(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    words = _written(folder, "words", rows, 5_000, 1.1, seconds=300, files=2 * BATCHES)
    watermark, size, slide = "1 second", "60 seconds", "1 second"

    def plain(df: DataFrame, _: str) -> DataFrame:
        rows = df.withWatermark("ts", watermark)
        return rows.groupBy(F.window("ts", size, slide), "k").agg(F.count("*").alias("n"))

    def ours(policy: str, **how: Any) -> Variant:
        def made(df: DataFrame, state: str) -> DataFrame:
            by = skewless.group_by(df, "k", policy=policy, workers=2, state=state)
            groups = by.window("ts", size, slide, watermark=watermark, **how)
            return groups.agg(F.count("*").alias("n"))

        return made

    variants = {
        "spark": plain,
        "panes, auto": ours("auto"),
        "panes, wrap_around": ours("wrap_around"),
        "running, local": ours("local", running=True),
        "running, wrap_around": ours("wrap_around", running=True),
    }
    # Watermarks differ by the operator's place, so only windows that all have emitted are compared.
    return _table(spark, folder, "sliding", words, variants, rounds, until=200)


def _auto(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    words = _written(folder, "words", rows, 5_000, 1.1, seconds=300, files=2 * BATCHES)

    def plain(df: DataFrame, _: str) -> DataFrame:
        rows = df.withWatermark("ts", "1 second")
        return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))

    def ours(df: DataFrame, state: str) -> DataFrame:
        by = skewless.group_by(df, "k", policy="auto", workers=2, state=state)
        return by.window("ts", "10 seconds", watermark="1 second").agg(F.count("*").alias("n"))

    return _table(
        spark, folder, "auto", words, {"spark": plain, "auto": ours}, rounds + 1, until=200
    )


def _routing(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    words = _written(folder, "words", rows, 5_000, 1.1, seconds=300, files=2 * BATCHES)
    n = 8
    counted = spark.read.parquet(str(words)).groupBy("k").count().orderBy(F.desc("count")).limit(20)
    counts = counted.withColumn("hash", F.xxhash64("k")).collect()
    total = rows / n
    hot = {
        row["hash"] % 2**64: dict.fromkeys(range(min(n, 1 + int(row["count"] / total))), 1.0)
        for row in counts
    }
    fixed = skewless.Routing(n, hot)

    def learned(policy: str) -> Variant:
        def made(df: DataFrame, state: str) -> DataFrame:
            by = skewless.group_by(df, "k", policy=policy, workers=n, state=state)
            return by._routing("compiled", "probed").routed()  # noqa: SLF001 - no window wanted

        return made

    variants: dict[str, Variant] = {
        "spark, even": lambda df, _: df.repartition(n, "v"),
        "spark, by key": lambda df, _: df.repartition(n, "k"),
        "fixed routing": lambda df, _: skewless.repartition(df, "k", policy=fixed),
        "wrap_around, learning": learned("wrap_around"),
        "dalton, learning": learned("dalton"),
    }
    return _table(spark, folder, "routing", words, variants, rounds + 1)


def _modes(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    words = _written(folder, "words", rows, 5_000, 1.1, seconds=300, files=2 * BATCHES)

    def ours(policy: Any, **how: Any) -> Variant:
        def made(df: DataFrame, state: str) -> DataFrame:
            by = skewless.group_by(df, "k", policy=policy, workers=8, state=state)
            return by.window("ts", "10 seconds", watermark="1 second", **how).agg(
                F.count("*").alias("n")
            )

        return made

    variants = {
        "local": ours("local"),
        "dalton, compiled": ours(skewless.Dalton(8)),
        "dalton, exact": ours(skewless.Dalton(8), mode="exact"),
        "pkg, exact": ours(skewless.PKG(8), mode="exact"),
    }
    return _table(spark, folder, "modes", words, variants, rounds, until=200)


def _emulated(
    spark: SparkSession, folder: Path, rows: int, cost_us: float, rounds: int
) -> dict[str, Any]:
    # One batch is as long as its slowest task, so what AQE merges counts: it is off for all.
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", str(SLOTS))
    found = {}
    for job, aggregator in (("small state", Small(cost_us)), ("large state", Large(cost_us))):
        for name, exponent, distinct in (("uniform", 0.0, 320), ("zipf 1.5", 1.5, 2_000)):
            files = SLOTS * SLEPT_BATCHES
            words = _written(folder, name, rows, distinct, exponent, seconds=100, files=files)

            def ours(policy: str, aggregator: skewless.Aggregator = aggregator) -> Variant:
                def made(df: DataFrame, state: str) -> DataFrame:
                    by = skewless.group_by(df, "k", policy=policy, workers=SLOTS, state=state)
                    return by.window("ts", "20 seconds", watermark="1 second").aggregate(aggregator)

                return made

            variants = {
                policy: ours(policy) for policy in ("hash", "local", "dalton", "wrap_around")
            }
            title = f"{job}, {name}"
            found[title] = _table(
                spark,
                folder,
                title,
                words,
                variants,
                rounds,
                until=60,
                batches=SLEPT_BATCHES,
                left_out=SLEPT_LEFT_OUT,
            )
    return found


_NATIVE = {"sliding": _sliding, "auto": _auto, "routing": _routing, "modes": _modes}


# -- measuring -------------------------------------------------------------------------------------


def _written(
    folder: Path, name: str, rows: int, distinct: int, exponent: float, *, seconds: int, files: int
) -> Path:
    """Write a stream in the order of time, in files of as many rows each."""
    path = folder / name.replace(" ", "-")
    if not path.exists():
        path.mkdir()
        keys = ranks(rows, distinct, exponent, seed=7).astype(np.int32)
        names = [f"word{rank}" for rank in range(distinct)]
        values = np.random.default_rng(7).integers(0, 512, rows)
        for i in range(files):
            part = slice(rows * i // files, rows * (i + 1) // files)
            time = np.arange(part.start, part.stop) * (seconds * 1_000_000 / rows)
            table = pa.table(
                {
                    "ts": pa.array(time.astype(np.int64), pa.timestamp("us", "UTC")),
                    "k": pa.DictionaryArray.from_arrays(keys[part], names).cast(pa.string()),
                    "v": values[part],
                }
            )
            pq.write_table(table, path / f"part-{i:04d}.parquet")
    return path


def _table(
    spark: SparkSession,
    folder: Path,
    title: str,
    words: Path,
    variants: dict[str, Variant],
    rounds: int,
    until: int | None = None,
    batches: int = BATCHES,
    left_out: int = LEFT_OUT,
) -> dict[str, Any]:
    files = len(list(words.iterdir())) // batches
    runs: dict[str, list[list[float]]] = {name: [] for name in variants}
    answers: dict[str, Any] = {}
    names = list(variants)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            each = folder / f"{title}-{names.index(name)}-{turn}".replace(" ", "-")
            each.mkdir()
            source = spark.readStream.schema("ts timestamp, k string, v long")
            df = source.option("maxFilesPerTrigger", files).parquet(str(words))
            times, answer = _timed(variants[name](df, str(each / "state")), each, until)
            runs[name].append(times)
            answers[name] = answer
    assert len(set(answers.values())) == 1, answers
    seconds = {name: [sum(times[left_out:]) for times in each] for name, each in runs.items()}
    first = next(iter(seconds))
    base = statistics.median(seconds[first])
    print(f"\n{title} ({rounds} rounds; {answers[first][0]:,} rows compared)")
    for name, spent in seconds.items():
        median = statistics.median(spent)
        print(
            f"  {name:24}{median:8.2f} s ({min(spent):.2f}-{max(spent):.2f}){base / median:8.2f}x"
            f"   batches {' '.join(f'{s:.1f}' for s in runs[name][-1])}",
            flush=True,
        )
    return {
        name: {
            "median": statistics.median(s),
            "min": min(s),
            "max": max(s),
            "batches": runs[name],
        }
        for name, s in seconds.items()
    }


def _timed(df: DataFrame, folder: Path, until: int | None) -> tuple[list[float], tuple[int, int]]:
    """Run a query over all files; return the seconds of its batches, and its answer."""
    found = {}
    columns = [name for name in df.columns if name != "window"]
    if "window" in df.columns:
        df = df.withColumn("end", F.col("window.end").cast("long"))
        columns = ["end", *columns]

    def reduce(rows: DataFrame, batch: int) -> None:
        if until is not None:
            rows = rows.where(F.col("end") <= until)
        one = rows.select(F.xxhash64(*columns).cast("decimal(38,0)").alias("h"))
        row = one.agg(F.count("*"), F.sum("h")).collect()[0]
        found[batch] = (row[0], int(row[1] or 0))

    query = (
        df.writeStream.outputMode("append")
        .foreachBatch(reduce)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    times = {p.batchId: p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress}
    answer = (sum(n for n, _ in found.values()), sum(h for _, h in found.values()))
    return [times[batch] for batch in sorted(times)], answer


if __name__ == "__main__":
    run()
