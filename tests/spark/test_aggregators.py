"""The ready-made aggregators beside Spark's own, with most rows on one key."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.spark.aggregators import (
    Correlation,
    DistinctCount,
    FollowCounts,
    HeavyHitters,
    Moments,
    Quantiles,
    TopK,
)

policies = pytest.mark.parametrize(("policy", "workers"), [("local", None), ("wrap_around", 4)])


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Give 90 % of 2,000 rows to one key; keys of one row, of equal values, of nulls, and null."""
    n = F.col("id")
    return spark.range(0, 2_000, 1, 4).select(
        F.when(n < 1_800, "hot")
        .when(n < 1_801, "single")
        .when(n < 1_820, "flat")
        .when(n < 1_840, "nulls")
        .when(n < 1_860, None)
        .otherwise(F.concat(F.lit("c"), n % 14))
        .alias("k"),
        F.when((n % 11 == 0) | n.between(1_820, 1_839), None)
        .when(n.between(1_801, 1_819), 0.1)
        .otherwise(((n * 7_919) % 1_009) / 8.0 + 1_000)
        .cast("double")
        .alias("x"),
        F.when(n % 13 != 0, ((n * 104_729) % 997 + n % 50) / 4.0).cast("double").alias("y"),
        F.when(n % 17 != 0, F.concat(F.lit("w"), (n * n) % 37)).alias("word"),
        F.concat(F.lit("w"), (n * n + n) % 5).alias("next_word"),
        ((n * 31) % 700).cast("int").alias("v"),
        (n % 9).alias("weight"),
    )


@pytest.fixture(scope="module")
def listed(rows: DataFrame) -> dict[str | None, list[Row]]:
    """Give the rows of each key, collected."""
    by_key: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows.collect():
        by_key[row.k].append(row)
    return by_key


def aggregated(rows: DataFrame, aggregator, policy, workers) -> dict[str | None, Row]:
    found = skewless.group_by(rows, "k", policy=policy, workers=workers).aggregate(aggregator)
    assert found.columns == ["k", *aggregator.result_schema.names]
    collected = found.collect()
    assert len({row.k for row in collected}) == len(collected)
    return {row.k: row for row in collected}


def assert_as_spark(found: dict[str | None, Row], expected: DataFrame) -> None:
    theirs = {row.k: row for row in expected.collect()}
    assert found.keys() == theirs.keys()
    for key, row in theirs.items():
        assert list(found[key].asDict()) == list(row.asDict())
        for name, value in row.asDict().items():
            ours = found[key][name]
            if isinstance(value, float):
                assert ours == pytest.approx(value, rel=1e-9, abs=1e-9), (key, name)
            else:
                assert ours == value, (key, name)


def best(counter: Counter, k: int) -> list:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:k]


@policies
def test_moments_equal_spark_s_statistics(rows, policy, workers) -> None:
    expected = rows.groupBy("k").agg(
        F.count("x").alias("n"),
        F.avg("x").alias("mean"),
        F.var_samp("x").alias("var_samp"),
        F.var_pop("x").alias("var_pop"),
        F.skewness("x").alias("skewness"),
        F.kurtosis("x").alias("kurtosis"),
    )
    # Equal values: Spark's merge of averages may leave a variance of an ulp, ours is 0.
    found = aggregated(rows, Moments("x"), policy, workers)
    flat = found.pop("flat")
    assert (flat.mean, flat.var_samp, flat.var_pop) == (0.1, 0.0, 0.0)
    assert flat.skewness is flat.kurtosis is None
    assert found["nulls"].n == 0
    assert found["nulls"].mean is found["single"].var_samp is None
    assert_as_spark(found, expected.where("k is null or k != 'flat'"))


@policies
def test_correlation_equals_spark_s(rows, policy, workers) -> None:
    # In ANSI mode Spark's corr divides by zero where a column does not vary.
    some = rows.where("k is null or k != 'flat'")
    both = F.when(F.col("x").isNotNull() & F.col("y").isNotNull(), 1)
    expected = some.groupBy("k").agg(
        F.count(both).alias("n"),
        F.covar_samp("x", "y").alias("covar_samp"),
        F.covar_pop("x", "y").alias("covar_pop"),
        F.corr("x", "y").alias("corr"),
    )
    assert_as_spark(aggregated(some, Correlation("x", "y"), policy, workers), expected)
    flat = rows.where("k = 'flat'")
    assert aggregated(flat, Correlation("x", "y"), policy, workers)["flat"]["corr"] is None


@policies
def test_top_k_equals_counting_per_value(rows, policy, workers) -> None:
    counted = rows.where("word is not null").groupBy("k", "word")
    counts: dict[str | None, Counter] = defaultdict(Counter)
    weights: dict[str | None, Counter] = defaultdict(Counter)
    for row in counted.agg(F.count("*").alias("n"), F.sum("weight").alias("total")).collect():
        counts[row.k][row.word] = row.n
        weights[row.k][row.word] = row.total
    for by, expected in ((None, counts), ("weight", weights)):
        found = aggregated(rows, TopK("word", 4, by=by), policy, workers)
        for key, row in found.items():
            assert [(e["value"], e.n) for e in row.top] == best(expected[key], 4), key


