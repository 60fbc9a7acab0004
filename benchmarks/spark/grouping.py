"""What a grouped job costs: plain Spark, hand salting, ``"local"`` and skewless, side by side.

Four jobs: an algebraic aggregate (Spark's own), a custom aggregator with a small state, one with a large
state, and a function over whole groups. Two machines: ``local[2]``, where all work is real CPU, and
``local[32]``, where a row of Python work sleeps, so that 32 task slots can be had on few cores; there
the time is that of the slowest task and of what lies around it.

Plain Spark (``spark``) works on whole groups (``applyInArrow``), AQE as shipped. AQE sees bytes and not
the work on them, so it may put all rows of the second machine into one task: ``spark kept`` is the same
with its merging of small partitions off. Hand salting is what people write: a random salt of the number
of workers on every key, the function per (key, salt), and a merge of the parts; it has the merging off
too, since it would end in one task as well. ``even`` is the same
number of rows with keys that no hash can place unevenly, cut by WrapAround: what perfectly even tasks
would take. Every round runs all variants once, in an order that moves on by one, and compares their
answers; before the first, each runs on a few rows. What takes more than 25 s is stopped (its time is
then a lower bound, marked ``>``) and not run again; its workers end with it, so ``auto`` runs on a few
rows before the next, which would else wait for new ones to import. ``spark`` as shipped, which is
one task whatever the keys, is run at one exponent only.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from benchmarks.spark.session import local_session

__all__ = ["run"]

EXPONENTS = (0.0, 1.0, 1.5, 2.0)
JOBS = ("algebraic", "small state", "large state", "whole groups")
FEW = "few keys"
DISTINCT = {FEW: 200, "many keys": 20_000}
#: Exponents of many keys; few keys take all.
FEWER = (0.0, 1.5)
#: Length of the large state, in longs.
WIDE = 512
#: What making and merging one large state costs where cost is emulated.
WIDE_US = 5_000.0
#: A row of a whole group costs this part: the heaviest key alone is then done in the time allowed.
WHOLE = 0.25
EVEN = "even"
KEPT = "spark kept"
#: The exponent at which Spark as shipped is run where its merging leaves one task.
SHIPPED_AT = 1.5
#: Seconds after which a variant is stopped, and not run again.
STOPPED_S = 25.0
_MERGING = "spark.sql.adaptive.coalescePartitions.enabled"


class Small(skewless.Aggregator):
    """Count and sum; a row costs `cost_us`, asleep."""

    inputs = ("v",)
    state = "n long, total long"
    result = "rows long, sum long"
    merges: ClassVar = {"n": "sum", "total": "sum"}

    def __init__(self, cost_us: float) -> None:
        self.cost_us = cost_us

    def create(self) -> dict[str, Any]:
        return {"n": 0, "total": 0}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        work(rows.num_rows * self.cost_us)
        total = sum(rows["v"].to_pylist())
        return {"n": state["n"] + rows.num_rows, "total": state["total"] + total}

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"rows": state["n"], "sum": state["total"]}


class Large(skewless.Aggregator):
    """Counts of values by hash, 4 KiB; making and merging a state costs too."""

    inputs = ("v",)
    state = "counts binary"
    result = "rows long, sum long"

    def __init__(self, cost_us: float) -> None:
        self.cost_us = cost_us
        self.state_us = WIDE_US if cost_us else 0.0

    def create(self) -> dict[str, Any]:
        work(self.state_us)
        return {"counts": np.zeros(WIDE, np.int64).tobytes()}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        work(rows.num_rows * self.cost_us)
        counts = np.frombuffer(state["counts"], np.int64).copy()
        np.add.at(counts, rows["v"].to_numpy() % WIDE, 1)
        return {"counts": counts.tobytes()}

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        work(self.state_us)
        both = [np.frombuffer(s["counts"], np.int64) for s in (left, right)]
        return {"counts": (both[0] + both[1]).tobytes()}

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        counts = np.frombuffer(state["counts"], np.int64)
        return {"rows": int(counts.sum()), "sum": int(counts @ np.arange(WIDE))}


def work(microseconds: float) -> None:
    """Sleep; what a call of a slow service or a wait for a disk looks like to Spark."""
    if microseconds:
        time.sleep(microseconds / 1e6)


def run(
    rows: int = 128_000,
    cpu_rows: int = 1_000_000,
    rounds: int = 2,
    cost_us: float = 2_000.0,
    exponents: tuple[float, ...] = EXPONENTS,
    jobs: tuple[str, ...] = JOBS,
    keys: tuple[str, ...] = tuple(DISTINCT),
    machines: tuple[int, ...] = (32, 2),
) -> dict[str, Any]:
    """Measure every cell, print the tables, and return everything measured."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as folder:
        cells = []
        for slots in machines:
            n, cost = (rows, cost_us) if slots > 2 else (cpu_rows, 0.0)
            spark = local_session(Path(folder), slots, max(slots, 8))
            try:
                for kind in keys:
                    some = exponents if kind == FEW else [z for z in exponents if z in FEWER]
                    for job in jobs:
                        cells += _cells(
                            spark, Path(folder), slots, n, cost, rounds, kind, job, some
                        )
            finally:
                spark.stop()
    result = {
        "benchmark": "spark/grouping",
        "rows": {"local[32]": rows, "local[2]": cpu_rows},
        "cost_us": cost_us,
        "state_us": WIDE_US,
        "rounds": rounds,
        "cells": cells,
    }
    _print(cells)
    return result


