"""``group_by(...).agg`` gives plain Spark's rows and schema under every policy."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import partitioners, planners
from skewless.planners import WrapAround
from skewless.policy import policy_name
from skewless.routing import Routing
from skewless.spark import batch
from skewless.spark.batch_groups import BatchGroups
from skewless.spark.keys import quoted
from tests.spark.comparison import assert_same_groups, physical_plan

POLICIES = [policy_name(cls) for cls in (*partitioners.ALL, *planners.ALL)]


def _aggregates() -> list[Column]:
    return [
        F.count("*"),
        F.count("d"),
        F.sum("i"),
        F.sum("d"),
        F.avg("d").alias("mean of d"),
        F.sum("x"),
        F.avg("i"),
        F.min("s"),
        F.max("x"),
        F.count_distinct("i"),
        F.collect_set("s"),
        F.collect_list("i"),
        F.stddev("x"),
        F.percentile("i", 0.5),
        F.median("x"),
        F.approx_count_distinct("i"),
        F.hll_sketch_estimate(F.hll_sketch_agg("i")).alias("sketched"),
        F.bool_or(F.col("i") > 5),
        F.max_by("s", "x"),
    ]


@pytest.fixture(scope="module")
def zipf(spark: SparkSession) -> DataFrame:
    """Three key columns of mixed types with up to half nulls, and values of all numeric types."""
    rng = np.random.default_rng(3)
    n = 3_000
    a, b = rng.zipf(1.4, n) % 200, rng.zipf(1.8, n) % 50

    def holed(values: list[object], share: float) -> list[object]:
        return [None if u < share else v for v, u in zip(values, rng.random(n), strict=True)]

    rows = zip(
        holed([int(k) for k in a], 0.5),
        holed([f"key_{k}|{k % 3}" for k in b], 0.2),
        holed([Decimal(int(k) % 7) / 4 for k in b], 0.1),
        holed(rng.integers(-50, 50, n).tolist(), 0.1),
        holed([Decimal(int(v)) / 100 for v in rng.integers(-(10**6), 10**6, n)], 0.1),
        (rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)).tolist(),
        [f"s{v}" for v in rng.integers(0, 40, n)],
        strict=True,
    )
    keys = "k1 long, k2 string, k3 decimal(6,2)"
    schema = f"{keys}, i int, d decimal(10,2), x double not null, s string"
    return spark.createDataFrame(list(rows), schema).cache()


@pytest.mark.parametrize("policy", [*POLICIES, "auto", "spark", "local"])
def test_every_aggregate_under_every_policy(zipf: DataFrame, policy: str) -> None:
    found = skewless.group_by(zipf, "k1", policy=policy, workers=5).agg(*_aggregates())
    assert_same_groups(found, zipf.groupBy("k1").agg(*_aggregates()), 1)


@pytest.mark.parametrize("keys", [("k2",), ("k3", "k1"), ("k1", "k2", "k3")])
def test_one_to_three_keys_of_mixed_types(zipf: DataFrame, keys: tuple[str, ...]) -> None:
    aggregates = [F.sum("d"), F.avg("x"), F.count_distinct("s")]
    found = skewless.group_by(zipf, *keys, policy=WrapAround(6)).agg(*aggregates)
    assert_same_groups(found, zipf.groupBy(*keys).agg(*aggregates), len(keys))


def test_a_routing_object(zipf: DataFrame) -> None:
    found = skewless.group_by(zipf, "k1", policy=Routing.shuffling(3)).agg(F.sum("d"))
    assert_same_groups(found, zipf.groupBy("k1").agg(F.sum("d")), 1)


@pytest.mark.parametrize("policy", ["wrap_around", "auto"])
def test_the_shortcuts_of_grouped_data(zipf: DataFrame, policy: str) -> None:
    groups = skewless.group_by(zipf, "k2", policy=policy, workers=3)
    plain = zipf.groupBy("k2")
    assert_same_groups(groups.count(), plain.count(), 1)
    assert_same_groups(groups.sum("i", "d"), plain.sum("i", "d"), 1)
    assert_same_groups(groups.avg(), plain.avg(), 1)
    assert_same_groups(groups.mean("x"), plain.mean("x"), 1)
    assert_same_groups(groups.min("i"), plain.min("i"), 1)
    assert_same_groups(groups.max("x"), plain.max("x"), 1)
    assert_same_groups(
        groups.agg({"i": "sum", "*": "count"}), plain.agg({"i": "sum", "*": "count"}), 1
    )


def test_columns_bound_to_the_callers_frame(zipf: DataFrame) -> None:
    found = skewless.group_by(zipf, "k2", policy="pkg", workers=3).agg(F.sum(zipf.i), F.max(zipf.x))
    assert_same_groups(found, zipf.groupBy("k2").agg(F.sum(zipf.i), F.max(zipf.x)), 1)


def test_counts_are_taken_once_per_groups_object(
    zipf: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    gather = batch.gather
    monkeypatch.setattr(batch, "gather", lambda *a, **k: calls.append(1) or gather(*a, **k))
    groups = skewless.group_by(zipf, "k2", policy="wrap_around", workers=3)
    assert calls == []
    groups.count()
    groups.sum("i")
    groups.explain()
    assert calls == [1]


# -- cases from the field ------------------------------------------------------------------------


def _wrapped(df: DataFrame, *keys: str) -> BatchGroups:
    groups = skewless.group_by(df, *keys, policy="wrap_around", workers=4)
    assert isinstance(groups, BatchGroups)
    return groups


def test_null_is_a_group(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None, 1), (None, 2), ("a", 3)], "k string, v int")
    found = dict(map(tuple, _wrapped(frame, "k").agg(F.sum("v")).collect()))
    assert found == {None: 3, "a": 3}


def test_a_key_may_hold_any_delimiter(spark: SparkSession) -> None:
    rows = [("eu_west", 1), ("eu_east", 2), ("us", 3)]
    frame = spark.createDataFrame(rows, "k string, v int")
    assert dict(map(tuple, _wrapped(frame, "k").agg(F.sum("v")).collect())) == dict(rows)


def test_types_of_decimal_results_are_kept(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", Decimal("1.25"))] * 50, "k string, v decimal(10,2)")
    found = _wrapped(frame, "k").agg(F.sum("v"), F.avg("v"))
    kinds = [f.dataType.simpleString() for f in found.schema.fields]
    assert kinds == ["string", "decimal(20,2)", "decimal(14,6)"]
    assert tuple(found.collect()[0]) == ("a", Decimal("62.50"), Decimal("1.250000"))


def test_no_average_of_averages_and_no_median_of_medians(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", v) for v in (10, 10, 10, 50)] * 25, "k string, v int")
    row = _wrapped(frame, "k").agg(F.avg("v"), F.median("v"), F.count_distinct("v")).collect()[0]
    assert tuple(row) == ("a", 20.0, 10.0, 2)


@pytest.mark.parametrize("policy", [*POLICIES, "auto"])
def test_no_rows_no_groups(spark: SparkSession, policy: str) -> None:
    empty = spark.createDataFrame([], "k string, v decimal(10,2)")
    found = skewless.group_by(empty, "k", policy=policy, workers=3).agg(F.count("*"), F.sum("v"))
    assert_same_groups(found, empty.groupBy("k").agg(F.count("*"), F.sum("v")), 1)
    assert found.collect() == []


def test_null_keys_only(spark: SparkSession) -> None:
    frame = spark.range(500).select(F.lit(None).cast("date").alias("k"), "id")
    found = _wrapped(frame, "k").agg(F.sum("id"))
    assert [tuple(row) for row in found.collect()] == [(None, 500 * 499 // 2)]


def test_auto_leaves_the_aggregate_to_spark_and_says_why(spark: SparkSession) -> None:
    frame = spark.range(1_000).select(F.lit("hot").alias("k"), "id")
    groups = skewless.group_by(frame, "k")
    found = groups.agg(F.sum("id"))
    plan = physical_plan(found)
    assert plan.count("Exchange") == physical_plan(frame.groupBy("k").agg(F.sum("id"))).count(
        "Exchange"
    )
    text = groups.explain()
    assert "'auto'" in text
    assert "map side" in text


def test_an_explicit_policy_combines_on_its_workers(spark: SparkSession) -> None:
    frame = spark.range(1_000, numPartitions=2).select((F.col("id") % 9).alias("k"), "id")
    plan = physical_plan(_wrapped(frame, "k").agg(F.sum("id")))
    partial, exchange = plan.index("partial_sum"), plan.index("REPARTITION_BY_NUM")
    assert partial < exchange, "the partial aggregate must run above our exchange"
    assert plan.count("partial_sum") == 1
    assert "hashpartitioning(k" in plan[:partial]


def test_explain_names_policy_routing_and_cost(spark: SparkSession) -> None:
    frame = spark.range(1_000, numPartitions=2).select(F.lit(1).alias("k"), "id")
    text = _wrapped(frame, "k").explain()
    for part in (
        "group_by(k): policy WrapAround(4)",
        "4 workers",
        "1 of them split into 3 extra fragments",
        "max/mean 1.00 over the 1000 rows counted",
        "dealt by their seeded position",
        "s to count the keys",
    ):
        assert part in text, text
    fixed = skewless.group_by(frame, "k", policy="hash", workers=2).explain()
    assert "no key is split" in fixed
    assert "needs no counts" in fixed


# -- names and types of keys ---------------------------------------------------------------------

KEY_TYPES = {
    "boolean": "id % 2 = 0",
    "tinyint": "cast(id % 5 as tinyint)",
    "smallint": "cast(id % 5 as smallint)",
    "int": "cast(id % 5 as int)",
    "float": "case id % 4 when 0 then float('nan') when 1 then float('-0.0') else float(0.0) end",
    "double": "case id % 4 when 0 then double('nan') when 1 then -0.0D else double(0.0) end",
    "small decimal": "cast(id % 5 as decimal(9,2))",
    "large decimal": "cast(id % 5 as decimal(38,10))",
    "binary": "cast(concat('k', id % 5) as binary)",
    "date": "date_add(date'2024-01-01', cast(id % 5 as int))",
    "timestamp": "timestamp_seconds(id % 5)",
    "timestamp_ntz": "cast(timestamp_seconds(id % 5) as timestamp_ntz)",
    "day interval": "make_dt_interval(id % 5)",
    "array": "array(id % 2, null, id % 3)",
    "struct": "named_struct('a', id % 2, 'b', concat('x', id % 3))",
    "array of structs": "array(named_struct('a', case when id % 3 = 0 then null else id % 2 end))",
    "void": "null",
}


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_keys_of_every_type(spark: SparkSession, kind: str) -> None:
    frame = spark.range(120, numPartitions=2).selectExpr(f"{KEY_TYPES[kind]} as k", "id")
    found = _wrapped(frame, "k").agg(F.sum("id"), F.count("*"))
    assert_same_groups(found, frame.groupBy("k").agg(F.sum("id"), F.count("*")), 1)


@pytest.mark.parametrize("name", ["a.b", "two words", "back`tick", "UPPER", "schlüssel"])
def test_keys_of_any_name(spark: SparkSession, name: str) -> None:
    frame = spark.range(60).select((F.col("id") % 7).alias(name), "id")
    found = _wrapped(frame, name).agg(F.sum("id"))
    assert_same_groups(found, frame.groupBy(F.col(quoted(name))).agg(F.sum("id")), 1)


def test_a_key_is_found_and_named_as_spelled(spark: SparkSession) -> None:
    frame = spark.range(60).select((F.col("id") % 7).alias("userId"), "id")
    found = _wrapped(frame, "USERID").agg(F.sum("id"))
    assert found.columns == frame.groupBy("USERID").agg(F.sum("id")).columns
    assert_same_groups(found, frame.groupBy("USERID").agg(F.sum("id")), 1)
