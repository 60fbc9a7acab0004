"""Window functions over cut keys are plain Spark's: values, types, nullability."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

import skewless
from skewless import over
from skewless.errors import DataError, ParameterError
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.window_query import WindowQuery
from tests.spark.comparison import needs, partition_sizes, physical_plan
from tests.spark.skewed import skewed_frame

START, END, HERE = Window.unboundedPreceding, Window.unboundedFollowing, Window.currentRow
SUMMABLE = ["v", "i", "x", "d"]
ORDERED = [*SUMMABLE, "s", "t", "k"]


def assert_same(found: DataFrame, expected: DataFrame) -> None:
    """Rows equal by their unique id: floats to 1e-9 relative, all else exactly; schema equal."""
    assert found.schema == expected.schema
    rows = found.collect()
    ours, theirs = ({r["id"]: r for r in of} for of in (rows, expected.collect()))
    assert ours.keys() == theirs.keys()
    assert len(rows) == len(ours)
    for number, row in theirs.items():
        for name, a, b in zip(found.columns, ours[number], row, strict=True):
            assert _close(a, b), (number, name, a, b)


def _close(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        both_nan = math.isnan(a) and math.isnan(b)
        return both_nan or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return repr(a) == repr(b)


def every_function(draw: random.Random) -> tuple[dict[str, object], dict[str, Column]]:
    """Some functions as ours, and, written by hand, as Spark's over `by_order` and `by_row`."""
    a = draw.randrange(-4, 3)
    b = draw.randrange(a, 5)
    n, shift = draw.randrange(1, 9), draw.choice([1, 2, 5, 40])
    ours: dict[str, object] = {}
    theirs: dict[str, tuple[Column, str, tuple[int, int] | None]] = {}

    def add(name: str, mine: object, column: Column, spec: str, rows=None) -> None:
        ours[name], theirs[name] = mine, (column, spec, rows)

    add("rn", "row_number", F.row_number(), "row")
    add("rk", "rank", F.rank(), "order")
    add("dr", "dense_rank", F.dense_rank(), "order")
    add("pr", "percent_rank", F.percent_rank(), "order")
    add("cd", "cume_dist", F.cume_dist(), "order")
    add("nt", over("ntile", n=n), F.ntile(n), "row")
    for name in ORDERED:
        add(f"lag_{name}", over("lag", name, shift), F.lag(name, shift), "row")
    add("lead", over("lead", "v", shift, default=-1), F.lead("v", shift, -1), "row")
    for column in ORDERED:
        for kind in ("sum", "avg", "min", "max", "count"):
            if kind in ("sum", "avg") and column not in SUMMABLE:
                continue
            call = getattr(F, kind)
            for frame, rows in (("o", None), ("r", (None, 0)), ("w", (None, None)), ("b", (a, b))):
                edges = None
                if rows is not None:
                    first, last = rows
                    edges = (START if first is None else first, END if last is None else last)
                mine = over(kind, column, rows=rows)
                spec = "order" if rows is None else "row"
                add(f"{kind}_{column}_{frame}", mine, call(column), spec, edges)
    add("stars", over("count", "*", rows=(None, 0)), F.count("*"), "row", (START, HERE))
    add("all", over("count", "*", rows=(None, None)), F.count("*"), "row", (START, END))
    chosen = draw.sample(sorted(ours), draw.choice([3, 6, 10]))
    return {name: ours[name] for name in chosen}, {name: theirs[name] for name in chosen}


def plain(df: DataFrame, keys: list[str], order: list, tie: list, functions: dict) -> DataFrame:
    by_order = Window.partitionBy(*keys).orderBy(*order)
    by_row = Window.partitionBy(*keys).orderBy(*order, *tie)
    columns = {}
    for name, (column, spec, rows) in functions.items():
        window = by_order if spec == "order" else by_row
        columns[name] = column.over(window if rows is None else window.rowsBetween(*rows))
    return df.withColumns(columns)


