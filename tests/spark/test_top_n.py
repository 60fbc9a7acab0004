"""The first rows per key are plain Spark's, whatever the policy and however rows tie."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.partitioners import PKG
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.batch import place_by, plan, worker_of
from skewless.spark.keys import resolve_keys
from skewless.spark.top_n import leaves_to_spark
from tests.spark.comparison import assert_same_rows, partition_sizes, physical_plan
from tests.spark.skewed import skewed_frame

RANKS = {"row_number": F.row_number, "rank": F.rank, "dense_rank": F.dense_rank}
POLICIES = ["auto", "spark", "wrap_around", "hash", "shuffle", "pkg", "w_choices", "off_greedy"]


def plain(
    df: DataFrame, keys: list[str], order: list, n: int, ties: str = "row_number"
) -> DataFrame:
    window = Window.partitionBy(*keys).orderBy(*order)
    return df.withColumn("r", RANKS[ties]().over(window)).where(F.col("r") <= n)


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """99 % of the rows on one key, 100 keys with one row each."""
    return spark.range(10_000, numPartitions=8).select(
        F.when(F.col("id") < 9_900, "hot").otherwise(F.concat(F.lit("c"), F.col("id"))).alias("k"),
        (F.col("id") % 7).alias("v"),
        F.col("id"),
    )


@pytest.fixture
def without_group_limit(spark: SparkSession):
    """Spark's own limit before the shuffle is off, as for n above 1000 or before 3.5."""
    name = "spark.sql.optimizer.windowGroupLimitThreshold"
    spark.conf.set(name, "-1")
    yield
    spark.conf.unset(name)


@pytest.mark.parametrize("policy", ["auto", "spark", "wrap_around", "shuffle"])
def test_dedupe_of_three_rows_keeps_the_first_by_value_then_by_id(
    spark: SparkSession, policy: str
) -> None:
    rows = [("a", 1, "z"), ("a", 5, "y"), ("a", 5, "x")]
    frame = spark.createDataFrame(rows, "k string, v int, id string")
    order = [F.desc("v"), "id"]
    found = skewless.dedupe(frame, "k", order, policy=policy, workers=3)
    assert [tuple(r) for r in found.collect()] == [("a", 5, "x")]
    top = skewless.window_top_n(frame, "k", order, 3, rank_column="n", policy=policy, workers=3)
    assert sorted(map(tuple, top.collect()), key=lambda r: r[3]) == [
        ("a", 5, "x", 1),
        ("a", 5, "y", 2),
        ("a", 1, "z", 3),
    ]


@pytest.mark.parametrize("policy", POLICIES)
def test_hot_key_under_every_policy(hot: DataFrame, policy: str) -> None:
    found = skewless.window_top_n(hot, "k", [F.desc("v"), "id"], 5, policy=policy, workers=8)
    assert_same_rows(found, plain(hot, ["k"], [F.desc("v"), "id"], 5).drop("r"))


