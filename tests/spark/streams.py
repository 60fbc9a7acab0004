"""Small real streams for the tests: a folder of files, run to the end or file by file."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "ts timestamp, k string, v bigint, x double"
SECOND_US = 1_000_000


def rows(n_rows: int = 6_000, seconds: int = 40, seed: int = 0) -> pa.Table:
    """Rows in the order of time; one key in two rows is hot, one in twenty is null."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * SECOND_US, n_rows))
    key = rng.zipf(1.4, n_rows) % 200
    names = pa.array([f"w{x}" for x in key], mask=rng.random(n_rows) < 0.05)
    value = pa.array(rng.integers(-50, 50, n_rows), mask=rng.random(n_rows) < 0.1)
    return pa.table(
        {
            "ts": pa.array(time, pa.timestamp("us", "UTC")),
            "k": names,
            "v": value,
            "x": pa.array(rng.normal(size=n_rows)),
        }
    )


def write(folder: Path, table: pa.Table, n_files: int, first: int = 0) -> None:
    """Write a table as files in order; the source takes them in the order of their times."""
    folder.mkdir(exist_ok=True)
    edges = np.linspace(0, table.num_rows, n_files + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(edges.tolist()), start=first):
        path = folder / f"{i:04d}.parquet"
        hidden = folder / f"_{path.name}"
        pq.write_table(table.slice(start, stop - start), hidden)
        os.utime(hidden, (1_000_000_000 + i, 1_000_000_000 + i))
        hidden.rename(path)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """One file per micro-batch."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder))


def start(df: DataFrame, folder: Path, mode: str = "append") -> StreamingQuery:
    """Start a query that writes JSON-free Parquet; more files may be added while it runs."""
    return (
        df.writeStream.outputMode(mode)
        .format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def run(df: DataFrame, folder: Path) -> Counter[str]:
    """Run over all files and return the rows as a multiset."""
    query = (
        df.writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    return read(folder)


def read(folder: Path) -> Counter[str]:
    """Return the rows of a finished query; floats to nine digits."""
    table = pq.read_table(folder / "out")
    return Counter(repr(_rounded(row)) for row in table.to_pylist())


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return value


def unruly(seed: int, n_batches: int = 4, n_rows: int = 400) -> list[pa.Table]:
    """Batches with another hot key each, rows up to 20 s late, and nulls in time, key and values."""
    rng = np.random.default_rng(seed)
    tables = []
    for batch in range(n_batches):
        time = rng.integers(8 * batch * SECOND_US, 8 * (batch + 1) * SECOND_US, n_rows)
        time -= np.where(rng.random(n_rows) < 0.15, rng.integers(0, 20 * SECOND_US, n_rows), 0)
        key = np.where(rng.random(n_rows) < 0.5, batch, rng.integers(0, 12, n_rows))
        value = rng.integers(-5, 6, n_rows)
        tables.append(
            pa.table(
                {
                    "ts": pa.array(
                        time + 1_000 * SECOND_US,
                        pa.timestamp("us", "UTC"),
                        mask=rng.random(n_rows) < 0.02,
                    ),
                    "k": pa.array([f"k{x}" for x in key], mask=rng.random(n_rows) < 0.05),
                    "v": pa.array(value, mask=rng.random(n_rows) < 0.1),
                    "x": pa.array(rng.normal(size=n_rows) * 10.0 ** rng.integers(-9, 9, n_rows)),
                }
            )
        )
    return tables


def rows_of(tables: list[pa.Table]) -> list[list[tuple[int | None, str | None, object]]]:
    """Return (microseconds, key, value) of each row, for the oracle."""
    return [
        list(
            zip(
                table["ts"].cast(pa.int64()).to_pylist(),
                table["k"].to_pylist(),
                table["v"].to_pylist(),
                strict=True,
            )
        )
        for table in tables
    ]


def write_batches(folder: Path, tables: list[pa.Table]) -> None:
    """Write one file for each batch."""
    for number, table in enumerate(tables):
        write(folder, table, 1, first=number)


def run_updates(df: DataFrame, folder: Path, mode: str) -> list[list[dict[str, object]]]:
    """Run over all files; return what each batch emitted, kept in files since Connect has no closures."""

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "out" / f"{batch:04d}"))

    query = (
        df.writeStream.outputMode(mode)
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    return [pq.read_table(each).to_pylist() for each in sorted((folder / "out").iterdir())]