def _one_case(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - seeded on purpose
    frame = skewed_frame(spark, seed, 300, shuffled=draw.random() < 0.5)
    keys = draw.choice([["k"], ["k", "j"], ["j"], []])
    orders = [F.desc("o"), F.col("o").asc_nulls_last(), F.col("t").desc_nulls_first(), F.col("s")]
    orders = [*orders, F.desc("s"), F.col("d").asc(), F.col("i").desc()]
    first = draw.choice(orders)
    # An order that ends in the id has no ties: then every function has one answer.
    order = [first, "id"] if draw.random() < 0.5 else [first]
    ours, theirs = every_function(draw)
    if order == [first]:  # only functions that take ties together have one answer
        theirs = {n: f for n, f in theirs.items() if f[1] == "order" or f[2] == (START, END)}
        ours = {name: ours[name] for name in theirs} or {"rk": "rank"}
        theirs = theirs or {"rk": (F.rank(), "order", None)}
    policy = draw.choice(["wrap_around", "wrap_around", "w_choices", "d_choices", "hash", "auto"])
    found = skewless.window(frame, keys, order, ours, policy=policy, workers=draw.choice([2, 4, 7]))
    assert_same(found, plain(frame, keys, order, [], theirs))


@pytest.mark.filterwarnings(
    "ignore:WARN WindowExpression"
)  # of windows over a whole frame, on Connect
@pytest.mark.parametrize("seed", range(16))
def test_random_keys_orders_functions_and_policies(spark: SparkSession, seed: int) -> None:
    _one_case(spark, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_more_random_keys_orders_functions_and_policies(
    spark: SparkSession, seed: int
) -> None:
    _one_case(spark, seed)


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> DataFrame:
    """99 % of the rows on one key, 100 keys with one row each."""
    return spark.range(10_000, numPartitions=8).select(
        F.when(F.col("id") < 9_900, "hot").otherwise(F.concat(F.lit("c"), F.col("id"))).alias("k"),
        (F.col("id") * 7_919 % 10_007).alias("v"),
        F.col("id"),
    )


def query(df: DataFrame, keys, order, functions, policy) -> WindowQuery:
    return WindowQuery("test", df, keys, order, functions, policy, None)


@pytest.mark.parametrize("keys", ["k", []])
def test_workers_get_a_fair_share_of_a_key_with_99_percent(hot: DataFrame, keys) -> None:
    functions = {"n": "row_number", "l": over("lag", "v", 3)}
    placed, _ = query(hot, keys, F.desc("v"), functions, WrapAround(8)).placed()
    sizes = partition_sizes(placed)
    assert len(sizes) == 8
    assert max(sizes) <= 1.5 * np.mean(sizes)
    assert sum(sizes) <= 10_000 + 8 * 3


def test_a_running_sum_over_a_hot_key_and_no_sort_of_all_rows(hot: DataFrame) -> None:
    functions = {"total": over("sum", "v", rows=(None, 0))}
    found = skewless.window(hot, "k", "v", functions, policy="wrap_around", workers=8)
    by_row = Window.partitionBy("k").orderBy("v").rowsBetween(START, HERE)
    assert_same(found, hot.withColumn("total", F.sum("v").over(by_row)))
    assert "REPARTITION_BY_NUM" in physical_plan(found)


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.optimizer.windowGroupLimitThreshold": "-1"},
        {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "3"},
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.exchange.reuse": "false"},
        {"spark.sql.ansi.enabled": "false"},
    ],
    ids=lambda conf: next(iter(conf)),
)
def test_other_rewrites_of_spark_on_and_off_give_the_same(spark: SparkSession, conf: dict) -> None:
    frame = skewed_frame(spark, 21)
    functions = {
        "rank": "rank",
        "lag": over("lag", "s", 2),
        "sum": over("sum", "v"),
        "mean": over("avg", "d", rows=(-2, 3)),
    }
    before = {name: spark.conf.get(name) for name in conf}
    for name, setting in conf.items():
        spark.conf.set(name, setting)
    try:
        found = skewless.window(frame, "k", ["o", "id"], functions, policy="wrap_around", workers=5)
        by = Window.partitionBy("k").orderBy("o", "id")
        expected = frame.withColumns(
            {
                "rank": F.rank().over(by),
                "lag": F.lag("s", 2).over(by),
                "sum": F.sum("v").over(by),
                "mean": F.avg("d").over(by.rowsBetween(-2, 3)),
            }
        )
        assert_same(found, expected)
    finally:
        for name, setting in before.items():
            spark.conf.set(name, setting)


