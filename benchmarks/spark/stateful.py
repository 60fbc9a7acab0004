"""A count and a sum per key over micro-batches: our stateful streams beside Spark's own two ways.

* ``applyInPandasWithState`` and ``transformWithStateInPandas`` keep a state per key in Spark's state
  store, partitioned by Spark's hash for the life of the query;
* ``stateful`` per key and vectorised, with KIP, which moves keys between batches.

All read the same Zipf rows, a file a batch, and end with the same counts, which is checked. The time is
that of the batches after the first one (start-up and compilation), from Spark's own progress reports.
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
from benchmarks.spark.session import local_session
from skewless.state_store import read_state

__all__ = ["run"]

#: What transformWithState needs.
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
STATE, OUTPUT = "n long, total long", "k long, n long, total long"


def run(
    rows: int = 1_000_000, n_batches: int = 6, workers: int = 8, seed: int = 7
) -> dict[str, Any]:
    """Run all ways once, print a table, and return what was measured."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as name:
        folder = Path(name)
        truth = _write(folder / "in", rows, n_batches, seed)
        spark = local_session(folder, 2, workers, "2g", _SETTINGS)
        found = {}
        try:
            for way, start in _ways(workers).items():
                found[way] = _measure(spark, folder, way, start, truth)
                _print(way, found[way])
        finally:
            spark.stop()
    return {
        "benchmark": "spark/stateful",
        "rows": rows,
        "batches": n_batches,
        "workers": workers,
        "zipf": 1.5,
        "ways": found,
    }


def _write(folder: Path, rows: int, n_batches: int, seed: int) -> dict[int, int]:
    folder.mkdir()
    keys = np.minimum(np.random.default_rng(seed).zipf(1.5, rows), 100_000)
    for i, part in enumerate(np.array_split(keys, n_batches)):
        path = folder / f"{i:03d}.parquet"
        pq.write_table(pa.table({"k": pa.array(part), "v": pa.array(part % 97)}), path)
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
    unique, counts = np.unique(keys, return_counts=True)
    return dict(zip(unique.tolist(), counts.tolist(), strict=True))


def _per_key(key: tuple[Any, ...], rows: pa.Table, state: dict[str, Any] | None) -> Any:
    n = (state["n"] if state else 0) + rows.num_rows
    total = (state["total"] if state else 0) + int(rows.column("v").to_numpy().sum())
    return {"n": n, "total": total}, [{"k": key[0], "n": n, "total": total}]


def _vectorised(rows: pa.Table, slots: Any, states: pa.Table) -> Any:
    n = states.column("n").fill_null(0).to_numpy() + np.bincount(slots, minlength=len(states))
    total = states.column("total").fill_null(0).to_numpy().copy()
    np.add.at(total, slots, rows.column("v").to_numpy())
    table = pa.table({"k": states.column("k"), "n": n, "total": total})
    return table, table


def _pandas_with_state(key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
    n, total = state.get if state.exists else (0, 0)
    for part in parts:
        n, total = n + len(part), total + int(part["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def _processor() -> Any:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("state", STATE)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            n, total = self.state.get() if self.state.exists() else (0, 0)
            for part in rows:
                n, total = n + len(part), total + int(part["v"].sum())
            self.state.update((n, total))
            yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})

        def close(self) -> None: ...

    return Count()


def _ways(workers: int) -> dict[str, Callable[[DataFrame, Path], tuple[Any, Any]]]:
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
            _pandas_with_state, OUTPUT, STATE, "update", "NoTimeout"
        )
        return frame.writeStream.outputMode("update"), None

    def transformed(stream: DataFrame, _: Path) -> tuple[Any, Any]:
        frame = stream.groupBy("k").transformWithStateInPandas(
            _processor(), OUTPUT, "Update", "None"
        )
        return frame.writeStream.outputMode("update"), None

    ways = {
        "stateful, vectorised, KIP": ours("vectorised", _vectorised),
        "stateful, per key, KIP": ours("per_key", _per_key),
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
        f"{way:28} {found['batch_ms']:8.0f} ms a batch {found['wall_s']:8.1f} s wall "
        f"{found['cpu_s']:8.1f} s cpu  {found.get('max_over_mean', '')}",
        flush=True,
    )
