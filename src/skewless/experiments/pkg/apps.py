"""pkg.apps: three applications on PKG, their answers, their copies of state, and their error.

M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section VI.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.datasets import state_of_the_union, zipf
from skewless.experiments.description import (
    Cell,
    Experiment,
    Result,
    Row,
    Setting,
    Table,
    Verdict,
    judged,
    number,
    ordering,
)
from skewless.keys import hash64
from skewless.metrics import fragment_counts
from skewless.partitioners import PKG, Hash, Partitioner, Shuffle
from skewless.report.plot import Line, Panel, Plot
from skewless.sketches import SpaceSaving
from skewless.workloads import DecisionTree, HeavyHitters, NaiveBayes

__all__ = ["APPS", "split_up"]

WORKERS = (8, 32)
CAPACITY, TOP = 100, 50
POLICIES: dict[str, Callable[[int, int], Partitioner]] = {
    "hash": lambda n, seed: Hash(n, seed=seed),
    "pkg": lambda n, seed: PKG(n, seed=seed),
    "shuffle": lambda n, _seed: Shuffle(n),
}


def split_up(workload: Any, chunk: Chunk, workers: NDArray[np.int32]) -> pa.Table:
    """Return the answer of a workload whose tuples several workers saw, merged at the end."""
    whole = workload.start()
    for worker in np.unique(workers).tolist():
        mine = np.flatnonzero(workers == worker)
        part = workload.start()
        value: Any = chunk.value
        if value is not None:
            value = value.take(mine)
        part.update(Chunk(None, chunk.key[mine], value))
        whole.merge(part)
    answer: pa.Table = whole.answer()
    return answer


def _alone(workload: Any, chunk: Chunk) -> pa.Table:
    one = workload.start()
    one.update(chunk)
    answer: pa.Table = one.answer()
    return answer


def _bayes(n_words: int, n: int, seed: int) -> list[Row]:
    table = state_of_the_union().slice(0, n_words)
    century = np.where(table["year"].to_numpy() < 1861, "before", "after")
    chunk = Chunk(None, hash64(table["word"]), century.astype(object))
    wanted = _alone(NaiveBayes(), chunk)
    return [_compared("naive Bayes", NaiveBayes(), chunk, wanted, p, n, seed) for p in POLICIES]


def _tree(n_rows: int, n: int, seed: int) -> list[Row]:
    """Grow one level: what the histograms are for; few enough values for them to be exact."""
    rng = np.random.default_rng(seed)
    x = np.minimum(rng.geometric(0.2, (n_rows, 12)), 40).astype(np.float64)
    workload = DecisionTree(most_bins=50)
    chunk = workload.messages(workload.sprout(), x, (x[:, 3] > 4).astype(np.int64))
    wanted = _alone(workload, chunk)
    return [_compared("decision tree", workload, chunk, wanted, p, n, seed) for p in POLICIES]


def _compared(
    app: str, workload: Any, chunk: Chunk, wanted: pa.Table, policy: str, n: int, seed: int
) -> Row:
    workers = POLICIES[policy](n, seed).route(chunk)
    copies = fragment_counts(chunk.key, workers)[1]
    loads = np.bincount(workers, minlength=n)
    return {
        "app": app,
        "policy": policy,
        "workers": n,
        "same": split_up(workload, chunk, workers).equals(wanted),
        "copies": int(copies.max()),
        "states": int(copies.sum()),
        "keys": len(copies),
        "max_over_mean": float(loads.max() / loads.mean()),
    }


def _leasts(keys: NDArray[np.uint64], workers: NDArray[np.int32], n: int) -> list[int]:
    """Return the least counter of each worker's summary, the largest first."""
    found = []
    for worker in range(n):
        sketch = SpaceSaving(CAPACITY)
        sketch.update(keys[workers == worker])
        found.append(int(sketch.least))
    return sorted(found, reverse=True)


def _heavy(n_tuples: int, n: int, seed: int) -> list[Row]:
    keys = zipf(n_tuples, 50_000, 1.2, seed=seed)
    true = dict(zip(*(a.tolist() for a in np.unique(keys, return_counts=True)), strict=True))
    # The items are the values; all of them are one group.
    rows: list[Row] = []
    for policy, choices in (("hash", 1), ("pkg", 2), ("shuffle", None)):
        workers = POLICIES[policy](n, seed).route(Chunk(None, keys))
        workload = HeavyHitters(k=TOP, capacity=CAPACITY, choices=choices)
        items = Chunk(None, np.zeros(len(keys), np.uint64), keys.view(np.int64))
        heavy = split_up(workload, items, workers).to_pylist()[0]["heavy"]
        errors = [item["error"] for item in heavy]
        off = [item["n"] - true[item["value"] % 2**64] for item in heavy]
        loads = np.bincount(workers, minlength=n)
        copies = fragment_counts(keys, workers)[1]
        terms = choices or n
        rows.append(
            {
                "app": "heavy hitters",
                "policy": policy,
                "workers": n,
                "same": all(0 <= over <= error for over, error in zip(off, errors, strict=True)),
                "copies": int(copies.max()),
                "states": int(copies.sum()),
                "keys": len(copies),
                "max_over_mean": float(loads.max() / loads.mean()),
                "terms": terms,
                # A summary misses no item that comes more often than its least counter says.
                "bound": sum(_leasts(keys, workers, n)[:terms]) / n_tuples,
                "error": max(off) / n_tuples,
            }
        )
    return rows


