"""Whole groups: placed so that heavy ones do not share a task, handed to a function, never split."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.errors import DataError, ParameterError
from skewless.planners import OffGreedy
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.batch import Plan, plan, plan_auto, worker_of
from skewless.spark.expressions import needs_salt
from skewless.spark.functions import CALLS, GroupFunction
from skewless.spark.keys import KeyColumns, fresh_name, quoted
from skewless.spark.policies import AUTO, LOCAL
from skewless.spark.versions import require_form

__all__ = ["apply_whole", "plan_whole", "schema_of", "whole_of", "whole_rule", "with_worker"]


def plan_whole(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy | Routing | str,
    n_workers: int,
    *,
    weight: Column | None = None,
    strict: bool = False,
) -> tuple[Plan, str]:
    """Return a routing that splits no key, and why it is the one.

    Raises
    ------
    ParameterError
        ``"local"``; with `strict` any policy or saved routing that splits keys.
    """
    rule, reason = whole_rule(policy, n_workers, strict=strict)
    if policy != AUTO or isinstance(rule, Routing):
        return plan(df, keys, rule, weight=weight), reason
    found = plan_auto(df, keys, rule, weight=weight)
    if found.routing == Routing.hashing(n_workers):
        reason = "chosen by 'auto': plain hashing is balanced within a tenth"
    return found, reason


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
    routing: Routing | None,
    function: GroupFunction,
    schema: StructType | str,
) -> DataFrame:
    """Hand every group to the function; ``None`` leaves the placing to Spark."""
    worker = F.lit(0) if routing is None else worker_of(df, keys, routing)[0]
    placed, name = with_worker(df, worker, None if routing is None else routing.n_workers)
    groups = placed.groupBy(F.col(quoted(name)), *keys.columns)
    require_form(df.sparkSession, "apply", function.form)
    call = CALLS[function.form]("apply", function, schema_of(schema).fieldNames())
    apply: Any = groups.applyInPandas if "pandas" in function.form else groups.applyInArrow
    made: DataFrame = apply(call, schema)
    return made


def with_worker(df: DataFrame, worker: Column, n_workers: int | None) -> tuple[DataFrame, str]:
    """Return the rows on their workers, the worker in one more column, last, and its name.

    ``None`` adds the column only. Grouping by the worker and the keys then needs no further exchange.
    """
    from skewless.spark.batch import place_by

    name = fresh_name(df, "worker")
    placed = df.withColumn(name, worker)
    return (placed if n_workers is None else place_by(placed, n_workers, name)), name


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
