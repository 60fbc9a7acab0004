"""Running totals in a streaming query: one stateful operator, in Python, holds the last window's panes.

The combine stage hands on one row for each task, key and pane; keys and states are packed, so that
nothing but bytes and integers crosses to pandas. Keys are hashed to a fixed number of slots, and the
state of a slot is the `Running` of its keys: Spark keeps it, versioned by batch, as any other state.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    StructField,
    StructType,
)

from skewless.errors import DataError
from skewless.plain_values import decode, encode
from skewless.spark.aggregation import Prepared, combine
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import worker_slots
from skewless.spark.keys import KeyColumns, quoted
from skewless.spark.running import Running, Totals
from skewless.spark.versions import arrow_schema, session_zone

__all__ = ["PaneSums", "kind_of_sum", "running_windows"]

_SLOT, _KEY, _STATE, _END = (
    "__skewless_slot",
    "__skewless_key",
    "__skewless_state",
    "__skewless_end",
)
_PANE = "__skewless_pane"
_PACKED = f"{_END} bigint, {_KEY} binary, {_STATE} binary"

#: States that the keys are hashed to. Part of what a query remembers: it must not change.
_SLOTS = 64
#: Rows in a frame that a task hands to the next stage.
_ROWS = 10_000


def kind_of_sum(kind: DataType) -> str | int | None:
    """Return how `skewless.spark.running.Sums` keeps a column, or ``None`` if it cannot be subtracted.

    Examples
    --------
    >>> from pyspark.sql.types import LongType, StringType
    >>> kind_of_sum(DecimalType(10, 2)), kind_of_sum(LongType()), kind_of_sum(StringType())
    (2, 'int', None)
    """
    if isinstance(kind, DecimalType):
        return kind.scale
    if isinstance(kind, IntegralType):
        return "int"
    return "float" if isinstance(kind, (DoubleType, FloatType)) else None


class PaneSums(Aggregator):
    """Sums of columns per key and pane, null where all values are: Spark's ``sum``, in Arrow.

    Parameters
    ----------
    columns
        Names and types of the columns.
    """

    def __init__(self, columns: Sequence[tuple[str, DataType]]) -> None:
        self.inputs = [name for name, _ in columns]  # type: ignore[misc]
        self.state = ", ".join(f"{n} {kind.simpleString()}" for n, kind in columns)  # type: ignore[misc]
        self.result = ", ".join(  # type: ignore[misc]
            f"{_answer(n)} {kind.simpleString()}" for n, kind in columns
        )
        self.merges = dict.fromkeys(self.inputs, "sum")  # type: ignore[misc]

    def create(self) -> dict[str, Any]:
        """Return the sums of nothing."""
        return dict.fromkeys(self.inputs)

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Not called: groups are added up together."""
        raise NotImplementedError

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Not called: the results are the sums."""
        raise NotImplementedError

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the sums of each group."""
        group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        table = rows.append_column("group", pa.array(group))
        sums = table.group_by("group", use_threads=False).aggregate(
            [(name, "sum") for name in self.inputs]
        )
        for name in self.inputs:
            if pa.types.is_integer(rows[name].type):
                _refuse_overflow(name, rows[name], starts)
        return pa.table({name: sums[f"{name}_sum"] for name in self.inputs})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the sums."""
        return states.rename_columns([_answer(name) for name in states.column_names])


def _answer(name: str) -> str:
    return f"{name}_sum"


def _refuse_overflow(name: str, column: pa.ChunkedArray, starts: NDArray[np.int64]) -> None:
    """Raise `DataError` where a sum leaves, or comes near to leaving, 64 bits: Arrow's would wrap."""
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy()
    if np.abs(np.add.reduceat(values, starts[:-1])).max(initial=0.0) >= 2.0**62:
        raise DataError(
            f"agg: a sum in {name} leaves 64 bits; cast the column to decimal(38, 0) before adding it up."
        )


def running_windows(
    df: DataFrame,
    keys: KeyColumns,
    prepared: Prepared,
    totals: Totals,
    time: str,
    watermark: str,
    spans: tuple[int, int, int],
    window: StructField,
) -> DataFrame:
    """Return an aggregator's results per window and key, append mode.

    Parameters
    ----------
    df
        Rows, placed on their workers.
    keys, prepared
        Key columns and aggregator.
    totals
        How its states are added and subtracted.
    time, watermark
        Event-time column, and how late a row may be.
    spans
        Lengths of window, slide and pane, microseconds.
    window
        The field of the window column.
    """
    size, slide, pane = spans
    fields = {f.name: f for f in df.schema.fields}
    kept = [fields[name] for name in keys.names]
    pack = _packer([f.name for f in kept], time, pane)
    packed = [StructField(_SLOT, IntegerType()), StructField(_END, LongType())]
    packed += [StructField(name, BinaryType()) for name in (_KEY, _STATE)]
    layout = StructType([*packed, StructField(time, fields[time].dataType)])
    panes = combine(df, keys, prepared, time, pane, (layout, pack)).withWatermark(time, watermark)
    # The pane takes the place of the time as what may be late: its end counts, as in Spark's windows.
    of_time = F.window(F.col(quoted(time)), f"{pane} microseconds").alias(_PANE)
    rows = panes.select(of_time, _SLOT, _END, _KEY, _STATE)
    emitted = rows.groupBy(_SLOT).applyInPandasWithState(
        _stepper(totals, size, slide),
        _PACKED,
        "running binary",
        "append",
        "EventTimeTimeout",
    )
    return _unpacked(emitted, window, kept, prepared, size)