def _cells(setting: Setting) -> list[Cell]:
    size = 1_000_000 if setting.full else 100_000
    return [
        Cell(f"{name}, {n} workers, {size} tuples", functools.partial(work, size, n, setting.seed))
        for name, work in (
            ("naive Bayes", _bayes),
            ("decision tree", lambda size, n, seed: _tree(size // 12, n, seed)),
            ("heavy hitters", _heavy),
        )
        for n in WORKERS
    ]


def _judge(result: Result) -> Verdict:
    exact = [row for row in result.rows if row["app"] != "heavy hitters"]
    low, high = WORKERS

    def heavy(policy: str, n: int, column: str) -> float:
        return float(result.one(column, app="heavy hitters", policy=policy, workers=n))

    pkg = result.where(policy="pkg")
    balance = {
        p: result.one("max_over_mean", app="naive Bayes", policy=p, workers=low)
        for p in ("hash", "pkg")
    }
    return judged(
        (
            ordering(
                all(row["same"] for row in exact),
                f"in {sum(row['same'] for row in exact)} of {len(exact)} runs naive Bayes's counts and "
                f"the tree's histograms are those of a single worker",
            ),
            ordering(
                max(row["copies"] for row in pkg) <= 2,
                f"under PKG a key has at most {max(row['copies'] for row in pkg)} copies of its state, "
                f"shuffling up to {max(r['copies'] for r in result.where(policy='shuffle'))}",
            ),
            ordering(
                balance["pkg"] < balance["hash"],
                f"naive Bayes on {low} workers: fullest over mean {balance['hash']:.2f} under hashing, "
                f"{balance['pkg']:.2f} under PKG",
            ),
            ordering(
                all(row["same"] for row in result.where(app="heavy hitters")),
                "the frequent items' counts are within their bounds",
            ),
            ordering(
                all(heavy("pkg", n, "bound") < heavy("shuffle", n, "bound") for n in WORKERS),
                f"with {CAPACITY} counters a worker the bound on {high} workers is "
                f"{heavy('pkg', high, 'bound'):.3%} of the stream under PKG (2 terms), "
                f"{heavy('shuffle', high, 'bound'):.3%} under shuffling ({high} terms), "
                f"{heavy('hash', high, 'bound'):.3%} under hashing",
            ),
            number(
                heavy("pkg", high, "bound") < 0.75 * heavy("pkg", low, "bound"),
                f"PKG's falls with the workers, from {heavy('pkg', low, 'bound'):.3%} on {low}, and "
                f"shuffling's is {heavy('shuffle', low, 'bound'):.3%} there",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    return Table(
        [
            "application",
            "workers",
            "policy",
            "max/mean",
            "copies of a key, at most",
            "states a key",
            "as alone",
            "bound, % of the stream",
            "error, % of the stream",
        ],
        [
            [
                row["app"],
                str(row["workers"]),
                row["policy"],
                f"{row['max_over_mean']:.2f}",
                str(row["copies"]),
                f"{row['states'] / row['keys']:.2f}",
                "yes" if row["same"] else "no",
                f"{100 * row['bound']:.3f}" if "bound" in row else "",
                f"{100 * row['error']:.3f}" if "error" in row else "",
            ]
            for row in result.rows
        ],
    )


def _draw(result: Result) -> Plot:
    panels = []
    for n in WORKERS:
        lines = [
            Line(
                policy,
                [],
                [row["states"] / row["keys"] for row in result.where(policy=policy, workers=n)],
            )
            for policy in POLICIES
        ]
        apps = ["Bayes", "tree", "heavy"]
        panels.append(Panel(f"{n} workers", lines, "", "states a key", categories=apps))
    return Plot(panels)


APPS = Experiment(
    id="pkg.apps",
    setup=(
        "1 M tuples (fast: 100,000) on 8 and 32 workers, merged at the end: naive Bayes on the "
        "words of the State of the Union addresses, before and after 1861; one level of the "
        "streaming decision tree on 12 features; SpaceSaving with 100 counters a worker on Zipf "
        "1.2, the fifty heaviest of 50,000 items."
    ),
    claim=(
        "Section VI: on PKG the answers are those of a single worker, a key's state has two copies "
        "at most, and SpaceSaving's error has two terms where shuffling's has as many as there are "
        "workers."
    ),
    stand_in="On the simulator's side only: policies driven directly, workloads in one process.",
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
    revision=2,
)
