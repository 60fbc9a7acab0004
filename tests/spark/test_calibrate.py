"""Costs measured on Spark: the jobs that are run, what comes back, what is refused."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from skewless.errors import ParameterError
from skewless.spark.calibration import calibrate
from skewless.spark.keys import resolve_keys


def test_costs_are_those_of_eight_jobs_that_differ_in_what_they_cost(spark: SparkSession) -> None:
    told: list[tuple[float, str]] = []
    found = calibrate(
        spark, rows=8_000, rounds=1, slots=2, progress=lambda part, what: told.append((part, what))
    )
    assert len(set(found.jobs)) == 8
    assert {(job.routed, job.rows) for job in found.jobs} == {
        (routed, rows) for routed in (False, True) for rows in (8_000, 32_000)
    }
    assert {job.fragments for job in found.jobs if job.routed} == {128, 1_000}
    assert {job.fragments for job in found.jobs if not job.routed} == {256, 2_000}
    assert all(job.seconds > 0 for job in found.jobs)
    assert all(cost >= 0 for cost in found.costs)
    assert found.costs.stage_s > 0
    assert (found.slots, found.setting["spark"]) == (2, spark.version)
    parts = [part for part, _ in told]
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_the_keys_of_the_jobs_have_the_fragments_that_the_model_is_told(
    spark: SparkSession,
) -> None:
    from skewless.spark import calibration

    for keys in (128, 1_000):
        frame = calibration._frame(spark, 8_000, keys, 4)
        resolve_keys("test", frame, ["k"])
        plan = calibration._Planned(False, 8_000, keys)
        in_place = frame.selectExpr("k", "spark_partition_id() as task").distinct().count()
        assert in_place == calibration._fragments(plan, 4)
        assert frame.select("k").distinct().count() == keys


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rows": 10}, "calibrate: rows must be"),
        ({"rounds": 0}, "calibrate: rounds must be"),
        ({"slots": 0}, "calibrate: slots must be"),
    ],
)
def test_bad_values_are_refused_before_a_job(spark: SparkSession, wrong, told) -> None:
    with pytest.raises(ParameterError, match=told):
        calibrate(spark, **wrong)
