"""`hash64` against the only judge there is: Spark's own ``xxhash64`` on the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.errors import DataError
from skewless.keys import hash64

INT64_EDGES = [0, 1, -1, 127, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
DAY_ZERO = dt.date(1970, 1, 1)


def with_nulls(rng: np.random.Generator, values: list[Any]) -> list[Any]:
    """Replace about one value in eight by null."""
    gone = rng.random(len(values)) < 0.125
    return [None if g else value for value, g in zip(values, gone, strict=True)]


def random_text(rng: np.random.Generator, length: int) -> str:
    alphabet = np.array(list("abcXYZ019 _-éßλЖ中🜁\x00"))
    return "".join(rng.choice(alphabet, length))


def random_decimals(rng: np.random.Generator, precision: int, scale: int, n: int) -> list[Decimal]:
    """Give decimals of every number of digits up to `precision`, both signs, and the extremes."""
    most = 10**precision - 1
    unscaled = [0, 1, -1, most, -most, 127, 128, -128, -129, 255, 256, -256, 2**15, -(2**15)]
    while len(unscaled) < n:
        digits = int(rng.integers(1, precision + 1))
        value = int("".join(str(d) for d in rng.integers(0, 10, digits)))
        unscaled.append(value if rng.random() < 0.5 else -value)
    return [
        Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale))
        for u in unscaled[:n]
        if abs(u) <= most
    ]


def bits_to_floats(words: list[int], dtype: str, rng: np.random.Generator, n: int) -> pa.Array:
    """Give floats by their bits (NaN payloads, infinities, -0.0), then random bits; some null."""
    size = 4 if dtype == "float32" else 8
    rest = rng.integers(0, 2 ** (8 * size), n - len(words), dtype=f"uint{8 * size}", endpoint=False)
    values = np.concatenate([np.array(words, f"uint{8 * size}"), rest]).view(dtype)
    return pa.array(values, mask=rng.random(n) < 0.1)


def every_type(n: int = 400) -> pa.Table:
    """Build a table with a column for each type that Spark reads from Arrow."""
    rng = np.random.default_rng(20)

    def ints(bits: int) -> list[Any]:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        edges = [value for value in INT64_EDGES if low <= value <= high]
        return with_nulls(rng, edges + rng.integers(low, high, n - len(edges)).tolist())

    texts = [random_text(rng, length) for length in range(71)]
    texts += [random_text(rng, int(rng.integers(0, 40))) for _ in range(n - 75)]
    texts += ["", "x" * 1000, "中" * 500, "🜁" * 257]
    binaries = [rng.bytes(i if i < 71 else int(rng.integers(0, 200))) for i in range(n)]
    micros = with_nulls(rng, [0, -1, 1, -999_999, *rng.integers(-(2**55), 2**55, n - 4).tolist()])
    nanos = with_nulls(rng, [-1, 999, -1001, *rng.integers(-(2**62), 2**62, n - 3).tolist()])
    point = pa.struct([("x", pa.int32()), ("name", pa.string()), ("y", pa.float64())])
    points = [
        {"x": i, "name": None if i % 5 == 0 else texts[i], "y": [0.0, -0.0, float("nan")][i % 3]}
        for i in range(n)
    ]
    lists = [points[i : i + int(rng.integers(0, 4))] for i in range(n)]
    doubles = [[1.5, None, -0.0], [], [float("nan")], [None], [float("inf"), 2.0, 3.0, 4.0]]
    days = [DAY_ZERO + dt.timedelta(int(d)) for d in rng.integers(-700_000, 2_000_000, n)]
    special32 = [0x80000000, 0, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 1]
    special64 = [word << 32 for word in (0x80000000, 0x7FF80000, 0xFFF80000, 0x7FF00000)]
    special64 += [0, 1, 0xFFF0000000000001, 0x7FF0000000000001, 0xFFF << 52]
    return pa.table(
        {
            "boolean": pa.array(with_nulls(rng, (rng.random(n) < 0.5).tolist())),
            "byte": pa.array(ints(8), pa.int8()),
            "short": pa.array(ints(16), pa.int16()),
            "int": pa.array(ints(32), pa.int32()),
            "long": pa.array(ints(64), pa.int64()),
            "float": bits_to_floats(special32, "float32", rng, n),
            "double": bits_to_floats(special64, "float64", rng, n),
            "string": pa.array(with_nulls(rng, texts)),
            "large_string": pa.array(texts, pa.large_string()),
            "binary": pa.array(with_nulls(rng, binaries), pa.binary()),
            "large_binary": pa.array(binaries, pa.large_binary()),
            "fixed_binary": pa.array(with_nulls(rng, [rng.bytes(9)] * n), pa.binary(9)),
            "decimal5": pa.array(random_decimals(rng, 5, 2, n), pa.decimal128(5, 2)),
            "decimal18": pa.array(random_decimals(rng, 18, 0, n), pa.decimal128(18, 0)),
            "decimal19": pa.array(random_decimals(rng, 19, 4, n), pa.decimal128(19, 4)),
            "decimal38": pa.array(
                with_nulls(rng, random_decimals(rng, 38, 10, n)), pa.decimal128(38, 10)
            ),
            "date": pa.array(with_nulls(rng, days), pa.date32()),
            "seconds": pa.array(with_nulls(rng, rng.integers(-(10**10), 10**10, n).tolist())).cast(
                pa.timestamp("s")
            ),
            "millis": pa.array(rng.integers(-(10**13), 10**13, n)).cast(pa.timestamp("ms", "UTC")),
            "micros": pa.array(micros, pa.int64()).cast(pa.timestamp("us")),
            "zoned": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "Asia/Kolkata")),
            "nanos": pa.array(nanos, pa.int64()).cast(pa.timestamp("ns")),
            "nanos_zoned": pa.array(nanos, pa.int64()).cast(pa.timestamp("ns", "UTC")),
            "duration": pa.array(micros, pa.int64()).cast(pa.duration("us")),
            "duration_ms": pa.array(rng.integers(-(10**12), 10**12, n)).cast(pa.duration("ms")),
            "nothing": pa.nulls(n),
            "struct": pa.array(with_nulls(rng, points), point),
            "ints": pa.array(
                with_nulls(rng, [list(range(i % 7)) for i in range(n)]), pa.list_(pa.int32())
            ),
            "doubles": pa.array([doubles[i % 5] for i in range(n)], pa.large_list(pa.float64())),
            "pairs": pa.array(
                with_nulls(rng, [[i, None if i % 3 else -i] for i in range(n)]),
                pa.list_(pa.int64(), 2),
            ),
            "texts": pa.array([[texts[i], None, ""] for i in range(n)], pa.list_(pa.string())),
            "structs": pa.array(with_nulls(rng, with_nulls(rng, lists)), pa.list_(point)),
            "deep": pa.array(
                [[None, [lists[i], None], [lists[-i]]] for i in range(n)],
                pa.list_(pa.list_(pa.list_(point))),
            ),
            "lists": pa.array(
                [[[i], None, [], [None, i, -i]] for i in range(n)], pa.list_(pa.list_(pa.int16()))
            ),
            "mixed": pa.array(
                [{"a": {"b": [i, None]}, "c": None} for i in range(n)],
                pa.struct(
                    [("a", pa.struct([("b", pa.list_(pa.decimal128(20, 0)))])), ("c", pa.string())]
                ),
            ),
        }
    )


def spark_hashes(spark: SparkSession, table: pa.Table) -> dict[str, list[int]]:
    """Hash each column, and all of them together, with Spark; one query."""
    frame = spark.createDataFrame(table)
    names = table.column_names
    hashes = [F.xxhash64(F.col(name)).alias(name) for name in names]
    answer = frame.select(*hashes, F.xxhash64(*names).alias("(all)")).toArrow()
    return {name: answer[name].to_pylist() for name in answer.column_names}


def signed(hashes: np.ndarray[Any, Any]) -> list[int]:
    return hashes.view(np.int64).tolist()


def test_every_type_hashes_as_in_spark(spark: SparkSession) -> None:
    table = every_type()
    expected = spark_hashes(spark, table)
    wrong = [name for name in table.column_names if signed(hash64(table[name])) != expected[name]]
    assert wrong == []
    assert signed(hash64(table)) == expected["(all)"]
    assert signed(hash64(*reversed(table.columns))) != expected["(all)"]


rows = st.tuples(
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.none() | st.floats(),
    st.none() | st.floats(width=32),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.decimals(-(10**9), 10**9, places=9).filter(lambda d: abs(d) < 10**9),
    st.none() | st.decimals(-(10**20), 10**20, places=3, allow_nan=False),
    st.none() | st.binary(max_size=80),
    st.none() | st.dates(dt.date(1, 1, 1)),
    st.none() | st.lists(st.none() | st.lists(st.none() | st.floats(), max_size=3), max_size=3),
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"k": st.none() | st.integers(-128, 127), "v": st.none() | st.text("aé中", max_size=9)}
        ),
        max_size=4,
    ),
)
ROW_TYPES = [
    pa.string(),
    pa.float64(),
    pa.float32(),
    pa.int64(),
    pa.decimal128(18, 9),
    pa.decimal128(38, 3),
    pa.binary(),
    pa.date32(),
    pa.list_(pa.list_(pa.float64())),
    pa.list_(pa.struct([("k", pa.int8()), ("v", pa.string())])),
]


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(drawn=st.lists(rows, min_size=20, max_size=40))
def test_any_rows_hash_as_in_spark(spark: SparkSession, drawn: list[tuple[Any, ...]]) -> None:
    columns = zip(*drawn, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, ROW_TYPES, strict=True)]
    table = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    expected = spark_hashes(spark, table)
    assert {name: signed(hash64(table[name])) for name in table.column_names} | {
        "(all)": signed(hash64(table))
    } == expected


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Evaluate expressions without generated code, which is a second implementation in Spark."""
    names = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def grouped(frame: DataFrame, name: str) -> int:
    return frame.groupBy(name).count().count()


