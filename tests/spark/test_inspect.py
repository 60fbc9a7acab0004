"""What ``inspect`` says of frames whose skew is known."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.costs import Costs
from skewless.errors import DataError, ParameterError

COSTS = Costs(0.05, 0.5, 5.0, 20.0)


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """99 % of the rows on one key, 50 null, 50 single; a key that is HTML."""
    n = F.col("id")
    return spark.range(0, 10_000, 1, 8).select(
        F.when(n < 9_900, "<script>alert(1)</script>")
        .when(n < 9_950, None)
        .otherwise(F.concat(F.lit("c"), n))
        .alias("k"),
        (n % 10).alias("user"),
        F.when(n == 0, 1_000_000).otherwise(1).alias("w"),
    )


@pytest.fixture(scope="module")
def report(hot):
    return skewless.inspect(hot, "k", workers=8, costs=COSTS)


def test_counts_shares_nulls_and_distinct_keys_are_exact(report) -> None:
    assert (report.rows, report.distinct, report.null_share) == (10_000, 52, 0.005)
    heavy, null = report.top[0], report.top[1]
    assert heavy.value == ("<script>alert(1)</script>",)
    assert (heavy.share, heavy.low, heavy.high) == (0.99, 0.99, 0.99)
    assert (null.value, null.share) == ((None,), 0.005)


def test_the_advice_splits_the_hot_key_and_leaves_sums_to_spark(report) -> None:
    text = repr(report)
    assert report.advice.policy in ("wrap_around", "local")
    assert "7.9 fair shares, so a key must be split" in text
    assert "leave them to Spark" in text
    assert "nothing for group-by" in text
    assert "not splittable; placed by weight the fullest worker has 7.9" in text


def test_even_composite_keys_need_no_splitting(hot) -> None:
    # One of the two columns is skewed, the pair is not.
    frame = hot.select("k", F.monotonically_increasing_id().alias("id"))
    report = skewless.inspect(frame, "k", "id", workers=4, costs=COSTS)
    assert report.top[0].share < 0.01
    assert report.advice.policy == "hash"


def test_weight_decides_what_is_heavy(hot) -> None:
    report = skewless.inspect(hot, "user", workers=4, weight="w", costs=COSTS)
    assert report.top[0].value == (0,)
    assert report.top[0].share > 0.99
    assert "share of weight" in repr(report)


def test_a_sample_says_how_sure_it_is(hot) -> None:
    report = skewless.inspect(hot, "k", workers=4, sample=0.1, costs=COSTS)
    top = report.top[0]
    assert 500 < report.rows < 1_500
    assert top.low < top.share < top.high
    assert top.low <= 0.99 <= top.high


def test_the_page_shows_keys_as_text_and_the_notebook_too(report, tmp_path) -> None:
    path = report.to_html(tmp_path / "keys.html")
    page = path.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "wrap_around" in page
    assert "<script>alert" not in report._repr_html_()
    assert "&lt;script&gt;" in report._repr_html_()


def test_everything_is_there_as_plain_values(report) -> None:
    found = json.loads(json.dumps(report.to_dict()))
    assert found["workers"] == 8
    assert found["top"][0]["share"] == 0.99
    assert {o["policy"] for o in found["outcomes"]} > {"local", "hash", "wrap_around"}


def test_an_empty_frame_says_so(hot) -> None:
    report = skewless.inspect(hot.limit(0), "k", workers=4, costs=COSTS)
    assert report.rows == 0
    assert report.advice.policy == "spark"
    assert "no rows" in repr(report)


def test_bad_input_is_refused_before_any_job(spark, hot) -> None:
    with pytest.raises(DataError, match="column 'usr' is not in the frame"):
        skewless.inspect(hot, "usr")
    with pytest.raises(ParameterError, match="workers must be an int of at least 1, got 0"):
        skewless.inspect(hot, "k", workers=0)
    with pytest.raises(ParameterError, match="sample must be a float in"):
        skewless.inspect(hot, "k", sample=0.0)
    with pytest.raises(ParameterError, match="did you mean 'wrap_around'"):
        skewless.inspect(hot, "k", policies=["wrap_arund"])
    stream = spark.readStream.format("rate").load()
    with pytest.raises(DataError, match="streaming frame has no end"):
        skewless.inspect(stream, "value")
