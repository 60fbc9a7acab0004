"""States of whole keys, merged in the task that combined them, against plain Python."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    TimestampType,
)

from skewless.spark.aggregation import sorted_groups
from skewless.spark.aggregator import Aggregator
from skewless.spark.forwarding import fold, held, why_not


class Many(Aggregator):
    """Every merge that is done in Python, and one of its own."""

    inputs = ()
    state = "s long, d decimal(38,2), lo double, hi double, bits int, yes boolean, l array<int>, own int"
    result = "n long"
    merges = {
        "s": "sum",
        "d": "sum",
        "lo": "min",
        "hi": "max",
        "bits": "bit_xor",
        "yes": "bool_and",
        "l": "concat",
    }

    def create(self):
        return {}

    def update(self, state, rows):
        return state

    def merge(self, left, right):
        return {"own": 10 * left["own"] + right["own"]}

    def finish(self, state):
        return state


SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("s", pa.int64()),
        ("d", pa.decimal128(38, 2)),
        ("lo", pa.float64()),
        ("hi", pa.float64()),
        ("bits", pa.int32()),
        ("yes", pa.bool_()),
        ("l", pa.list_(pa.int32())),
        ("own", pa.int32()),
    ]
)
LARGE = Decimal("99999999999999999999999999999999999.25")


def table(*rows: tuple) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def folded(states: pa.Table) -> dict:
    merged = fold(Many(), states, ["k"], lambda rows: sorted_groups(rows, ["k"], None, None))
    assert merged.schema == SCHEMA
    return {row.pop("k"): row for row in merged.to_pylist()}


def test_each_merge_gives_what_spark_s_aggregate_does() -> None:
    nan = math.nan
    states = table(
        ("a", 2**62, LARGE, nan, 1.0, 5, True, [1], 1),
        ("b", None, None, None, None, None, None, None, 7),
        ("a", 2**62 - 1, LARGE, -1.0, nan, 3, None, None, 2),
        (None, 1, None, 2.0, 2.0, 1, False, [], 4),
        ("a", None, Decimal("0.50"), 3.0, 0.0, None, True, [2, None], 3),
    )
    found = folded(states)
    a = found["a"]
    assert (a["s"], a["d"]) == (2**63 - 1, Decimal("199999999999999999999999999999999999.00"))
    assert a["lo"] == -1.0
    assert math.isnan(a["hi"])  # NaN is above all numbers
    assert (a["bits"], a["yes"], a["l"], a["own"]) == (6, True, [1, 2, None], 123)
    empty = {"s": None, "d": None, "lo": None, "hi": None, "bits": None, "yes": None}
    assert found["b"] == {**empty, "l": [], "own": 7}
    assert found[None]["yes"] is False


def test_a_sum_that_overflows_fails_and_never_wraps() -> None:
    row = (None, None, None, None, None, [], 1)
    with pytest.raises((OverflowError, pa.ArrowInvalid)):
        folded(table(("a", 2**63 - 1, *row), ("a", 1, *row)))
    most = Decimal(10**36) - Decimal("0.01")
    rows = [("a", 0, most, None, None, None, None, [], 1)] * 2
    with pytest.raises(pa.ArrowInvalid):
        folded(table(*rows))


def test_states_of_many_buffers_are_merged_as_they_grow() -> None:
    rng = np.random.default_rng(0)
    tables, total = [], {}
    for _ in range(40):
        keys = rng.integers(0, 50, 60)
        tables.append(
            table(*[(f"k{k}", int(k), None, None, None, None, None, [], 0) for k in set(keys)])
        )
        for k in set(keys):
            total[f"k{k}"] = total.get(f"k{k}", 0) + int(k)
    merges = []

    def merge(states: pa.Table) -> pa.Table:
        merges.append(states.num_rows)
        return fold(Many(), states, ["k"], lambda rows: sorted_groups(rows, ["k"], None, None))

    found = held(iter(tables), merge)
    assert found is not None
    assert {row["k"]: row["s"] for row in found.to_pylist()} == total
    assert 5 < len(merges) <= 40
    assert max(merges) <= 50 + 120
    assert held(iter([]), merge) is None
    assert held(iter(tables[:1]), merge) is tables[0]


class Session:
    def __init__(self, ansi: str) -> None:
        self.conf = {"spark.sql.ansi.enabled": ansi}


@pytest.mark.parametrize(
    ("ansi", "keys", "field", "merge", "reason"),
    [
        ("true", [LongType(), StringType()], ("x", LongType()), "sum", ""),
        ("true", [DecimalType(10, 2)], ("x", ArrayType(LongType())), "concat", ""),
        ("false", [LongType()], ("x", LongType()), "sum", "overflow do not fail"),
        ("true", [DoubleType()], ("x", LongType()), "sum", "equal keys of type double"),
        ("true", [StringType("UTF8_LCASE")], ("x", LongType()), "sum", "equal keys of type string"),
        ("true", [ArrayType(LongType())], ("x", LongType()), "sum", "equal keys of type array"),
        ("true", [LongType()], ("x", StringType()), "hll_union", "only Spark merges 'x'"),
        ("true", [LongType()], ("x", TimestampType()), "max", "only Spark merges 'x' by 'max'"),
        ("true", [LongType()], ("x", ArrayType(TimestampType())), "concat", "only Spark merges"),
        ("true", [IntegerType()], ("x", TimestampType()), None, ""),
    ],
)
def test_what_only_spark_merges_is_left_to_it(ansi, keys, field, merge, reason) -> None:
    aggregator = Many()
    aggregator.merges = {} if merge is None else {"x": merge}  # type: ignore[misc]
    found = why_not(Session(ansi), keys, [StructField(*field)], aggregator)  # type: ignore[arg-type]
    assert reason in found if reason else found == ""
