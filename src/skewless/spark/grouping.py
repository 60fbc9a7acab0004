"""``group_by``: keyed rows, batch or streaming, with plain Spark's rows and schema under any policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from skewless.errors import ParameterError
from skewless.spark.batch import check_frame, default_workers
from skewless.spark.batch_groups import BatchGroups
from skewless.spark.elastic import ElasticLike, elastic_policy
from skewless.spark.keys import resolve_keys
from skewless.spark.policies import AUTO, PolicyLike, resolve_policy
from skewless.spark.replaying import ReplayLike, replay_rule
from skewless.spark.weights import weight_column

if TYPE_CHECKING:
    from skewless.spark.streaming import StreamGroups

__all__ = ["group_by"]


def group_by(
    df: DataFrame,
    *keys: str,
    policy: PolicyLike = AUTO,
    workers: int | None = None,
    state: str | None = None,
    weight: str | Column | None = None,
    strict: bool = False,
    elastic: ElasticLike | None = None,
    replay: ReplayLike | None = None,
) -> BatchGroups | StreamGroups:
    """Group rows by key columns; what is then computed equals plain Spark, whatever the policy.

    Parameters
    ----------
    df
        A batch or streaming frame.
    *keys
        Names of the key columns. Null is a key.
    policy
        A policy object (``Dalton(64)``), a saved `Routing`, or a name: any partitioner or planner,
        ``"local"`` (combine where the rows are), ``"spark"`` (leave it to Spark), or ``"auto"``.
    workers
        Number of workers for a policy given by name; ``spark.sql.shuffle.partitions`` if left out.
    state
        Streaming only: folder for the policy's files, on storage that driver and executors share.
    weight
        What a plan balances instead of rows: the name of a numeric column, a numeric expression, or
        ``"bytes"`` for the estimated size of the rows. On a stream only with
        ``window(..., mode="planned")``.
    strict
        Batch only: refuse, instead of falling back, where a policy cannot be used as it is.
    elastic
        Streaming only: ``(fewest, most)`` active workers, or `ActiveWorkers` with an interval and
        thresholds; ``most`` is the number of workers. Batches that take nearly their interval
        activate one more, and short ones retire one.
    replay
        Batch only, with a policy that learns: the part of the input tasks whose rows are counted, or
        `skewless.Replay` with what a row costs. The policy's plan is taken if the cost model says that
        it gains more than routing those rows again takes; otherwise rows are hashed, and ``explain()``
        says so. Left out, all rows are counted.

    Returns
    -------
    BatchGroups or StreamGroups
        By whether `df` is streaming.

    Raises
    ------
    ParameterError
        The policy, the number of workers, `state` or `replay` cannot be used.
    DataError
        A key column is missing or cannot be grouped by.

    Examples
    --------
    >>> import skewless
    >>> groups = skewless.group_by(df, "user", policy="wrap_around", workers=8)  # doctest: +SKIP
    >>> groups.agg(F.sum("amount")).show()  # doctest: +SKIP
    """
    check_frame("group_by", df)
    columns = resolve_keys("group_by", df, keys)
    if elastic is None:
        chosen = resolve_policy("group_by", policy, workers, default_workers(df, workers))
    else:
        chosen, workers = elastic_policy("group_by", df, policy, workers, elastic)
    if df.isStreaming:
        from skewless.spark.streaming import StreamGroups

        if replay is not None:
            raise ParameterError(
                f"group_by: replay={replay!r} counts the first tasks of a batch frame; a streaming query "
                "learns from batch to batch. Leave it out."
            )
        heavy = weight_column("group_by", df, weight)
        return StreamGroups(df, columns, chosen, workers, state, heavy)
    if state is not None:
        raise ParameterError(
            f"group_by: state={state!r} keeps what a streaming query learns between batches, but "
            "this frame is not streaming; leave it out."
        )
    heavy = weight_column("group_by", df, weight)
    return BatchGroups(
        df,
        columns,
        chosen,
        default_workers(df, workers),
        keys,
        weight=heavy,
        strict=strict,
        replay=replay_rule("group_by", replay, chosen),
    )
