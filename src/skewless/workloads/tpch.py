"""TPCHQ1, TPCHQ3, TPCHQ6: three queries of TPC-H as workloads over the columns they need.

Transaction Processing Performance Council: TPC Benchmark H; N. R. Katsipoulakis, A. Labrinidis,
P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.parameters import Count, check
from skewless.spark.aggregators.segments import Starts, column_of, kept
from skewless.workloads.base import Workload
from skewless.workloads.decimals import as_decimals, exact_sums, hundredths

__all__ = ["TPCHQ1", "TPCHQ3", "TPCHQ6"]

#: Places of an average, as Spark's ``avg`` of a decimal(15,2).
_AVG = Decimal("0.000001")


class TPCHQ1(Workload):
    """Sum up prices by return flag and line status: TPC-H's first query, of four groups.

    Use it where a handful of groups share all rows: no policy that keeps keys whole can balance it.
    Not where there are many groups: `TPCHQ3`.

    Parameters
    ----------
    delta : int of at least 0
        Lines shipped more than this many days before 1998-12-01 count; 60 to 120 in the benchmark.

    Notes
    -----
    Columns: those of LINEITEM by their names. Key: ``l_returnflag`` and ``l_linestatus``. Result:
    ``returnflag``, ``linestatus`` and the query's eight columns, decimals as Spark's; nulls for a group
    without a line. Answer: the groups that have a line, by flag and status. A line with a null in any
    column is left out.

    Guarantee: exact, however rows are split.

    Cost: some twenty passes of numpy. State: two flags and 88 bytes.

    Deviations from the paper: none.

    Examples
    --------
    >>> rows = {"l_returnflag": ["N"], "l_linestatus": ["O"], "l_quantity": [17.0]}
    >>> rows |= {"l_extendedprice": [100.0], "l_discount": [0.1], "l_tax": [0.05]}
    >>> rows["l_shipdate"] = [dt.date(1996, 3, 13)]
    >>> query = TPCHQ1()
    >>> result = query.finish(query.update(query.create(), pa.table(rows)))
    >>> str(result["sum_disc_price"]), str(result["sum_charge"]), result["count_order"]
    ('90.0000', '94.500000', 1)

    References
    ----------
    TPC-H 3.0, section 2.4.1. PVLDB 10(11), section 6.1.1, doi:10.14778/3137628.3137639.
    """

    merges: ClassVar[Mapping[str, str]] = {
        "flag": "min",
        "status": "min",
        **dict.fromkeys(("n", "qty", "price", "disc_price", "charge", "disc"), "sum"),
    }

    def __init__(self, delta: int = 90) -> None:
        check("TPCHQ1", TPCHQ1.__init__, delta=delta)
        self.delta = int(delta)
        self.last = dt.date(1998, 12, 1) - dt.timedelta(days=self.delta)
        self._declare(
            inputs=[
                "l_returnflag",
                "l_linestatus",
                "l_quantity",
                "l_extendedprice",
                "l_discount",
                "l_tax",
                "l_shipdate",
            ],
            state=(
                "flag string, status string, n bigint, qty decimal(38,2), price decimal(38,2), "
                "disc_price decimal(38,4), charge decimal(38,6), disc decimal(38,2)"
            ),
            result=(
                "returnflag string, linestatus string, sum_qty decimal(38,2), "
                "sum_base_price decimal(38,2), sum_disc_price decimal(38,4), "
                "sum_charge decimal(38,6), avg_qty decimal(19,6), avg_price decimal(19,6), "
                "avg_disc decimal(19,6), count_order bigint"
            ),
        )

    def create(self) -> dict[str, Any]:
        """Return the sums of no lines."""
        zero = {name: Decimal(0) for name in ("qty", "price", "disc_price", "charge", "disc")}
        return {"flag": None, "status": None, "n": 0, **zero}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the sums of each group."""
        names = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
        columns = [hundredths("TPCHQ1", rows, name) for name in names]
        flags = [column_of(rows, name) for name in ("l_returnflag", "l_linestatus")]
        take = _days("TPCHQ1", rows, "l_shipdate") <= _day(self.last)
        for _, known in columns:
            take &= known
        for flag in flags:
            take &= flag.is_valid().to_numpy(zero_copy_only=False)
        starts = kept(starts, take)
        qty, price, disc, tax = (values[take] for values, _ in columns)
        net = price * (100 - disc)
        first = pa.array(starts[:-1], mask=np.diff(starts) == 0)
        chosen = [flag.filter(pa.array(take)).take(first) for flag in flags]
        return pa.table(
            {
                "flag": chosen[0],
                "status": chosen[1],
                "n": np.diff(starts),
                "qty": as_decimals(exact_sums(qty, starts), 38, 2),
                "price": as_decimals(exact_sums(price, starts), 38, 2),
                "disc_price": as_decimals(exact_sums(net, starts), 38, 4),
                "charge": as_decimals(exact_sums(net * (100 + tax), starts), 38, 6),
                "disc": as_decimals(exact_sums(disc, starts), 38, 2),
            }
        )

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return sums and averages of each group."""
        finished = []
        for state in states.to_pylist():
            n = state["n"]
            sums = [state[name] if n else None for name in ("qty", "price", "disc_price", "charge")]
            averages = [
                (state[name] / n).quantize(_AVG, ROUND_HALF_UP) if n else None
                for name in ("qty", "price", "disc")
            ]
            row = [state["flag"], state["status"], *sums, *averages, n]
            finished.append(dict(zip(self.result_schema.names, row, strict=True)))
        return pa.Table.from_pylist(finished, schema=self.result_schema)

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Return the groups with lines, by flag and status."""
        some = results.filter(pc.greater(results["count_order"], 0))
        some = some.select(self.result_schema.names)
        return some.sort_by([("returnflag", "ascending"), ("linestatus", "ascending")])


