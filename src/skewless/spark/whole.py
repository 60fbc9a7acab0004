"""Whole groups: placed so that heavy ones do not share a task, handed to a function, never split."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.costs import makespan
from skewless.errors import DataError, ParameterError
from skewless.planners import OffGreedy
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.batch import (
    Plan,
    estimate,
    learned,
    place_by,
    plan,
    plan_auto,
    worker_of,
)
from skewless.spark.expressions import needs_salt
from skewless.spark.functions import CALLS, GroupFunction
from skewless.spark.keys import KeyColumns, fresh_name, quoted
from skewless.spark.policies import AUTO, LOCAL
from skewless.spark.versions import require_form, slots_of

__all__ = [
    "WholePlan",
    "apply_whole",
    "enough_as_spark_hashes",
    "plan_whole",
    "schema_of",
    "whole_of",
    "whole_rule",
    "with_worker",
]


class WholePlan(NamedTuple):
    """Where whole groups go, and why."""

    plan: Plan
    reason: str
    by_spark: NDArray[np.float64] | None = None
    """Loads where Spark's own hash places the groups; ``None`` where the routing does."""


_HASHED = "chosen by 'auto': plain hashing is balanced within a tenth"
#: Part that a plan must shorten the longest task by, and a longest task that is not left to Spark.
_GAIN, _UNEVEN = 1.1, 1.5


def plan_whole(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy | Routing | str,
    n_workers: int,
    *,
    weight: Column | None = None,
    strict: bool = False,
) -> WholePlan:
    """Return a routing that splits no key, and why it is the one.

    Under ``"auto"`` Spark's own hash places the groups where a plan would gain little
    (`enough_as_spark_hashes`).

    Raises
    ------
    ParameterError
        ``"local"``; with `strict` any policy or saved routing that splits keys.
    """
    rule, reason = whole_rule(policy, n_workers, strict=strict)
    if policy != AUTO or isinstance(rule, Routing):
        return WholePlan(plan(df, keys, rule, weight=weight), reason)
    if weight is not None:
        found = plan_auto(df, keys, rule, weight=weight)
        hashed = found.routing == Routing.hashing(n_workers)
        return WholePlan(found, _HASHED if hashed else reason)
    started = time.perf_counter()
    counted = estimate(df, keys, n_workers, by_spark=True)
    gathered = time.perf_counter()
    routing = learned(rule, counted.histogram)
    learn_s = time.perf_counter() - gathered
    found = Plan(routing, counted.histogram, gathered - started, learn_s, counted.sampled)
    plain, planned = counted.by_spark, routing.loads(counted.histogram)
    enough = plain is not None and enough_as_spark_hashes(plain, planned, slots_of(df.sparkSession))
    if not enough:
        return WholePlan(found, reason)
    return WholePlan(found._replace(routing=Routing.hashing(n_workers)), enough, plain)


def enough_as_spark_hashes(
    plain: NDArray[np.float64], planned: NDArray[np.float64], slots: int | None
) -> str:
    """Say why Spark's own hash is as good as a plan for whole groups; empty where it is not.

    Parameters
    ----------
    plain, planned
        Loads of the workers under Spark's hash and under the plan.
    slots
        Number of tasks that run side by side; ``None`` if it is not known.

    Notes
    -----
    It is, if the plan would make the longest task, or with few slots the whole stage, shorter by less
    than a tenth: the plan's worker, a column more in each call of the function, costs more. A task half
    as long again as the plan's is not left however few the slots: they may be more by the time that the
    job runs.

    Examples
    --------
    >>> planned = np.array([10.0, 10.0, 10.0, 10.0])
    >>> enough_as_spark_hashes(np.array([12.0, 10.0, 9.0, 9.0]), planned, slots=4)
    ''
    >>> enough_as_spark_hashes(np.array([12.0, 10.0, 9.0, 9.0]), planned, slots=2)
    "chosen by 'auto': tasks that hashing makes uneven take turns on 2 slots, so a plan would gain less \
than a tenth"
    """
    longest = float(planned.max())
    if float(plain.max()) <= _GAIN * float(plain.mean()):
        return _HASHED
    if float(plain.max()) <= _GAIN * longest:
        return "chosen by 'auto': a plan would make the longest task shorter by less than a tenth"
    if slots is None or float(plain.max()) > _UNEVEN * longest:
        return ""
    if makespan(plain, slots) > _GAIN * makespan(planned, slots):
        return ""
    return (
        f"chosen by 'auto': tasks that hashing makes uneven take turns on {slots} slots, so a plan "
        "would gain less than a tenth"
    )


