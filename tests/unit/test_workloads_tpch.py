"""TPC-H workloads: the specification's filters at their edges, exact decimals, and bad columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.workloads import TPCHQ1, TPCHQ3, TPCHQ6
from skewless.workloads.decimals import as_decimals, exact_sums, hundredths
from tests.oracles import tpch

D = dt.date


def one(query, columns):
    rows = pa.table(columns)
    return query.finish(query.update(query.create(), rows))


def q6_line(**change):
    line = {"l_shipdate": D(1994, 1, 1), "l_discount": 0.06, "l_quantity": 23.0}
    return {k: [v] for k, v in ({**line, "l_extendedprice": 100.0} | change).items()}


@pytest.mark.parametrize(
    ("change", "revenue"),
    [
        ({}, "6.0000"),
        ({"l_shipdate": D(1993, 12, 31)}, None),
        ({"l_shipdate": D(1994, 12, 31)}, "6.0000"),
        ({"l_shipdate": D(1995, 1, 1)}, None),
        ({"l_discount": 0.05}, "5.0000"),
        ({"l_discount": 0.07}, "7.0000"),
        ({"l_discount": 0.04}, None),
        ({"l_discount": 0.08}, None),
        ({"l_quantity": 24.0}, None),
        ({"l_quantity": 23.99}, "6.0000"),
    ],
)
def test_the_filters_of_query_6_at_their_edges(change, revenue):
    found = one(TPCHQ6(), q6_line(**change))["revenue"]
    assert (found and str(found)) == revenue


@pytest.mark.parametrize(("day", "n"), [(D(1998, 9, 2), 1), (D(1998, 9, 3), 0)])
def test_query_1_takes_lines_up_to_90_days_before_december(day, n):
    columns = {name: [0.5] for name in TPCHQ1().inputs}
    columns |= {"l_returnflag": ["A"], "l_linestatus": ["F"], "l_shipdate": [day]}
    assert one(TPCHQ1(), columns)["count_order"] == n


def test_averages_round_half_up_at_the_sixth_place():
    columns = {name: [Decimal("0.01")] + [Decimal("0.00")] * 63 for name in TPCHQ1().inputs}
    columns |= {"l_returnflag": ["A"] * 64, "l_linestatus": ["F"] * 64}
    columns |= {"l_shipdate": [D(1995, 1, 1)] * 64}
    # 0.01 / 64 is 0.00015625.
    assert str(one(TPCHQ1(), columns)["avg_qty"]) == "0.000156"
    columns = {name: values[:32] for name, values in columns.items()}
    # 0.01 / 32 is 0.0003125.
    assert str(one(TPCHQ1(), columns)["avg_qty"]) == "0.000313"


def test_the_join_of_query_3_keeps_its_segment_and_dates():
    day = D(1995, 3, 15)
    customer = pa.table({"c_custkey": [1, 2], "c_mktsegment": ["BUILDING", "MACHINERY"]})
    orders = pa.table(
        {
            "o_orderkey": [10, 11, 12, 13],
            "o_custkey": [1, 2, 1, 1],
            "o_orderdate": [D(1995, 3, 14), D(1995, 3, 1), day, D(1995, 1, 1)],
            "o_shippriority": pa.array([0] * 4, pa.int32()),
        }
    )
    lineitem = pa.table(
        {
            "l_orderkey": [10, 10, 11, 12, 13, 13],
            "l_extendedprice": [100.0, 50.0, 9.0, 9.0, 30.0, 40.0],
            "l_discount": [0.1, 0.0, 0.0, 0.0, 0.5, 0.0],
            "l_shipdate": [D(1995, 3, 16), day, D(1996, 1, 1)] + [D(1996, 1, 1)] * 3,
        }
    )
    rows = TPCHQ3.join(customer, orders, lineitem)
    part = TPCHQ3().start()
    part.update(Chunk(None, rows["l_orderkey"].to_numpy(), rows))
    found = [(row["key"], str(row["revenue"])) for row in part.answer().to_pylist()]
    assert found == [(10, "90.0000"), (13, "55.0000")]


def test_equal_revenues_are_ordered_by_date_and_key():
    rows = pa.table(
        {
            "o_orderdate": [D(1995, 2, 2), D(1995, 2, 1), D(1995, 2, 1)],
            "o_shippriority": pa.array([0, 0, 0], pa.int32()),
            "l_extendedprice": [1.0, 1.0, 1.0],
            "l_discount": [0.0, 0.0, 0.0],
        }
    )
    part = TPCHQ3().start()
    part.update(Chunk(None, [1, 9, 3], rows))
    assert part.answer()["key"].to_pylist() == [3, 9, 1]


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.decimal128(15, 2), pa.decimal128(12, 1), pa.decimal128(30, 2)]
)
def test_money_is_read_exactly_from_any_type(kind):
    values = [Decimal("90000.5"), None, Decimal("-0.1"), Decimal(0)]
    wanted = [9_000_050, 0, -10, 0]
    column = pa.array([None if v is None else float(v) for v in values])
    column = column if kind == pa.float64() else pa.array(values, kind)
    for rows in (pa.table({"v": column}), pa.table({"v": pa.concat_arrays([column, column])})[4:]):
        found, known = hundredths("Q", rows, "v")
        assert found.tolist() == wanted
        assert known.tolist() == [True, False, True, True]
    assert hundredths("Q", pa.table({"v": [3, None]}), "v")[0].tolist() == [300, 0]


def test_sums_that_may_leave_64_bits_are_refused_and_those_below_are_exact():
    most = np.array([2**61, 2**61 - 1])
    assert exact_sums(most, np.array([0, 2])).tolist() == [2**62 - 1]
    with pytest.raises(DataError, match=r"^A sum of 4 values of up to \d+ may leave 64 bits"):
        exact_sums(np.full(4, 2**61), np.array([0, 4]))
    assert as_decimals(np.array([2**62]), 38, 6).to_pylist() == [Decimal(2**62).scaleb(-6)]


def test_wrong_columns_are_named():
    with pytest.raises(
        DataError, match=r"^TPCHQ6: column 'l_shipdate' must hold dates, it holds str"
    ):
        one(TPCHQ6(), q6_line(l_shipdate="1994-01-01"))
    with pytest.raises(DataError, match=r"^TPCHQ6: column 'l_discount' must hold numbers with two"):
        one(TPCHQ6(), q6_line(l_discount="0.06"))
    with pytest.raises(DataError, match=r"^TPCHQ6: column 'l_extendedprice' holds nan"):
        one(TPCHQ6(), q6_line(l_extendedprice=float("nan")))


def test_other_parameters_change_what_is_taken():
    rows = {name: values * 2 for name, values in q6_line().items()}
    rows["l_shipdate"] = [D(1994, 5, 1), D(1995, 5, 1)]
    oracle = [(0, 0, {k: _exact(v[i]) for k, v in rows.items()}) for i in range(2)]
    for year in (1994, 1995, 1996):
        assert [one(TPCHQ6(year), rows)] == tpch.q6(oracle, year)


def _exact(value):
    return Decimal(str(value)) if isinstance(value, float) else value
