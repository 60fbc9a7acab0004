"""The number of partitions that a checkpoint fixes for a query's state: read it, warn of it, change it.

Spark hashes the keys of a stateful operator to as many partitions as ``spark.sql.shuffle.partitions``
said when the query first ran; a restart with another number goes on with the old one, in silence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from skewless.errors import DataError
from skewless.parameters import Count, check
from skewless.spark.versions import version_of

__all__ = ["repartition_state", "state_partitions", "warning_of"]

_SETTING = "spark.sql.shuffle.partitions"


def repartition_state(spark: SparkSession, checkpoint: str, partitions: Count) -> None:
    """Spread the state of a stopped query over another number of partitions.

    Parameters
    ----------
    spark
        A classic session of Spark 4.2 or newer.
    checkpoint
        The query's ``checkpointLocation``.
    partitions
        Partitions from now on, at least 1 and not what it has.

    Raises
    ------
    ParameterError
        `partitions` is out of range.
    DataError
        This Spark cannot do it, there is no checkpoint, a query of this session that runs uses it, or
        Spark refused. Nothing is changed then.

    Notes
    -----
    Spark writes one more batch that holds the state anew, and the next start goes on from there. Keys
    are still placed by their hash, so this makes partitions smaller; a key that is hot stays in one. A
    query of another program cannot be seen from here: stop it first. The state folder of `stateful`
    needs none of this: its `workers` may change at any restart.

    Examples
    --------
    >>> repartition_state(spark, "checkpoints/clicks", 64)  # doctest: +SKIP
    """
    check("repartition_state", repartition_state, partitions=partitions)
    if not hasattr(spark, "_jsparkSession"):
        raise DataError(
            "repartition_state: Spark Connect cannot do it; use a classic session for this one call."
        )
    if version_of(spark) < (4, 2):
        raise DataError(
            f"repartition_state: needs Spark 4.2 or newer, and this one is {spark.version}; run the "
            f"query from a new checkpoint with {_SETTING}={partitions} instead."
        )
    _require_stopped(spark, checkpoint)
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, partitions)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(
            f"repartition_state: Spark left {checkpoint!r} as it was: {reason}"
        ) from error


def _require_stopped(spark: SparkSession, checkpoint: str) -> None:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(jvm.org.apache.hadoop.fs.Path(path, "offsets")):
        raise DataError(
            f"repartition_state: {checkpoint!r} is no checkpoint of a query that has run (it holds no "
            "folder offsets); give the query's checkpointLocation."
        )
    wanted = files.makeQualified(path).toString()
    for query in spark.streams.active:
        inner = query._jsq
        inner = inner.streamingQuery() if hasattr(inner, "streamingQuery") else inner
        used = jvm.org.apache.hadoop.fs.Path(inner.resolvedCheckpointRoot())
        if files.makeQualified(used).toString() == wanted:
            raise DataError(
                f"repartition_state: query {query.name or query.id} runs on {checkpoint!r}; stop it "
                "first."
            )


def state_partitions(progress: str | Mapping[str, Any]) -> int | None:
    """Return the partitions of a query's state, from its progress as JSON text or parsed.

    ``None`` if it keeps no state or does not say.

    Examples
    --------
    >>> state_partitions({"stateOperators": [{"numShufflePartitions": 4}]})
    4
    """
    try:
        found = json.loads(progress) if isinstance(progress, str) else progress
        counts = [operator.get("numShufflePartitions") for operator in found["stateOperators"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return next((n for n in counts if isinstance(n, int) and n > 0), None)


def warning_of(has: int | None, wanted: int) -> str:
    """Return what to tell the user if the state has other partitions than the session asks for.

    Empty if all is well.

    Examples
    --------
    >>> print(warning_of(4, 16))
    the checkpoint keeps this query's state in 4 partitions, not in the 16 of spark.sql.shuffle.partitions: a restart does not change them. Stop the query and call skewless.spark.repartition_state(spark, checkpoint, 16) (Spark 4.2 or newer), or begin with a new checkpoint.
    """  # noqa: E501 - what is logged is one line
    if has is None or has == wanted:
        return ""
    return (
        f"the checkpoint keeps this query's state in {has} partitions, not in the {wanted} of "
        f"{_SETTING}: a restart does not change them. Stop the query and call "
        f"skewless.spark.repartition_state(spark, checkpoint, {wanted}) (Spark 4.2 or newer), or begin "
        "with a new checkpoint."
    )
