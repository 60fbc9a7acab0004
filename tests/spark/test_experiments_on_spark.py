"""The rows that run on Spark, at a few hundred events: right answers and loads, no stray session."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import skewless
from skewless.errors import DataError
from skewless.experiments.dr import batch, ner
from skewless.experiments.on_spark import slots_asleep
from skewless.experiments.ours import spark as ours
from skewless.spark.emulated import run_sorted, task_seconds, written


@pytest.mark.classic
def test_a_job_says_what_each_task_had_and_how_long_its_keys_paused(spark, tmp_path) -> None:
    rows = batch.events(500, 1.5, 2)
    frame = written(spark, rows, tmp_path / "in", 5)
    assert frame.rdd.getNumPartitions() == 5
    routing = skewless.Routing(3, {}, [2, 0, 1, 2])
    run = run_sorted(frame, routing, 0.0)
    times: dict[int, list[int]] = {}
    for key, ts in zip(rows["k"].to_pylist(), rows["ts"].to_pylist(), strict=True):
        times.setdefault(key, []).append(ts)
    loads: Counter[int] = Counter()
    pauses = 0
    for own in times.values():
        own.sort()
        pauses += max((b - a for a, b in pairwise(own)), default=0)
    assert (run.keys, run.pauses) == (len(times), pauses)
    placed = skewless.repartition(frame, "k", policy=routing)
    for row in placed.selectExpr("spark_partition_id() AS at").collect():
        loads[row.at] += 1
    assert run.loads.tolist() == [loads[worker] for worker in range(3)]


@pytest.mark.classic
def test_both_ways_of_a_batch_and_of_a_stream_give_one_answer(spark) -> None:
    load = batch.Load(400, 0.0, 4, 1)
    found = batch.measure(spark, batch.events(400, 2.0, 0), load, 3)
    assert [row["way"] for row in found] == ["hash", "dr"]
    for row in found:
        assert 1 <= row["max_over_mean"] <= 3
        assert row["seconds"] > 0
    few = ner.Load(400, 3, 0.0)
    found = ner.measure(spark, ner.pages(few, 0), few, 4)
    assert [row["way"] for row in found] == ["hash", "kip"]
    assert found[0]["moved"] == 0
    assert found[1]["moved"] > 0, "the answers are compared although owners differ"


@pytest.mark.classic
def test_an_experiment_does_not_take_a_session_that_is_not_its_own(spark) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with pytest.raises(DataError, match=r"needs a Spark of 16 slots of its own.*one on local\[2\]"):
        slots_asleep(16)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


@pytest.mark.classic
def test_spark_s_own_job_and_ours_give_one_answer_and_tasks_take_as_long_as_they_sleep(
    spark,
) -> None:
    shuffled = spark.conf.get("spark.sql.shuffle.partitions")
    merging = spark.conf.get(ours._MERGING)
    try:
        found = ours.measure(spark, ours.Load(600, 0.0, 1, 1), 1.5, 2, 0)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", shuffled)
        spark.conf.set(ours._MERGING, merging)
    assert [row["way"] for row in found] == ["spark", "skewless", "even"]
    seconds = task_seconds(spark, np.array([0] * 5 + [2] * 50), 4, 10_000.0)
    assert seconds[0] >= 0.05
    assert seconds[2] >= 0.5
    assert len(seconds) == 4
