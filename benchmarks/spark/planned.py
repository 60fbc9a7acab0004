"""What planning costs a micro-batch, and what it buys: Prompt from the whole batch, early, and hashing.

A count and a sum per key over tumbling windows of a Zipf stream whose hot key changes every second batch.

* ``whole``: each batch is counted and planned from its own counts;
* ``early``: from the counts that the batch before brought back, so that nothing is counted;
* ``hash``: the same stages with plain hashing, nothing is counted or planned.

Once with a cheap aggregator, where planning weighs most, and once with an emulated cost per row (tasks
sleep), where balance shows in the time. The batches behind the first are looked at; all ways end with the
same sums, which is checked. The papers bound planning by 5 % of the batch interval (Prompt, figure 14b).
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import skewless
from benchmarks.spark.session import local_session
from skewless.routing import Routing

__all__ = ["run"]

SECOND_US = 1_000_000
#: Those that are looked at last run warmest.
WAYS = ("early", "whole", "hash")


class Sums(skewless.Aggregator):
    """A count and a sum, vectorised; `cost_us` is slept for each row."""

    inputs = ("v",)
    state = "n long, total long"
    result = "n_rows long, sum long"
    merges = {"n": "sum", "total": "sum"}  # noqa: RUF012

    def __init__(self, cost_us: float) -> None:
        self.cost_us = cost_us

    def create(self) -> dict[str, Any]:
        return {"n": 0, "total": 0}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        raise NotImplementedError

    def update_groups(self, rows: pa.Table, starts: Any) -> pa.Table:
        time.sleep(self.cost_us * rows.num_rows * 1e-6)
        total = np.add.reduceat(rows.column("v").to_numpy(), starts[:-1])
        return pa.table({"n": np.diff(starts), "total": total})

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"n_rows": state["n"], "sum": state["total"]}


def run(
    rows: int = 50_000,
    n_batches: int = 5,
    workers: int = 4,
    keys: int = 20_000,
    exponent: float = 1.2,
    costs_us: tuple[float, ...] = (0.0, 200.0),
    ways: tuple[str, ...] = WAYS,
    seed: int = 7,
) -> dict[str, Any]:
    """Run all ways once for each cost, print a table, and return what was measured."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as name:
        folder = Path(name)
        truth = _write(folder / "in", rows, n_batches, keys, exponent, seed)
        _write(folder / "warm", rows // 4, 2, keys, exponent, seed)
        spark = local_session(folder, workers, workers, "2g")
        found = []
        try:
            _measure(spark, folder / "warm", folder / "of-warm", "whole", 0.0, workers)
            for cost_us in costs_us:
                for way in ways:
                    home = folder / f"{way}-{cost_us:g}"
                    one = _measure(spark, folder / "in", home, way, cost_us, workers, truth)
                    found.append({"way": way, "cost_us": cost_us, **one})
                    _print(found[-1])
        finally:
            spark.stop()
    return {
        "benchmark": "spark/planned",
        "rows_a_batch": rows,
        "batches": n_batches,
        "workers": workers,
        "keys": keys,
        "zipf": exponent,
        "ways": found,
    }


def _write(
    folder: Path, rows: int, n_batches: int, keys: int, exponent: float, seed: int
) -> dict[int, int]:
    folder.mkdir()
    rng = np.random.default_rng(seed)
    share = np.arange(1, keys + 1) ** -exponent
    total: dict[int, int] = {}
    for i in range(n_batches):
        if i % 2 == 0:
            names = rng.permutation(keys)
        key = names[rng.choice(keys, rows, p=share / share.sum())]
        at = np.sort(rng.integers(0, SECOND_US, rows)) + i * SECOND_US
        value = key % 97
        path = folder / f"{i:03d}.parquet"
        table = pa.table({"ts": pa.array(at, pa.timestamp("us", "UTC")), "k": key, "v": value})
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
        for k, n in zip(*np.unique(key, return_counts=True), strict=True):
            total[int(k)] = total.get(int(k), 0) + int(n)
    return total


def _measure(
    spark: SparkSession,
    source: Path,
    home: Path,
    way: str,
    cost_us: float,
    workers: int,
    truth: dict[int, int] | None = None,
) -> dict[str, Any]:
    home.mkdir()
    reader = spark.readStream.schema("ts timestamp, k long, v long")
    stream = reader.option("maxFilesPerTrigger", 1).parquet(str(source))
    policy = Routing.hashing(workers) if way == "hash" else skewless.Prompt(workers)
    groups = skewless.group_by(stream, "k", policy=policy, state=str(home / "state"))
    windows = groups.window("ts", "1 hour", watermark="10 seconds", mode="planned")
    planned = windows.aggregate(Sums(cost_us), early=way == "early")
    last: dict[int, int] = {}

    def keep(frame: DataFrame, _batch: int) -> None:
        table = frame.toArrow()
        last.update(zip(table["k"].to_pylist(), table["n_rows"].to_pylist(), strict=True))

    cpu = _cpu_s()
    writer = planned.writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert truth is None or last == truth, way
    cpu = _cpu_s() - cpu
    records = planned.planned[1:]

    def median(field: str) -> float:
        return round(statistics.median(getattr(record, field) for record in records), 2)

    fields = ("read_ms", "count_ms", "plan_ms", "run_ms", "total_ms")
    return {
        **{field: median(field) for field in fields},
        "cpu_s_a_batch": round(cpu / (len(records) + 1), 2),
        "planning_share": round(statistics.median(r.planning_share for r in records), 4),
        "max_over_mean": [round(record.max_over_mean, 3) for record in records],
        "split_keys": [record.split_keys for record in records],
    }


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its children, which other work does not change."""
    from benchmarks.spark.repartition import _cpu_s as cpu_s

    return cpu_s()


def _print(found: dict[str, Any]) -> None:
    print(
        f"{found['way']:6} {found['cost_us']:4.0f} us a row: read {found['read_ms']:6.0f} count "
        f"{found['count_ms']:6.0f} plan {found['plan_ms']:5.1f} run {found['run_ms']:6.0f} total "
        f"{found['total_ms']:6.0f} ms, {found['cpu_s_a_batch']:.2f} cpu s a batch, "
        f"planning {found['planning_share']:6.1%}, blocks max/mean {found['max_over_mean']}",
        flush=True,
    )
