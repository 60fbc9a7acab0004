"""Joins under skew: Spark's rows and schema for every type of join, and an even load."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.spark import sampling
from skewless.spark.batch import places_by_id
from skewless.spark.join import Join
from tests.spark.comparison import assert_same_rows, needs, physical_plan

HOWS = ("inner", "left", "right", "full", "semi", "anti")


def mostly(*quick: str) -> list[object]:
    """Return all types of join; those not named here run in `make test-all` only."""
    return [pytest.param(how, marks=[pytest.mark.slow] * (how not in quick)) for how in HOWS]


@pytest.fixture(autouse=True)
def no_broadcast(spark: SparkSession):
    """Small frames would be broadcast, and then no key is placed."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture(scope="module")
def big(spark: SparkSession) -> DataFrame:
    n = F.col("id")
    return spark.range(0, 20_000, 1, 8).select(
        F.when(n < 18_000, 1).otherwise(n).alias("k"), n.alias("a")
    )


@pytest.fixture(scope="module")
def dim(spark: SparkSession) -> DataFrame:
    return spark.range(0, 20_000, 1, 8).select(F.col("id").alias("k"), F.col("id").alias("b"))


def assert_even(joined: DataFrame, workers: int, limit: float) -> None:
    """At most `limit` times a fair share in a partition, where it is skewless that places rows."""
    if places_by_id(joined):
        sizes = [row[1] for row in joined.groupBy(F.spark_partition_id()).count().collect()]
        assert max(sizes) <= limit * sum(sizes) / workers


@pytest.mark.parametrize("how", mostly("inner", "left", "full", "anti"))
def test_a_hot_key_on_the_left_is_shared_out_and_nothing_else_is_copied(big, dim, how) -> None:
    decided = Join(big, dim, "k", how, workers=8, policy="split")
    assert_same_rows(decided.frame(), big.join(dim, "k", how))
    plan = decided.plan
    assert plan is not None
    assert plan.copied_left == 0
    assert plan.copied_right <= 8
    if how != "anti":
        assert_even(decided.frame(), 8, 1.5)


@pytest.mark.parametrize("how", ["left", "full", "semi"])
def test_a_hot_key_on_the_right(big, dim, how) -> None:
    decided = Join(dim, big, "k", how, workers=8, policy="split")
    assert_same_rows(decided.frame(), dim.join(big, "k", how))


def test_counts_of_the_folk_recipe_s_mistake_are_right_for_all_six_types(spark) -> None:
    left = spark.createDataFrame([(1, "l1"), (1, "l2"), (9, "l9")], "k int, a string")
    right = spark.createDataFrame([(1, "r1"), (5, "r5")], "k int, b string")
    expected = {"inner": 2, "left": 3, "right": 3, "full": 4, "semi": 2, "anti": 1}
    for how, n in expected.items():
        found = skewless.join(left, right, "k", how, policy="split", workers=4)
        assert found.count() == n
        assert_same_rows(found, left.join(right, "k", how))


@pytest.mark.parametrize("how", mostly("inner", "right", "full"))
def test_a_key_that_is_hot_on_both_sides_becomes_a_grid(spark, how) -> None:
    n = F.col("id")
    left = spark.range(0, 600, 1, 3).select(
        F.when(n < 500, 0).otherwise(n).alias("k"), n.alias("a")
    )
    right = spark.range(0, 400, 1, 2).select(
        F.when(n < 300, 0).otherwise(n).alias("k"), n.alias("b")
    )
    decided = Join(left, right, "k", how, workers=8, policy="split")
    assert_same_rows(decided.frame(), left.join(right, "k", how))
    if how in ("inner", "left", "right", "full"):
        plan = decided.plan
        assert plan is not None
        assert (int(plan.rows[0]), int(plan.columns[0])) in ((4, 2), (2, 4))
        assert plan.max_over_mean <= 1.1
        assert "1 key cut into grids of" in decided.explain()
        assert_even(decided.frame(), 8, 1.2)


@pytest.mark.parametrize("how", mostly("left", "right", "anti"))
def test_a_routing_says_which_keys_are_cut_and_nothing_is_counted(spark, big, dim, how) -> None:
    key = spark.range(1).select(F.xxhash64(F.lit(1).cast("bigint"))).collect()[0][0]
    routing = skewless.Routing(8, {key % 2**64: {0: 1, 3: 1, 5: 1, 6: 1}})
    if how == "full":
        with pytest.raises(DataError, match="how='full' cannot be cut by a Routing:"):
            Join(big, dim, "k", how, policy=routing)
        return
    left, right = (dim, big) if how == "right" else (big, dim)
    decided = Join(left, right, "k", how, policy=routing)
    assert_same_rows(decided.frame(), left.join(right, "k", how))
    assert decided.counted_s == 0
    assert "1 listed keys, cut into 4 parts" in decided.explain()
    if how not in ("semi", "anti"):
        assert_even(decided.frame(), 8, 2.4)


