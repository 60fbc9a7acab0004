"""Batch replay on Spark: count the first tasks, plan, and take the plan or plain hashing.

A job's tasks hand out no map output before they all are done, so the rows that were counted are read
once more by the job itself: that is what replay comes to here.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.calibration import known_costs
from skewless.costs import Costs
from skewless.errors import ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.policy import Policy
from skewless.replay import FirstTasks, Gain, Replay, gain_of
from skewless.routing import Routing
from skewless.spark.aggregation import first_groups
from skewless.spark.aggregator import Aggregator
from skewless.spark.auto import measure
from skewless.spark.batch import Plan, fixed_routing, learned, plan, worker_of
from skewless.spark.expressions import bucket_column
from skewless.spark.keys import KeyColumns
from skewless.spark.policies import AUTO
from skewless.spark.statistics import unit_of
from skewless.spark.task_counts import counting
from skewless.spark.versions import slots_of

__all__ = ["Loads", "ReplayLike", "Replayed", "first_tasks", "found_loads", "replan", "replay_rule"]

ReplayLike = Replay | float

#: Keys that a task lists one by one at least, as the paper's code does.
_LISTED = 2_500


class Replayed(NamedTuple):
    """What came of the first tasks."""

    plan: Plan
    """The routing in force, and what it was learned from."""
    gain: Gain | None
    """The test; ``None`` if the first tasks could not be counted."""
    first: FirstTasks | None
    """What was counted."""


class Loads(NamedTuple):
    """What the workers get, all rows counted."""

    weight: NDArray[np.float64]
    """float64, (n_workers,)."""
    rows: int


def replay_rule(
    verb: str, replay: ReplayLike | None, policy: Policy | Routing | str
) -> Replay | None:
    """Return what ``replay=`` asks for.

    Raises
    ------
    ParameterError
        It is no part of the tasks, or the policy makes no plan.
    """
    if replay is None:
        return None
    rule = replay if isinstance(replay, Replay) else Replay(replay)
    plans = policy == AUTO if isinstance(policy, str) else fixed_routing(policy) is None
    if not plans:
        raise ParameterError(
            f"{verb}: replay={replay!r} plans from the first tasks, and policy {policy!r} plans "
            "nothing; take one that learns, such as KIP, or leave it out."
        )
    return rule


def replan(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy | Routing,
    replay: Replay,
    *,
    weight: Column | None = None,
    aggregator: Aggregator | None = None,
    strict: bool = False,
) -> Replayed:
    """Return the policy's plan from the first tasks if its gain pays, else plain hashing.

    Parameters
    ----------
    df, keys
        A batch frame and its key columns.
    policy
        Learns from the first tasks; the object stays as it was.
    replay
        How many tasks, and what a row costs.
    weight
        What a row weighs; 1 if left out.
    aggregator
        Timed on some rows if `replay` does not say what a row costs.
    strict
        Refuse instead of counting all keys on Spark Connect.

    Raises
    ------
    ParameterError
        `strict`, on Spark Connect.

    Notes
    -----
    One job over the first tasks, and none over the others. On Spark Connect, which does not tell the
    number of tasks, all keys are counted and the plan is taken.
    """
    if isinstance(policy, Routing):
        return Replayed(Plan(policy, None, 0.0, 0.0), None, None)
    if not hasattr(df, "_jdf"):
        if strict:
            raise ParameterError(
                "group_by: replay= counts the first tasks, and Spark Connect does not say how many there "
                "are; leave it out to count all keys."
            )
        return Replayed(plan(df, keys, policy, weight=weight), None, None)
    first = first_tasks(df, keys, policy, replay, weight=weight)
    begun = time.perf_counter()
    routing = learned(policy, first.histogram)
    learn_s = time.perf_counter() - begun
    costs = replay.costs
    if costs is None:
        costs = known_costs() if aggregator is None else _costs_of(df, keys, aggregator)
    gain = gain_of(first, routing, costs, slots=slots_of(df.sparkSession))
    if not gain.pays:
        routing = Routing.hashing(routing.n_workers, seed=policy.seed)
    return Replayed(Plan(routing, first.histogram, first.seconds, learn_s), gain, first)


def _costs_of(df: DataFrame, keys: KeyColumns, aggregator: Aggregator) -> Costs:
    return measure(*first_groups(df, keys, aggregator, "group_by"))


def first_tasks(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy,
    replay: Replay,
    *,
    weight: Column | None = None,
) -> FirstTasks:
    """Run the first tasks of a frame, each counting the keys of its rows.

    Notes
    -----
    A task sends its heaviest keys one by one, at least 2,500 of them, and all others by bucket: what
    the keys listed by one task weigh in another that does not list them stays in their bucket.

    Spark numbers the tasks; those of a scan of files begin with the largest files. Only the columns
    that make up the key are read, and the weight's. What lies before a shuffle runs in whole.
    """
    n_buckets = bucket_count(policy.n_workers)
    listed = max(2 * policy.n_workers, _LISTED, getattr(policy, "hot_keys", None) or 0)
    heavy = F.lit(1).cast("bigint")
    if weight is not None:
        heavy = F.coalesce(weight, F.lit(0))
    bucket = bucket_column(F.col("key"), n_buckets, policy.seed)
    rows = df.select(keys.hash.alias("key"), heavy.alias("weight")).select(
        "key", bucket.alias("bucket"), "weight"
    )
    kind = rows.schema["weight"].dataType.simpleString()
    layout = f"rows bigint, keys array<bigint>, weights array<{kind}>, tail array<{kind}>"
    shuffled = "Exchange" in df._jdf.queryExecution().executedPlan().toString()
    begun = time.perf_counter()
    # The one way to run some tasks of a frame and not the others.
    count = counting(listed, n_buckets, whole=kind == "bigint")
    tasks = rows.mapInArrow(count, layout).rdd
    of_tasks = tasks.getNumPartitions()
    n_tasks = replay.tasks(of_tasks)
    found: list[Any] = []
    if n_tasks:
        found = df.sparkSession.sparkContext.runJob(tasks, list, range(n_tasks))
    histogram = _merged(found, n_buckets, policy.seed)
    seconds = time.perf_counter() - begun
    n_rows = sum(row[0] for row in found)
    return FirstTasks(histogram, n_rows, n_tasks, of_tasks, seconds, shuffled)


def _merged(found: list[Any], n_buckets: int, seed: int) -> Histogram:
    """Return the histogram of several tasks, each with its keys, their weights and a tail."""
    listed: dict[int, Any] = {}
    tail: list[Any] = [0] * n_buckets
    for _, keys, weights, rest in found:
        for key, weight in zip(keys, weights, strict=True):
            listed[key] = listed.get(key, 0) + weight
        tail = [a + b for a, b in zip(tail, rest, strict=True)]
    scale = unit_of([], [*listed.values(), *tail])
    hashes = np.fromiter(listed, np.int64, len(listed)).view(np.uint64)
    counts = np.array([round(weight * scale) for weight in listed.values()], np.int64)
    return Histogram(hashes, counts, [round(weight * scale) for weight in tail], seed=seed)


def found_loads(
    df: DataFrame, keys: KeyColumns, routing: Routing, *, weight: Column | None = None
) -> Loads:
    """Count what every worker gets under a routing, over all rows, in one query."""
    worker = worker_of(df, keys, routing)[0]
    heavy = F.lit(1) if weight is None else F.coalesce(weight, F.lit(0))
    rows = df.select(worker.alias("worker"), heavy.alias("weight"))
    counted = rows.groupBy("worker").agg(F.sum("weight"), F.count(F.lit(1))).collect()
    loads = np.zeros(routing.n_workers)
    for at, total, _ in counted:
        loads[at] = total
    return Loads(loads, sum(n for _, _, n in counted))
