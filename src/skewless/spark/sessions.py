"""Sessions of a stream: runs of a key's rows with no pause longer than a gap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from skewless.spark.aggregation import (
    BUFFER_ROWS,
    Prepared,
    buffered,
    codes,
    update_states,
)
from skewless.spark.aggregator import Aggregator
from skewless.spark.keys import KeyColumns, quoted
from skewless.spark.policies import SPARK
from skewless.spark.python_workers import map_batches
from skewless.spark.stream_routing import StreamRouting
from skewless.spark.timed import TimedGroups, checked_aggregates
from skewless.spark.versions import arrow_schema, session_zone

__all__ = ["SessionGroups"]

#: Column of how long a run's session is, microseconds: from its first row to the gap after its last.
_LENGTH = "__skewless_length"
#: Column that says whether a row has a state.
_HAS = "__skewless_has"


class SessionGroups(TimedGroups):
    """A stream grouped by keys and sessions; `agg` and `aggregate` return a streaming frame."""

    def __init__(
        self, routing: StreamRouting, time: str, watermark: str | None, gap: str, gap_us: int
    ) -> None:
        super().__init__(routing, time, watermark)
        self._gap, self._gap_us = gap, gap_us

    def agg(self, *aggregates: Column) -> DataFrame:
        """Return Spark's aggregates per key and session, with plain Spark's rows and schema.

        Parameters
        ----------
        *aggregates
            Columns such as ``F.count("*")``.
        """
        checked_aggregates(aggregates)
        spark = self._policy == SPARK
        rows = self._watermarked(self._df if spark else self._routing.routed())
        session = F.session_window(F.col(quoted(self._time)), self._gap)
        return rows.groupBy(session, *self._keys.columns).agg(*aggregates)

    def aggregate(self, aggregator: Aggregator) -> DataFrame:
        """Return an aggregator's result columns per key and session, append mode.

        The combine stage updates one state per task, key and run of rows; Spark then joins runs to
        sessions and merges their states.

        Parameters
        ----------
        aggregator
            Any.

        Raises
        ------
        DataError
            There is no ``watermark=``, or the aggregator does not fit the stream.

        Notes
        -----
        A row that is late is dropped, as in plain Spark, unless in its task and batch it continues into
        rows that are not: a run is late only if all of it is.
        """
        prepared = self._prepared(aggregator)
        runs = _combine_runs(self._routing.routed(), self._keys, prepared, self._time, self._gap_us)
        length = F.concat(F.col(_LENGTH).cast("string"), F.lit(" microseconds"))
        session = F.session_window(F.col(quoted(self._time)), length).alias("session_window")
        merged = (
            runs.withWatermark(self._time, str(self._watermark))
            .groupBy(session, *self._keys.columns)
            .agg(*prepared.merged(F.col(_HAS)))
        )
        return self._finished(prepared, merged)


def _combine_runs(
    df: DataFrame, keys: KeyColumns, prepared: Prepared, time: str, gap_us: int
) -> DataFrame:
    """Return one state per task, key and run of rows without a pause, at the time of its first row.

    A run of several rows also gets a row without a state at the time of its last, so that the watermark
    stands where it would on the rows; it lies in the same session.
    """
    fields = {f.name: f for f in df.schema.fields}
    heads = [StructField(name, fields[name].dataType) for name in (*keys.names, time)]
    heads += [StructField(_LENGTH, LongType()), StructField(_HAS, BooleanType())]
    schema = StructType([*heads, *prepared.state.fields])
    out = arrow_schema(schema, session_zone(df.sparkSession))
    aggregator, inputs, names = prepared.aggregator, prepared.inputs, list(keys.names)
    wanted = list(dict.fromkeys([*names, time, *inputs]))

    def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for held in buffered(batches, BUFFER_ROWS):
            rows = held.filter(held[time].is_valid())
            if rows.num_rows == 0:
                continue
            stamps = rows[time].cast(pa.timestamp("us", rows[time].type.tz))
            times = stamps.to_numpy().astype(np.int64)
            order, starts = _runs(times, [codes(rows[name]) for name in names], gap_us)
            rows, times = rows.take(pa.array(order)), times[order]
            first, last = starts[:-1], starts[1:] - 1
            states = update_states(aggregator, rows.select(inputs), starts)
            several = last[times[last] > times[first]]
            at = pa.array(np.concatenate((first, several)))
            length = np.concatenate((times[last] - times[first], np.zeros(len(several), np.int64)))
            columns = [
                *rows.select([*names, time]).take(at).columns,
                pa.array(length + gap_us),
                pa.array(np.arange(len(length)) < len(first)),
                *(
                    pa.chunked_array(
                        [*states[f.name].cast(f.type).chunks, pa.nulls(len(several), f.type)]
                    )
                    for f in list(out)[len(heads) :]
                ),
            ]
            cast = [c.cast(f.type) for c, f in zip(columns, out, strict=True)]
            yield from pa.table(cast, schema=out).combine_chunks().to_batches()

    return map_batches(df.select(*[F.col(quoted(c)) for c in wanted]), combine, schema)


def _runs(
    times: NDArray[np.int64], keys: list[NDArray[np.int64]], gap_us: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that sorts rows by (key, time), and where each run starts.

    Rows exactly a gap apart are in one session, as Spark has it.

    Examples
    --------
    >>> order, starts = _runs(np.array([9, 0, 4]), [np.zeros(3, np.int64)], 4)
    >>> order.tolist(), starts.tolist()
    ([1, 2, 0], [0, 2, 3])
    """
    order = np.lexsort((times, *keys))
    changed = np.ones(len(order), np.bool_)
    changed[1:] = np.diff(times[order]) > gap_us
    for key in keys:
        ordered = key[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    return order, np.append(np.flatnonzero(changed), len(order)).astype(np.int64)
