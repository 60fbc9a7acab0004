"""Batch replay on Spark: plain Spark's rows whatever the first tasks hold, and what explain says."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import KIP, OffGreedy, Replay, WrapAround
from skewless.costs import Costs
from skewless.errors import ParameterError
from skewless.keys import hash64
from skewless.spark.keys import resolve_keys
from skewless.spark.replaying import first_tasks
from tests.spark.comparison import assert_same_groups, assert_same_rows, physical_plan

SCHEMA = "k string, n long, biggest_gap double"
#: A second a row, so that any plan that is more even than hashing pays.
DEAR = Replay(0.1, Costs(0.0, 0.0, 1e6, 0.0))
#: Nothing but routing and shipping costs.
CHEAP = Replay(0.5, Costs(100.0, 1.0, 0.0, 0.0))
TASKS = 20


def rows_of(spark: SparkSession, kind: str, n: int = 4_000) -> DataFrame:
    """Rows in twenty tasks: a column of ids, keys by one of several laws, values."""
    number = F.col("id")
    hot = F.when(number % 2 == 0, F.lit("hot")).otherwise(F.concat(F.lit("c"), number % 31))
    keys = {
        "uniform": F.concat(F.lit("u"), number % 100),
        "hot": hot,
        "null": F.when(number % 3 > 0, hot),
        # The first tasks hold keys that the others do not have.
        "sorted": F.concat(F.lit("s"), F.floor(F.sqrt(number * 0.5))),
        "one": F.lit("only"),
    }
    frame = spark.range(0, n, 1, TASKS)
    return frame.select(
        keys[kind].alias("k"), number, (number * 7 % 1_001).cast("double").alias("v")
    )


def gaps(rows: pd.DataFrame) -> pd.DataFrame:
    gap = rows.sort_values(["v", "id"])["v"].diff().max()
    return pd.DataFrame({"k": rows["k"].iloc[:1], "n": [len(rows)], "biggest_gap": [gap]})


class Total(skewless.Aggregator):
    """A count and a sum."""

    inputs = ("v",)
    state = "n long, total double"
    result = "n long, total double"
    merges = {"n": "sum", "total": "sum"}

    def create(self):
        return {"n": 0, "total": 0.0}

    def update(self, state, rows):
        total = state["total"] + sum(rows["v"].to_pylist())
        return {"n": state["n"] + rows.num_rows, "total": total}

    def finish(self, state):
        return state


def told(text: str) -> tuple[float, float]:
    """Return max/mean as predicted and as found."""
    found = re.search(r"max/mean ([\d.]+) predicted from the counted rows, ([\d.]+) found", text)
    assert found is not None, text
    return float(found[1]), float(found[2])


LAWS = [
    ("null", DEAR),
    ("sorted", DEAR),
    pytest.param("hot", CHEAP, marks=pytest.mark.slow),
    pytest.param("uniform", DEAR, marks=pytest.mark.slow),
    pytest.param("one", DEAR, marks=pytest.mark.slow),
    pytest.param("sorted", CHEAP, marks=pytest.mark.slow),
]


@pytest.mark.classic
@pytest.mark.parametrize(("kind", "replay"), LAWS)
def test_a_function_and_an_aggregator_give_plain_spark_s_rows(spark, kind, replay) -> None:
    frame = rows_of(spark, kind)
    groups = skewless.group_by(frame, "k", policy=KIP(4), replay=replay)
    assert_same_rows(groups.apply(gaps, SCHEMA), frame.groupBy("k").applyInPandas(gaps, SCHEMA))
    totals = skewless.group_by(frame, "k", policy=WrapAround(4), replay=replay).aggregate(Total())
    plain = frame.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    ours = {row.k: (row.n, row.total) for row in totals.collect()}
    assert ours == {row.k: (row.n, row.total) for row in plain.collect()}


@pytest.mark.classic
def test_only_the_first_tasks_are_counted_and_counted_exactly(spark) -> None:
    frame = rows_of(spark, "null")
    seen = spark.sparkContext.accumulator(0)

    def noted(batches):
        seen.add(1)
        yield from batches

    through = frame.mapInArrow(noted, frame.schema)
    keys = resolve_keys("test", through, ["k"])
    found = first_tasks(through, keys, KIP(4), Replay(0.2))
    assert (found.tasks, found.of_tasks, found.rows, found.shuffled) == (4, TASKS, 800, False)
    assert seen.value == 4
    first = frame.where("id < 800").select("k").toArrow()["k"].combine_chunks()
    hashes = Counter(hash64(first).tolist())
    listed = dict(zip(found.histogram.keys.tolist(), found.histogram.counts.tolist(), strict=True))
    assert listed == hashes
    assert found.histogram.total == 800


@pytest.mark.classic
@pytest.mark.parametrize("weight", ["id", "v", "missing"])
def test_rows_count_with_their_weight(spark, weight) -> None:
    frame = rows_of(spark, "hot").withColumn("missing", F.when(F.col("id") % 2 == 0, F.col("id")))
    keys = resolve_keys("test", frame, ["k"])
    column = F.col(weight) if weight != "v" else F.col("v") / 3
    found = first_tasks(frame, keys, KIP(4), Replay(0.1), weight=column)
    exact = (
        frame.where("id < 400")
        .groupBy(F.xxhash64("k").alias("h"))
        .agg(F.sum(F.coalesce(column, F.lit(0))).alias("w"))
        .collect()
    )
    total = sum(row.w for row in exact)
    parts = {
        int(key): count / found.histogram.total
        for key, count in zip(
            found.histogram.keys.view(np.int64), found.histogram.counts, strict=True
        )
    }
    assert parts == pytest.approx({row.h: row.w / total for row in exact}, abs=1e-9)
    assert found.rows == 400


@pytest.mark.classic
def test_explain_shows_the_test_and_what_was_predicted_beside_what_was_found(spark) -> None:
    frame = rows_of(spark, "hot")
    groups = skewless.group_by(frame, "k", policy=KIP(4), replay=DEAR)
    text = groups.explain_apply()
    assert "counted: the first 2 of 20 tasks, 400 rows" in text
    assert "it pays, so the plan is taken" in text
    predicted, found = told(text)
    # Half of the rows are of one key: two fair shares of four.
    assert predicted == pytest.approx(2.0, abs=0.1)
    assert found == pytest.approx(2.0, abs=0.15)
    assert "found over all 4,000 rows" in text
    assert "heaviest group is 2.0 fair shares" in text
    hashed = skewless.group_by(frame, "k", policy="kip", workers=4, replay=CHEAP)
    text = hashed.explain_apply()
    assert "it does not pay, so rows are hashed" in text
    plain = skewless.group_by(frame, "k", policy="hash", workers=4).apply(where, "k string, at int")
    same = hashed.apply(where, "k string, at int")
    assert_same_rows(same, plain)


def where(rows: pd.DataFrame) -> pd.DataFrame:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return pd.DataFrame({"k": rows["k"].iloc[:1], "at": [context.partitionId()]})


@pytest.mark.classic
def test_sorted_input_misleads_the_plan_and_explain_shows_it(spark) -> None:
    # Each key has two tasks of its own: what the first two hold, no other task has.
    frame = spark.range(0, 4_000, 1, TASKS).select(F.floor(F.col("id") / 400).alias("k"), "id")
    frame = frame.withColumn(
        "k", F.when(F.col("id") < 400, F.col("id") % 40 + 100).otherwise(F.col("k"))
    )
    # On two slots, two workers: more would run one after the other, and evenness would gain nothing.
    text = skewless.group_by(frame, "k", policy=OffGreedy(2), replay=DEAR).explain_apply()
    predicted, found = told(text)
    assert predicted < 1.03
    assert found > 1.09  # nine whole keys of four hundred rows: five of them share a worker at best


@pytest.mark.classic
def test_auto_takes_what_wrap_around_plans_for_an_aggregator(spark) -> None:
    frame = rows_of(spark, "hot")
    groups = skewless.group_by(frame, "k", workers=4, replay=DEAR)
    found = {row.k: row.n for row in groups.aggregate(Total()).collect()}
    assert found["hot"] == 2_000
    text = groups.explain()
    assert "with replay=, what WrapAround plans from the first tasks" in text
    assert re.search(r"[1-9]\d* of them split", text)
    predicted, found_balance = told(text)
    assert predicted < 1.1
    assert found_balance < 1.2


@pytest.mark.classic
def test_an_aggregator_is_timed_where_no_costs_are_given(spark, monkeypatch) -> None:
    monkeypatch.setattr("skewless.spark.replaying.measure", lambda *_: DEAR.costs)
    frame = rows_of(spark, "hot")
    groups = skewless.group_by(frame, "k", policy=WrapAround(4), replay=0.1)
    groups.aggregate(Total())
    assert "it pays" in groups.explain()
    # A function costs what the model says of a row, and four thousand rows gain nothing by a plan.
    monkeypatch.setattr(
        "skewless.spark.replaying.known_costs", lambda: Costs(1_000.0, 1.0, 1.0, 1.0)
    )
    functions = skewless.group_by(frame, "k", policy=KIP(4), replay=0.1)
    assert "does not pay" in functions.explain_apply()


BEFORE = ["join", "cached", "coalesced", "no tasks"]


@pytest.mark.classic
@pytest.mark.parametrize(
    "before",
    ["sort", "empty", *(pytest.param(each, marks=pytest.mark.slow) for each in BEFORE)],
)
def test_frames_that_are_no_scans_work_too(spark, before) -> None:
    frame = rows_of(spark, "hot", 1_000)
    if before == "sort":
        frame = frame.orderBy(F.desc("v"), "id")
    elif before == "join":
        names = spark.range(1_000).withColumnRenamed("id", "other")
        frame = frame.join(names.hint("merge"), F.col("id") == F.col("other")).drop("other")
    elif before == "cached":
        frame = frame.cache()
    elif before == "coalesced":
        frame = frame.coalesce(1)
    elif before == "empty":
        frame = frame.where("id < 0")
    else:
        frame = spark.createDataFrame(spark.sparkContext.emptyRDD(), frame.schema)
    groups = skewless.group_by(frame, "k", policy=KIP(4), replay=DEAR)
    expected = frame.groupBy("k").applyInPandas(gaps, SCHEMA)
    assert_same_rows(groups.apply(gaps, SCHEMA), expected)
    text = groups.explain_apply()
    behind = before in ("sort", "join")
    assert ("behind a shuffle that ran for it and runs again for the job" in text) == behind
    if before in ("empty", "no tasks"):
        assert "it does not pay" in text
    frame.unpersist()


@pytest.mark.classic
def test_spark_s_own_aggregates_take_the_plan_and_leave_auto_to_spark(spark) -> None:
    frame = rows_of(spark, "null")
    plain = frame.groupBy("k").agg(F.sum("v"), F.collect_list("id"))
    for policy in (KIP(4), WrapAround(4)):
        groups = skewless.group_by(frame, "k", policy=policy, replay=DEAR)
        assert_same_groups(groups.agg(F.sum("v"), F.collect_list("id")), plain, 1)
    auto = skewless.group_by(frame, "k", replay=DEAR).count()
    assert physical_plan(auto).count("Exchange") == 1


# Arguments, words.
REFUSED = [
    ({"policy": "hash"}, "policy Hash.* plans nothing; take one that learns, such as KIP"),
    ({"policy": "spark"}, "policy 'spark' plans nothing"),
    ({"policy": "local"}, "policy 'local' plans nothing"),
    ({"policy": skewless.Routing(3)}, "plans nothing"),
    ({"replay": 0}, r"fraction must be a float in \(0, 1\], got 0"),
    ({"replay": "a tenth"}, "fraction must be a float"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[row[1][:30] for row in REFUSED])
def test_what_cannot_be_replayed_is_refused_in_words(spark, given, words) -> None:
    frame = rows_of(spark, "hot")
    with pytest.raises(ParameterError, match=words):
        skewless.group_by(frame, "k", **({"replay": 0.1} | given))


def test_streams_and_pairs_of_frames_are_refused(spark) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(
        ParameterError, match=r"replay=0\.1 counts the first tasks of a batch frame"
    ):
        skewless.group_by(stream, "value", policy="kip", workers=2, replay=0.1)
    frame = rows_of(spark, "hot")
    replayed = skewless.group_by(frame, "k", policy=KIP(4), replay=0.1)
    whole = skewless.group_by(frame, "k", policy=KIP(4))
    for left, right in ((replayed, whole), (whole, replayed)):
        with pytest.raises(
            ParameterError, match="cogroup: replay= plans from the first tasks of one"
        ):
            left.cogroup(right)


def _law(rng: np.random.Generator, n: int) -> pa.Table:
    """Keys by a random law, in a random order or sorted; some are null."""
    exponent, distinct = rng.uniform(0, 2.5), int(rng.choice([1, 5, 60, 300]))
    weights = np.arange(1, distinct + 1, dtype=float) ** -exponent
    keys = rng.choice(distinct, n, p=weights / weights.sum())
    if rng.random() < 0.5:
        keys = np.sort(keys)[:: int(rng.choice([-1, 1]))]
    names = pa.array([f"k{key}" for key in keys], mask=rng.random(n) < rng.choice([0.0, 0.2]))
    return pa.table({"k": names, "id": np.arange(n), "v": rng.integers(0, 99, n).astype(float)})


@pytest.mark.classic
@pytest.mark.parametrize("seed", range(2))
def test_any_law_and_order_gives_plain_spark_s_rows(spark, seed) -> None:
    _check(spark, seed)


@pytest.mark.classic
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_dozens_of_laws_and_orders_give_plain_spark_s_rows(spark, seed) -> None:
    _check(spark, seed)


def _check(spark: SparkSession, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = spark.createDataFrame(
        _law(rng, int(rng.choice([0, 3, 900]))).to_pandas(), "k string, id long, v double"
    )
    frame = frame.repartitionByRange(int(rng.integers(1, 8)), "id").cache()
    n = int(rng.integers(1, 7))
    policy = str(
        rng.choice(["auto", "kip", "off_greedy", "wrap_around", "scan", "mixed", "dalton"])
    )
    rule = Replay(float(rng.uniform(0.05, 1)), [None, DEAR.costs][int(rng.integers(2))])
    groups = skewless.group_by(frame, "k", policy=policy, workers=n, replay=rule)
    assert_same_rows(groups.apply(gaps, SCHEMA), frame.groupBy("k").applyInPandas(gaps, SCHEMA))
    ours = {row.k: (row.n, row.total) for row in groups.aggregate(Total()).collect()}
    plain = frame.groupBy("k").agg(F.count("*"), F.sum("v")).collect()
    assert ours == {row[0]: (row[1], row[2]) for row in plain}
    frame.unpersist()
