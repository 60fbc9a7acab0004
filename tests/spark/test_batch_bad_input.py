"""What cannot be done is refused in one worded sentence, before any job runs."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.partitioners import PKG
from skewless.planners import WrapAround
from skewless.spark import batch

VERBS = [skewless.repartition, skewless.group_by]


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals come first: counting the keys would be a job."""

    def gather(*_: object) -> None:
        raise AssertionError("a job ran before the refusal")

    monkeypatch.setattr(batch, "gather", gather)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(10).selectExpr(
        "id", "cast(id as string) as user", "map(id, 1) as m", "array(map(id, 1)) as ms", "1 as v"
    )


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ((), "give at least one key column"),
        (("usr",), r"column 'usr' is not in the frame \(did you mean 'user'\?\)"),
        (("user", "user"), "key column 'user' is given twice"),
        (("user", "USER"), "key column 'user' is given twice"),
        (("m",), "column 'm' holds a map, which Spark cannot group by"),
        (("ms",), "column 'ms' holds a map"),
        ((["user"],), "columns are given by name, got list"),
    ],
)
def test_bad_keys(frame: DataFrame, verb, keys: tuple, sentence: str) -> None:
    with pytest.raises(DataError, match=rf"^{verb.__name__}: .*{sentence}"):
        verb(frame, *keys, policy="wrap_around", workers=2)


@pytest.mark.parametrize("verb", VERBS)
def test_a_key_that_is_an_expression(frame: DataFrame, verb) -> None:
    with pytest.raises(DataError, match="columns are given by name, got Column; add the expr"):
        verb(frame, F.col("user"))


@pytest.mark.parametrize("verb", VERBS)
def test_a_key_name_that_two_columns_share(frame: DataFrame, verb) -> None:
    twice = frame.select("id", F.col("v").alias("id"))
    with pytest.raises(DataError, match="column 'id' is in the frame 2 times; rename one"):
        verb(twice, "id")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"workers": 0}, "workers must be an int of at least 1, got 0"),
        ({"workers": -3}, "workers must be an int of at least 1, got -3"),
        ({"workers": 2.0}, "workers must be an int of at least 1, got 2.0"),
        ({"workers": True}, "workers must be an int of at least 1, got True"),
        ({"policy": "pgk"}, r"policy 'pgk' is not known \(did you mean 'pkg'\?\)"),
        ({"policy": 8}, "policy must be a policy object or a name, got int"),
        ({"policy": PKG}, "policy must be a policy object or a name, got"),
        ({"policy": PKG(4), "workers": 5}, "workers=5 but the policy has 4 workers"),
    ],
)
def test_bad_policies(frame: DataFrame, verb, arguments: dict, sentence: str) -> None:
    with pytest.raises(ParameterError, match=rf"^{verb.__name__}: {sentence}"):
        verb(frame, "user", **arguments)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("other", [pd.DataFrame({"k": [1]}), None, "frame", [1]])
def test_what_is_no_spark_frame(verb, other: object) -> None:
    with pytest.raises(DataError, match="takes a Spark DataFrame, got"):
        verb(other, "k")


def test_repartition_by_local_is_nothing_to_do(frame: DataFrame) -> None:
    with pytest.raises(ParameterError, match="'local' leaves every row where it is"):
        skewless.repartition(frame, "user", policy="local")


@pytest.mark.parametrize("policy", ["auto", "pkg", "wrap_around", WrapAround(3)])
def test_repartition_of_a_stream_by_a_policy_that_learns(spark: SparkSession, policy) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ParameterError, match=r"learns from counts.*group_by\(\.\.\.\)\.window"):
        skewless.repartition(stream, "value", policy=policy)


def test_state_is_for_streams(frame: DataFrame) -> None:
    with pytest.raises(ParameterError, match="this frame is not streaming"):
        skewless.group_by(frame, "user", state="some/folder")


def test_shuffle_partitions_that_are_no_number(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = type(frame.sparkSession.conf)
    monkeypatch.setattr(conf, "get", lambda *_: "auto")
    with pytest.raises(ParameterError, match="is 'auto', not a number; give workers="):
        batch.default_workers(frame)


@pytest.mark.parametrize("policy", ["auto", "wrap_around", "pkg", "local"])
@pytest.mark.parametrize(
    "aggregate",
    [
        lambda: F.sum("amuont"),
        lambda: {"amuont": "sum"},
        lambda: F.sum("m"),
        lambda: F.expr("smu(v)"),
        lambda: F.col("v"),
    ],
    ids=[
        "unknown column",
        "unknown column in a dict",
        "sum of a map",
        "no function",
        "no aggregate",
    ],
)
def test_aggregates_that_spark_refuses(frame: DataFrame, policy: str, aggregate) -> None:
    groups = skewless.group_by(frame, "user", policy=policy, workers=2)
    with pytest.raises(AnalysisException):
        groups.agg(aggregate())


def test_shortcuts_on_columns_that_are_not_there(frame: DataFrame) -> None:
    groups = skewless.group_by(frame, "user", policy="wrap_around", workers=2)
    for verb in (groups.sum, groups.avg, groups.min, groups.max):
        # Spark Connect refuses in its client, by another error.
        refused = AnalysisException if hasattr(frame, "_jdf") else PySparkTypeError
        with pytest.raises(refused, match="amuont"):
            verb("amuont")


def test_an_aggregator_that_is_none_is_refused_before_any_job(frame: DataFrame) -> None:
    groups = skewless.group_by(frame, "user", policy="wrap_around", workers=2)
    with pytest.raises(DataError, match=r"instance of skewless\.Aggregator"):
        groups.aggregate(F.sum("v"))