def _one_case(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - seeded on purpose
    frame = skewed_frame(spark, seed, shuffled=draw.random() < 0.5)
    keys = draw.choice([["k"], ["k", "j"], ["j"]])
    orders = [F.desc("o"), F.col("o").asc_nulls_last(), F.desc_nulls_first("t"), F.col("s"), "o"]
    order = (
        draw.sample(orders[:1] + orders[2:4], 2) if draw.random() < 0.7 else [draw.choice(orders)]
    )
    ties, n = draw.choice(list(RANKS)), draw.choice([1, 2, 7, 50])
    policy = draw.choice([*POLICIES[1:], "kip", "d_choices", "prompt"])
    if ties == "row_number":
        order = [*order, "id"]
    found = skewless.window_top_n(
        frame,
        keys,
        order,
        n,
        ties=ties,
        rank_column="r",
        policy=policy,
        workers=draw.choice([2, 5]),
    )
    assert_same_rows(found, plain(frame, keys, order, n, ties))


@pytest.mark.parametrize("seed", range(12))
def test_random_keys_orders_ties_and_policies(spark: SparkSession, seed: int) -> None:
    _one_case(spark, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_more_random_keys_orders_ties_and_policies(spark: SparkSession, seed: int) -> None:
    _one_case(spark, seed)


def test_ties_at_the_cut_give_the_same_rows_twenty_times(
    spark: SparkSession, without_group_limit: None
) -> None:
    frame = skewed_frame(spark, 5).drop("id")
    runs = set()
    for run in range(20):
        mixed = frame.repartition(2 + run % 5).orderBy(F.rand(run)) if run % 2 else frame
        policy = ["wrap_around", "shuffle", "auto", "spark"][run % 4]
        found = skewless.window_top_n(mixed, "k", "s", 2, policy=policy, workers=2 + run % 3)
        runs.add(tuple(sorted(map(repr, found.collect()))))
    assert len(runs) == 1


@pytest.mark.parametrize("order", [None, "s"])
def test_dedupe_gives_the_same_rows_however_rows_lie(spark: SparkSession, order) -> None:
    frame = (
        skewed_frame(spark, 6).withColumn("m", F.create_map("s", "id").alias("m")).where("s > ''")
    )
    runs = set()
    for run in range(6):
        mixed = frame.repartition(1 + run).orderBy(F.rand(run))
        found = skewless.dedupe(
            mixed, ["k"], order, policy=["spark", "wrap_around"][run % 2], workers=3
        )
        assert found.schema == frame.schema
        runs.add(tuple(sorted(map(repr, found.collect()))))
    assert len(runs) == 1
    assert len(runs.pop()) == frame.select("k").distinct().count()


def test_dedupe_tells_the_two_zeros_apart_in_keys_and_orders(spark: SparkSession) -> None:
    rows = [(0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0), (0.0, 0.0)]
    for given in (rows, rows[::-1]):
        frame = spark.createDataFrame(given, "k double, o double")
        found = skewless.dedupe(frame, "k", "o", policy="spark").collect()
        assert list(map(repr, found)) == ["Row(k=-0.0, o=-0.0)"]


def test_dedupe_of_a_frame_that_has_only_its_keys(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,), (1,), (None,)], "k int")
    found = skewless.dedupe(frame, "k", policy="wrap_around", workers=2)
    assert sorted(map(repr, found.collect())) == ["Row(k=1)", "Row(k=None)"]


def test_auto_leaves_to_spark_what_spark_limits_before_its_shuffle(hot: DataFrame) -> None:
    found = skewless.window_top_n(hot, "k", "v", 1000, workers=8)
    assert physical_plan(found).count("WindowGroupLimit") == 2
    assert "REPARTITION" not in physical_plan(found)
    assert not leaves_to_spark(hot, 1001)


@pytest.mark.parametrize("ties", list(RANKS))
def test_auto_cuts_the_hot_key_where_spark_would_not_help(
    hot: DataFrame, without_group_limit: None, ties: str
) -> None:
    order = ["v", "id"] if ties == "row_number" else ["v"]
    found = skewless.window_top_n(hot, "k", order, 50, ties=ties, rank_column="r", workers=8)
    shown = physical_plan(found)
    assert "REPARTITION_BY_NUM" in shown
    assert "WindowGroupLimit" not in shown
    assert_same_rows(found, plain(hot, ["k"], order, 50, ties))


def test_each_worker_ranks_a_fair_share_of_a_key_with_99_percent(hot: DataFrame) -> None:
    keys = resolve_keys("test", hot, ["k"])
    routing = plan(hot, keys, WrapAround(8)).routing
    worker, _ = worker_of(hot, keys, routing)
    sizes = partition_sizes(place_by(hot.withColumn("w", worker), 8, "w"))
    assert max(sizes) <= 1.5 * sum(sizes) / len(sizes)


