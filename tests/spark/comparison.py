"""When two frames are the same: the multiset of rows, and the schema with its nullability."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from skewless.spark.versions import version_of


def needs(df: DataFrame, major: int, minor: int, what: str) -> None:
    """Skip the test where Spark is older, and so cannot do what it is about."""
    if version_of(df.sparkSession) < (major, minor):
        pytest.skip(f"Spark {major}.{minor} or newer {what}")


def assert_same_rows(found: DataFrame, expected: DataFrame) -> None:
    """Rows equal bit for bit, as a multiset; schema equal."""
    assert found.schema == expected.schema
    assert Counter(map(repr, found.collect())) == Counter(map(repr, expected.collect()))


def assert_same_groups(found: DataFrame, expected: DataFrame, n_keys: int) -> None:
    """Equal schema, and for each key equal values (floats to 1e-9, arrays as multisets)."""
    assert found.schema == expected.schema
    ours, theirs = _by_key(found, n_keys), _by_key(expected, n_keys)
    assert ours.keys() == theirs.keys()
    for key, values in theirs.items():
        for name, a, b in zip(found.columns[n_keys:], ours[key], values, strict=True):
            assert _close(a, b), (key, name, a, b)


def _by_key(df: DataFrame, n_keys: int) -> dict[str, Row]:
    rows = df.collect()
    found = {repr(tuple(row[:n_keys])): row[n_keys:] for row in rows}
    assert len(found) == len(rows), "a group is listed twice"
    return found


def _close(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        if any(isinstance(each, float) for each in (*a, *b)):
            return len(a) == len(b) and all(map(_close, sorted(a, key=_rank), sorted(b, key=_rank)))
        return Counter(map(repr, a)) == Counter(map(repr, b))
    return a == b


def _rank(value: float | None) -> tuple[bool, bool, float]:
    absent = value is None
    nan = not absent and math.isnan(value)  # type: ignore[arg-type]
    return absent, nan, 0.0 if absent or nan else value  # type: ignore[return-value]


def partition_sizes(df: DataFrame) -> list[int]:
    """Rows in each partition, empty ones included; on Connect those of an empty frame are not seen."""
    if hasattr(df, "_jdf"):
        return [len(part) for part in df.select(df.columns[:1]).rdd.glom().collect()]

    def size(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        n = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"partition": [context.partitionId()], "n": [n]})

    # A constant beside a column, so that the columns may have any names, twice the same even.
    rows = df.select(F.lit(0).alias("one")).mapInArrow(size, "partition long, n long").collect()
    return [row.n for row in sorted(rows)]


def physical_plan(df: DataFrame) -> str:
    """The plan that Spark will run, as text."""
    if hasattr(df, "_jdf"):
        return str(df._jdf.queryExecution().executedPlan().toString())
    return str(df._explain_string(mode="simple"))
