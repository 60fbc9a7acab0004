"""What a state folder holds, as frames: the states after a batch, and the output that it recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.spark.python_workers import map_batches
from skewless.state_store.fragments import read_file
from skewless.state_store.manifest import DataFile, Manifest
from skewless.state_store.reader import fragment_rows, row_schema
from skewless.state_store.storage import Storage
from skewless.state_store.store import StateStore

__all__ = ["batch_output", "read_state"]


def batch_output(
    session: SparkSession, storage: Storage, manifest: Manifest, schema: StructType
) -> DataFrame:
    """Return the recorded output of a batch."""
    return _frame(
        session,
        _file_reader(storage, manifest.output, manifest.outputs),
        schema,
        len(manifest.output),
    )


def _frame(
    session: SparkSession,
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
    n_parts: int,
) -> DataFrame:
    return map_batches(session.range(0, n_parts, 1, max(1, n_parts)), read, schema)


def _file_reader(
    storage: Storage, files: tuple[DataFile, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for index in part.column(0).to_pylist():
                yield from read_file(storage, files[index]).cast(schema).to_batches()

    return read


def read_state(session: SparkSession, folder: str, *, batch: int | None = None) -> DataFrame:
    """Return the state of a stateful query as a batch frame.

    Parameters
    ----------
    session
        The Spark session.
    folder
        What the query names as ``state=``.
    batch
        The state after this batch, one of the last few that are kept; the newest if left out.

    Returns
    -------
    DataFrame
        Key columns, state columns, ``_worker`` (the owner) and ``_timer``.

    Raises
    ------
    DataError
        The folder holds no such state.

    Examples
    --------
    >>> read_state(spark, "/shared/state").orderBy("user").show()  # doctest: +SKIP
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    manifest = StateStore(folder).of_batch(batch)

    def read(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = StateStore(folder)
        for part in parts:
            for index in part.column(0).to_pylist():
                yield from fragment_rows(store, manifest, index).to_batches()

    schema = from_arrow_schema(row_schema(manifest))
    return _frame(session, read, schema, len(manifest.fragments))