def test_the_exchange_of_the_rows_is_read_twice_and_made_once(
    spark: SparkSession, hot: DataFrame, without_group_limit: None
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        found = skewless.window_top_n(hot, "k", "v", 5, policy="wrap_around", workers=8)
        shown = physical_plan(found)
        assert shown.count("ReusedExchange") == 1
        assert_same_rows(found, plain(hot, ["k"], ["v", "id"], 5).drop("r"))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_a_key_that_ties_in_every_row_is_kept_whole_by_rank(spark: SparkSession) -> None:
    frame = spark.range(3_000, numPartitions=3).selectExpr("'hot' as k", "1 as v", "id")
    found = skewless.window_top_n(frame, "k", "v", 1, ties="rank", policy="wrap_around", workers=4)
    assert_same_rows(found, frame)


@pytest.mark.parametrize("policy", ["wrap_around", "hash"])
def test_empty_frames_and_one_worker(spark: SparkSession, policy: str) -> None:
    empty = spark.createDataFrame([], "k string, v decimal(10, 2)")
    found = skewless.window_top_n(empty, "k", "v", 3, policy=policy, workers=1)
    assert_same_rows(found, empty)
    assert_same_rows(skewless.dedupe(empty, "k", policy=policy, workers=4), empty)


def test_columns_of_awkward_names(spark: SparkSession) -> None:
    frame = spark.range(200).selectExpr(
        "id % 2 as `a.b`", "id as `__skewless_worker`", "id % 3 as `__skewless_rank`", "id as `x y`"
    )
    order = [F.col("`__skewless_rank`").desc(), F.desc("x y")]
    found = skewless.window_top_n(frame, "a.b", order, 3, policy="shuffle", workers=3)
    assert_same_rows(found, plain(frame, ["`a.b`"], order, 3).drop("r"))


def test_a_saved_routing_is_followed(hot: DataFrame) -> None:
    routing = Routing.shuffling(3)
    found = skewless.window_top_n(hot, "k", "id", 4, policy=routing)
    assert_same_rows(found, plain(hot, ["k"], ["id"], 4).drop("r"))


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (lambda: ("k", "v", 0), ParameterError, "n must be an int of at least 1, got 0"),
        (lambda: ("k", "v", 2.0), ParameterError, r"n must be an int of at least 1, got 2\.0"),
        (lambda: ("k", "w", 1), DataError, "column 'w' is not in the frame"),
        (lambda: ("k", [], 1), DataError, "order_by is empty"),
        (lambda: ("k", ["v", F.desc("v")], 1), DataError, "order_by lists column 'v' twice"),
        (lambda: ("k", F.desc("m"), 1), DataError, "column 'm' is of type map<int,int>, which has"),
        (lambda: ("k", F.lower("v"), 1), DataError, r"got the expression 'lower\(v\)'; add it"),
        (lambda: ("m", "v", 1), DataError, "column 'm' holds a map"),
        (lambda: (7, "v", 1), DataError, "partition_by must be a column's name or a list of names"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(
    spark: SparkSession, arguments, error: type, sentence: str
) -> None:
    frame = spark.range(2).selectExpr("id as k", "id as v", "map(1, 2) as m")
    with pytest.raises(error, match=rf"^window_top_n: .*{sentence}"):
        skewless.window_top_n(frame, *arguments())


def test_ties_rank_column_and_policy_are_checked(spark: SparkSession) -> None:
    frame = spark.range(2)
    with pytest.raises(ParameterError, match="ties must be one of row_number, rank, dense_rank"):
        skewless.window_top_n(frame, "id", "id", 1, ties="first")
    with pytest.raises(DataError, match="rank_column='ID' is a column of the frame already"):
        skewless.window_top_n(frame, "id", "id", 1, rank_column="ID")
    with pytest.raises(ParameterError, match="policy 'local' is what Spark does"):
        skewless.window_top_n(frame, "id", "id", 1, policy="local")
    with pytest.raises(ParameterError, match="workers=5 but the policy has 4 workers"):
        skewless.dedupe(frame, "id", policy=PKG(4), workers=5)


@pytest.mark.parametrize("verb", ["window_top_n", "dedupe"])
def test_streams_are_refused(spark: SparkSession, verb: str) -> None:
    stream = spark.readStream.format("rate").load()
    call = getattr(skewless, verb)
    with pytest.raises(
        DataError, match=rf"^{verb}: takes a batch DataFrame, and this one is stream"
    ):
        call(stream, "value", *(["timestamp", 1] if verb == "window_top_n" else []))