@pytest.mark.parametrize("n_runs", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_ties_have_one_outcome_however_rows_lie_and_keys_are_cut(
    spark: SparkSession, n_runs: int
) -> None:
    frame = skewed_frame(spark, 11).drop("id")
    functions = {
        "number": "row_number",
        "tile": over("ntile", n=7),
        "next": over("lead", "d", 3),
        "total": over("sum", "d", rows=(None, 0)),
    }
    runs = set()
    for run in range(n_runs):
        mixed = frame.repartition(2 + run % 5).orderBy(F.rand(run)) if run % 2 else frame
        policy = ["wrap_around", "spark", "w_choices", "hash"][run % 4]
        found = skewless.window(mixed, "k", "s", functions, policy=policy, workers=2 + run % 3)
        runs.add(tuple(sorted(map(repr, found.collect()))))
    assert len(runs) == 1


def test_the_same_plan_twice(hot: DataFrame) -> None:
    routings, outputs = [], []
    for _ in range(2):
        made = query(hot, "k", "v", {"n": "row_number"}, WrapAround(4))
        assert made.planned is not None
        routings.append(made.planned.routing)
        outputs.append(sorted(map(repr, made.frame().collect())))
    assert routings[0] == routings[1]
    assert outputs[0] == outputs[1]


def test_a_tie_that_is_most_of_a_key_stays_whole_for_ranks(spark: SparkSession) -> None:
    frame = spark.range(2_000, numPartitions=3).selectExpr("'hot' as k", "least(id, 50) as v", "id")
    functions = {"rank": "rank", "dense": "dense_rank", "sum": over("sum", "v")}
    found = skewless.window(frame, "k", F.desc("v"), functions, policy="wrap_around", workers=4)
    by = Window.partitionBy("k").orderBy(F.desc("v"))
    columns = {
        "rank": F.rank().over(by),
        "dense": F.dense_rank().over(by),
        "sum": F.sum("v").over(by),
    }
    assert_same(found, frame.withColumns(columns))


def test_parts_smaller_than_the_reach_are_passed_over(spark: SparkSession) -> None:
    frame = spark.range(12, numPartitions=2).selectExpr("'hot' as k", "id")
    functions = {
        "lag": over("lag", "id", 5),
        "lead": over("lead", "id", 7, default=-1),
        "sum": over("sum", "id", rows=(-6, 4)),
        "far": over("count", "id", rows=(5, 9)),
    }
    found = skewless.window(frame, "k", "id", functions, policy="wrap_around", workers=6)
    by = Window.partitionBy("k").orderBy("id")
    expected = {
        "lag": F.lag("id", 5).over(by),
        "lead": F.lead("id", 7, -1).over(by),
        "sum": F.sum("id").over(by.rowsBetween(-6, 4)),
        "far": F.count("id").over(by.rowsBetween(5, 9)),
    }
    assert_same(found, frame.withColumns(expected))


def test_a_sum_overflows_where_sparks_does_and_nowhere_else(spark: SparkSession) -> None:
    # The second half adds up to more than a long holds; with the first half before it, all fits.
    step = 2**60
    fits = spark.range(32).selectExpr("1 as k", "id", f"if(id < 16, -{step // 2}, {step}) as v")
    functions = {"t": over("sum", "v", rows=(None, 0))}
    by = Window.partitionBy("k").orderBy("id").rowsBetween(START, HERE)
    needs(fits, 4, 0, "fails on overflow unless it is told not to")
    fits = fits.where("id < 31 and (id <> 16)")
    found = skewless.window(fits, "k", "id", functions, policy="wrap_around", workers=2)
    assert_same(found, fits.withColumn("t", F.sum("v").over(by)))
    over_it = fits.withColumn("v", F.abs("v"))
    with pytest.raises(ArithmeticException):
        over_it.withColumn("t", F.sum("v").over(by)).collect()
    with pytest.raises(ArithmeticException):
        skewless.window(over_it, "k", "id", functions, policy="wrap_around", workers=2).collect()


def test_decimals_that_parts_cannot_be_put_together_from_stay_whole(spark: SparkSession) -> None:
    frame = spark.range(300).selectExpr(
        "1 as k",
        "id",
        "cast(id / 7 as decimal(38, 10)) as wide",
        "cast(id / 7 as decimal(14, 6)) as d",
    )
    functions = {"sum": over("sum", "wide"), "mean": over("avg", "d")}
    by = Window.partitionBy("k").orderBy("id")
    expected = frame.withColumns({"sum": F.sum("wide").over(by), "mean": F.avg("d").over(by)})
    for chosen in (functions, {"mean": functions["mean"]}):
        kept = expected.select(*frame.columns, *chosen)
        found = skewless.window(frame, "k", "id", chosen, policy="wrap_around", workers=3)
        assert_same(found, kept)
        told = skewless.explain_window(frame, "k", "id", chosen, policy="wrap_around", workers=3)
        assert ("up to 27 digits only, so no key is cut" in told) == ("sum" in chosen)
        assert ("cut into 3 ranges on workers 0, 1, 2" in told) == ("sum" not in chosen)


def test_explain_says_which_keys_are_cut_and_why(hot: DataFrame) -> None:
    functions = {"n": "rank", "l": over("lag", "v", 2)}
    told = skewless.explain_window(hot, "k", F.desc("v"), functions, workers=8)
    assert "policy 'auto'" in told
    assert "order: v DESC NULLS LAST." in told
    assert "k='hot': 9900 rows (99.0 %, 7.9 fair shares), cut into 8 ranges" in told
    assert "carried from part to part: rank()." in told
    assert "by copies of the rows next to a part: lag(v, 2)." in told
    assert "rows of equal order are never parted" in told
    even = skewless.explain_window(hot, "id", "v", functions, workers=4)
    assert "left to Spark: hashing the keys is balanced; no key is cut." in even
    asked = skewless.explain_window(hot, "k", "v", functions, policy="spark")
    assert "left to Spark: asked for; no key is cut." in asked


def test_a_saved_routing_decides_the_parts(hot: DataFrame, tmp_path: Path) -> None:
    learned = query(hot, "k", "v", {"n": "row_number"}, WrapAround(3)).planned
    assert learned is not None
    learned.routing.save(tmp_path / "routing.json")
    routing = Routing.load(tmp_path / "routing.json")
    found = skewless.window(hot, "k", "v", {"n": "row_number"}, policy=routing)
    by = Window.partitionBy("k").orderBy("v")
    assert_same(found, hot.withColumn("n", F.row_number().over(by)))


def test_empty_frames_awkward_names_and_a_column_that_is_replaced(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "k string, v int, id int")
    found = skewless.window(empty, "k", "v", {"n": "rank"}, policy="wrap_around", workers=3)
    assert found.collect() == []
    frame = spark.range(500).selectExpr(
        "id % 2 as `a.b`", "id as `__skewless_worker`", "id * 7 % 11 as `__skewless_key`", "id"
    )
    by = Window.partitionBy("`a.b`").orderBy("__skewless_key", "id")
    functions = {"__skewless_key": over("sum", "__skewless_key"), "x y": over("lag", "a.b")}
    found = skewless.window(
        frame, "a.b", ["__skewless_key", "id"], functions, policy="w_choices", workers=3
    )
    values = {"__skewless_key": F.sum("__skewless_key").over(by), "x y": F.lag("`a.b`").over(by)}
    assert_same(found, frame.withColumns(values))


def test_errors_come_before_any_job(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(*_: object, **__: object) -> None:
        raise AssertionError("a job ran before the refusal")

    monkeypatch.setattr("skewless.spark.batch.gather", gather)
    frame = spark.range(5).selectExpr("id as k", "id as v", "map(1, 2) as m")
    cases = [
        ({}, DataError, "functions must be a dict of at least one"),
        ({"n": F.lit(1)}, ParameterError, "'n' must be made by skewless.over"),
        ({"n": over("sum", "w")}, DataError, "column 'w' is not in the frame"),
        ({"n": "rank", "N": "rank"}, DataError, "two new columns share a name"),
        ({"n": over("max", "m")}, AnalysisException, "max"),
    ]
    for functions, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            skewless.window(frame, "k", "v", functions, policy="wrap_around", workers=2)
    with pytest.raises(ParameterError, match="window: policy 'local' leaves rows where they are"):
        skewless.window(frame, "k", "v", {"n": "rank"}, policy="local")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(
        DataError, match="window: takes a batch DataFrame, and this one is streaming"
    ):
        skewless.window(stream, "value", "timestamp", {"n": "rank"})


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("stddev", "v"), {}, "function 'stddev' is not supported"),
        (
            ("row_numbr",),
            {},
            r"function 'row_numbr' is not supported \(did you mean 'row_number'\?\)",
        ),
        (("sum",), {}, "sum takes the name of a column, got None"),
        (("rank", "v"), {}, "rank takes no column, got 'v'"),
        (("sum", "*"), {}, r"sum\('\*'\) means nothing"),
        (("lag", "v", 0), {}, "offset must be an int of at least 1, got 0"),
        (("sum", "v", 2), {}, "offset and default belong to lag and lead"),
        (("ntile",), {}, "n is the number of tiles of ntile, got n=None"),
        (("ntile",), {"n": 0}, "n must be an int of at least 1, got 0"),
        (("lag", "v"), {"rows": (None, 0)}, "rows= is the frame of an aggregate; lag has none"),
        (("sum", "v"), {"rows": (3, 1)}, r"rows=\(3, 1\) ends before it starts"),
        (("sum", "v"), {"rows": (0, None)}, r"rows=\(0, None\) is not supported"),
        (("sum", "v"), {"rows": (None, -1)}, r"rows=\(None, -1\) is not supported"),
        (("sum", "v"), {"rows": 3}, "rows must be two ints or None"),
    ],
)
def test_what_over_refuses(arguments: tuple, options: dict, sentence: str) -> None:
    with pytest.raises(ParameterError, match=rf"^over: {sentence}"):
        over(*arguments, **options)


