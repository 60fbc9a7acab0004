"""The first rows of each partition: hot partitions are cut, and each part sends only its own first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from skewless.errors import DataError, ParameterError
from skewless.parameters import Range, check
from skewless.planners import WrapAround
from skewless.policy import Policy
from skewless.routing import EVERY_WORKER, Routing
from skewless.spark.batch import (
    check_frame,
    default_workers,
    place_by,
    plan,
    plan_auto,
    worker_of,
)
from skewless.spark.expressions import needs_salt
from skewless.spark.keys import KeyColumns, fresh_name, quoted, resolve_keys
from skewless.spark.policies import AUTO, LOCAL, SPARK, PolicyLike, resolve_policy
from skewless.spark.sort_order import OrderLike, resolve_order, tie_breakers
from skewless.spark.split_keys import hash_in

__all__ = ["batch_only", "dedupe", "leaves_to_spark", "names_of", "window_top_n"]

#: The rank functions that `ties` names.
_RANKS: dict[str, Callable[[], Column]] = {
    "row_number": F.row_number,
    "rank": F.rank,
    "dense_rank": F.dense_rank,
}


def window_top_n(
    df: DataFrame,
    partition_by: str | Sequence[str],
    order_by: OrderLike,
    n: Annotated[int, Range(1)],
    *,
    ties: Literal["row_number", "rank", "dense_rank"] = "row_number",
    rank_column: str | None = None,
    policy: PolicyLike = AUTO,
    workers: int | None = None,
) -> DataFrame:
    """Return the `n` first rows of each partition, without one task that sorts a hot partition.

    Use it instead of ``row_number().over(...) <= n``. Not for what needs more than the first rows of
    a partition: that is `skewless.window`.

    Parameters
    ----------
    df
        A batch frame.
    partition_by
        Name of the key column, or names. Null is a key.
    order_by
        Names, or columns with a direction such as ``F.desc("v")``.
    n
        Rows per key; with ``"rank"`` and ``"dense_rank"`` the greatest rank that is kept.
    ties
        The function that numbers the rows. With ``"row_number"`` rows that `order_by` leaves equal are
        told apart by all other columns, ascending, in the order of the frame: so the result is always
        the same, and one that plain Spark may give.
    rank_column
        Name of one more column, last, that holds the number; left out, there is none.
    policy
        A policy object, a saved `Routing`, or a name. ``"auto"`` leaves to Spark what Spark limits
        before its shuffle (see Notes), hashes where that is balanced, and else is ``"wrap_around"``.
    workers
        Number of workers for a policy given by name; ``spark.sql.shuffle.partitions`` if left out.

    Returns
    -------
    DataFrame
        Rows and schema of the plain window and filter.

    Raises
    ------
    ParameterError
        `n`, `ties`, the policy or the number of workers cannot be used.
    DataError
        The frame is streaming, a column is missing, or cannot be grouped or ordered by.

    Notes
    -----
    From 3.5 on Spark itself keeps only the `n` first rows per key of each map task, if `n` is at most
    ``spark.sql.optimizer.windowGroupLimitThreshold`` (1000): a hot key then reaches the reduce stage
    as `n` rows a map task, and nothing is left to cut.

    Otherwise rows go to the policy's workers; each ranks its part of a key and keeps what is within
    `n`. Only those rows of split keys, at most `n` a fragment (and ties), meet in a second, small
    window; other keys are done after the first. A row that is among the first of a key is among the
    first of its part, so nothing is lost, and a row's rank among the kept rows is its rank among all
    if it is within `n`.

    A policy that learns counts the keys when this is called; all else is lazy.

    Examples
    --------
    >>> latest = skewless.window_top_n(df, "user", F.desc("ts"), 3)  # doctest: +SKIP
    """
    verb = "window_top_n"
    batch_only(verb, df)
    check(verb, window_top_n, n=n)
    if ties not in _RANKS:
        raise ParameterError(f"{verb}: ties must be one of {', '.join(_RANKS)}, got {ties!r}.")
    keys = resolve_keys(verb, df, names_of(verb, partition_by))
    order = resolve_order(verb, df, order_by)
    if rank_column is not None and rank_column.lower() in (c.lower() for c in df.columns):
        raise DataError(
            f"{verb}: rank_column={rank_column!r} is a column of the frame already; choose another "
            "name, or drop it first."
        )
    by = [key.column for key in order]
    if ties == "row_number":
        by += tie_breakers(df, [*keys.names, *(key.name for key in order)])
    return _first(verb, df, keys, by, n, ties, rank_column, policy, workers)


def dedupe(
    df: DataFrame,
    keys: str | Sequence[str],
    order_by: OrderLike | None = None,
    *,
    policy: PolicyLike = AUTO,
    workers: int | None = None,
) -> DataFrame:
    """Return one row per key, always the same one: the first by `order_by`, then by all other columns.

    Use it instead of ``dropDuplicates(keys)``, which keeps any row, and of ``row_number() == 1``, which
    keeps any of those that the order leaves equal.

    Parameters
    ----------
    df
        A batch frame.
    keys
        Name of the key column, or names. Null is a key.
    order_by
        Names, or columns with a direction such as ``F.desc("updated")``; left out, the order is that
        of all columns.
    policy, workers
        As for `window_top_n`.

    Returns
    -------
    DataFrame
        One whole row per key; columns, types and nullability of `df`.

    Raises
    ------
    ParameterError
        The policy or the number of workers cannot be used.
    DataError
        The frame is streaming, a column is missing, or cannot be grouped or ordered by.

    Notes
    -----
    Two rows that agree in all columns are the same row, so it does not matter which is kept. A map or a
    variant, which has no order, is compared by its JSON text. Columns that share their name with
    another break no ties.

    Examples
    --------
    >>> newest = skewless.dedupe(df, "user", F.desc("updated"))  # doctest: +SKIP
    """
    verb = "dedupe"
    batch_only(verb, df)
    columns = resolve_keys(verb, df, names_of(verb, keys, "keys"))
    order = [] if order_by is None else resolve_order(verb, df, order_by)
    by = [key.column for key in order]
    by += tie_breakers(df, [*columns.names, *(key.name for key in order)])
    by = by or [F.lit(0).asc()]  # the frame has no column but the keys
    return _first(verb, df, columns, by, 1, "row_number", None, policy, workers)


def batch_only(verb: str, df: DataFrame) -> None:
    """Raise unless `df` is a batch frame of Spark."""
    check_frame(verb, df)
    if df.isStreaming:
        raise DataError(
            f"{verb}: takes a batch DataFrame, and this one is streaming: the order of a key's rows is "
            "known only when all of them are there; use it inside foreachBatch, or "
            "group_by(...).window(...)."
        )


def names_of(verb: str, names: str | Sequence[str], parameter: str = "partition_by") -> list[str]:
    """Return one name or several as a list.

    Raises
    ------
    DataError
        Neither text nor a sequence.
    """
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Sequence):
        raise DataError(
            f"{verb}: {parameter} must be a column's name or a list of names, got "
            f"{type(names).__name__}."
        )
    return list(names)


def leaves_to_spark(df: DataFrame, n: int) -> bool:
    """Say whether Spark keeps only the `n` first rows per key of each map task by itself."""
    major, minor = (int(part) for part in str(df.sparkSession.version).split(".")[:2])
    if (major, minor) < (3, 5):
        return False
    limit = df.sparkSession.conf.get("spark.sql.optimizer.windowGroupLimitThreshold", "1000")
    return n <= int(str(limit))


def _first(
    verb: str,
    df: DataFrame,
    keys: KeyColumns,
    by: list[Column],
    n: int,
    ties: str,
    rank_column: str | None,
    policy: PolicyLike,
    workers: int | None,
) -> DataFrame:
    chosen = resolve_policy(verb, policy, workers, default_workers(df, workers))
    if chosen == LOCAL:
        raise ParameterError(
            f"{verb}: policy 'local' is what Spark does by itself for n up to 1000; use policy='spark' "
            "or another policy."
        )
    rank = rank_column or fresh_name(df, "rank")

    def within(rows: DataFrame, *groups: Column) -> DataFrame:
        window = Window.partitionBy(*groups).orderBy(*by)
        return rows.withColumn(rank, _RANKS[ties]().over(window)).where(F.col(quoted(rank)) <= n)

    if chosen == SPARK or (chosen == AUTO and leaves_to_spark(df, n)):
        kept = within(df, *keys.columns)
    else:
        kept = _cut(df, keys, _routing(df, keys, chosen, workers), within, rank)
    return kept if rank_column is not None else kept.drop(rank)


def _routing(
    df: DataFrame, keys: KeyColumns, chosen: Policy | Routing | str, workers: int | None
) -> Routing:
    if isinstance(chosen, str):
        return plan_auto(df, keys, WrapAround(default_workers(df, workers))).routing
    return plan(df, keys, chosen).routing


def _cut(
    df: DataFrame,
    keys: KeyColumns,
    routing: Routing,
    within: Callable[..., DataFrame],
    rank: str,
) -> DataFrame:
    """Rank each worker's part of a key; rank what is left of split keys once more."""
    worker = fresh_name(df, "worker")
    located = df.withColumn(worker, worker_of(df, keys, routing)[0])
    placed = place_by(located, routing.n_workers, worker)
    parts = within(placed, F.col(worker), *keys.columns).drop(worker)
    if not needs_salt(routing):
        return parts
    if (routing.buckets == EVERY_WORKER).any():
        return within(parts.drop(rank), *keys.columns)
    # The sign of the rank says whether the key is split. A condition on the key alone would be
    # pushed below the exchange, and then both branches would read and shuffle the frame.
    signed = F.when(hash_in(keys, routing.split_keys), F.col(quoted(rank))).otherwise(
        -F.col(quoted(rank))
    )
    marked = fresh_name(parts, "signed")
    flagged = parts.withColumn(marked, signed)
    done = flagged.where(F.col(marked) < 0).drop(marked)
    rest = flagged.where(F.col(marked) > 0).drop(marked, rank)
    return done.unionAll(within(rest, *keys.columns))
