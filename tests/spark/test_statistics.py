"""The histogram that Spark counts is the one that numpy counts, in one pass over the frame."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.histogram import Histogram
from skewless.keys import hash64
from skewless.spark.keys import resolve_keys
from skewless.spark.statistics import _query, gather
from tests.spark.comparison import physical_plan

KEY = np.random.default_rng(2).zipf(1.3, 5_000) % 700


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = str(tmp_path_factory.mktemp("statistics") / "rows")
    rows = spark.createDataFrame(pa.table({"k": KEY}).to_pandas())
    rows.repartition(3).write.parquet(folder)
    return spark.read.parquet(folder)


@pytest.mark.parametrize(
    ("n_hot", "n_buckets", "seed"), [(64, 2048, 0), (1, 7, 3), (10_000, 16, 2**62)]
)
def test_equal_to_counting_in_numpy(
    frame: DataFrame, n_hot: int, n_buckets: int, seed: int
) -> None:
    counted = gather(frame, resolve_keys("test", frame, ["k"]), n_hot, n_buckets, seed)
    assert (counted.rows, counted.distinct) == (len(KEY), len(np.unique(KEY)))
    assert 1 <= counted.tasks <= 3
    found = counted.histogram
    expected = Histogram.of(hash64(pa.array(KEY))).top(n_hot, n_buckets, seed=seed)
    np.testing.assert_array_equal(found.keys, expected.keys)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.tail, expected.tail)
    assert (found.total, found.seed) == (len(KEY), seed)


@pytest.mark.classic
def test_the_frame_is_read_once(frame: DataFrame) -> None:
    query = _query(frame, resolve_keys("test", frame, ["k"]), 64, 2048, 0)
    query.collect()
    plan = physical_plan(query)
    final = plan[plan.index("Final Plan") : plan.index("Initial Plan")]
    assert final.count("FileScan") == 1
    assert "ReusedExchange" in final


def test_no_rows(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "k string")
    found = gather(empty, resolve_keys("test", empty, ["k"]), 8, 16).histogram
    assert (len(found), found.total) == (0, 0)
    assert found.tail is not None
    assert found.tail.tolist() == [0] * 16


def test_a_frame_with_other_rows_at_each_reading_gives_no_negative_total(
    spark: SparkSession,
) -> None:
    volatile = spark.range(3_000).select(F.floor(F.rand() * 50).alias("k"))
    found = gather(volatile, resolve_keys("test", volatile, ["k"]), 10, 16).histogram
    assert found.tail is not None
    assert found.tail.min() >= 0
    assert len(found) == 10
