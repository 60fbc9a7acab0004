"""Functions over Arrow batches, run in Spark's Python workers without their full garbage collections."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

__all__ = ["keep_loaded", "map_batches"]

Batches = Iterator[pa.RecordBatch]


class _Seen:
    """What this process knows of its tasks."""

    first: int | None = None
    """The first of them, by attempt id."""
    kept: bool = False
    """Whether what it has loaded is frozen."""


def map_batches(
    df: DataFrame, function: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Return ``df.mapInArrow(function, schema)``, with `keep_loaded` before each task."""

    def run(parts: Batches) -> Batches:
        keep_loaded()
        yield from function(parts)

    return df.mapInArrow(run, schema)


def keep_loaded() -> None:
    """Take what this worker process has loaded out of the sight of the garbage collector, once.

    Notes
    -----
    PySpark's daemon runs a full collection after every task, and that visits every object of every
    library that was imported: about 50 ms of CPU a task, more than a small task's work. Where a second
    task begins, the libraries are loaded and that collection has just run, so what is alive is moved to
    the permanent generation (`gc.freeze`); it is still freed when nothing refers to it any more. On the
    driver this does nothing. Cheap enough to be called for every group.
    """
    if _Seen.kept:
        return
    context = TaskContext.get()
    if context is None:
        return
    task = context.taskAttemptId()
    if _Seen.first is None:
        _Seen.first = task
    elif task != _Seen.first:
        gc.freeze()
        _Seen.kept = True