class TPCHQ3(Workload):
    """Sum up the revenue of each order not yet shipped: TPC-H's third query, of very many groups.

    Use it where groups are many and small. Not for skew: an order has seven lines at most, unless it
    was put there.

    Parameters
    ----------
    k : int of at least 1
        How many orders the answer lists; 10 in the benchmark.

    Notes
    -----
    Columns: ``o_orderdate``, ``o_shippriority``, ``l_extendedprice`` and ``l_discount``, as `join` gives
    them. Key: ``l_orderkey``. Result: ``revenue``, ``orderdate`` and ``shippriority``. Answer: the `k`
    highest revenues, of equal ones the older order, then the lower key. A line with a null is left out,
    and an order without a line has null for its revenue.

    Guarantee: exact, however rows are split.

    Cost: some ten passes of numpy. State: 36 bytes.

    Deviations from the paper: the join and its filters run before rows are routed.

    Examples
    --------
    >>> query = TPCHQ3()
    >>> rows = {"o_orderdate": [dt.date(1995, 2, 1)] * 2, "o_shippriority": [0, 0]}
    >>> rows |= {"l_extendedprice": [100.0, 10.0], "l_discount": [0.1, 0.0]}
    >>> str(query.finish(query.update(query.create(), pa.table(rows)))["revenue"])
    '100.0000'

    References
    ----------
    TPC-H 3.0, section 2.4.3. PVLDB 10(11), section 6.1.2, doi:10.14778/3137628.3137639.
    """

    merges: ClassVar[Mapping[str, str]] = {
        "n": "sum",
        "total": "sum",
        "date": "min",
        "priority": "min",
    }

    def __init__(self, k: Count = 10) -> None:
        check("TPCHQ3", TPCHQ3.__init__, k=k)
        self.k = int(k)
        self._declare(
            inputs=["o_orderdate", "o_shippriority", "l_extendedprice", "l_discount"],
            state="n bigint, total decimal(38,4), date date, priority int",
            result="revenue decimal(38,4), orderdate date, shippriority int",
        )

    @staticmethod
    def join(
        customer: pa.Table,
        orders: pa.Table,
        lineitem: pa.Table,
        segment: str = "BUILDING",
        day: dt.date = dt.date(1995, 3, 15),
    ) -> pa.Table:
        """Return the query's lines: ``l_orderkey`` and the workload's columns.

        Parameters
        ----------
        customer
            ``c_custkey``, ``c_mktsegment``.
        orders
            ``o_orderkey``, ``o_custkey``, ``o_orderdate``, ``o_shippriority``.
        lineitem
            ``l_orderkey``, ``l_extendedprice``, ``l_discount``, ``l_shipdate``.
        segment
            Market segment of the customers.
        day
            Orders before it, lines shipped after it.
        """
        buyers = customer.filter(pc.equal(customer["c_mktsegment"], segment))["c_custkey"]
        wanted = pc.and_(
            pc.less(orders["o_orderdate"], pa.scalar(day)),
            pc.is_in(orders["o_custkey"], buyers.combine_chunks()),
        )
        names = ["o_orderkey", "o_orderdate", "o_shippriority"]
        left = orders.filter(wanted).select(names)
        right = lineitem.filter(pc.greater(lineitem["l_shipdate"], pa.scalar(day)))
        right = right.select(["l_orderkey", "l_extendedprice", "l_discount"])
        rows = right.join(left, "l_orderkey", "o_orderkey", "inner", use_threads=False)
        return rows.select(["l_orderkey", *names[1:], "l_extendedprice", "l_discount"])

    def create(self) -> dict[str, Any]:
        """Return the revenue of no lines."""
        return {"n": 0, "total": Decimal(0), "date": None, "priority": None}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the revenue of each group."""
        price, known = hundredths("TPCHQ3", rows, "l_extendedprice")
        disc, also = hundredths("TPCHQ3", rows, "l_discount")
        about = [column_of(rows, name) for name in ("o_orderdate", "o_shippriority")]
        take = known & also
        for column in about:
            take &= column.is_valid().to_numpy(zero_copy_only=False)
        starts = kept(starts, take)
        first = pa.array(starts[:-1], mask=np.diff(starts) == 0)
        date, priority = (column.filter(pa.array(take)).take(first) for column in about)
        net = exact_sums(price[take] * (100 - disc[take]), starts)
        columns = {"n": np.diff(starts), "total": as_decimals(net, 38, 4)}
        return pa.table(columns | {"date": date, "priority": priority})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the revenue of each order."""
        some = pc.greater(states["n"], 0)
        none = pa.scalar(None, pa.decimal128(38, 4))
        revenue = pc.if_else(some, states["total"], none)
        return pa.table(
            {"revenue": revenue, "orderdate": states["date"], "shippriority": states["priority"]}
        )

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Return the `k` highest revenues."""
        some = results.filter(results["revenue"].is_valid())
        by = [("revenue", "descending"), ("orderdate", "ascending"), ("key", "ascending")]
        return some.sort_by(by)[: self.k]


class TPCHQ6(Workload):
    """Sum up what small discounts of one year cost: TPC-H's sixth query, a single group.

    Use it as the workload without a key: any policy may send any line anywhere. Not on Spark, whose own
    ``sum`` is combined before the shuffle.

    Parameters
    ----------
    year : int of at least 1
        Lines shipped in it; 1993 to 1997 in the benchmark.
    discount : int of at least 0
        Hundredths; discounts one hundredth off count too. 2 to 9 in the benchmark.
    quantity : int of at least 0
        Lines of fewer pieces; 24 or 25 in the benchmark.

    Notes
    -----
    Columns: those of LINEITEM by their names. Result: ``revenue``, null without a line. A line with a
    null is left out.

    Guarantee: exact, however rows are split.

    Cost: some ten passes of numpy. State: 24 bytes.

    Deviations from the paper: none.

    Examples
    --------
    >>> query = TPCHQ6()
    >>> rows = {"l_quantity": [10, 30], "l_extendedprice": [200.0, 9.0], "l_discount": [0.06, 0.06]}
    >>> rows["l_shipdate"] = [dt.date(1994, 5, 1)] * 2
    >>> str(query.finish(query.update(query.create(), pa.table(rows)))["revenue"])
    '12.0000'

    References
    ----------
    TPC-H 3.0, section 2.4.6. PVLDB 10(11), section 6, doi:10.14778/3137628.3137639.
    """

    per_key: ClassVar[bool] = False
    merges: ClassVar[Mapping[str, str]] = {"n": "sum", "total": "sum"}

    def __init__(self, year: Count = 1994, discount: int = 6, quantity: int = 24) -> None:
        check("TPCHQ6", TPCHQ6.__init__, year=year, discount=discount, quantity=quantity)
        self.year, self.discount, self.quantity = int(year), int(discount), int(quantity)
        self._declare(
            inputs=["l_shipdate", "l_discount", "l_quantity", "l_extendedprice"],
            state="n bigint, total decimal(38,4)",
            result="revenue decimal(38,4)",
        )

    def create(self) -> dict[str, Any]:
        """Return the revenue of no lines."""
        return {"n": 0, "total": Decimal(0)}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the revenue of each group."""
        names = ("l_discount", "l_quantity", "l_extendedprice")
        columns = [hundredths("TPCHQ6", rows, name) for name in names]
        disc, quantity, price = (values for values, _ in columns)
        day = _days("TPCHQ6", rows, "l_shipdate")
        first, after = (_day(dt.date(year, 1, 1)) for year in (self.year, self.year + 1))
        take = (day >= first) & (day < after)
        take &= (np.abs(disc - self.discount) <= 1) & (quantity < 100 * self.quantity)
        for _, known in columns:
            take &= known
        starts = kept(starts, take)
        total = exact_sums(price[take] * disc[take], starts)
        return pa.table({"n": np.diff(starts), "total": as_decimals(total, 38, 4)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the revenue."""
        none = pa.scalar(None, pa.decimal128(38, 4))
        return pa.table({"revenue": pc.if_else(pc.greater(states["n"], 0), states["total"], none)})


def _day(date: dt.date) -> int:
    return (date - dt.date(1970, 1, 1)).days


def _days(owner: str, rows: pa.Table, column: str) -> NDArray[np.int64]:
    """Return a column of dates in days since 1970; a null is after all."""
    values = column_of(rows, column)
    if not (pa.types.is_date(values.type) or pa.types.is_null(values.type)):
        raise DataError(f"{owner}: column {column!r} must hold dates, it holds {values.type}.")
    days = values.cast(pa.date32()).cast(pa.int32())
    return np.asarray(pc.fill_null(days, np.iinfo(np.int32).max).to_numpy(), np.int64)