def whole_rule(
    policy: Policy | Routing | str, n_workers: int, *, strict: bool = False
) -> tuple[Policy | Routing, str]:
    """Return what places whole groups under a policy, and why it is that.

    Raises
    ------
    ParameterError
        ``"local"``; with `strict` any policy or saved routing that splits keys.

    Examples
    --------
    >>> whole_rule("auto", 4)
    (OffGreedy(4), "chosen by 'auto': heavy groups are placed first, each on the emptiest worker")
    """
    if policy == LOCAL:
        raise ParameterError(
            "apply: policy 'local' combines parts of a group where they are, and a function takes "
            "whole groups; use another policy, or write an Aggregator."
        )
    if isinstance(policy, Routing):
        if not needs_salt(policy):
            return policy, "asked for by policy="
        if strict:
            raise ParameterError(
                f"apply: the routing splits keys ({len(policy.split_keys)} listed ones), and a "
                "function takes whole groups; use a routing that keeps keys whole, or leave "
                "strict=True out to fall back."
            )
        reason = "the routing splits keys; each stays whole where it has its greatest share"
        return whole_of(policy), reason
    if isinstance(policy, Policy):
        if not policy.splits_keys:
            return policy, "asked for by policy="
        if strict:
            raise ParameterError(
                f"apply: {policy!r} splits keys, and a function takes whole groups; use OffGreedy "
                "or another policy that keeps keys whole, or leave strict=True out to fall back."
            )
        whole = OffGreedy(policy.n_workers, seed=policy.seed)
        return whole, f"{policy!r} splits keys, which a function over whole groups forbids"
    reason = "chosen by 'auto': heavy groups are placed first, each on the emptiest worker"
    return OffGreedy(n_workers), reason


def whole_of(routing: Routing) -> Routing:
    """Return the routing with every split key whole, at the worker that has most of it.

    Examples
    --------
    >>> whole_of(Routing(3, {7: {0: 0.2, 2: 0.8}}, [0, 1, 2])).hot
    {7: {2: 1.0}}
    """
    hot = {
        key: {max(shares, key=lambda worker: (shares[worker], -worker)): 1.0}
        for key, shares in routing.hot.items()
    }
    n_buckets = len(routing.buckets)
    hashed = np.arange(n_buckets) * routing.n_workers // n_buckets
    if n_buckets < routing.n_workers:
        return Routing(
            routing.n_workers, hot, Routing.hashing(routing.n_workers).buckets, seed=routing.seed
        )
    buckets = np.where(routing.buckets < 0, hashed, routing.buckets)
    return Routing(routing.n_workers, hot, buckets, seed=routing.seed)


def apply_whole(
    df: DataFrame,
    keys: KeyColumns,
    found: WholePlan | None,
    function: GroupFunction,
    schema: StructType | str,
) -> DataFrame:
    """Hand every group to the function; ``None`` leaves the placing to Spark."""
    require_form(df.sparkSession, "apply", function.form)
    by, ours = list(keys.columns), 0
    if found is None:
        placed = df
    elif found.by_spark is not None:
        # With a number of partitions, adaptive execution does not merge them.
        placed = df.repartition(found.plan.routing.n_workers, *by)
    else:
        routing = found.plan.routing
        placed, name = with_worker(df, worker_of(df, keys, routing)[0], routing.n_workers)
        by, ours = [*by, F.col(quoted(name))], 1
    groups = placed.groupBy(*by)
    call = CALLS[function.form]("apply", function, schema_of(schema).fieldNames(), ours)
    apply: Any = groups.applyInPandas if "pandas" in function.form else groups.applyInArrow
    made: DataFrame = apply(call, schema)
    return made


def with_worker(df: DataFrame, worker: Column, n_workers: int) -> tuple[DataFrame, str]:
    """Return the rows on their workers, the worker in one more column, last, and its name.

    Grouping by the keys and the worker then needs no further exchange.
    """
    name = fresh_name(df, "worker")
    return place_by(df.withColumn(name, worker), n_workers, name), name


def schema_of(schema: StructType | str) -> StructType:
    """Return the schema of a function's result.

    Raises
    ------
    DataError
        It is neither a `StructType` nor text that lists columns.
    """
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise DataError(
            f"apply: schema must be a StructType or text such as 'k string, n long', got "
            f"{type(schema).__name__}."
        )
    from pyspark.sql.types import _parse_datatype_string

    parsed = _parse_datatype_string(schema)
    if not isinstance(parsed, StructType):
        raise DataError(f"apply: schema {schema!r} is not a list of 'name type' columns.")
    return parsed
