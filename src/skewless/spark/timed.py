"""What windows and sessions of a stream have in common: the routing, the watermark, the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField

from skewless.errors import DataError
from skewless.spark import learning
from skewless.spark.aggregation import Prepared
from skewless.spark.aggregator import Aggregator
from skewless.spark.policies import AUTO, LOCAL, SPARK
from skewless.spark.stream_routing import StreamRouting

if TYPE_CHECKING:
    from skewless.spark.exact import SyncRecord

__all__ = ["TimedGroups", "checked_aggregates"]


class TimedGroups:
    """A stream grouped by keys and time.

    Parameters
    ----------
    routing
        Where the rows go.
    time
        Event-time column.
    watermark
        How late a row may be; ``None`` leaves the stream's own.
    """

    def __init__(self, routing: StreamRouting, time: str, watermark: str | None) -> None:
        self._routing, self._time, self._watermark = routing, time, watermark
        self._df, self._keys, self._policy = routing.df, routing.keys, routing.policy

    @property
    def batches(self) -> list[learning.BatchRecord]:
        """What each micro-batch observed, since the frame was made."""
        return [] if self._routing.loop is None else list(self._routing.loop.records)

    def metrics(self) -> DataFrame:
        """Return the metrics of the query, one row per micro-batch, runs before this one included.

        Raises
        ------
        DataError
            Nothing is routed, or no batch has been noted yet.
        """
        loop = self._routing.loop
        if loop is None:
            raise DataError(
                f"metrics: policy {self._policy!r} routes nothing, so nothing is noted; take a policy "
                "that learns, and state=."
            )
        from skewless.spark.query_metrics import read_metrics

        return read_metrics(self._df.sparkSession, str(loop.log.folder))

    @property
    def syncs(self) -> list[SyncRecord]:
        """In exact mode, the synchronisations of the partitioners so far."""
        return [] if self._routing.syncs is None else list(self._routing.syncs.records)

    @property
    def idle(self) -> bool:
        """Whether the loop has learned from everything that it was told so far."""
        return self._routing.loop is None or not self._routing.loop.busy

    @property
    def routes(self) -> bool:
        """Whether the query routes by a policy log and reports every batch."""
        return self._routing.loop is not None

    def explain(self) -> str:
        """Return the policy, its reason, and how rows are dealt, as text."""
        policy = self._policy
        lines = [f"policy: {policy}"]
        if policy in (AUTO, SPARK):
            lines.append(
                "reason: Spark combines its own aggregates on the map side, so heavy keys do not "
                "reach one task; nothing is routed."
            )
        elif policy == LOCAL:
            lines.append("reason: rows are combined in the task that read them; nothing is routed.")
        else:
            lines += self._routing.explain()
        return "\n".join([*lines, *self._windows()])

    def _windows(self) -> list[str]:
        """Say how windows are computed, if there is something to say."""
        return []

    def _watermarked(self, df: DataFrame) -> DataFrame:
        return df if self._watermark is None else df.withWatermark(self._time, self._watermark)

    def _prepared(self, aggregator: Aggregator) -> Prepared:
        if self._watermark is None:
            raise DataError(
                "aggregate: give window(..., watermark=...): the watermark is set on the combined "
                "states, after the Python stage."
            )
        return Prepared("aggregate", self._df, self._keys, aggregator)

    def _finished(self, prepared: Prepared, merged: DataFrame) -> DataFrame:
        kept: list[StructField] = merged.schema.fields[: len(self._keys.names) + 1]
        return prepared.finish(merged, kept)


def checked_aggregates(aggregates: tuple[Column, ...]) -> None:
    """Raise `DataError` unless there are aggregate columns."""
    if not aggregates or not all(isinstance(a, Column) for a in aggregates):
        raise DataError("agg: give one or more aggregate columns, such as F.count('*').")