def _cells(
    spark: SparkSession,
    folder: Path,
    slots: int,
    rows: int,
    cost_us: float,
    rounds: int,
    kind: str,
    job: str,
    exponents: Sequence[float],
) -> list[dict[str, Any]]:
    n_workers, distinct = max(slots, 8), DISTINCT[kind]
    even = _written(spark, folder, rows, distinct, None, n_workers)
    few = _written(spark, folder, 20 * n_workers, distinct, None, n_workers)
    quick = _variants(job, few, few, n_workers, cost_us / 100)
    for warm in quick.values():
        warm().toArrow()
    found = []
    for exponent in exponents:
        frame = _written(spark, folder, rows, distinct, exponent, n_workers)
        variants = _variants(job, frame, even, n_workers, cost_us)
        if cost_us and job != "algebraic" and exponent != SHIPPED_AT:
            del variants["spark"]
        cell = {"master": f"local[{slots}]", "job": job, "keys": kind, "zipf": exponent}
        cell["seconds"] = _times(spark, variants, rounds, quick["auto"])
        found.append(cell)
        print(_line(cell), flush=True)
    return found


def _written(
    spark: SparkSession, folder: Path, rows: int, distinct: int, exponent: float | None, files: int
) -> DataFrame:
    """Write keys of a Zipf law, or for ``None`` keys that every worker gets as many rows of."""
    path = folder / f"{rows}-{distinct}-{exponent}-{files}"
    if not path.exists():
        path.mkdir()
        rng = np.random.default_rng(5)
        if exponent is None:
            key = np.arange(rows) % distinct
        else:
            weights = np.arange(1, distinct + 1, dtype=np.float64) ** -exponent
            key = rng.choice(distinct, rows, p=weights / weights.sum())
        values = rng.integers(0, WIDE, rows)
        for i in range(files):
            part = slice(rows * i // files, rows * (i + 1) // files)
            table = pa.table({"k": key[part], "v": values[part]})
            pq.write_table(table, path / f"part-{i:03d}.parquet")
    # One file a task: otherwise Spark packs small files together, and "local" has few tasks.
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4194304")
    spark.conf.set("spark.sql.files.openCostInBytes", "4194304")
    return spark.read.parquet(str(path))


def _variants(
    job: str, frame: DataFrame, even: DataFrame, n: int, cost_us: float
) -> dict[str, Callable[[], DataFrame]]:
    salted = frame.withColumn("salt", (F.rand(1) * n).cast("int"))
    if job == "algebraic":
        sums = [F.count("*").alias("rows"), F.sum("v").alias("sum")]
        parts = salted.groupBy("k", "salt").agg(F.sum(F.lit(1)).alias("n"), F.sum("v").alias("t"))
        merged = parts.groupBy("k").agg(F.sum("n").alias("rows"), F.sum("t").alias("sum"))
        return {
            "spark": lambda: frame.groupBy("k").agg(*sums),
            KEPT: lambda: frame.groupBy("k").agg(*sums),
            "salted": lambda: merged,
            "wrap_around": lambda: skewless.group_by(
                frame, "k", policy="wrap_around", workers=n
            ).agg(*sums),
            "auto": lambda: skewless.group_by(frame, "k", workers=n).agg(*sums),
        }
    if job == "whole groups":
        function = _whole(Small(WHOLE * cost_us))
        schema = "k long, rows long, sum long"
        return {
            "spark": lambda: frame.groupBy("k").applyInArrow(function, schema),
            KEPT: lambda: frame.groupBy("k").applyInArrow(function, schema),
            "hash": lambda: skewless.group_by(frame, "k", policy="hash", workers=n).apply(
                function, schema
            ),
            "auto": lambda: skewless.group_by(frame, "k", workers=n).apply(function, schema),
        }
    aggregator = Small(cost_us) if job == "small state" else Large(cost_us)
    schema = "k long, rows long, sum long"
    part, merge = _salted(aggregator)
    parts = salted.groupBy("k", "salt").applyInArrow(part, f"k long, {aggregator.state}")

    def grouped(policy: str, rows: DataFrame = frame) -> Callable[[], DataFrame]:
        return lambda: skewless.group_by(rows, "k", policy=policy, workers=n).aggregate(aggregator)

    return {
        "spark": lambda: frame.groupBy("k").applyInArrow(_whole(aggregator), schema),
        KEPT: lambda: frame.groupBy("k").applyInArrow(_whole(aggregator), schema),
        "salted": lambda: parts.groupBy("k").applyInArrow(merge, schema),
        "local": grouped("local"),
        "hash": grouped("hash"),
        "wrap_around": grouped("wrap_around"),
        "auto": grouped("auto"),
        EVEN: grouped("wrap_around", even),
    }


def _whole(aggregator: Any) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def whole(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        state = aggregator.update(aggregator.create(), rows)
        return pa.table({"k": [key[0].as_py()]} | _listed(aggregator.finish(state)))

    return whole


def _salted(aggregator: Any) -> tuple[Callable[..., pa.Table], Callable[..., pa.Table]]:
    merges = getattr(aggregator, "merges", {})

    def part(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        state = aggregator.update(aggregator.create(), rows)
        return pa.table({"k": [key[0].as_py()]} | _listed(state))

    def merge(key: tuple[Any, ...], states: pa.Table) -> pa.Table:
        first, *others = states.drop_columns("k").to_pylist()
        for other in others:
            first = (
                {name: first[name] + other[name] for name in first}
                if merges
                else aggregator.merge(first, other)
            )
        return pa.table({"k": [key[0].as_py()]} | _listed(aggregator.finish(first)))

    return part, merge


def _listed(row: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: [value] for name, value in row.items()}


def _times(
    spark: SparkSession,
    variants: dict[str, Callable[[], DataFrame]],
    rounds: int,
    warm: Callable[[], DataFrame],
) -> dict[str, Any]:
    names = list(variants)
    timed: dict[str, list[float]] = {name: [] for name in names}
    expected: list[dict[str, Any]] | None = None
    for turn in range(rounds):
        for name in _rotated(names, turn):
            if timed[name] and timed[name][0] > STOPPED_S:
                continue
            spark.conf.set(_MERGING, str(name not in (KEPT, "salted")).lower())
            begun = time.perf_counter()
            answer = _stopped_when_long(spark, variants[name])
            timed[name].append(time.perf_counter() - begun)
            if answer is None:
                warm().toArrow()
            elif name != EVEN:
                rows = answer.sort_by("k").to_pylist()
                expected = expected or rows
                assert rows == expected, f"{name} has another answer"
    return {
        name: {"median": statistics.median(each), "min": min(each), "max": max(each)}
        for name, each in timed.items()
    }


def _stopped_when_long(spark: SparkSession, variant: Callable[[], DataFrame]) -> pa.Table | None:
    """Return the answer, or ``None`` if it was not there after `STOPPED_S`."""
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        spark.sparkContext.cancelAllJobs()

    spark.sparkContext.setInterruptOnCancel(True)
    timer = threading.Timer(STOPPED_S, stop)
    timer.start()
    try:
        return variant().toArrow()
    except Exception:
        if not stopped.is_set():
            raise
        return None
    finally:
        timer.cancel()


def _rotated(names: list[str], turn: int) -> Iterator[str]:
    first = turn % len(names)
    yield from names[first:] + names[:first]


def _line(cell: dict[str, Any]) -> str:
    seconds = {name: each["median"] for name, each in cell["seconds"].items()}
    plain = min(seconds[name] for name in ("spark", KEPT) if name in seconds)
    parts = [
        f"{name} {'>' * (value > STOPPED_S)}{value:.2f} ({plain / value:.2f}x)"
        for name, value in seconds.items()
    ]
    head = f"{cell['master']:10}{cell['job']:14}{cell['keys']:10}zipf {cell['zipf']:<4}"
    return f"{head} {'  '.join(parts)}"


def _print(cells: list[dict[str, Any]]) -> None:
    print("\nauto against the best of the others, and against even tasks (1 = as fast)")
    for cell in cells:
        seconds = {name: each["median"] for name, each in cell["seconds"].items()}
        even = seconds.pop(EVEN, None)
        auto = seconds.pop("auto")
        best = min(seconds, key=lambda name: seconds[name])
        print(
            f"{cell['master']:10}{cell['job']:14}{cell['keys']:10}zipf {cell['zipf']:<4}"
            f" auto {auto:6.2f} s  best {best:12}{seconds[best]:6.2f} s  ratio {auto / seconds[best]:.2f}"
            + ("" if even is None else f"  even/auto {even / auto:.2f}")
        )


if __name__ == "__main__":
    run()
