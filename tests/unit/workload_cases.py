"""Every workload with a stream for it, its oracle, and how close the two must be."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skewless import workloads
from skewless.chunk import Chunk
from tests.oracles import (
    correlation_clustering,
    debs,
    decision_tree,
    entity_counts,
    fetch_lists,
    gcm,
    naive_bayes,
    top_k,
    tpch,
    word_count,
)

Row = tuple[int, int, dict[str, Any]]


class Case(NamedTuple):
    """A workload under test."""

    workload: workloads.Workload
    """The workload."""
    columns: Callable[[Any, np.ndarray], dict[str, list[Any]]] | None
    """From a generator of random numbers and the keys to the value columns; None: keys only."""
    oracle: Callable[..., list[dict[str, Any]]]
    """From rows (and ``end``, with `ends`) to the answer."""
    window: int | None = None
    """Length of the windows, if it is a workload with windows."""
    slide: int | None = None
    """Distance of two windows."""
    n_keys: int = 30
    """Different keys of its stream."""
    ends: bool = False
    """Whether the oracle is told where the window ends."""
    key_of: Callable[[np.ndarray], np.ndarray] | None = None
    """From ranks to the keys that the workload wants."""


def some(rng, values, n):
    return [values[i] for i in rng.integers(0, len(values), n)]


def records(rng, keys):
    """Misspelt names: far more like their own name than like any other, at one edit of it."""
    names = ("abcdefgh", "ijklmnop", "qrstuvwx", "01234567", None)
    found = some(rng, names, len(keys))
    at, spoil = rng.integers(0, 8, len(keys)), rng.random(len(keys)) < 0.5
    return {
        "record": [
            name[:i] + "_" + name[i + 1 :] if name and bad else name
            for name, i, bad in zip(found, at, spoil, strict=True)
        ]
    }


def lines(rng, keys):
    n = len(keys)
    days = [dt.date(1993, 10, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 1900, n)]
    # Flag and status belong to the key: they are what rows are grouped by.
    return {
        "l_returnflag": [("A", "N", "R", None)[int(key) % 4] for key in keys],
        "l_linestatus": [("F", "O")[int(key) // 4 % 2] for key in keys],
        "l_quantity": [Decimal(int(q)) for q in rng.integers(1, 51, n)],
        "l_extendedprice": money(rng, 90_000, 10_500_000, n),
        "l_discount": money(rng, 0, 11, n),
        "l_tax": money(rng, 0, 9, n),
        "l_shipdate": [None if i % 17 == 3 else day for i, day in enumerate(days)],
        "o_orderdate": [dt.date(1995, 1, 1) + dt.timedelta(days=int(key % 70)) for key in keys],
        "o_shippriority": [int(key % 3) for key in keys],
    }


def money(rng, low, high, n):
    cents = rng.integers(low, high, n)
    return [None if i % 13 == 5 else Decimal(int(c)) / 100 for i, c in enumerate(cents)]


def subset(columns, names):
    return lambda rng, keys: {name: columns(rng, keys)[name] for name in names}


def trips(rng, keys):
    n = len(keys)
    areas = [1001, 1002, 2001, 2002, 0]
    cents = [None if i % 11 == 7 else int(c) for i, c in enumerate(rng.integers(250, 9000, n))]
    return {
        "time": [],
        "pickup": some(rng, areas, n),
        "dropoff": some(rng, areas, n),
        "cents": cents,
    }


def texts(rng, keys):
    words = ["Paris", "Ada", "Lovelace", "in", "the", "Rome", "of"]
    lengths = rng.integers(0, 9, len(keys))
    found = [" ".join(some(rng, words, length)) for length in lengths]
    return {"text": [None if i % 7 == 2 else text for i, text in enumerate(found)]}


def small(rng, keys):
    """Few distinct values per feature, leaf and class: histograms are exact."""
    n = len(keys)
    return {
        "leaf": some(rng, [0, 1, 2], n),
        "label": some(rng, [0, 1, None], n),
        "x": [float(x) / 4 for x in rng.integers(0, 8, n)],
    }


CASES: dict[str, Case] = {
    "word_count": Case(workloads.WordCount(), None, word_count.answer, 40, 20),
    "top_k": Case(workloads.TopK(3), None, lambda rows: top_k.answer(rows, 3), 60, 20),
    "correlation_clustering": Case(
        workloads.CorrelationClustering(), records, correlation_clustering.answer, 60, 30, 6
    ),
    "naive_bayes": Case(
        workloads.NaiveBayes(),
        lambda rng, keys: {"label": some(rng, ["ham", "spam", "eggs", None], len(keys))},
        naive_bayes.answer,
    ),
    "decision_tree": Case(
        workloads.DecisionTree(most_bins=8),
        small,
        lambda rows: decision_tree.answer(rows, 8),
        n_keys=5,
    ),
    "tpch_q1": Case(
        workloads.TPCHQ1(), subset(lines, workloads.TPCHQ1().inputs), tpch.q1, n_keys=8
    ),
    "tpch_q3": Case(
        workloads.TPCHQ3(4),
        subset(lines, workloads.TPCHQ3().inputs),
        lambda rows: tpch.q3(rows, 4),
    ),
    "tpch_q6": Case(workloads.TPCHQ6(), subset(lines, workloads.TPCHQ6().inputs), tpch.q6),
    "frequent_routes": Case(
        workloads.FrequentRoutes(3),
        None,
        lambda rows: debs.routes(rows, 3),
        30,
        10,
        key_of=lambda ranks: (1001 + ranks % 3) * 10**6 + 2002 + ranks // 3,
    ),
    "profitable_areas": Case(
        workloads.ProfitableAreas(2, recent=15),
        trips,
        lambda rows, end: debs.areas(rows, end, 2, 15),
        30,
        10,
        ends=True,
    ),
    "cpu_by_class": Case(
        workloads.CpuByClass(),
        lambda rng, keys: {"cpu_request": some(rng, [0.1, 0.25, 1e-9, 0.7, None], len(keys))},
        gcm.by_class,
        60,
        10,
        4,
    ),
    "mean_cpu_by_job": Case(
        workloads.MeanCpuByJob(),
        lambda rng, keys: {"cpu_request": some(rng, [0.1, 0.25, 1e-9, 0.7, None], len(keys))},
        gcm.by_job,
        90,
        10,
    ),
    "fetch_lists": Case(
        workloads.FetchLists(3, delay_ms=250),
        lambda rng, keys: {
            "url": some(rng, ["/", "/a", "/b", "/c", "/d", None], len(keys)),
            "depth": some(rng, [0, 1, 2, None], len(keys)),
        },
        lambda rows: fetch_lists.answer(rows, 3, 250),
    ),
    "entity_counts": Case(
        workloads.EntityCounts(2), texts, lambda rows: entity_counts.answer(rows, 2), 60, 60, 6
    ),
}


def stream(case: Case, n_tuples: int, seed: int) -> Chunk:
    """Return a skewed stream of the workload's rows, one or two at a time."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.5, n_tuples) - 1, case.n_keys - 1).astype(np.int64)
    keys = (ranks if case.key_of is None else case.key_of(ranks)).astype(np.uint64)
    times = np.arange(n_tuples) // 2
    return Chunk(times, keys, value_of(case, rng, keys, times))


