"""Random frames, keys, policies and aggregates: the rows and the schema of plain Spark, every time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless import partitioners, planners
from skewless.policy import policy_name
from tests.spark.comparison import assert_same_groups
from tests.spark.test_batch_aggregate import Sums, plain

POLICIES = [
    *(policy_name(cls) for cls in (*partitioners.ALL, *planners.ALL)),
    *("auto", "spark", "local"),
]
#: A key column of each type, from small integers; null stays null.
KINDS = {
    "long": "{0}",
    "string": "concat('key_', {0}, '|', {0} % 3)",
    "double": "case {0} when 0 then double('NaN') when 1 then if(id % 2 = 0, 0D, -0D) else {0} / 8D end",
    "decimal": "cast({0} / 4 as decimal(9, 2))",
    "date": "date_add(date'1969-12-20', cast({0} as int))",
    "timestamp": "timestamp_micros({0} * 1000003 - 50000000)",
    "boolean": "{0} % 2 = 0",
    "binary": "cast(repeat('x', cast({0} % 40 as int)) as binary)",
    "struct": "if({0} is null, null, named_struct('a', {0} % 7, 'b', nullif({0} % 5, 0)))",
    "array": "transform(sequence(0, {0} % 4), i -> i + {0} % 9)",
    "float": "cast({0} / 3 as float)",
    "short": "cast({0} as smallint)",
}
AGGREGATES = {
    "count": "count(*)",
    "count of known": "count(d)",
    "sum": "sum(i)",
    "decimal sum": "sum(d)",
    "decimal mean": "avg(d)",
    "mean": "avg(x)",
    "extremes": "struct(min(s), max(x))",
    "distinct": "count(distinct i, s)",
    "set": "array_sort(collect_set(i))",
    "list": "array_sort(collect_list(i))",
    "moments": "array(stddev(x), skewness(x), kurtosis(x))",
    "correlation": "corr(x, i)",
    "percentiles": "percentile(i, array(0.1, 0.5, 0.99))",
    "median": "median(x)",
    "sketch": "approx_count_distinct(i)",
    "or": "bool_or(i > 40)",
    "bits": "bit_xor(i)",
    "filtered": "sum(i) filter (where i > 0)",
}


def _numbers(rng: np.random.Generator, n: int) -> np.ndarray:
    """Uniform, Zipf or one hot key among few or many; with nulls."""
    kind, distinct = rng.integers(3), int(rng.choice([1, 3, 40, 3_000]))
    if kind == 0:
        found = rng.integers(0, distinct, n).astype(float)
    elif kind == 1:
        found = (rng.zipf(rng.uniform(1.1, 2.5), n) % distinct).astype(float)
    else:
        found = np.where(rng.random(n) < 0.9, 0.0, rng.integers(0, distinct, n))
    found[rng.random(n) < rng.choice([0.0, 0.1, 0.5])] = np.nan
    return found


def _frame(spark: SparkSession, rng: np.random.Generator) -> tuple[DataFrame, list[str]]:
    n = int(rng.choice([0, 1, 50, 2_000], p=[0.05, 0.05, 0.2, 0.7]))
    n_keys = int(rng.integers(1, 4))
    base: dict[str, object] = {f"n{i}": _numbers(rng, n) for i in range(n_keys)}
    base |= {
        "id": np.arange(n),
        "v": rng.integers(-50, 50, n),
        "x": rng.normal(size=n) * 10.0 ** rng.integers(-4, 4, n),
    }
    columns = ", ".join(f"{name} {'long' if name in 'idv' else 'double'}" for name in base)
    rows = spark.createDataFrame(pd.DataFrame(base), columns)
    # NaN stands for null here: Spark keeps them apart.
    numbers = {f"n{i}": F.expr(f"cast(nanvl(n{i}, null) as long)") for i in range(n_keys)}
    rows = rows.withColumns(numbers)
    kinds = [str(kind) for kind in rng.choice(list(KINDS), n_keys)]
    names = [f"key{i}" for i in range(n_keys)]
    keys = [F.expr(KINDS[kind].format(f"n{i}")).alias(names[i]) for i, kind in enumerate(kinds)]
    return rows.select(
        *keys,
        "v",
        "x",
        F.expr("nullif(cast(v as int), 13)").alias("i"),
        F.expr("cast(nullif(v, 7) / 8 as decimal(10, 2))").alias("d"),
        F.concat(F.lit("s"), F.col("v") % 9).alias("s"),
        F.expr("if(v % 5 = 0, 'five', 'other')").alias("word"),
    ).repartition(int(rng.integers(1, 5))), names


def _check(spark: SparkSession, seed: int) -> None:
    rng = np.random.default_rng(seed)
    df, keys = _frame(spark, rng)
    df = df.cache()
    policy = str(rng.choice(POLICIES))
    workers = int(rng.integers(1, 10))
    weight = [None, F.abs("v"), "bytes"][rng.choice(3, p=[0.6, 0.2, 0.2])]
    chosen = rng.choice(list(AGGREGATES), int(rng.integers(1, 6)), replace=False)
    columns = [F.expr(AGGREGATES[name]).alias(name) for name in chosen]
    groups = skewless.group_by(df, *keys, policy=policy, workers=workers, weight=weight)
    try:
        assert_same_groups(groups.agg(*columns), df.groupBy(*keys).agg(*columns), len(keys))
        if rng.random() < 0.5:
            ours = _rounded(groups.aggregate(Sums()))
            assert ours == _rounded(plain(df, *keys))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {policy}, {workers} workers, {df.schema}") from error
    finally:
        df.unpersist()


def _rounded(df: DataFrame) -> list[str]:
    rows = [row.asDict() for row in df.collect()]
    for row in rows:
        row["mean"], row["kinds"] = f"{row['mean']:.9g}", sorted(row["kinds"])
    return sorted(map(repr, rows))


@pytest.mark.parametrize("seed", range(12))
def test_any_job_equals_plain_spark(spark, seed) -> None:
    _check(spark, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_hundreds_of_jobs_equal_plain_spark(spark, seed) -> None:
    _check(spark, seed)
