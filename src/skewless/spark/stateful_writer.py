"""The writer of a stateful stream: what ``writeStream`` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from skewless.errors import DataError, ParameterError

if TYPE_CHECKING:
    from skewless.spark.stateful import Stateful

__all__ = ["StatefulWriter"]


class StatefulWriter:
    """How a stateful stream is written: the methods of Spark's ``DataStreamWriter`` that apply."""

    def __init__(self, stream: Stateful) -> None:
        self._stream = stream
        self._options: dict[str, Any] = {}
        self._sink_options: dict[str, Any] = {}
        self._format = "parquet"
        self._name: str | None = None
        self._trigger: dict[str, Any] = {}
        self._sink: Callable[[DataFrame, int], Any] | None = None

    def option(self, key: str, value: Any) -> StatefulWriter:
        """Set an option: ``checkpointLocation`` for the query, ``path`` and others for the sink."""
        target = self._options if key.lower() == "checkpointlocation" else self._sink_options
        target["checkpointLocation" if target is self._options else key] = value
        return self

    def options(self, **options: Any) -> StatefulWriter:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def format(self, source: str) -> StatefulWriter:
        """Name the file format of `start`'s folder; Parquet if it is not called, ``"noop"`` for none."""
        self._format = source
        return self

    def queryName(self, name: str) -> StatefulWriter:  # noqa: N802 - as Spark calls it
        """Name the query."""
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> StatefulWriter:
        """Say when a batch runs, as for ``DataStreamWriter.trigger``."""
        self._trigger = trigger
        return self

    def foreachBatch(self, function: Callable[[DataFrame, int], Any]) -> StatefulWriter:  # noqa: N802
        """Hand the output rows of each batch to a function of the frame and the batch id.

        The frame reads what the batch recorded. After a crash the function may get the same rows with
        the same id once more, as in Structured Streaming: let it write by id.
        """
        if not callable(function):
            raise DataError(f"foreachBatch: takes a function, got {type(function).__name__}.")
        self._sink = function
        return self

    def start(self, path: str | None = None) -> StreamingQuery:
        """Start the query.

        Parameters
        ----------
        path
            Folder for the output rows; each batch writes ``batch=<id>`` in it, whole, so that a batch
            which is handed over twice is there once.

        Raises
        ------
        ParameterError
            There is no checkpoint, or no sink, or two.
        """
        checkpoint = self._options.get("checkpointLocation")
        if checkpoint is None:
            raise ParameterError(
                f"{self._stream.verb}: set .option('checkpointLocation', ...): batches are committed by "
                "its ids."
            )
        folder = path or self._sink_options.pop("path", None)
        if (folder is None) == (self._sink is None) and self._format != "noop":
            raise ParameterError(
                f"{self._stream.verb}: give foreachBatch(function), start(path) or format('noop'): one "
                "of them."
            )
        sink = self._sink if folder is None else self._to_folder(str(folder))
        stream = self._stream

        def run(batch_df: DataFrame, batch: int) -> None:
            stream._run(batch_df, batch, str(checkpoint), sink)

        writer = stream._df.writeStream.foreachBatch(run).options(**self._options)
        if self._name is not None:
            writer = writer.queryName(self._name)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        return writer.start()

    def _to_folder(self, folder: str) -> Callable[[DataFrame, int], None]:
        source, options = self._format, dict(self._sink_options)

        def write(rows: DataFrame, batch: int) -> None:
            target = f"{folder.rstrip('/')}/batch={batch}"
            rows.write.format(source).mode("overwrite").options(**options).save(target)

        return write
