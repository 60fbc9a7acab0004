"""What ``"auto"`` does with an aggregator: time it on some rows, and let the cost model choose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame

from skewless.advisor import Outcome, advise, outcomes
from skewless.calibration import known_costs
from skewless.costs import Costs
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.aggregation import BUFFER_ROWS, first_groups
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import Plan, estimate, learned
from skewless.spark.keys import KeyColumns
from skewless.spark.sampling import tasks_of
from skewless.spark.versions import slots_of

__all__ = ["Choice", "choose", "measure"]

#: Seconds of work on the sample after which no more of it is tried.
_BUDGET_S = 0.2
#: Rows that the aggregator is timed on at most, and at first.
_TIMED_ROWS, _FIRST_ROWS = 1_024, 8
#: A stage takes no longer than this to start, whatever the first job took (files are listed in it).
_LONGEST_STAGE_S = 1.0
#: Part of a row's work that its share of the states may cost for ``"local"`` to need no counts.
_CHEAP = 0.03
#: The same, were every row a key of its own: what is lost at most if the first rows are no sample.
_AT_WORST = 0.5
#: Shipping a byte of state: serialised, shuffled, read.
_US_PER_BYTE = 0.004


class Choice(NamedTuple):
    """A policy for an aggregator, and what it was chosen from."""

    policy: str
    """``"hash"``, ``"local"`` or ``"wrap_around"``."""
    reason: str
    """Why, in words."""
    costs: Costs
    """Costs measured with the aggregator."""
    outcomes: tuple[Outcome, ...]
    """What each policy is predicted to do; empty where keys need not be counted to choose."""
    plan: Plan
    """Where the rows go; not used by ``"local"``."""
    measured_s: float
    """Seconds that the measuring took, the small job that fetched the rows included."""


def choose(
    df: DataFrame,
    keys: KeyColumns,
    aggregator: Aggregator,
    n_workers: int,
    *,
    weight: Column | None = None,
) -> Choice:
    """Return the policy that the cost model predicts to be the fastest for an aggregator.

    Parameters
    ----------
    df, keys
        A batch frame and its key columns.
    aggregator
        Checked before.
    n_workers
        Number of workers.
    weight
        What a row weighs; 1 if left out.

    Notes
    -----
    A small job fetches the first rows of the frame, on which the aggregator is timed in this process
    (for 0.2 s, unless a few rows take longer). Unless costs were calibrated, the seconds of that job
    stand for what a stage takes to start. Where their states cost next to nothing beside their rows, and
    the frame has at least as many tasks as run side by side, combining where the rows are is as good as
    anything can be, and keys are not counted.

    Else a query samples the keys. Hashing, combining where the rows are and cutting the hot keys are
    then compared (`skewless.advisor`); the simplest one wins if it is as fast as the fastest within
    3 %. Tasks run side by side only as far as the cluster has slots for them, so with many more
    workers than slots an uneven load costs nothing.
    """
    begun = time.perf_counter()
    prepared, rows, starts = first_groups(df, keys, aggregator, "group_by", _TIMED_ROWS)
    fetched_s = time.perf_counter() - begun
    costs = measure(prepared, rows, starts)
    if costs.stage_s == 0.0:
        costs = costs._replace(stage_s=min(fetched_s, _LONGEST_STAGE_S))
    measured_s = time.perf_counter() - begun
    if _states_are_cheap(costs, len(starts) - 1, rows.num_rows) and _fills_the_slots(df):
        return Choice(
            "local",
            "making and merging states costs next to nothing beside the rows, so to combine where the "
            "rows are is even and as fast as can be, however the keys fall",
            costs,
            (),
            Plan(Routing.hashing(n_workers), None, 0.0, 0.0),
            measured_s,
        )
    begun = time.perf_counter()
    counted = estimate(df, keys, n_workers, weight=weight)
    gathered = time.perf_counter()
    histogram = counted.histogram
    routing = learned(WrapAround(n_workers), histogram)
    planned = time.perf_counter()
    # The loads are in units of weight, the costs are per row.
    scale = counted.rows / histogram.total if histogram.total else 1.0
    per_unit = costs._replace(
        route_us=costs.route_us * scale,
        ship_us=costs.ship_us * scale,
        update_us=costs.update_us * scale,
    )
    found = outcomes(
        histogram,
        n_workers,
        per_unit,
        distinct=counted.distinct,
        policies=("hash", "wrap_around"),
        slots=slots_of(df.sparkSession),
        # A task emits the states of a buffer of rows at a time, as several tasks would.
        tasks=max(counted.tasks, -(-counted.rows // BUFFER_ROWS)),
    )
    share = int(histogram.counts[0]) / histogram.total if histogram.total else 0.0
    advice = advise(found, share, n_workers)
    if advice.policy != "wrap_around":
        routing = Routing.hashing(n_workers)
    plan = Plan(routing, histogram, gathered - begun, planned - gathered, counted.sampled)
    return Choice(advice.policy, advice.reason, costs, tuple(found), plan, measured_s)


def _states_are_cheap(costs: Costs, groups: int, rows: int) -> bool:
    """Say whether the states of rows combined where they are cost next to nothing beside the rows."""
    per_row = costs.update_us + costs.ship_us
    if rows == 0 or costs.merge_us > _AT_WORST * per_row:
        return False
    return groups / rows * costs.merge_us <= _CHEAP * per_row


def _fills_the_slots(df: DataFrame) -> bool:
    """Say whether a frame is known to lie in as many tasks as run side by side, without a job."""
    slots, tasks = slots_of(df.sparkSession), tasks_of(df)
    return slots is not None and tasks is not None and tasks >= slots


def measure(
    aggregator: Aggregator, rows: pa.Table, starts: NDArray[np.int64], budget_s: float = _BUDGET_S
) -> Costs:
    """Return the costs of an aggregator, timed on some rows in this process.

    Parameters
    ----------
    aggregator
        With its schemas set.
    rows
        Input columns, sorted by group.
    starts
        Where each group begins, and the number of rows.
    budget_s
        Seconds of work after which no more rows are tried.

    Notes
    -----
    What the aggregator takes comes on top of what the model has for a row and a fragment around it. The
    rows are worked on by group, and once more with every row as a group of its own (or, if most are one
    already, all as one group): the difference is what a state costs to make, to which shipping its bytes
    and merging it are added; the merging is kept apart too.
    """
    base = known_costs()
    if rows.num_rows == 0:
        return base
    n, spent, states = _enough_rows(aggregator, rows, starts, budget_s)
    part, groups = rows.slice(0, n), states.num_rows
    state_us = 0.0
    if 2 * groups <= n:
        apart_s, states = _timed(lambda: aggregator.update_groups(part, np.arange(n + 1)))
        state_us = max(0.0, apart_s - spent) / (n - groups) * 1e6
    elif groups > 1:
        together_s, _ = _timed(lambda: aggregator.update_groups(part, np.array([0, n])))
        state_us = max(0.0, spent - together_s) / (groups - 1) * 1e6
    update_us = max(spent * 1e6 - groups * state_us, 0.0) / n
    merge_us = state_us + states.nbytes / states.num_rows * _US_PER_BYTE
    joined_us = 0.0
    by_merge = [c for c in states.column_names if c not in aggregator.merges]
    if by_merge:
        partial, ends = states.select(by_merge), np.array([0, states.num_rows], np.int64)
        merged_s, _ = _timed(lambda: aggregator.merge_groups(partial, ends))
        joined_us = merged_s / states.num_rows * 1e6
    return base._replace(
        update_us=base.update_us + update_us,
        merge_us=base.merge_us + merge_us + joined_us,
        joined_us=base.joined_us + joined_us,
    )


def _enough_rows(
    aggregator: Aggregator, rows: pa.Table, starts: NDArray[np.int64], budget_s: float
) -> tuple[int, float, pa.Table]:
    """Work on more and more of the rows, until it takes long enough to be timed."""
    n = min(_FIRST_ROWS, rows.num_rows)
    first = np.append(starts[starts < n], n)
    aggregator.update_groups(
        rows.slice(0, n), first
    )  # what is done once, such as imports, is no cost
    while True:
        part, ends = rows.slice(0, n), np.append(starts[starts < n], n)
        spent, states = _timed(lambda p=part, e=ends: aggregator.update_groups(p, e))  # type: ignore[misc]
        if n == rows.num_rows or spent > budget_s / 4:
            return n, spent, states
        n = min(4 * n, rows.num_rows)


def _timed(job: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    begun = time.perf_counter()
    made = job()
    return time.perf_counter() - begun, made