@pytest.mark.parametrize("how", mostly("left", "full", "semi"))
def test_null_keys_match_nothing_and_are_spread(spark, how) -> None:
    n = F.col("id")
    left = spark.range(0, 1_000, 1, 4).select(F.when(n >= 900, n).alias("k"), n.alias("a"))
    right = spark.range(0, 950, 1, 4).select(F.when(n % 2 == 0, n).alias("k"), n.alias("b"))
    decided = Join(left, right, "k", how, workers=8, policy="split")
    assert_same_rows(decided.frame(), left.join(right, "k", how))
    assert decided.null_rows == (900, 475)
    if how in ("left", "anti"):
        assert_even(decided.frame(), 8, 1.3)


def conditions(left: DataFrame, right: DataFrame):
    return {
        "bound columns": left["k"] == right["k2"],
        "names in any order": F.col("k2") == F.col("k"),
        "null-safe": left["k"].eqNullSafe(right["k2"]),
        "several": (left["k"] == right["k2"]) & (left["half"] == right["half2"]),
        "a range beside": (left["k"] == right["k2"]) & (left["a"] < right["b"]),
        "an expression": (left["k"] + 1) == (right["k2"] + F.lit(1)),
        "a list": [left["k"] == right["k2"], left["half"].eqNullSafe(right["half2"])],
        "no equality": (left["a"] < right["b"]) & (right["b"] < 3),
        "another type": left["k"] == right["k2"].cast("int"),
        "a one-sided part": (left["k"] == right["k2"]) & (right["b"] % 3 == 0),
    }


