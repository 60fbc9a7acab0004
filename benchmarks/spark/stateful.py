"""A count and a sum per key over micro-batches: our stateful streams beside Spark's own two ways.

* ``applyInPandasWithState`` and ``transformWithStateInPandas`` keep a state per key in Spark's state
  store, partitioned by Spark's hash for the life of the query;
* ``stateful`` per key and vectorised, with KIP, which moves keys between batches.

Two machines: ``local[2]``, where all work is real CPU, over few keys and over many, and ``local[16]``,
where a row sleeps, so that sixteen slots can be had on few cores. There the heaviest key bounds every
way, since none may cut it: ``bound`` is its rows over a worker's fair share. All read the same rows, a
file a batch, and end with the same counts, which is checked. The time is that of the batches after the
first one (start-up and compilation), from Spark's own progress reports; the bytes are those of the
state's folder when the stream ends, kept versions with it.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import skewless
from benchmarks.spark.grouping import work
from benchmarks.spark.session import local_session
from skewless.datasets import zipf
from skewless.state_store import read_state

__all__ = ["run"]

#: What transformWithState needs.
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
STATE, OUTPUT = "n long, total long", "k long, n long, total long"
#: Slots, rows as a part of all, distinct keys, Zipf exponents.
CELLS = (
    (2, 1.0, 20_000, (0.0, 1.5)),
    (2, 0.1, 1_000_000, (0.0, 1.5)),
    (16, 0.064, 20_000, (0.0, 1.0, 1.5)),
)


def run(
    rows: int = 1_000_000,
    n_batches: int = 6,
    cost_us: float = 2_000.0,
    seed: int = 7,
    cells: tuple[tuple[int, float, int, tuple[float, ...]], ...] = CELLS,
) -> dict[str, Any]:
    """Run all ways once in every cell, print the tables, and return what was measured."""
    found = []
    for slots, part, distinct, exponents in cells:
        cost = cost_us if slots > 2 else 0.0
        for exponent in exponents:
            with tempfile.TemporaryDirectory(prefix="skewless-bench-") as name:
                folder, n = Path(name), int(rows * part)
                truth = _write(folder / "in", n, distinct, exponent, n_batches, seed)
                cell = {"master": f"local[{slots}]", "rows": n, "distinct": distinct}
                cell |= {"zipf": exponent, "cost_us": cost}
                found.append(cell | _cell(folder, slots, cell, truth))
    return {"benchmark": "spark/stateful", "batches": n_batches, "cells": found}


def _cell(folder: Path, slots: int, cell: dict[str, Any], truth: dict[int, int]) -> dict[str, Any]:
    workers = max(slots, 8)
    bound = max(truth.values()) / cell["rows"] * workers
    told = ", ".join(f"{name} {value}" for name, value in cell.items())
    print(f"\n{told}; {workers} workers, bound {bound:.2f}")
    spark = local_session(folder, slots, workers, "2g", _SETTINGS)
    # A batch is as long as its slowest task; what adaptive execution merges would hide that.
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    ways = {}
    try:
        for way, start in _ways(workers, cell["cost_us"]).items():
            ways[way] = _measure(spark, folder, way, start, truth)
            _print(way, ways[way])
    finally:
        spark.stop()
    return {"workers": workers, "bound": bound, "ways": ways}


def _write(
    folder: Path, rows: int, distinct: int, exponent: float, n_batches: int, seed: int
) -> dict[int, int]:
    folder.mkdir()
    keys = zipf(rows, distinct, exponent, seed=seed).view(np.int64)
    for i, part in enumerate(np.array_split(keys, n_batches)):
        path = folder / f"{i:03d}.parquet"
        pq.write_table(pa.table({"k": pa.array(part), "v": pa.array(part % 97)}), path)
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
    unique, counts = np.unique(keys, return_counts=True)
    return dict(zip(unique.tolist(), counts.tolist(), strict=True))


def _functions(cost_us: float) -> tuple[Any, Any, Any, Any]:
    """Return the job per key, vectorised, for ``applyInPandasWithState`` and as a processor."""

    def per_key(key: tuple[Any, ...], rows: pa.Table, state: dict[str, Any] | None) -> Any:
        work(rows.num_rows * cost_us)
        n = (state["n"] if state else 0) + rows.num_rows
        total = (state["total"] if state else 0) + int(rows.column("v").to_numpy().sum())
        return {"n": n, "total": total}, [{"k": key[0], "n": n, "total": total}]

    def vectorised(rows: pa.Table, slots: Any, states: pa.Table) -> Any:
        work(rows.num_rows * cost_us)
        n = states.column("n").fill_null(0).to_numpy() + np.bincount(slots, minlength=len(states))
        total = states.column("total").fill_null(0).to_numpy().copy()
        np.add.at(total, slots, rows.column("v").to_numpy())
        table = pa.table({"k": states.column("k"), "n": n, "total": total})
        return table, table

    def counted(key: tuple[Any, ...], parts: Iterator[Any], n: int, total: int) -> Any:
        for part in parts:
            work(len(part) * cost_us)
            n, total = n + len(part), total + int(part["v"].sum())
        return (n, total), pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})

    def pandas_with_state(key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
        new, out = counted(key, parts, *(state.get if state.exists else (0, 0)))
        state.update(new)
        yield out

    def processor() -> Any:
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        class Count(StatefulProcessor):  # type: ignore[misc]
            def init(self, handle: Any) -> None:
                self.state = handle.getValueState("state", STATE)

            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
                new, out = counted(
                    key, rows, *(self.state.get() if self.state.exists() else (0, 0))
                )
                self.state.update(new)
                yield out

            def close(self) -> None: ...

        return Count()

    return per_key, vectorised, pandas_with_state, processor


def _ways(workers: int, cost_us: float) -> dict[str, Callable[[DataFrame, Path], tuple[Any, Any]]]:
    per_key, vectorised, pandas_with_state, processor = _functions(cost_us)

    def ours(form: str, function: Any) -> Callable[[DataFrame, Path], tuple[Any, Any]]:
        def start(stream: DataFrame, folder: Path) -> tuple[Any, Any]:
            groups = skewless.group_by(
                stream, "k", policy=skewless.KIP(workers), state=str(folder / "state")
            )
            stateful = groups.stateful(function, STATE, OUTPUT, form=form)
            return stateful.writeStream, stateful

        return start

    def with_state(stream: DataFrame, _: Path) -> tuple[Any, Any]:
        frame = stream.groupBy("k").applyInPandasWithState(
            pandas_with_state, OUTPUT, STATE, "update", "NoTimeout"
        )
        return frame.writeStream.outputMode("update"), None

    def transformed(stream: DataFrame, _: Path) -> tuple[Any, Any]:
        frame = stream.groupBy("k").transformWithStateInPandas(
            processor(), OUTPUT, "Update", "None"
        )
        return frame.writeStream.outputMode("update"), None

    ways = {
        "stateful, vectorised, KIP": ours("vectorised", vectorised),
        "stateful, per key, KIP": ours("per_key", per_key),
        "applyInPandasWithState": with_state,
    }
    try:
        found = importlib.util.find_spec("google.protobuf")
    except ModuleNotFoundError:
        found = None
    if found is None:
        print("transformWithStateInPandas needs protobuf, which is not installed: left out")
        return ways
    return {**ways, "transformWithStateInPandas": transformed}


def _measure(
    spark: SparkSession,
    folder: Path,
    way: str,
    start: Callable[[DataFrame, Path], tuple[Any, Any]],
    truth: dict[int, int],
) -> dict[str, Any]:
    home = folder / way.replace(" ", "-")
    home.mkdir()
    source = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
    writer, stateful = start(source.parquet(str(folder / "in")), home)
    last: dict[int, int] = {}

    def keep(frame: DataFrame, _batch: int) -> None:
        for row in frame.toArrow().to_pylist():
            last[row["k"]] = row["n"]

    cpu, wall = _cpu_s(), time.perf_counter()
    writer = writer.foreachBatch(keep).option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - wall
    assert last == truth, way
    if stateful is not None:
        states = read_state(home / "state")
        assert dict(zip(*(states.column(c).to_pylist() for c in ("k", "n")), strict=True)) == truth
    took = [p["batchDuration"] for p in query.recentProgress if p["numInputRows"]][1:]
    found = {"wall_s": wall, "cpu_s": cpu, "batch_ms": statistics.median(took)}
    found["batch_ms_min"], found["batch_ms_max"] = min(took), max(took)
    kept = home / ("checkpoint/state" if stateful is None else "state")
    found["state_mb"] = sum(p.stat().st_size for p in kept.rglob("*") if p.is_file()) / 1e6
    if stateful is not None:
        records = stateful.batches
        found["max_over_mean"] = [round(record.max_over_mean, 3) for record in records]
        found["relative_migration"] = [round(record.relative_migration, 4) for record in records]
        found["migration_ms"] = [round(record.migration_ms, 1) for record in records]
    return found


def _cpu_s() -> float:
    """Return the CPU seconds of this process's user and the JVM's, with their ended children."""
    from benchmarks.spark.repartition import _cpu_s as cpu_s

    return cpu_s()


def _print(way: str, found: dict[str, Any]) -> None:
    print(
        f"{way:28} {found['batch_ms']:8.0f} ms a batch ({found['batch_ms_min']:.0f}-"
        f"{found['batch_ms_max']:.0f}) {found['wall_s']:8.1f} s wall {found['cpu_s']:8.1f} s cpu "
        f"{found['state_mb']:8.1f} MB  {found.get('max_over_mean', '')}",
        flush=True,
    )