@pytest.mark.parametrize("name", ["float", "double"])
def test_nan_and_negative_zero_hash_as_spark_groups_them(spark: SparkSession, name: str) -> None:
    table = every_type(100).select([name])
    frame = spark.createDataFrame(table)
    assert grouped(frame, name) == len(np.unique(hash64(table)))
    bare = F.xxhash64(name)
    folded = F.xxhash64(  # what Spark's NormalizeFloatingNumbers makes of a column, in SQL
        F.when(F.isnan(name), F.lit(float("nan")).cast(name))
        .when(F.col(name) == 0, F.lit(0.0).cast(name))
        .otherwise(F.col(name))
    )
    pairs = frame.select(bare.alias("bare"), folded.alias("folded"))
    expected = signed(hash64(table))
    compiled = pairs.toArrow()
    assert compiled["bare"].to_pylist() == compiled["folded"].to_pylist() == expected
    with interpreted(spark):
        assert pairs.toArrow()["bare"].to_pylist() == expected


def test_what_spark_does_not_read_from_arrow_hashes_as_the_type_that_holds_it(
    spark: SparkSession,
) -> None:
    given = {
        "uint8": pa.array([0, 255, None], pa.uint8()),
        "uint16": pa.array([0, 65535, None], pa.uint16()),
        "uint32": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "uint64": pa.array([0, 2**63 - 1, None], pa.uint64()),
        "date64": pa.array([DAY_ZERO, dt.date(1969, 12, 31), None], pa.date64()),
        "dictionary": pa.array(["b", "a", None]).dictionary_encode(),
        "view": pa.array(["b", "a string of more than twelve bytes", None], pa.string_view()),
        "decimal32": pa.array([Decimal("1.23"), Decimal("-9.99"), None], pa.decimal32(3, 2)),
    }
    held = {
        "uint8": given["uint8"].cast(pa.int16()),
        "uint16": given["uint16"].cast(pa.int32()),
        "uint32": given["uint32"].cast(pa.int64()),
        "uint64": given["uint64"].cast(pa.int64()),
        "date64": given["date64"].cast(pa.date32()),
        "dictionary": given["dictionary"].cast(pa.string()),
        "view": given["view"].cast(pa.string()),
        "decimal32": given["decimal32"].cast(pa.decimal128(3, 2)),
    }
    expected = spark_hashes(spark, pa.table(held))
    assert {name: signed(hash64(array)) for name, array in given.items()} == {
        name: expected[name] for name in given
    }


def test_spark_refuses_maps_too(spark: SparkSession) -> None:
    table = pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(DataError, match="map"):
        hash64(table)
    with pytest.raises(AnalysisException, match="HASH_MAP_TYPE"):
        spark.createDataFrame(table).select(F.xxhash64("m"))


def test_spark_reads_nan_in_pandas_as_null_where_a_value_stays_a_value(spark: SparkSession) -> None:
    frame = pd.DataFrame({"x": [1.5, float("nan")]})
    read = signed(hash64(pa.array(frame["x"], from_pandas=True)))
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    try:
        hashed = spark.createDataFrame(frame).select(F.xxhash64("x").alias("h")).toArrow()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.pyspark.enabled")
    assert hashed["h"].to_pylist() == read
    assert signed(hash64(frame["x"])) == [read[0], signed(hash64(np.array([np.nan])))[0]] != read
