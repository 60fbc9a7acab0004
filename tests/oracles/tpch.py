"""Queries 1, 3 and 6 of TPC-H, section 2.4 of its specification, in exact decimals."""

from __future__ import annotations

import datetime as dt
from decimal import ROUND_HALF_UP, Decimal

ONE = Decimal(1)
PLACES = Decimal("0.000001")


def whole(rows):
    """Rows without a null."""
    return [columns for _, _, columns in rows if None not in columns.values()]


def q1(rows, delta=90):
    last = dt.date(1998, 12, 1) - dt.timedelta(days=delta)
    groups = {}
    for line in whole(rows):
        if line["l_shipdate"] <= last:
            groups.setdefault((line["l_returnflag"], line["l_linestatus"]), []).append(line)
    found = []
    for flag, status in sorted(groups):
        lines = groups[flag, status]
        n = len(lines)
        quantity = sum(line["l_quantity"] for line in lines)
        price = sum(line["l_extendedprice"] for line in lines)
        net = [line["l_extendedprice"] * (ONE - line["l_discount"]) for line in lines]
        charge = sum(x * (ONE + line["l_tax"]) for x, line in zip(net, lines, strict=True))
        discount = sum(line["l_discount"] for line in lines)
        found.append(
            {
                "returnflag": flag,
                "linestatus": status,
                "sum_qty": quantity,
                "sum_base_price": price,
                "sum_disc_price": sum(net),
                "sum_charge": charge,
                "avg_qty": (quantity / n).quantize(PLACES, ROUND_HALF_UP),
                "avg_price": (price / n).quantize(PLACES, ROUND_HALF_UP),
                "avg_disc": (discount / n).quantize(PLACES, ROUND_HALF_UP),
                "count_order": n,
            }
        )
    return found


def q3(rows, k=10):
    revenue, about = {}, {}
    for _, key, line in rows:
        if None in line.values():
            continue
        net = line["l_extendedprice"] * (ONE - line["l_discount"])
        revenue[key] = revenue.get(key, 0) + net
        about[key] = line["o_orderdate"], line["o_shippriority"]
    best = sorted(revenue, key=lambda key: (-revenue[key], about[key][0], key))[:k]
    return [
        {
            "key": key,
            "revenue": revenue[key],
            "orderdate": about[key][0],
            "shippriority": about[key][1],
        }
        for key in best
    ]


def q6(rows, year=1994, discount=6, quantity=24):
    middle, step = Decimal(discount) / 100, Decimal("0.01")
    taken = [
        line["l_extendedprice"] * line["l_discount"]
        for line in whole(rows)
        if line["l_shipdate"].year == year
        and middle - step <= line["l_discount"] <= middle + step
        and line["l_quantity"] < quantity
    ]
    return [{"revenue": sum(taken) if taken else None}]
