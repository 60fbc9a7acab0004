"""A routing in Catalyst sends every row where the routing in numpy sends its key."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.histogram import bucket_count, bucket_of
from skewless.routing import EVERY_WORKER, Routing
from skewless.spark.expressions import (
    TABLE_SCHEMA,
    bucket_column,
    needs_salt,
    routing_column,
    struct_tables,
    worker_column,
)

N_ROWS = 4_000
RNG = np.random.default_rng(5)
#: Half of the rows carry one of 40 keys, at both ends of the signed range too.
KEYS = np.concatenate(
    (
        np.array([0, 1, -1, 2**63 - 1, -(2**63)], np.int64),
        RNG.integers(-(2**63), 2**63, 35, np.int64),
    )
)
HASHES = np.where(
    RNG.random(N_ROWS) < 0.5, RNG.choice(KEYS, N_ROWS), RNG.integers(-(2**63), 2**63, N_ROWS)
)
HASHES[0] = 0  # what the places of a table without hot keys hold
SALTS = RNG.integers(0, 2**31, N_ROWS)


def _whole(n: int, n_hot: int) -> dict[int, dict[int, float]]:
    hashes = KEYS[:n_hot].view(np.uint64).tolist()
    return {key: {(7 * i) % n: 1.0} for i, key in enumerate(hashes)}


def _split(n: int, n_hot: int) -> dict[int, dict[int, float]]:
    hashes = KEYS[:n_hot].view(np.uint64).tolist()
    return {
        key: {(i + j) % n: 1.0 + 0.3 * j for j in range(1 + i % n)} for i, key in enumerate(hashes)
    }


def _mixed_buckets(n: int) -> np.ndarray:
    owners = np.arange(bucket_count(n)) * 5 % n
    owners[::3] = EVERY_WORKER
    return owners


ROUTINGS = {
    "plain hashing": Routing.hashing(8),
    "hashing with another seed": Routing.hashing(7, seed=2**62 + 3),
    "runs of buckets that are not equal": Routing(3, None, [0, 0, 1, 2]),
    "buckets in another order": Routing(4, None, _mixed_buckets(4)[::-1].clip(0)),
    "dealing everything": Routing.shuffling(5),
    "one worker": Routing(1, _whole(1, 3)),
    "hot keys, none split": Routing(8, _whole(8, 40)),
    "one hot key": Routing(3, {2**64 - 1: {0: 0.2, 2: 0.8}}),
    "hot keys, most of them split": Routing(16, _split(16, 40), seed=3),
    "no hot key, buckets dealt": Routing(4, None, _mixed_buckets(4)),
    "whole hot keys, buckets dealt": Routing(4, _whole(4, 9), _mixed_buckets(4), seed=1),
    "split hot keys, buckets dealt": Routing(4, _split(4, 9), _mixed_buckets(4)),
    "split hot keys, all else dealt": Routing(4, _split(4, 9), [EVERY_WORKER]),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    table = [(int(h), int(s)) for h, s in zip(HASHES, SALTS, strict=True)]
    return spark.createDataFrame(table, "h long, salt long").coalesce(1).cache()


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=ROUTINGS.keys())
def test_all_forms_of_a_routing_agree_with_numpy(rows: DataFrame, routing: Routing) -> None:
    key, salt = F.col("h"), F.col("salt")
    arrays = {name: array.tolist() for name, array in routing.tables._asdict().items()}
    arrays["key"] = routing.tables.key.view(np.int64).tolist()
    struct = F.from_json(F.lit(json.dumps(arrays)), TABLE_SCHEMA)
    n, seed = routing.n_workers, routing.seed
    found = rows.select(
        "h",
        "salt",
        worker_column(struct_tables(struct), key, salt, n, seed).alias("struct"),
        routing_column(routing, "h", salt).alias("literals"),
    )
    assert [f.dataType.simpleString() for f in found.schema.fields[2:]] == ["int"] * 2
    table = np.array(found.collect(), np.int64)
    expected = routing.route(table[:, 0].view(np.uint64), salt=table[:, 1])
    for column in table[:, 2:].T:
        np.testing.assert_array_equal(column, expected)
    assert set(expected.tolist()) <= set(range(n))


@pytest.mark.parametrize("name", ["plain hashing", "hot keys, none split", "one worker"])
def test_a_routing_that_splits_nothing_needs_no_salt(rows: DataFrame, name: str) -> None:
    routing = ROUTINGS[name]
    assert not needs_salt(routing)
    found = rows.select("h", routing_column(routing, "h", None).alias("w")).collect()
    table = np.array(found, np.int64)
    np.testing.assert_array_equal(table[:, 1], routing.route(table[:, 0].view(np.uint64)))


@pytest.mark.parametrize("name", ["dealing everything", "one hot key", "no hot key, buckets dealt"])
def test_a_routing_that_splits_needs_a_salt(name: str) -> None:
    assert needs_salt(ROUTINGS[name])


@pytest.mark.parametrize(("n_buckets", "seed"), [(1, 0), (7, 5), (2048, 0), (16384, 2**63 - 1)])
def test_buckets_are_those_of_the_histogram(rows: DataFrame, n_buckets: int, seed: int) -> None:
    found = rows.select("h", bucket_column(F.col("h"), n_buckets, seed)).collect()
    table = np.array(found, np.int64)
    expected = bucket_of(table[:, 0].view(np.uint64), n_buckets, seed)
    np.testing.assert_array_equal(table[:, 1], expected)
