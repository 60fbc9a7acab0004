"""Windows by prefix sums equal windows by running totals, which keep every sum as a whole number."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError
from skewless.spark.prefix_sums import END, KEY, PrefixSums
from skewless.spark.running import Running, Sums

#: Pane, size and slide.
SHAPES = [(5, 10, 5), (3, 12, 3), (10, 10, 10), (3, 15, 6), (7, 7, 7), (1, 9, 1)]
WHOLES = st.integers(-9, 9)
SMALL_FLOATS = st.sampled_from([0.1, 0.2, -0.3, 1.0, 0.0, 3.0])
LARGE = 10**33
KINDS = {
    "whole numbers": ("int", pa.int64(), WHOLES),
    "large whole numbers": ("int", pa.int64(), st.sampled_from([2**61, -(2**61), 1])),
    "any floats": ("float", pa.float64(), st.floats(width=64)),
    "few floats": ("float", pa.float64(), SMALL_FLOATS),
    "extreme floats": ("float", pa.float64(), st.sampled_from([1.7e308, -1.7e308, 5e-324, 1.0])),
    "decimals": (2, pa.decimal128(38, 2), WHOLES.map(lambda n: Decimal(n).scaleb(-2))),
    "long decimals": (
        4,
        pa.decimal128(38, 4),
        st.integers(-LARGE, LARGE).map(lambda n: Decimal(n).scaleb(-4)),
    ),
}


def table(rows: list[tuple[int, bytes, object]], kind: pa.DataType) -> pa.Table:
    ends, keys, values = zip(*rows, strict=True)
    columns = [pa.array(ends, pa.int64()), pa.array(keys, pa.binary()), pa.array(values, kind)]
    return pa.table(columns, names=[END, KEY, "v"])


def windows_of(kind: pa.DataType, size: int, slide: int, pane: int) -> PrefixSums:
    return PrefixSums(pa.schema([("v", kind)]), size, slide, pane)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), steps=st.lists(st.integers(0, 5), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_windows_are_those_of_running_totals(kind, data, steps) -> None:
    how, arrow, values = KINDS[kind]
    pane, size, slide = data.draw(st.sampled_from(SHAPES))
    found, known = windows_of(arrow, size, slide, pane), Running(Sums([how]), size, slide)
    watermark = 0
    for step in [*steps, 20]:
        ends = [watermark + pane * (i + 1) for i in range(step)]
        cell = st.tuples(
            st.sampled_from(ends or [0]), st.sampled_from([b"a", b"b"]), values | st.none()
        )
        rows = data.draw(st.lists(cell, max_size=8)) if ends else []
        watermark = max([watermark, *ends])
        for row in rows:
            known.add(row[0], row[1], (row[2],))
        if rows:
            found.add(table(rows, arrow))
        found = windows_of(arrow, size, slide, pane).load(found.dump())
        windows = found.advance(watermark)
        mine = zip(*(windows[name].to_pylist() for name in (END, KEY, "v")), strict=True)
        theirs = [(each.end, each.key, each.values[0]) for each in known.advance(watermark)]
        assert sorted(map(repr, mine)) == sorted(map(repr, theirs))
        assert found.next_end == known.next_end


def test_a_small_float_survives_a_large_one_that_came_and_left() -> None:
    windows = windows_of(pa.float64(), 2, 1, 1)
    windows.add(table([(1, b"k", 1e300), (2, b"k", 0.1), (3, b"k", 0.1)], pa.float64()))
    assert windows.advance(4)["v"].to_pylist() == [1e300, 1e300, 0.2, 0.1]


def test_infinities_meet_in_nan_and_leave_nothing_behind() -> None:
    windows = windows_of(pa.float64(), 2, 1, 1)
    rows = [(1, b"k", math.inf), (2, b"k", -math.inf), (3, b"k", 1.0), (4, b"k", 2.0)]
    windows.add(table(rows, pa.float64()))
    assert list(map(str, windows.advance(5)["v"].to_pylist())) == [
        "inf",
        "nan",
        "-inf",
        "3.0",
        "2.0",
    ]


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int64(), 2**62), (pa.decimal128(3, 1), Decimal("50.1"))]
)
def test_a_sum_that_its_type_does_not_hold_is_refused_by_name(kind, value) -> None:
    windows = windows_of(kind, 2, 1, 1)
    windows.add(table([(1, b"k", value), (2, b"k", value)], kind))
    with pytest.raises(DataError, match="a sum in v "):
        windows.advance(9)


def test_sums_that_cancel_may_be_long_on_the_way() -> None:
    windows = windows_of(pa.int64(), 4, 4, 1)
    most = 2**63 - 1
    windows.add(table([(i, b"k", v) for i, v in enumerate([most, -most, most], 1)], pa.int64()))
    assert windows.advance(4)["v"].to_pylist() == [most]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"tuple":[]}', "no running totals of this version"),
        (windows_of(pa.float64(), 4, 4, 1).dump(), "totals of v double, the query has v int64"),
    ],
    ids=["foreign", "other types"],
)
def test_a_state_of_another_query_is_refused(content, why) -> None:
    with pytest.raises(DataError, match=why):
        windows_of(pa.int64(), 4, 4, 1).load(content)
