"""TPC-H tables: as dbgen writes them, with the skew that was asked for, or a word on what is missing."""

from __future__ import annotations

import stat
from collections import Counter
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from skewless.datasets.tpch import Tpch, _program, _with_skew, tpch_tables
from skewless.errors import DataError, MissingExtra, ParameterError
from tests.oracles import datasets as oracle

needs_generator = pytest.mark.skipif(_program() is None, reason="the extra 'tpch' is not installed")


def small(n_customers=20, n_orders=30, n_lines=200):
    return Tpch(
        pa.table({"l_orderkey": np.arange(n_lines) % n_orders, "l_tax": np.arange(n_lines)}),
        pa.table({"o_orderkey": np.arange(n_orders) * 4, "o_custkey": np.zeros(n_orders, int)}),
        pa.table({"c_custkey": np.arange(n_customers) + 100}),
    )


@pytest.mark.parametrize("seed", [0, 5])
def test_references_are_drawn_as_the_oracle_draws_them(seed):
    skewed = _with_skew(small(), 1.1, seed)
    for table, column, known, lane in (
        (skewed.orders, "o_custkey", [100 + i for i in range(20)], 0),
        (skewed.lineitem, "l_orderkey", [4 * i for i in range(30)], 2),
    ):
        n = len(known)
        ranks = [
            oracle.inverse(u, oracle.zipf_weights(n, 1.1))
            for u in oracle.units(table.num_rows, seed, lane)
        ]
        order = sorted(range(n), key=oracle.units(n, seed, lane + 1).__getitem__)
        assert table[column].to_pylist() == [known[order[rank]] for rank in ranks]


def test_skew_changes_references_only_and_points_to_what_exists():
    plain, skewed = small(50, 500, 40_000), _with_skew(small(50, 500, 40_000), 1.0, 3)
    assert skewed.customer.equals(plain.customer)
    assert skewed.lineitem["l_tax"].equals(plain.lineitem["l_tax"])
    assert skewed.orders["o_orderkey"].equals(plain.orders["o_orderkey"])
    assert set(skewed.lineitem["l_orderkey"].to_pylist()) <= set(
        plain.orders["o_orderkey"].to_pylist()
    )
    counts = Counter(skewed.lineitem["l_orderkey"].to_pylist())
    expected = 1 / sum(oracle.zipf_weights(500, 1.0))
    assert max(counts.values()) / 40_000 == pytest.approx(expected, abs=0.01)


def test_without_the_generator_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("skewless.datasets.tpch.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingExtra, match=r"tpch_tables needs tpchgen-cli.*pip install 'skewless\[tpch\]'"
    ):
        tpch_tables(0.01)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo unknown command >&2; exit 3",
            r"tpchgen-cli failed \(unknown command\); is it of versi",
        ),
        ("exit 0", "the generator's lineitem cannot be read"),
    ],
)
def test_a_generator_that_fails_or_is_another_is_an_error_in_words(
    monkeypatch, tmp_path, script, words
):
    program = tmp_path / "tpchgen-cli"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("skewless.datasets.tpch.sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(DataError, match=words):
        tpch_tables(0.01)


def test_bad_parameters_are_named():
    with pytest.raises(
        ParameterError, match=r"tpch_tables: scale must be a float in \(0, 1000\], got 0"
    ):
        tpch_tables(0)
    with pytest.raises(
        ParameterError, match=r"tpch_tables: skew must be a float in \[0, 20\], got -1"
    ):
        tpch_tables(1.0, skew=-1)


@needs_generator
def test_the_tables_give_the_answers_of_query_1_and_6_at_scale_0_01():
    lines = tpch_tables(0.01).lineitem
    assert lines.num_rows == 60_175
    rows = lines.to_pylist()
    groups = Counter(
        (r["l_returnflag"], r["l_linestatus"]) for r in rows if r["l_shipdate"] <= date(1998, 9, 2)
    )
    assert groups == {("A", "F"): 14_876, ("N", "F"): 348, ("N", "O"): 29_181, ("R", "F"): 14_902}
    revenue = sum(
        r["l_extendedprice"] * r["l_discount"]
        for r in rows
        if date(1994, 1, 1) <= r["l_shipdate"] < date(1995, 1, 1)
        and Decimal("0.05") <= r["l_discount"] <= Decimal("0.07")
        and r["l_quantity"] < 24
    )
    assert revenue == Decimal("1193053.2253")


@needs_generator
def test_skewed_tables_join_and_keep_the_answers_that_read_no_key():
    plain, skewed = tpch_tables(0.01), tpch_tables(0.01, skew=1.2, seed=1)
    assert skewed.lineitem.drop(["l_orderkey"]).equals(plain.lineitem.drop(["l_orderkey"]))
    held = set(skewed.customer["c_custkey"].to_pylist())
    assert set(skewed.orders["o_custkey"].to_pylist()) <= held
    hottest = max(Counter(skewed.orders["o_custkey"].to_pylist()).values()) / 15_000
    expected = 1 / sum(oracle.zipf_weights(1_500, 1.2))
    assert hottest == pytest.approx(expected, abs=0.01)