@pytest.mark.slow
def test_a_million_rows_of_one_key(spark: SparkSession) -> None:
    frame = spark.range(1_000_000, numPartitions=4).selectExpr("1 as k", "hash(id) as v", "id")
    functions = {
        "sum": over("sum", "v", rows=(None, 0)),
        "all": over("sum", "v", rows=(None, None)),
        "lag": over("lag", "v"),
    }
    made = query(frame, "k", "id", functions, WrapAround(8))
    sizes = partition_sizes(made.placed()[0])
    assert max(sizes) <= 1.5 * np.mean(sizes)
    by = Window.partitionBy("k").orderBy("id")
    expected = frame.withColumns(
        {
            "sum": F.sum("v").over(by.rowsBetween(START, HERE)),
            "all": F.sum("v").over(by.rowsBetween(START, END)),
            "lag": F.lag("v").over(by),
        }
    )
    found = made.frame()
    assert found.schema == expected.schema
    assert found.exceptAll(expected).count() == 0
    assert found.count() == 1_000_000


def test_counts_of_the_result_are_those_of_the_frame(spark: SparkSession) -> None:
    frame = skewed_frame(spark, 33).drop("id")
    found = skewless.window(
        frame, ["k", "j"], "o", {"lead": over("lead", "i", 4)}, policy="wrap_around", workers=4
    )
    kept: Counter[str] = Counter(repr(Row(*row[:-1])) for row in found.collect())
    assert kept == Counter(repr(Row(*row)) for row in frame.collect())
