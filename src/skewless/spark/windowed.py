"""Aggregates per key and window of a stream: tumbling and sliding windows, by panes or running totals."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.errors import ParameterError
from skewless.spark import panes, running_totals
from skewless.spark.aggregation import Prepared, combine
from skewless.spark.aggregator import Aggregator
from skewless.spark.keys import quoted
from skewless.spark.policies import SPARK
from skewless.spark.running import States
from skewless.spark.running_totals import PaneSums
from skewless.spark.stream_routing import StreamRouting
from skewless.spark.timed import TimedGroups, checked_aggregates

__all__ = ["WindowedGroups"]


class WindowedGroups(TimedGroups):
    """A stream grouped by keys and windows; `agg` and `aggregate` return a streaming frame."""

    def __init__(
        self,
        routing: StreamRouting,
        time: str,
        watermark: str | None,
        size: str,
        slide: str,
        size_us: int,
        slide_us: int,
        use_panes: bool,
        running: bool,
    ) -> None:
        super().__init__(routing, time, watermark)
        self._size, self._slide, self._size_us, self._slide_us = size, slide, size_us, slide_us
        self._panes, self._running = use_panes, running

    def agg(self, *aggregates: Column) -> DataFrame:
        """Return Spark's aggregates per key and window, with plain Spark's rows and schema.

        Parameters
        ----------
        *aggregates
            Columns such as ``F.count("*")``.

        Raises
        ------
        ParameterError
            ``running=True``, and an aggregate has no inverse.
        """
        checked_aggregates(aggregates)
        keys = self._keys.columns
        plain = self._watermarked(self._df).groupBy(self._window(), *keys).agg(*aggregates)
        if self._policy == SPARK and not self._running:
            return plain
        fields = plain.schema.fields[len(keys) + 1 :]
        parts = [
            panes.decompose(a, i, f)
            for i, (a, f) in enumerate(zip(aggregates, fields, strict=True))
        ]
        if self._running:
            return self._running_agg(plain, parts)
        whole = [part for part in parts if part is not None]
        routed = self._watermarked(self._routing.routed())
        if not (self._panes and self._slides and len(whole) == len(parts)):
            return routed.groupBy(self._window(), *keys).agg(*aggregates)
        return panes.pane_aggregate(
            routed,
            F.col(quoted(self._time)),
            self._size,
            self._slide,
            self._pane_us,
            keys,
            whole,
        )

    def aggregate(self, aggregator: Aggregator) -> DataFrame:
        """Return an aggregator's result columns per key and window.

        The combine stage updates one state per task, key and pane; the states then go into the windows
        as rows and are merged there by Spark's own aggregates, and by the aggregator's `merge` what
        these cannot merge. Append, update and complete mode; append only with ``running=True``.

        Parameters
        ----------
        aggregator
            Any; with ``running=True`` one whose state columns are merged by ``"sum"`` or, all the
            others, by a `merge` that has a `subtract`.

        Raises
        ------
        DataError
            There is no ``watermark=``, or the aggregator does not fit the stream.
        ParameterError
            ``running=True``, and the aggregator has no inverse.
        """
        prepared = self._prepared(aggregator)
        if self._running:
            return self._by_totals(self._routing.routed(), prepared, _invertible(prepared))
        combined = combine(
            self._routing.routed(), self._keys, prepared, self._time, self._pane_us
        ).withWatermark(self._time, str(self._watermark))
        merged = combined.groupBy(self._window(), *self._keys.columns).agg(*prepared.merged())
        return self._finished(prepared, merged)

    def _running_agg(self, plain: DataFrame, parts: list[panes.Decomposed | None]) -> DataFrame:
        """Return count, sum and avg by running totals; `plain` says the schema."""
        fields = plain.schema.fields[len(self._keys.names) + 1 :]
        for part, field in zip(parts, fields, strict=True):
            kinds = [] if part is None else [kind for _, kind in part.addends or []]
            if not kinds or None in map(running_totals.kind_of_sum, kinds):
                raise ParameterError(
                    f"agg: running=True needs aggregates with an inverse (count, and sum and avg of "
                    f"numbers), got {field.name!r}; leave it out."
                )
        lasting = [part for part in parts if part is not None]
        added = [addend for part in lasting for addend in part.addends or []]
        rows = self._routing.routed().select(
            F.col(quoted(self._time)), *self._keys.columns, *[column for column, _ in added]
        )
        names = rows.columns[len(self._keys.names) + 1 :]
        sums = PaneSums([(name, kind) for name, (_, kind) in zip(names, added, strict=True)])
        prepared = Prepared("agg", rows, self._keys, sums)
        found = self._by_totals(rows, prepared, _invertible(prepared))
        final = [part.final for part in lasting if part.final is not None]
        return found.select("window", *self._keys.columns, *final)

    def _by_totals(self, rows: DataFrame, prepared: Prepared, totals: States | None) -> DataFrame:
        window = self._watermarked(self._df).groupBy(self._window()).count().schema.fields[0]
        spans = self._size_us, self._slide_us, self._pane_us
        watermark = str(self._watermark)
        return running_totals.running_windows(
            rows, self._keys, prepared, totals, self._time, watermark, spans, window
        )

    @property
    def _slides(self) -> bool:
        return self._slide_us < self._size_us

    @property
    def _pane_us(self) -> int:
        return panes.pane_us(self._size_us, self._slide_us)

    def _window(self) -> Column:
        return F.window(F.col(quoted(self._time)), self._size, self._slide)

    def _windows(self) -> list[str]:
        how = ""
        if self._running:
            how = (
                "windows: one aggregation per pane, then running totals: a window is what was added "
                "up to its end less what was added up to its start (append mode)."
            )
        elif self._slides and self._panes and self._policy != SPARK:
            how = (
                "windows: one aggregation per pane, then panes into windows (append mode), for "
                "aggregates that can be put together from partial results."
            )
        return [how] if how else []


def _invertible(prepared: Prepared) -> States | None:
    """Return how an aggregator subtracts, ``None`` if sums are all it has, or raise `ParameterError`."""
    aggregator = prepared.aggregator
    name = type(aggregator).__name__
    summed = [f for f in prepared.state.fields if aggregator.merges.get(f.name) == "sum"]
    kinds = [running_totals.kind_of_sum(f.dataType) for f in summed]
    for field in prepared.state.fields:
        how = aggregator.merges.get(field.name, "sum")
        if how != "sum":
            raise ParameterError(
                f"aggregate: running=True subtracts what leaves a window, and state column "
                f"{field.name!r} of {name} is merged by {how!r}, which has no inverse; leave it out."
            )
    if None in kinds:
        field = summed[kinds.index(None)]
        raise ParameterError(
            f"aggregate: running=True adds and subtracts numbers, and state column {field.name!r} of "
            f"{name} is {field.dataType.simpleString()}; leave it out."
        )
    if prepared.by_merge and type(aggregator).subtract is Aggregator.subtract:
        raise ParameterError(
            f"aggregate: running=True needs {name}.subtract(left, right), the inverse of its merge; "
            "write one, or leave running=True out."
        )
    if not prepared.by_merge:
        return None
    return States(
        aggregator,
        prepared.state.fieldNames(),
        [f.name for f in summed],
        [kind for kind in kinds if kind is not None],
    )