def _packer(keys: list[str], time: str, pane_us: int) -> Callable[[pa.Table], pa.Table]:
    """Return what packs combined rows: key columns, time and states."""
    slots = worker_slots(_SLOTS)

    def pack(rows: pa.Table) -> pa.Table:
        stamps = rows[time].cast(pa.timestamp("us", rows[time].type.tz)).to_numpy().astype(np.int64)
        packed = [encode(_alike(row)) for row in _tuples(rows.select(keys))]
        states = [encode(row) for row in _tuples(rows.drop_columns([*keys, time]))]
        slot = slots[np.array([zlib.crc32(key) % _SLOTS for key in packed], np.int64)]
        return pa.table(
            {
                _SLOT: pa.array(slot, pa.int32()),
                _END: pa.array(np.floor_divide(stamps, pane_us) * pane_us + pane_us),
                _KEY: pa.array(packed, pa.binary()),
                _STATE: pa.array(states, pa.binary()),
                time: rows[time],
            }
        )

    return pack


def _stepper(
    totals: Totals, size: int, slide: int
) -> Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """Return what Spark calls for each slot that has rows or is due."""

    def step(_: Any, frames: Iterator[pd.DataFrame], group: Any) -> Iterator[pd.DataFrame]:
        running = Running(totals, size, slide)
        if group.exists:
            running.load(group.get[0])
        for frame in frames:
            for end, key, state in zip(frame[_END], frame[_KEY], frame[_STATE], strict=True):
                running.add(int(end), bytes(key), decode(state))
        found = running.advance(group.getCurrentWatermarkMs() * 1_000)
        due = running.next_end
        if due is None:
            if group.exists:
                group.remove()
        else:
            group.update((running.dump(),))
            # It fires once the watermark is later than this: as soon as it reaches the window's end.
            group.setTimeoutTimestamp(max(1, -(-due // 1_000) - 1))
        for first in range(0, len(found), _ROWS):
            some = found[first : first + _ROWS]
            yield pd.DataFrame(
                {
                    _END: [each.end for each in some],
                    _KEY: [each.key for each in some],
                    _STATE: [encode(each.values) for each in some],
                }
            )

    return step


def _unpacked(
    packed: DataFrame, window: StructField, kept: list[StructField], prepared: Prepared, size: int
) -> DataFrame:
    """Return window, keys and the aggregator's results."""
    schema = StructType([window, *kept, *prepared.result.fields])
    session, aggregator = packed.sparkSession, prepared.aggregator
    out = arrow_schema(schema, session_zone(session))
    key_types, state_types = (
        arrow_schema(part, session_zone(session)) for part in (StructType(kept), prepared.state)
    )

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            end = batch.column(0).to_numpy()
            parts = list(out.field(0).type)
            bounds = [
                pa.array(times).cast(field.type)
                for times, field in zip((end - size, end), parts, strict=True)
            ]
            states = pa.Table.from_arrays(
                _columns(batch.column(2), state_types), schema=state_types
            )
            columns = [
                pa.StructArray.from_arrays(bounds, fields=parts),
                *_columns(batch.column(1), key_types),
                *(column.combine_chunks() for column in aggregator.finish_groups(states).columns),
            ]
            cast = [c.cast(f.type) for c, f in zip(columns, out, strict=True)]
            yield pa.RecordBatch.from_arrays(cast, schema=out)

    return packed.mapInArrow(unpack, schema)


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _columns(packed: pa.Array, schema: pa.Schema) -> list[pa.Array]:
    rows = [decode(row) for row in packed.to_pylist()]
    parts = zip(*rows, strict=True)
    return [pa.array(list(part), f.type) for part, f in zip(parts, schema, strict=True)]


def _alike(value: Any) -> Any:
    """Make alike what Spark groups together: the two zeros, and all NaNs.

    Examples
    --------
    >>> _alike((-0.0, [1.5, {"x": float("-nan")}]))
    (0.0, [1.5, {'x': nan}])
    """
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {name: _alike(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_alike(inner) for inner in value)
    return value
