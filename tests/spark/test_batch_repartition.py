"""``repartition`` moves rows and changes nothing: same multiset, same schema, even partitions."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import partitioners, planners
from skewless.keys import hash64
from skewless.partitioners import PKG, Hash, Shuffle
from skewless.planners import WrapAround
from skewless.policy import policy_name
from skewless.routing import Routing
from skewless.spark import batch
from skewless.spark.batch import place, plan, plan_auto, worker_of, worker_slots
from skewless.spark.keys import resolve_keys
from tests.spark.comparison import assert_same_rows, partition_sizes, physical_plan

POLICIES = [policy_name(cls) for cls in (*partitioners.ALL, *planners.ALL)]


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """99 % of the rows on one key, 100 keys with one row each."""
    return spark.range(10_000, numPartitions=8).select(
        F.when(F.col("id") < 9_900, "hot").otherwise(F.concat(F.lit("c"), F.col("id"))).alias("k"),
        (F.col("id") % 7).alias("v"),
        F.col("id"),
    )


def _located(df: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in df.withColumn("at", F.spark_partition_id()).collect()]


@pytest.mark.parametrize("policy", [*POLICIES, "auto", "spark"])
def test_rows_schema_and_number_of_partitions_under_every_policy(
    hot: DataFrame, policy: str
) -> None:
    moved = skewless.repartition(hot, "k", policy=policy, workers=8)
    assert_same_rows(moved, hot)
    assert len(partition_sizes(moved)) == 8


def test_one_key_with_99_percent_of_the_rows_is_spread_evenly(hot: DataFrame) -> None:
    sizes = partition_sizes(skewless.repartition(hot, "k", policy=WrapAround(8)))
    assert len(sizes) == 8
    assert max(sizes) / np.mean(sizes) <= 1.15
    assert sum(sizes) == 10_000


def test_hashing_leaves_the_hot_key_in_one_partition(hot: DataFrame) -> None:
    sizes = partition_sizes(skewless.repartition(hot, "k", policy="hash", workers=8))
    assert max(sizes) >= 9_900


def test_the_default_number_of_workers_is_sparks(hot: DataFrame) -> None:
    moved = skewless.repartition(hot, "k", policy="hash")
    assert len(partition_sizes(moved)) == 4


def test_a_saved_routing_is_followed_and_nothing_is_counted(
    hot: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = hash64(pa.array(["hot"]))
    routing = Routing(5, {int(hashes[0]): {1: 1.0, 4: 1.0}}, seed=9)
    routing.save(tmp_path / "routing.json")
    monkeypatch.setattr(batch, "gather", _must_not_run)
    moved = skewless.repartition(hot, "k", policy=Routing.load(tmp_path / "routing.json"))
    assert_same_rows(moved, hot)
    found = _located(moved)
    assert {at for k, _, _, at in found if k == "hot"} == {1, 4}
    for name, _, _, at in found:
        if name != "hot":
            assert at == routing.route(hash64(pa.array([name])))[0]


@pytest.mark.parametrize("policy", [Hash(3), Shuffle(3)])
def test_policies_that_learn_nothing_count_nothing(
    hot: DataFrame, policy: Hash | Shuffle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "gather", _must_not_run)
    sizes = partition_sizes(skewless.repartition(hot, "k", policy=policy))
    assert sum(sizes) == 10_000
    if isinstance(policy, Shuffle):
        assert max(sizes) / np.mean(sizes) < 1.1


def _must_not_run(*_: object) -> None:
    raise AssertionError("the keys were counted")


def test_partitions_hold_what_the_routing_says(spark: SparkSession) -> None:
    rng = np.random.default_rng(11)
    key = rng.zipf(1.5, 20_000) % 3_000
    frame = spark.createDataFrame(pa.table({"k": key, "row": np.arange(20_000)}).to_pandas())
    columns = resolve_keys("test", frame, ["k"])
    found = plan(frame, columns, WrapAround(6))
    routing, counted = found.routing, found.histogram
    assert counted is not None
    assert counted.total == 20_000
    rows = np.array(_located(skewless.repartition(frame, "k", policy=WrapAround(6))), np.int64)
    hashes = hash64(pa.array(rows[:, 0]))
    split = np.isin(hashes, routing.split_keys)
    assert split.any()
    np.testing.assert_array_equal(routing.route(hashes[~split]), rows[~split, 2])
    for key_hash in routing.split_keys:
        workers = set(routing.hot[int(key_hash)])
        assert set(rows[hashes == key_hash, 2].tolist()) <= workers
    loads = np.bincount(rows[:, 2], minlength=6)
    np.testing.assert_allclose(loads, routing.loads(counted), rtol=0.1)
    assert loads.max() / loads.mean() <= 1.1


@pytest.mark.parametrize("policy", [PKG(4), WrapAround(4)])
def test_the_callers_policy_object_is_not_changed(hot: DataFrame, policy: PKG | WrapAround) -> None:
    before = copy.deepcopy(policy)
    first = partition_sizes(skewless.repartition(hot, "k", policy=policy))
    if isinstance(policy, PKG):
        assert isinstance(before, PKG)
        np.testing.assert_array_equal(policy.state.load, before.state.load)
        assert policy._clock == before._clock
    assert policy.parameters() == before.parameters()
    assert partition_sizes(skewless.repartition(hot, "k", policy=policy)) == first


def test_eight_equal_keys_get_a_partition_each(spark: SparkSession) -> None:
    frame = spark.range(800, numPartitions=4).select((F.col("id") % 8).cast("int").alias("k"), "id")
    plain = partition_sizes(frame.repartition(8, "k"))
    assert plain.count(0) == 3  # plain Spark uses five of eight
    assert (
        partition_sizes(skewless.repartition(frame, "k", policy="wrap_around", workers=8))
        == [100] * 8
    )


def test_identical_rows_of_a_hot_key_reach_all_partitions(spark: SparkSession) -> None:
    frame = spark.range(10_000, numPartitions=4).select(
        F.lit("hot").alias("k"), F.lit(1).alias("v")
    )
    sizes = partition_sizes(skewless.repartition(frame, "k", policy="wrap_around", workers=8))
    assert len(sizes) == 8
    assert min(sizes) > 1_000
    assert max(sizes) / np.mean(sizes) <= 1.15


def test_only_one_of_two_keys_is_skewed_so_nothing_is_split(spark: SparkSession) -> None:
    frame = spark.range(20_000, numPartitions=4).select(
        F.when(F.col("id") % 20 < 19, "US").otherwise("CA").alias("country"),
        (F.col("id") % 10_000).alias("user"),
    )
    found = plan_auto(frame, resolve_keys("test", frame, ["country", "user"]), WrapAround(8))
    assert found.histogram is not None
    assert found.histogram.counts[0] / found.histogram.total < 0.01
    assert found.routing == Routing.hashing(8)
    moved = skewless.repartition(frame, "country", "user", workers=8)
    assert_same_rows(moved, frame)
    assert max(partition_sizes(moved)) <= 1.1 * 20_000 / 8


def test_negative_hashes_name_partitions_from_0(spark: SparkSession) -> None:
    frame = spark.range(-5_000, 5_000, numPartitions=2)
    columns = resolve_keys("test", frame, ["id"])
    routed = frame.withColumn("w", worker_of(frame, columns, Routing.hashing(8))[0])
    hashes, workers = np.array(routed.select(F.xxhash64("id"), "w").collect(), np.int64).T
    assert (hashes < 0).any()
    assert sorted(set(workers.tolist())) == list(range(8))


@pytest.mark.classic
@pytest.mark.parametrize("policy", ["wrap_around", "pkg", "hash", "shuffle"])
def test_empty_frames_keep_schema_and_number_of_partitions(
    spark: SparkSession, policy: str
) -> None:
    empty = spark.createDataFrame([], "k string, v decimal(10, 2)")
    moved = skewless.repartition(empty, "k", policy=policy, workers=3)
    assert_same_rows(moved, empty)
    assert partition_sizes(moved) == [0, 0, 0]


def test_null_keys_only(spark: SparkSession) -> None:
    frame = spark.range(4_000, numPartitions=2).select(F.lit(None).cast("string").alias("k"), "id")
    moved = skewless.repartition(frame, "k", policy="wrap_around", workers=4)
    assert_same_rows(moved, frame)
    assert max(partition_sizes(moved)) <= 1_150


def test_one_worker(hot: DataFrame) -> None:
    moved = skewless.repartition(hot, "k", policy="wrap_around", workers=1)
    assert partition_sizes(moved) == [10_000]


@pytest.mark.parametrize("shuffled", [False, True])
def test_columns_of_any_name_and_twice_the_same_name(spark: SparkSession, shuffled: bool) -> None:
    odd = ["a.b", "two words", "back`tick", "__skewless_worker", "same", "same"]
    frame = spark.range(600, numPartitions=2).select(
        *[((F.col("id") * i) % 5).alias(name) for i, name in enumerate(odd)]
    )
    frame = frame.repartition(3) if shuffled else frame
    for key in odd[:4]:
        assert_same_rows(skewless.repartition(frame, key, policy="shuffle", workers=3), frame)


def test_unhashable_columns_beside_the_key(spark: SparkSession) -> None:
    frame = spark.sql("select id % 3 as k, map(id, 'x') as m, id from range(300)").repartition(2)
    moved = skewless.repartition(frame, "k", policy="shuffle", workers=4)
    assert moved.schema == frame.schema
    assert sorted(row.id for row in moved.collect()) == list(range(300))


def test_the_same_plan_twice_gives_the_same_bytes(hot: DataFrame, tmp_path: Path) -> None:
    columns = resolve_keys("test", hot, ["k"])
    for name in POLICIES:
        cls = {policy_name(c): c for c in (*partitioners.ALL, *planners.ALL)}[name]
        plan(hot, columns, cls(8)).routing.save(tmp_path / "first")
        plan(hot, columns, cls(8)).routing.save(tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    once, again = (
        sorted(_located(skewless.repartition(hot, "k", policy="wrap_around", workers=8)))
        for _ in range(2)
    )
    assert once == again


def test_adaptive_execution_neither_merges_nor_splits_the_partitions(hot: DataFrame) -> None:
    moved = skewless.repartition(hot.limit(50), "k", policy="hash", workers=6)
    assert len(partition_sizes(moved)) == 6
    assert "REPARTITION_BY_NUM" in physical_plan(moved)


# -- Spark before 4.1 ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [1, 2, 3, 8, 37, 200])
def test_integers_that_invert_sparks_hash(spark: SparkSession, n_workers: int) -> None:
    slots = worker_slots(n_workers)
    assert len(set(slots.tolist())) == n_workers
    text = json.dumps(slots.tolist())
    slot = F.explode(F.from_json(F.lit(text), "array<int>"))
    placed = spark.range(1).select(slot.alias("x")).select(F.pmod(F.hash("x"), F.lit(n_workers)))
    assert [row[0] for row in placed.collect()] == list(range(n_workers))


def test_without_repartition_by_id_every_row_lands_where_it_should(
    hot: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = resolve_keys("test", hot, ["k"])
    routing = plan(hot, columns, WrapAround(8)).routing
    direct = _located(place(hot, 8, worker_of(hot, columns, routing)[0]))
    monkeypatch.setattr(batch, "places_by_id", lambda df: False)
    moved = place(hot, 8, worker_of(hot, columns, routing)[0])
    assert "hashpartitioning" in physical_plan(moved)
    assert len(partition_sizes(moved)) == 8
    assert sorted(_located(moved)) == sorted(direct)
    assert moved.schema == hot.schema


# -- streams -------------------------------------------------------------------------------------


def test_a_stream_takes_fixed_routings(spark: SparkSession, hot: DataFrame, tmp_path: Path) -> None:
    hot.coalesce(2).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(hot.schema).parquet(str(tmp_path / "in"))
    moved = skewless.repartition(stream, "k", policy=Shuffle(3))
    assert moved.isStreaming
    query = (
        moved.withColumn("at", F.spark_partition_id())
        .writeStream.format("memory")
        .queryName("skewless_repartitioned")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    table = spark.table("skewless_repartitioned")
    assert Counter(table.drop("at").collect()) == Counter(hot.collect())
    assert {row["at"] for row in table.select("at").distinct().collect()} == {0, 1, 2}
