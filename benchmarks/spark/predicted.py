"""What the cost model predicts and what Spark takes: all policies, sixteen task slots, emulated work.

A row of Python work sleeps, so that sixteen slots can be had on few cores. The costs are fitted to
small jobs on the same session, as ``skewless calibrate`` does, then the aggregator is timed on some rows,
as ``"auto"`` does. Plans are made before the clock starts: the model tells what a plan is worth, not what
it takes to find. Every cell is a workload, a number of workers and a Zipf exponent; all policies run in
turn in it.

Two figures are wanted: predicted over measured time, both relative to hashing, off by at most 15 %; and
the advisor's choice within 10 % of the best measured policy in at least nine cells of ten.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import skewless
from benchmarks.spark.grouping import DISTINCT, Large, Small, _written
from benchmarks.spark.session import local_session
from skewless.advisor import ADVISED, advise, outcomes
from skewless.calibration import VARIABLE
from skewless.spark.aggregation import first_groups
from skewless.spark.auto import measure
from skewless.spark.batch import count
from skewless.spark.calibration import calibrate
from skewless.spark.keys import resolve_keys

__all__ = ["run"]

SLOTS = 16
POLICIES = ("local", *ADVISED)
EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
WITHIN = 0.15
AS_GOOD = 1.10


def run(
    rows: int = 48_000,
    cost_us: float = 1_000.0,
    rounds: int = 1,
    exponents: tuple[float, ...] = EXPONENTS,
    workers: tuple[int, ...] = (8, 16),
) -> dict[str, Any]:
    """Measure every cell, print the tables, and return everything measured."""
    cells = []
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as folder:
        spark = local_session(Path(folder), SLOTS, SLOTS)
        try:
            found = calibrate(spark, rows=100_000, rounds=2, slots=SLOTS)
            found.save(Path(folder) / "costs.json")
            os.environ[VARIABLE] = str(Path(folder) / "costs.json")
            print(f"costs {found.costs}, fit off by {abs(found.errors()).max():.0%} at most")
            for name, distinct in DISTINCT.items():
                for exponent in exponents:
                    frame = _written(spark, Path(folder), rows, distinct, exponent, SLOTS)
                    for job, aggregator in (
                        ("small state", Small(cost_us)),
                        ("large state", Large(cost_us)),
                    ):
                        for n in workers:
                            cell = {"job": job, "keys": name, "zipf": exponent, "n_workers": n}
                            cell |= _cell(frame, aggregator, n, rounds)
                            cells.append(cell)
                            print(_line(cell), flush=True)
        finally:
            spark.stop()
    result = {
        "benchmark": "spark/predicted",
        "slots": SLOTS,
        "rows": rows,
        "cost_us": cost_us,
        "rounds": rounds,
        "costs": found.costs._asdict(),
        "cells": cells,
    }
    result |= _verdict(cells)
    return result


def _cell(frame: DataFrame, aggregator: skewless.Aggregator, n: int, rounds: int) -> dict[str, Any]:
    keys = resolve_keys("predicted", frame, ["k"])
    counted = count(frame, keys, n)
    costs = measure(*first_groups(frame, keys, aggregator, "predicted"))
    told = outcomes(
        counted.histogram,
        n,
        costs,
        distinct=counted.distinct,
        slots=SLOTS,
        tasks=counted.tasks,
        policies=ADVISED,
    )
    share = int(counted.histogram.counts[0]) / counted.histogram.total
    return {
        "predicted": {one.policy: one.predicted_s for one in told},
        "measured": _measured(frame, aggregator, n, rounds),
        "advised": advise(told, share, n).policy,
        "costs": costs._asdict(),
    }


def _measured(
    frame: DataFrame, aggregator: skewless.Aggregator, n: int, rounds: int
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in POLICIES}
    expected = None
    for _ in range(rounds):
        for name in POLICIES:
            groups = skewless.group_by(frame, "k", policy=name, workers=n)
            groups.explain()  # plans
            begun = time.perf_counter()
            answer = groups.aggregate(aggregator).toArrow()
            seconds[name].append(time.perf_counter() - begun)
            found = answer.sort_by("k")
            expected = expected or found
            assert found.equals(expected), f"{name} has another answer"
    return {name: statistics.median(spent) for name, spent in seconds.items()}


def _errors(cell: dict[str, Any]) -> dict[str, float]:
    """Return predicted over measured, both relative to hashing, less 1."""
    told, took = cell["predicted"], cell["measured"]
    return {
        name: (told[name] / told["hash"]) / (took[name] / took["hash"]) - 1
        for name in took
        if name != "hash"
    }


def _regret(cell: dict[str, Any]) -> float:
    took: dict[str, float] = cell["measured"]
    return took[cell["advised"]] / min(took.values())


def _line(cell: dict[str, Any]) -> str:
    head = f"{cell['job']:12}{cell['keys']:10} zipf {cell['zipf']:<4} n {cell['n_workers']:<3}"
    told, took = cell["predicted"], cell["measured"]
    parts = [f"{name} {told[name]:.1f}/{took[name]:.1f}" for name in took]
    worst = max(abs(error) for error in _errors(cell).values())
    return (
        f"{head} {'  '.join(parts)}  off {worst:.0%}; advised {cell['advised']}, "
        f"{_regret(cell):.2f} of the best"
    )


def _verdict(cells: list[dict[str, Any]]) -> dict[str, Any]:
    errors = [abs(error) for cell in cells for error in _errors(cell).values()]
    within = sum(error <= WITHIN for error in errors) / len(errors)
    good = sum(_regret(cell) <= AS_GOOD for cell in cells)
    print(
        f"\nratio to hash: off by {statistics.median(errors):.1%} in the median, {max(errors):.0%} at "
        f"worst; within {WITHIN:.0%} in {within:.0%} of {len(errors)}\n"
        f"advised within {AS_GOOD - 1:.0%} of the best in {good} of {len(cells)} cells"
    )
    return {
        "median_error": statistics.median(errors),
        "worst_error": max(errors),
        "part_within": within,
        "advised_well": good / len(cells),
    }


if __name__ == "__main__":
    run()
