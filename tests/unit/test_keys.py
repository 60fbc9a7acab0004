"""`hash64` against plain Python, over every way in which a column can lie in memory."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError
from skewless.keys import hash64
from tests.oracles.xxh64 import spark_hash, xxh64

POINT = pa.struct([("x", pa.int32()), ("name", pa.string())])
DAY = dt.date(1969, 12, 31)
MOMENT = dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")
SPAN = dt.timedelta(days=-3, microseconds=7)

#: name: (Spark type as the oracle knows it, Arrow type, values)
COLUMNS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "boolean": ("boolean", pa.bool_(), [True, False, None] * 7),
    "int8": ("tinyint", pa.int8(), [-128, 127, 0, None]),
    "int16": ("smallint", pa.int16(), [-32768, 32767, None]),
    "int32": ("int", pa.int32(), [-(2**31), 2**31 - 1, None, -1]),
    "int64": ("bigint", pa.int64(), [-(2**63), 2**63 - 1, None, -1]),
    "uint8": ("smallint", pa.uint8(), [255, 0, None]),
    "uint16": ("int", pa.uint16(), [65535, None]),
    "uint32": ("bigint", pa.uint32(), [2**32 - 1, None]),
    "uint64": ("bigint", pa.uint64(), [2**63 - 1, None, 0]),
    "float32": ("float", pa.float32(), [-0.0, 0.0, float("nan"), float("-inf"), None, 1.5]),
    "float64": ("double", pa.float64(), [-0.0, 0.0, float("nan"), float("inf"), None, 1e-310]),
    "string": ("string", pa.string(), ["", "a", None, "é中🜁", *("abc" * 30)[:0], "x" * 31]),
    "large_string": ("string", pa.large_string(), [None, "y" * 32, "z" * 33]),
    "string_view": ("string", pa.string_view(), [None, "short", "y" * 40, ""]),
    "binary": ("binary", pa.binary(), [bytes(range(n)) for n in range(71)] + [None]),
    "large_binary": ("binary", pa.large_binary(), [b"\xff" * 9, None]),
    "binary_view": ("binary", pa.binary_view(), [b"\xff" * 90, None, b""]),
    "fixed_binary": ("binary", pa.binary(5), [b"12345", None, b"\x00" * 5]),
    "empty_binary": ("binary", pa.binary(0), [b"", None]),
    "decimal32": ("decimal(5,2)", pa.decimal32(5, 2), [Decimal("-1.23"), None]),
    "decimal64": ("decimal(18,2)", pa.decimal64(18, 2), [Decimal("-1.23"), None]),
    "decimal18": ("decimal(18,1)", pa.decimal128(18, 1), [Decimal("-9999999999999999.9"), None]),
    "decimal19": (
        "decimal(19,0)",
        pa.decimal128(19, 0),
        [Decimal(v) for v in (0, -1, 127, 128, -128, -129, 10**19 - 1, 1 - 10**19)] + [None],
    ),
    "decimal38": (
        "decimal(38,0)",
        pa.decimal128(38, 0),
        [Decimal(s * 256**k + d) for k in range(16) for s in (1, -1) for d in (-1, 0, 1)],
    ),
    "date32": ("date", pa.date32(), [DAY, None, dt.date(9999, 12, 31)]),
    "date64": ("date", pa.date64(), [DAY, None]),
    "timestamp_s": ("timestamp", pa.timestamp("s"), [MOMENT.replace(microsecond=0), None]),
    "timestamp_ms": ("timestamp", pa.timestamp("ms"), [MOMENT.replace(microsecond=999_000), None]),
    "timestamp_us": ("timestamp", pa.timestamp("us"), [MOMENT, None]),
    "timestamp_ns": ("timestamp", pa.timestamp("ns"), [MOMENT, None]),
    "duration": ("interval", pa.duration("us"), [SPAN, None]),
    "duration_s": ("interval", pa.duration("s"), [dt.timedelta(seconds=-1), None]),
    "null": ("void", pa.null(), [None] * 5),
    "list": (["int"], pa.list_(pa.int32()), [[1, None, 2], [], None, [3]]),
    "large_list": (["string"], pa.large_list(pa.string()), [["a", None], None]),
    "fixed_list": (["double"], pa.list_(pa.float64(), 2), [[-0.0, None], None, [1.0, 2.0]]),
    "struct": (
        {"x": "int", "name": "string"},
        POINT,
        [{"x": 1, "name": None}, None, {"x": None, "name": "n"}],
    ),
    "lists": ([["boolean"]], pa.list_(pa.list_(pa.bool_())), [[[True], None, []], None, [[False]]]),
    "structs": (
        [{"x": "int", "name": "string"}],
        pa.list_(POINT),
        [[{"x": 1, "name": "a"}, None, {"x": 2, "name": "b"}], None, [], [{"x": 3, "name": None}]],
    ),
    "nested": (
        [[{"x": "int", "name": "string"}]],
        pa.list_(pa.list_(POINT)),
        [[[{"x": 1, "name": "a"}], [{"x": 2, "name": "b"}, {"x": 3, "name": "c"}]], None],
    ),
    "narrow_structs": (
        [{"v": ["smallint"]}],
        pa.list_(pa.struct([("v", pa.list_(pa.int16()))])),
        [[{"v": [1, 2]}, {"v": None}, {"v": [3]}], None],
    ),
    "encoded": (
        "string",
        pa.dictionary(pa.int8(), pa.string()),
        ["b", None, "a", "b", "b", "a"],
    ),
    "encoded_list": (
        ["string"],
        pa.list_(pa.dictionary(pa.int16(), pa.string())),
        [["b", None], None, ["a", "b"]],
    ),
}  # fmt: skip


def array_of(name: str) -> pa.Array:
    _, kind, values = COLUMNS[name]
    return pa.array(values, kind)


def expected_of(name: str) -> list[int]:
    kind, _, values = COLUMNS[name]
    return [spark_hash([value], [kind]) for value in values]


def test_the_oracle_gives_the_published_values() -> None:
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999
    long = b"Call me Ishmael. Some years ago--never mind how long precisely-"
    assert xxh64(long, 0) == 0x02A2E85470D6FD96


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_equals_the_oracle(name: str) -> None:
    assert hash64(array_of(name)).tolist() == expected_of(name)


@pytest.mark.parametrize("name", COLUMNS)
def test_slices_and_chunks_change_nothing(name: str) -> None:
    array = array_of(name)
    expected = expected_of(name)
    padded = pa.concat_arrays([array, array, array])
    n = len(array)
    assert hash64(padded[n + 1 : 2 * n]).tolist() == expected[1:]
    chunked = pa.chunked_array([array[:1], array[1:1], array[1:], padded[n - 1 : n + 1]])
    assert hash64(chunked).tolist() == [*expected, expected[-1], expected[0]]


@pytest.mark.parametrize("name", COLUMNS)
def test_the_second_column_starts_from_the_hash_of_the_first(name: str) -> None:
    kind, _, values = COLUMNS[name]
    first = list(range(len(values)))
    chained = hash64(np.array(first), array_of(name)).tolist()
    rows = zip(first, values, strict=True)
    assert chained == [spark_hash(row, ["bigint", kind]) for row in rows]


def test_what_a_null_list_or_struct_hides_is_not_hashed() -> None:
    mask = pa.array([False, True, False])
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4]), pa.array([1, 8, 9, 2]), mask=mask)
    assert hash64(hidden).tolist() == hash64(pa.array([[1], None, [2]])).tolist()
    pairs = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 8, 9, 3, 4]), 2, mask=mask)
    assert hash64(pairs).tolist() == hash64(pa.array([[1, 2], None, [3, 4]])).tolist()
    points = pa.StructArray.from_arrays([pa.array([1, 9, 2])], ["x"], mask=mask)
    assert hash64(points).tolist() == hash64(pa.array([1, None, 2])).tolist()


def test_a_dictionary_may_hold_nulls_repeats_and_more_values_than_rows() -> None:
    values = pa.array(["a", None, "b", "a"])
    array = pa.DictionaryArray.from_arrays(pa.array([3, 1, None, 0, 2, 2], pa.int32()), values)
    decoded = pa.array(["a", None, None, "a", "b", "b"])
    assert hash64(array).tolist() == hash64(decoded).tolist()
    assert hash64(array[4:]).tolist() == hash64(decoded[4:]).tolist()
    assert hash64(decoded, array).tolist() == hash64(decoded, decoded).tolist()


@settings(deadline=None, max_examples=50)
@given(
    texts=st.lists(st.none() | st.binary(max_size=100), max_size=30),
    start=st.integers(0, 30),
)
def test_any_bytes_at_any_place_equal_the_oracle(texts: list[bytes | None], start: int) -> None:
    array = pa.array(texts, pa.binary())[start:]
    assert hash64(array).tolist() == [spark_hash([t], ["binary"]) for t in texts[start:]]


def test_every_length_and_alignment_up_to_the_last_byte_of_a_buffer() -> None:
    data = bytes(range(1, 251))
    for start in range(9):
        for length in range(70):
            used = pa.py_buffer(data[: start + length])  # nothing follows the value
            offsets = pa.py_buffer(np.array([start, start + length], np.int32))
            array = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, offsets, used])
            assert hash64(array)[0] == xxh64(data[start : start + length], 42)


def test_a_buffer_that_is_not_aligned_is_read_right() -> None:
    values = np.array([1, -(2**40), 7], np.int64)
    buffer = pa.py_buffer(b"x" + values.tobytes())[1:]
    array = pa.Array.from_buffers(pa.int64(), 3, [None, buffer])
    assert hash64(array).tolist() == hash64(values).tolist()


NUMPY: list[tuple[np.ndarray[Any, Any], Any, list[Any]]] = [
    (np.array([True, False]), "boolean", [True, False]),
    (np.array([1, -2], ">i4"), "int", [1, -2]),
    (np.arange(10)[::3], "bigint", [0, 3, 6, 9]),
    (np.array([1.5, np.nan, -0.0]), "double", [1.5, float("nan"), 0.0]),
    (np.array([1.5, np.nan], np.float32), "float", [1.5, float("nan")]),
    (np.array(["a", "éé", ""]), "string", ["a", "éé", ""]),
    (np.array([b"a", b"bcd"]), "binary", [b"a", b"bcd"]),
    (np.array(["a", None, np.nan], object), "string", ["a", None, None]),
    (np.array([1.5, None, np.nan], object), "double", [1.5, None, float("nan")]),
    (np.array([b"a", None], object), "binary", [b"a", None]),
    (np.array([DAY, None], object), "date", [DAY, None]),
    (np.array([[1, 2], None], object), ["bigint"], [[1, 2], None]),
    (np.array([Decimal("1.50"), Decimal("-20.25")], object), "decimal(4,2)",
     [Decimal("1.50"), Decimal("-20.25")]),
    (np.array([DAY, "NaT"], "M8[D]"), "date", [DAY, None]),
    (np.array([MOMENT, "NaT"], "M8[ns]"), "timestamp", [MOMENT, None]),
    (np.array([SPAN, "NaT"], "m8[us]"), "interval", [SPAN, None]),
    (np.empty(0, np.int64), "bigint", []),
]  # fmt: skip


@pytest.mark.parametrize(("array", "kind", "values"), NUMPY, ids=lambda a: str(a)[:30])
def test_numpy_and_pandas_columns_equal_the_oracle(
    array: np.ndarray[Any, Any], kind: Any, values: list[Any]
) -> None:
    expected = [spark_hash([value], [kind]) for value in values]
    array.flags.writeable = False
    before = array.tolist()
    assert hash64(array).tolist() == expected
    assert repr(array.tolist()) == repr(before)
    if array.dtype.isnative and array.dtype != "M8[D]":  # pandas has no dates
        assert hash64(pd.Series(array)).tolist() == expected


PANDAS: list[tuple[pd.Series[Any], Any, list[Any]]] = [
    (pd.Series([1, None, 3], dtype="Int64"), "bigint", [1, None, 3]),
    (pd.Series(["a", None], dtype="string"), "string", ["a", None]),
    (pd.Series(["a", None], dtype="string[pyarrow]"), "string", ["a", None]),
    (pd.Series(["a", "b", None, "a", "a"], dtype="category"), "string", ["a", "b", None, "a", "a"]),
    (pd.Series([1, 2], dtype=pd.ArrowDtype(pa.int8())), "tinyint", [1, 2]),
    (pd.Series(pd.DatetimeIndex([MOMENT, None], tz="UTC")), "timestamp", [MOMENT, None]),
    (pd.Series([1.0, np.nan], index=[5, 5]), "double", [1.0, float("nan")]),
]


@pytest.mark.parametrize(("series", "kind", "values"), PANDAS, ids=lambda a: str(a)[:30])
def test_pandas_extension_types_equal_the_oracle(
    series: pd.Series[Any], kind: Any, values: list[Any]
) -> None:
    expected = [spark_hash([value], [kind]) for value in values]
    assert hash64(series).tolist() == expected
    assert hash64(pd.Index(series)).tolist() == expected
    assert hash64(series.array).tolist() == expected


def test_tables_stand_for_their_columns() -> None:
    a, b, c = pa.array([1, 2]), pa.array(["x", None]), np.array([0.5, 0.25])
    expected = hash64(a, b, c).tolist()
    table = pa.table({"a": a, "b": b})
    assert hash64(table, c).tolist() == expected
    assert hash64(table.to_batches()[0], c).tolist() == expected
    assert hash64(table.to_pandas(), c).tolist() == expected
    assert expected == [
        spark_hash(row, ["bigint", "string", "double"]) for row in [(1, "x", 0.5), (2, None, 0.25)]
    ]


class Exporter:
    """Any library's column, as far as the Arrow C interface shows it."""

    def __init__(self, data: Any, method: str) -> None:
        setattr(type(self), method, lambda _, schema=None: getattr(data, method)(schema))