@pytest.mark.parametrize(
    ("value_type", "sql"),
    [
        ("int", "v"),
        ("bigint", "cast(v as bigint)"),
        ("double", "cast(v as double) / 4"),
        ("decimal(12,3)", "cast(v / 4 as decimal(12,3))"),
        ("date", "date_add(date'2024-01-01', v)"),
        ("timestamp", "timestamp_seconds(v)"),
        ("timestamp_ntz", "cast(timestamp_seconds(v) as timestamp_ntz)"),
        ("boolean", "v % 3 = 0"),
        ("binary", "cast(cast(v as string) as binary)"),
        ("string", "cast(v as string)"),
    ],
)
def test_values_of_every_type_come_back_as_they_were(rows, value_type, sql) -> None:
    typed = rows.selectExpr("k", f"{sql} as typed")
    groups = skewless.group_by(typed, "k", policy="wrap_around", workers=4)
    found = groups.aggregate(TopK("typed", 2_000, value_type=value_type))
    assert (
        found.schema["top"].dataType.elementType["value"].dataType == typed.schema["typed"].dataType
    )
    flat = found.select("k", F.explode("top").alias("e")).select("k", "e.value", "e.n")
    expected = typed.groupBy("k", "typed").count()
    assert Counter(map(repr, map(tuple, flat.collect()))) == Counter(
        map(repr, map(tuple, expected.collect()))
    )


@policies
def test_heavy_hitters_are_within_their_error(rows, listed, policy, workers) -> None:
    found = aggregated(rows, HeavyHitters("v", 50, "int"), policy, workers)
    assert found.keys() == listed.keys()
    for key, row in found.items():
        counter = Counter(r.v for r in listed[key])
        assert row.n == counter.total()
        assert row.error <= row.n / 51
        heavy = {e["value"]: e.n for e in row.heavy}
        assert all(n - row.error <= counter[value] <= n for value, n in heavy.items())
        assert all(counter[value] <= row.error for value in counter.keys() - heavy.keys())


@policies
@pytest.mark.parametrize("accuracy", [5, 1_000])
def test_quantiles_are_within_their_rank_error(rows, listed, policy, workers, accuracy) -> None:
    probabilities = [0.0, 0.1, 0.5, 0.9, 1.0]
    found = aggregated(rows, Quantiles("x", probabilities, accuracy), policy, workers)
    assert found.keys() == listed.keys()
    for key, row in found.items():
        values = sorted(r.x for r in listed[key] if r.x is not None)
        assert row.n == len(values)
        if not values:
            assert row.quantiles is None
            continue
        assert row.rank_error <= 1 / accuracy
        error = round(row.rank_error * row.n)
        for p, quantile in zip(probabilities, row.quantiles, strict=True):
            rank = max(1, math.ceil(p * len(values)))
            assert sum(v < quantile for v in values) < rank + error, (key, p)
            assert sum(v <= quantile for v in values) >= rank - error, (key, p)


@policies
def test_distinct_counts_are_near_those_that_spark_counts(rows, policy, workers) -> None:
    expected = rows.groupBy("k").agg(
        F.count_distinct("v").alias("exact"), F.approx_count_distinct("v", 0.016).alias("theirs")
    )
    count = DistinctCount("v")
    found = aggregated(rows, count, policy, workers)
    exact = {row.k: row for row in expected.collect()}
    assert found.keys() == exact.keys()
    for key, row in found.items():
        n = exact[key].exact
        assert abs(row.n_distinct - n) <= max(1, 4 * count.error * n), key
        assert abs(row.n_distinct - exact[key].theirs) <= max(2, 8 * count.error * n), key


@policies
def test_follow_counts_equal_counting_per_pair(rows, listed, policy, workers) -> None:
    found = aggregated(rows, FollowCounts("word", "next_word", 3), policy, workers)
    assert found.keys() == listed.keys()
    for key, row in found.items():
        counter = Counter((r.word, r.next_word) for r in listed[key] if r.word is not None)
        assert row.n == counter.total()
        assert [((e["value"], e["next"]), e["n"]) for e in row.follows] == best(counter, 3)


def test_the_key_itself_may_be_followed(rows) -> None:
    words = rows.where("word is not null").select("word", "next_word")
    groups = skewless.group_by(words, "word", policy="wrap_around", workers=4)
    found = groups.aggregate(FollowCounts("word", "next_word", 1)).collect()
    assert {row.word for row in found} == {row.follows[0]["value"] for row in found}


def test_a_column_may_be_spelled_as_spark_allows(rows) -> None:
    found = aggregated(rows, Moments("X"), "local", None)
    assert found["hot"] == aggregated(rows, Moments("x"), "local", None)["hot"]


def test_a_wrong_value_type_is_explained(rows) -> None:
    with pytest.raises(Exception, match=r"TopK: column 'v' holds int32, not a string"):
        aggregated(rows, TopK("v", 1), "local", None)