def value_of(case: Case, rng: Any, keys: np.ndarray, times: np.ndarray) -> pa.Table | None:
    if case.columns is None:
        return None
    columns = case.columns(rng, keys)
    if "time" in columns:
        columns["time"] = times.tolist()
    types = {
        "l_quantity": pa.decimal128(15, 2),
        "l_extendedprice": pa.decimal128(15, 2),
        "l_discount": pa.decimal128(15, 2),
        "l_tax": pa.decimal128(15, 2),
        "l_shipdate": pa.date32(),
        "o_orderdate": pa.date32(),
        "o_shippriority": pa.int32(),
        "depth": pa.int32(),
        "cpu_request": pa.float64(),
        "x": pa.float64(),
        "leaf": pa.int32(),
        "label": pa.int32() if "leaf" in columns else pa.string(),
        **dict.fromkeys(("time", "pickup", "dropoff", "cents"), pa.int64()),
    }
    arrays = {name: pa.array(v, types.get(name, pa.string())) for name, v in columns.items()}
    return pa.table(arrays)


def rows_of(chunk: Chunk) -> list[Row]:
    """Return the tuples for an oracle."""
    value = [{}] * len(chunk) if chunk.value is None else chunk.value.to_pylist()
    return list(zip(chunk.time.tolist(), chunk.key.tolist(), value, strict=True))


def part_of(chunk: Chunk, rows: np.ndarray) -> Chunk:
    """Return some tuples of a chunk."""
    value = None if chunk.value is None else chunk.value.take(pa.array(rows))
    return Chunk(chunk.time[rows], chunk.key[rows], value)


def expected(case: Case, chunk: Chunk, end: int | None = None) -> list[dict[str, Any]]:
    """Return the oracle's answer over all tuples, or over those of the window that ends at `end`."""
    rows = rows_of(chunk)
    if end is not None:
        rows = [row for row in rows if end - case.window <= row[0] < end]
    if not case.ends:
        return case.oracle(rows)
    return case.oracle(rows, max((t + 1 for t, _, _ in rows), default=0) if end is None else end)


def assert_same(found: Any, wanted: Any) -> None:
    """Equal, but for the rounding of floats."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert_same(found[name], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, float) and isinstance(found, float):
        assert abs(found - wanted) <= 1e-9 * max(abs(found), abs(wanted))
    else:
        assert found == wanted
        assert (found is None) == (wanted is None)