@pytest.fixture(scope="module")
def two(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    n = F.col("id")
    key = F.when(n % 3 > 0, 7).when(n % 2 == 0, n % 40)
    left = spark.range(0, 300, 1, 3).select(key.alias("k"), (n % 2).alias("half"), n.alias("a"))
    right = spark.range(0, 90, 1, 2).select(
        key.alias("k2"), (n % 2).alias("half2"), (n * 2).alias("b")
    )
    return left, right


#: Each form with two types of join; `make test-all` runs the others too.
FORMS = [
    pytest.param(on, how, marks=[] if (on + i) % 3 == 0 else [pytest.mark.slow])
    for on in range(10)
    for i, how in enumerate(HOWS)
]


@pytest.mark.parametrize(("on", "how"), FORMS)
def test_every_form_of_condition(two, on, how) -> None:
    left, right = two
    condition = list(conditions(left, right).values())[on]
    found = skewless.join(left, right, condition, how, policy="split", workers=4)
    assert_same_rows(found, left.join(right, condition, how))


@pytest.mark.parametrize("how", ["full", "semi", pytest.param("left", marks=pytest.mark.slow)])
def test_aliases_and_self_joins(two, how) -> None:
    left, _ = two
    condition = F.col("l.k") == F.col("r.k")
    sides = left.alias("l"), left.alias("r")
    decided = Join(*sides, condition, how, policy="split", workers=4)
    assert decided.plan is not None
    assert_same_rows(decided.frame(), sides[0].join(sides[1], condition, how))
    assert_same_rows(
        skewless.join(left, left, "k", how, policy="split", workers=4), left.join(left, "k", how)
    )


@pytest.mark.parametrize("pair", range(7))
def test_key_types_are_coerced_as_spark_does(spark, pair) -> None:
    pairs = [
        ("int(id % 5)", "bigint(id % 7)"),
        ("cast(id % 5 as decimal(5,2))", "int(id % 7)"),
        ("float(id % 5)", "double(id % 7)"),
        ("date_add(date'2020-01-01', int(id % 5))", "timestamp_ntz'2020-01-02 00:00:00'"),
        ("string(id % 5)", "int(id % 7)"),
        ("if(id % 2 = 0, 0D, -0D)", "double(0)"),
        ("if(id % 2 = 0, double('NaN'), 1D)", "double('NaN')"),
    ]
    mine, theirs = pairs[pair]
    left = spark.range(0, 60, 1, 2).selectExpr(f"{mine} k", "id a")
    right = spark.range(0, 30, 1, 2).selectExpr(f"{theirs} k", "id b")
    for how in (HOWS[pair % 4], HOWS[4 + pair % 2]):
        found = skewless.join(left, right, "k", how, policy="split", workers=3)
        assert_same_rows(found, left.join(right, "k", how))


def test_both_sides_are_placed_once_and_joined_where_they_are(big, dim) -> None:
    needs(big, 4, 1, "joins rows where they were placed")
    joined = skewless.join(big, dim, "k", workers=8, policy="split")
    joined.collect()
    final = physical_plan(joined).split("== Initial Plan ==")[0]
    assert final.count("shufflepartitionidpassthrough") == 2
    assert "hashpartitioning" not in final


def test_what_spark_does_well_is_left_to_it_and_said(spark, big, dim) -> None:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB")
    told = Join(big, dim.limit(10), "k").explain()
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    assert "left to Spark: it broadcasts a side (BroadcastHashJoin)" in told
    assert "evenly enough" in Join(dim, dim.withColumnRenamed("b", "c"), "k", workers=4).explain()
    assert "no equality" in Join(big, dim, big["a"] < dim["b"]).explain()
    assert "cast one side" in Join(big, dim.select(F.col("k").cast("string"), "b"), "k").explain()
    assert Join(dim.limit(3), dim.limit(2), None, "cross").frame().count() == 6
    assert "as asked for" in Join(big, dim, "k", policy="spark").explain()


@pytest.mark.classic  # Connect does not show the final plan
@pytest.mark.parametrize("how", ["inner", "full"])
def test_adaptive_execution_that_is_told_to_split_may_do_it(spark, big, dim, how) -> None:
    slots = 8  # so that one long task counts
    settings = {
        "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "8KB",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8KB",
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("skewless.spark.join.slots_of", lambda session: slots)
        before = Join(big, dim, "k", how, workers=8)
        for name, value in settings.items():
            spark.conf.set(name, value)
        told = Join(big, dim, "k", how, workers=8)
        joined = told.frame()
        assert len(joined.collect()) == big.join(dim, "k", how).count()
        final = physical_plan(joined)
        for name in settings:
            spark.conf.unset(name)
    assert (
        "hot keys are cut; adaptive execution would not split it (0 MB in memory"
        in before.explain()
    )
    if how == "full":  # which AQE cuts on no side
        assert "hot keys are cut; adaptive execution might split it as well" in told.explain()
        return
    assert (
        "left to Spark: a hot key, but adaptive execution splits it, as it is told to"
        in told.explain()
    )
    assert "skew=true" in final


def test_a_side_that_may_not_be_copied_says_so(two) -> None:
    left, right = two
    condition = (right["k2"] == left["k"]) & (left["a"] < right["b"])
    told = Join(left, right, condition, "full", policy="split", workers=8).explain()
    assert "the heaviest key stays whole" in told


def test_few_rows_only_are_shipped_twice(big, dim) -> None:
    plan = Join(big, dim, "k", workers=8, policy="split").plan
    assert plan is not None
    assert plan.copied_left + plan.copied_right <= 0.2 * 40_000


def test_a_sample_decides_but_the_answer_stays_exact(big, dim) -> None:
    found = skewless.join(big, dim, "k", "full", workers=8, policy="split", sample=0.05)
    assert_same_rows(found, big.join(dim, "k", "full"))


def test_ties_at_the_cut_of_the_hot_set_change_nothing(spark) -> None:
    n = F.col("id")
    left = spark.range(0, 4_000, 1, 4).select((n % 200).alias("k"), n.alias("a"))
    right = spark.range(0, 200, 1, 4).select(n.alias("k"), n.alias("b"))
    expected = sorted(map(tuple, left.join(right, "k").collect()))
    for _ in range(20):
        found = skewless.join(left, right, "k", policy="split", workers=3)
        assert sorted(map(tuple, found.collect())) == expected


def test_bad_input_is_refused_before_any_job(spark, big, dim) -> None:
    with pytest.raises(ParameterError, match="how must be one of inner, left"):
        skewless.join(big, dim, "k", "sideways")
    with pytest.raises(DataError, match="'kk' is not in the frame"):
        Join(big, dim, "kk")
    with pytest.raises(
        ParameterError, match="policy must be 'auto', 'split', 'spark' or a Routing"
    ):
        skewless.join(big, dim, "k", policy="dalton")
    with pytest.raises(ParameterError, match="workers must be an int of at least 1, got 0"):
        skewless.join(big, dim, "k", workers=0)
    with pytest.raises(ParameterError, match=r"sample must be in \(0, 1\], got 2"):
        skewless.join(big, dim, "k", sample=2)
    with pytest.raises(DataError, match="takes a Spark DataFrame"):
        skewless.join(big, pd.DataFrame(), "k")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(DataError, match="a stream cannot be counted before it runs"):
        skewless.join(stream, stream, "value")


def _random(spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:  # else all rows of such small sides would be counted
        monkeypatch.setattr(sampling, "_AT_LEAST", 40)
        monkeypatch.setattr(sampling, "_PER_WORKER", 2)
        monkeypatch.setattr(sampling, "_PER_TASK_AT_LEAST", 8)
    n_keys = int(rng.integers(1, 4))
    names = [f"k{i}" for i in range(n_keys)]

    def side(value: str) -> DataFrame:
        n = int(rng.choice([0, 3, 200, 1_000]))
        columns: dict[str, object] = {}
        for name in names:
            kind, distinct = rng.integers(3), int(rng.choice([1, 5, 100]))
            numbers = (
                rng.integers(0, distinct, n)
                if kind == 0
                else rng.zipf(1.5, n) % distinct
                if kind == 1
                else np.where(rng.random(n) < 0.9, 0, rng.integers(0, distinct, n))
            )
            hole = rng.random(n) < rng.choice([0, 0.1, 0.5])
            columns[name] = pd.array(np.where(hole, 0, numbers), dtype="Int64")
            columns[name][hole] = pd.NA
        columns[value] = np.arange(n)
        schema = ", ".join(f"{name} long" for name in columns)
        rows = [
            tuple(None if x is pd.NA else int(x) for x in row)
            for row in zip(*columns.values(), strict=True)
        ]
        frame = spark.createDataFrame(rows, schema)
        return frame.withColumn("k0", F.concat(F.lit("s"), "k0")) if text else frame

    text = bool(rng.random() < 0.5)
    left, right = side("a"), side("b")
    if rng.random() < 0.3:  # more rows than one per pair: keep the output small
        right = right.dropDuplicates(names)
    how, workers = str(rng.choice(HOWS)), int(rng.integers(1, 33))
    sample = None if rng.random() < 0.7 else 0.5
    if rng.random() < 0.5:
        on: object = names
    else:
        right = right.withColumnsRenamed({name: f"{name}r" for name in names})
        on = [
            left[name].eqNullSafe(right[f"{name}r"])
            if rng.random() < 0.3
            else left[name] == right[f"{name}r"]
            for name in names
        ]
        if rng.random() < 0.4:
            on.append(left["a"] % 7 <= right["b"] % 5)
    expected = left.join(right, on, how)
    decided = Join(left, right, on, how, policy="split", workers=workers, sample=sample)
    try:
        assert_same_rows(decided.frame(), expected)
    except AssertionError as error:
        raise AssertionError(
            f"seed {seed}: {how}, {workers} workers, {decided.explain()}"
        ) from error


@pytest.mark.parametrize("seed", range(10))
def test_any_join_equals_spark_s(spark, seed, monkeypatch) -> None:
    _random(spark, seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_hundreds_of_joins_equal_spark_s(spark, seed, monkeypatch) -> None:
    _random(spark, seed, monkeypatch)


def test_what_a_join_puts_out_is_predicted_key_by_key_before_it_runs(spark, tmp_path) -> None:
    n = F.col("id")
    name = F.when(n < 200, "<b>hot</b>").otherwise(F.concat(F.lit("c"), n))
    left = spark.range(0, 300, 1, 2).select(F.when(n < 290, name).alias("k"), n.alias("a"))
    right = spark.range(0, 260, 1, 2).select(name.alias("k"), n.alias("b"))
    for how in ("inner", "full", "semi", "anti"):
        report = skewless.inspect(left, right, on="k", how=how, workers=4)
        assert report.output == left.join(right, "k", how).count()
    report = skewless.inspect(left, right, on="k", workers=4)
    assert (report.rows, report.null_rows) == ((300, 260), (10, 0))
    assert report.top[0] == (("<b>hot</b>",), 200, 200, 40_000.0)
    assert report.explodes
    assert "<b>hot</b> alone gives 40,000" in repr(report)
    page = report.to_html(tmp_path / "join.html").read_text()
    assert "&lt;b&gt;hot&lt;/b&gt;" in page
    assert "<b>hot" not in page
    assert report.to_dict()["top"][0]["output"] == 40_000
    none = skewless.inspect(left, right, on=left["a"] < right["b"])
    assert "Nothing can be predicted" in repr(none)
    with pytest.raises(ParameterError, match="on= belongs to a join"):
        skewless.inspect(left, "k", on="k")
