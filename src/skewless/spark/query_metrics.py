"""The metrics of a query as a DataFrame: one row per micro-batch."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skewless.operations import BatchMetrics, MetricsFile

__all__ = ["SCHEMA", "metrics_frame", "read_metrics"]

#: Columns of the frame and their Spark types; what is not known is null.
_COLUMNS = {
    "batch": "bigint not null",
    "started": "timestamp",
    "seconds": "double",
    "interval_s": "double",
    "rows": "bigint not null",
    "max_over_mean": "double not null",
    "loads": "array<bigint> not null",
    "workers": "int not null",
    "active": "int",
    "policy": "string",
    "version": "int not null",
    "hot_keys": "int",
    "split_keys": "int",
    "extra_fragments": "int",
    "n_keys": "bigint",
    "hot": "array<struct<key: bigint, rows: bigint, workers: int>>",
    "behind": "bigint",
    "event_lag_s": "double",
    "rows_total": "bigint",
    "batches_total": "bigint",
    "query": "string",
    "run": "string",
    "name": "string",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())


def read_metrics(session: SparkSession, folder: str, *, last: int | None = None) -> DataFrame:
    """Return what a query noted beside its policy log, one row per micro-batch.

    Parameters
    ----------
    session
        Any session; the query may run in another process, or have ended.
    folder
        The folder that the query names as ``state=``, on storage that this process can reach.
    last : int of at least 1 or None
        The last so many batches only.

    Returns
    -------
    DataFrame
        Columns as in `SCHEMA`, in the order of writing.

    Raises
    ------
    DataError
        There is no metrics file in the folder.

    Examples
    --------
    >>> read_metrics(spark, "/shared/policy").select("batch", "max_over_mean")  # doctest: +SKIP
    """
    return metrics_frame(session, MetricsFile(folder).read(last).batches)


def metrics_frame(session: SparkSession, batches: list[BatchMetrics]) -> DataFrame:
    """Return metrics as a frame."""
    return session.createDataFrame([_cells(one) for one in batches], SCHEMA)


def _cells(one: BatchMetrics) -> tuple[Any, ...]:
    row = one.as_row()
    started = one.timing.started_s
    row["started"] = None if started is None else datetime.fromtimestamp(started, timezone.utc)
    for name in ("seconds", "interval_s", "event_lag_s"):
        row[name] = None if row[name] is None else float(row[name])
    row["hot"] = None if one.hot_keys is None else [tuple(key) for key in one.hot]
    return tuple(row[name] for name in _COLUMNS)