def test_any_exporter_of_arrow_data_is_a_column() -> None:
    array = pa.array(["a", "b"])
    arrays = type("ArrayExporter", (Exporter,), {})(array, "__arrow_c_array__")
    streams = type("StreamExporter", (Exporter,), {})(
        pa.chunked_array([array]), "__arrow_c_stream__"
    )
    assert hash64(arrays).tolist() == hash64(streams).tolist() == hash64(array).tolist()


def test_empty_columns_give_an_empty_array() -> None:
    for kind in (pa.int64(), pa.string(), pa.list_(POINT), pa.decimal128(30, 0), pa.bool_()):
        hashes = hash64(pa.array([], kind), pa.chunked_array([], kind))
        assert hashes.dtype == np.uint64
        assert hashes.shape == (0,)


def test_nanoseconds_are_rounded_down_to_microseconds() -> None:
    nanos = np.array([-1, -1000, -1001, 999, 1000])
    micros = np.array([-1, -1, -2, 0, 1])
    assert hash64(nanos.view("M8[ns]")).tolist() == hash64(micros).tolist()
    assert hash64(nanos.view("m8[ns]")).tolist() == hash64(micros).tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1, 2**63], pa.uint64()), r"9223372036854775808 as uint64 does not fit Spark's"),
        (pa.array([2**60], pa.timestamp("s")), r"1152921504606846976 as timestamp\[s\]"),
        (pa.array([-(2**60)], pa.duration("ms")), r"-1152921504606846976 as duration\[ms\]"),
        (pa.array([2**62], pa.int64()).view(pa.date64()), r"4611686018427387904 as date64"),
    ],
)
def test_a_value_outside_of_spark_is_shown(array: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        hash64(array)


def test_a_null_may_hide_a_value_outside_of_spark() -> None:
    bitmap = pa.py_buffer(b"\x02")
    values = pa.py_buffer(np.array([2**64 - 1, 5], np.uint64))
    array = pa.Array.from_buffers(pa.uint64(), 2, [bitmap, values])
    assert hash64(array).tolist() == [42, spark_hash([5], ["bigint"])]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.time64("us"), r"columns\[1\] has type time64\[us\]"),
        (pa.time32("s"), r"columns\[1\] has type time32\[s\]"),
        (pa.float16(), r"columns\[1\] has type halffloat"),
        (pa.month_day_nano_interval(), r"columns\[1\] has type month_day_nano_interval"),
        (pa.decimal256(20, 0), r"columns\[1\] has type decimal256\(20, 0\).*decimal128"),
        (pa.map_(pa.string(), pa.int64()), r"columns\[1\] has type map<.*refuses maps"),
        (pa.list_(pa.map_(pa.string(), pa.int64())), r"columns\[1\] has type map<"),
        (pa.struct([("t", pa.time64("ns"))]), r"columns\[1\]\.t has type time64\[ns\]"),
        (pa.dense_union([pa.field("a", pa.int8())]), r"columns\[1\] has type dense_union"),
        (pa.uuid(), r"columns\[1\] has type extension<arrow.uuid>.*fixed_size_binary\[16\]"),
        (pa.run_end_encoded(pa.int32(), pa.int8()), r"columns\[1\] has type run_end_encoded"),
    ],
)
def test_a_type_that_spark_cannot_hash_is_named_with_its_place(
    kind: pa.DataType, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        hash64(np.empty(0, np.int64), pa.chunked_array([], kind))


def test_a_column_of_a_table_is_named() -> None:
    table = pa.table({"ok": pa.array([1]), "at": pa.array([1], pa.time64("us"))})
    with pytest.raises(DataError, match=r"columns\[1\] \('at'\) has type time64"):
        hash64(table)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((), "at least one column is needed, got none"),
        ((pa.table({}),), "at least one column"),
        ((np.arange(3), np.arange(2)), "the same length, got 3, 2"),
        (([1, 2],), "a column must be .*, got list"),
        (("abc",), "got str"),
        ((np.zeros((2, 2)),), r"one dimension, got an array of shape \(2, 2\)"),
        ((np.array(5),), r"of shape \(\)"),
        ((np.array([1j]),), "column of type complex128 cannot be read as Arrow data"),
        ((np.array([object()]),), "column of type object cannot be read"),
        ((np.array([1, "a"], object),), "column of type object cannot be read"),
    ],
)
def test_what_is_no_column_is_refused(columns: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hash64(*columns)


def printed_by(code: str, **environment: str) -> str:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_hashing_numbers_imports_neither_pandas_nor_pyspark() -> None:
    code = """
import sys, numpy
from skewless.keys import hash64
hash64(numpy.arange(3), numpy.ones(3))
print(sorted({"numba", "pandas", "pyspark"} & set(sys.modules)))
"""
    assert printed_by(code).strip() == "['numba']"


def test_without_compilation_the_hashes_are_the_same() -> None:
    code = """
import pyarrow as pa
from decimal import Decimal
from skewless.keys import hash64
columns = [
    pa.array(["a" * 45, "é", None]),
    pa.array([1.5, -0.0, float("nan")]),
    pa.array([1.5, -0.0, float("nan")], pa.float32()),
    pa.array([2**62, -1, None]),
    pa.array([True, None, False]),
    pa.array([Decimal(10**25), Decimal(-129), None], pa.decimal128(38, 0)),
    pa.array([["a"], None, ["b", "c"]]),
]
print(hash64(*columns).tolist())
"""
    printed = [printed_by(code, NUMBA_DISABLE_JIT=switch) for switch in ("0", "1")]
    assert printed[0] == printed[1]
    assert printed[0].count(",") == 2
