"""Running totals in a streaming query: one stateful operator, in Python, holds the last window's panes.

Keys are hashed to a fixed number of slots. The combine stage hands on one row for each task, slot and
pane, which holds the keys and states of that pane as an Arrow stream, so that few rows cross to pandas;
what is emitted comes back the same way. The state of a slot is that of `PrefixSums`, or of `Running` if
an aggregator subtracts by itself: Spark keeps it, versioned by batch, as any other state.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

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
    StructField,
    StructType,
)

from skewless.errors import DataError
from skewless.plain_values import decode, encode
from skewless.spark.aggregation import Prepared, codes, combine
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import worker_slots
from skewless.spark.keys import KeyColumns, quoted
from skewless.spark.prefix_sums import END, KEY, PrefixSums
from skewless.spark.python_workers import keep_loaded, map_batches
from skewless.spark.running import Running, States
from skewless.spark.versions import arrow_schema, session_zone

__all__ = ["PaneSums", "kind_of_sum", "running_windows"]

_SLOT, _PACKED, _PANE = "__skewless_slot", "__skewless_packed", "__skewless_pane"

#: States that the keys are hashed to. Part of what a query remembers: it must not change.
_SLOTS = 64
#: Windows that a task hands to the next stage at a time.
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


class _Windows(Protocol):
    """What a slot remembers, and the windows that it makes of it."""

    @property
    def next_end(self) -> int | None:
        """End of the next window that will be complete; ``None`` if none is."""

    def add(self, panes: pa.Table) -> None:
        """Take closed panes: end, packed key, states."""

    def advance(self, watermark: int) -> pa.Table:
        """Return the windows that are complete: end, packed key, states."""

    def load(self, content: bytes) -> Any:
        """Remember what `dump` returned."""

    def dump(self) -> bytes:
        """Return all that is remembered."""


class _Subtracted:
    """`Running` over tables."""

    def __init__(self, totals: States, states: pa.Schema, size: int, slide: int) -> None:
        self._running, self._states = Running(totals, size, slide), states
        self.load, self.dump = self._running.load, self._running.dump

    @property
    def next_end(self) -> int | None:
        return self._running.next_end

    def add(self, panes: pa.Table) -> None:
        rows = _tuples(panes.select(self._states.names))
        for end, key, state in zip(
            panes[END].to_pylist(), panes[KEY].to_pylist(), rows, strict=True
        ):
            self._running.add(end, key, state)

    def advance(self, watermark: int) -> pa.Table:
        found = self._running.advance(watermark)
        keys = pa.array([each.key for each in found], pa.binary()).dictionary_encode()
        heads = [pa.array([each.end for each in found], pa.int64()), keys]
        columns = [
            pa.array([values[i] for _, _, values in found], field.type)
            for i, field in enumerate(self._states)
        ]
        return pa.table([*heads, *columns], names=[END, KEY, *self._states.names])


def running_windows(
    df: DataFrame,
    keys: KeyColumns,
    prepared: Prepared,
    totals: States | None,
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
        How its states are added and subtracted; ``None`` if all their columns are merged by ``"sum"``.
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
    states = arrow_schema(prepared.state, session_zone(df.sparkSession))

    def windows() -> _Windows:
        if totals is None:
            return PrefixSums(states, size, slide, pane)
        return _Subtracted(totals, states, size, slide)

    packed = [StructField(_SLOT, IntegerType()), StructField(_PACKED, BinaryType())]
    layout = StructType([*packed, StructField(time, fields[time].dataType)])
    pack = _packer([f.name for f in kept], states.names, time, pane)
    panes = combine(df, keys, prepared, time, pane, (layout, pack)).withWatermark(time, watermark)
    # The pane takes the place of the time as what may be late: its end counts, as in Spark's windows.
    of_time = F.window(F.col(quoted(time)), f"{pane} microseconds").alias(_PANE)
    emitted = (
        panes.select(of_time, _SLOT, _PACKED)
        .groupBy(_SLOT)
        .applyInPandasWithState(
            _stepper(windows),
            f"{_PACKED} binary",
            "running binary",
            "append",
            "EventTimeTimeout",
        )
    )
    return _unpacked(emitted, window, kept, prepared, size)


def _packer(
    keys: list[str], states: list[str], time: str, pane_us: int
) -> Callable[[pa.Table], pa.Table]:
    """Return what makes one row for each slot and pane of combined rows: slot, panes, latest time."""
    slots = worker_slots(_SLOTS)

    def pack(rows: pa.Table) -> pa.Table:
        stamps = rows[time].cast(pa.timestamp("us", rows[time].type.tz)).to_numpy().astype(np.int64)
        end = np.floor_divide(stamps, pane_us) * pane_us + pane_us
        packed, code = _packed_keys(rows.select(keys))
        slot = slots[np.array([zlib.crc32(key) % _SLOTS for key in packed], np.int64)][code]
        panes = pa.table(
            {
                END: pa.array(end),
                KEY: pa.array(packed, pa.binary()).take(pa.array(code)),
                **{name: rows[name] for name in states},
            }
        )
        order = np.lexsort((stamps, end, slot))
        panes, slot, end = panes.take(pa.array(order)).combine_chunks(), slot[order], end[order]
        changed = (slot[1:] != slot[:-1]) | (end[1:] != end[:-1])
        starts = np.concatenate([[0], np.flatnonzero(changed) + 1, [len(order)]])
        parts = [
            _stream(panes.slice(start, stop - start)) for start, stop in itertools.pairwise(starts)
        ]
        return pa.table(
            {
                _SLOT: pa.array(slot[starts[:-1]], pa.int32()),
                _PACKED: pa.array(parts, pa.binary()),
                # Within a part the rows are in the order of their time: the last is the latest.
                time: rows[time].take(pa.array(order[starts[1:] - 1])),
            }
        )

    return pack


def _packed_keys(rows: pa.Table) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the keys that there are, packed, and which one each row has.

    Examples
    --------
    >>> _packed_keys(pa.table({"k": ["a", "b", "a"], "l": [0.0, 1.0, -0.0]}))
    ([b'{"tuple":["a",0.0]}', b'{"tuple":["b",1.0]}'], array([0, 1, 0]))
    """
    code = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        values, value = np.unique(codes(column), return_inverse=True)
        _, first, code = np.unique(
            code * len(values) + value, return_index=True, return_inverse=True
        )
    packed = [encode(_alike(row)) for row in _tuples(rows.take(pa.array(first)))]
    # Values that differ in Arrow, such as the two zeros, may be one key.
    known = {key: i for i, key in enumerate(dict.fromkeys(packed))}
    same = np.array([known[key] for key in packed], np.int64)
    return list(known), same[code]


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _stepper(
    windows: Callable[[], _Windows],
) -> Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """Return what Spark calls for each slot that has rows or is due."""

    def step(_: Any, frames: Iterator[pd.DataFrame], group: Any) -> Iterator[pd.DataFrame]:
        keep_loaded()
        slot = windows()
        if group.exists:
            slot.load(group.get[0])
        for frame in frames:
            if len(frame):
                parts = [pa.ipc.open_stream(part).read_all() for part in frame[_PACKED]]
                slot.add(pa.concat_tables(parts))
        found = slot.advance(group.getCurrentWatermarkMs() * 1_000)
        due = slot.next_end
        if due is None:
            if group.exists:
                group.remove()
        else:
            group.update((slot.dump(),))
            # It fires once the watermark is later than this: as soon as it reaches the window's end.
            group.setTimeoutTimestamp(max(1, -(-due // 1_000) - 1))
        for first in range(0, found.num_rows, _ROWS):
            yield pd.DataFrame({_PACKED: [_stream(found.slice(first, _ROWS))]})

    return step


def _unpacked(
    packed: DataFrame, window: StructField, kept: list[StructField], prepared: Prepared, size: int
) -> DataFrame:
    """Return window, keys and the aggregator's results."""
    schema = StructType([window, *kept, *prepared.result.fields])
    session, aggregator = packed.sparkSession, prepared.aggregator
    out = arrow_schema(schema, session_zone(session))
    key_types = arrow_schema(StructType(kept), session_zone(session))
    states = prepared.state.fieldNames()

    def windows_of(found: pa.Table) -> pa.RecordBatch:
        end = found[END].to_numpy()
        parts = list(out.field(0).type)
        bounds = [
            pa.array(times).cast(field.type)
            for times, field in zip((end - size, end), parts, strict=True)
        ]
        keys = found[KEY].combine_chunks()
        columns = [
            pa.StructArray.from_arrays(bounds, fields=parts),
            *(each.take(keys.indices) for each in _columns(keys.dictionary, key_types)),
            *(c.combine_chunks() for c in aggregator.finish_groups(found.select(states)).columns),
        ]
        cast = [c.cast(f.type) for c, f in zip(columns, out, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=out)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield windows_of(pa.ipc.open_stream(part).read_all())

    return map_batches(packed, unpack, schema)


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
