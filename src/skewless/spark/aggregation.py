"""How an aggregator runs: a combine stage in Python, a merge in Spark, and a finish.

The combine stage updates states, one per key (and pane) and task. The reduce stage merges them with
Spark's own aggregates, one per state column, so on a stream the window state is native and exactly
once; columns without a native merge are listed per key, and merged in Python just before the finish.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from skewless.errors import DataError, did_you_mean
from skewless.spark.aggregator import NATIVE_MERGES, Aggregator
from skewless.spark.batch import default_workers
from skewless.spark.forwarding import fold, held, why_not
from skewless.spark.keys import KeyColumns, quoted, resolve_column
from skewless.spark.merge_check import check_merge
from skewless.spark.python_workers import map_batches
from skewless.spark.versions import arrow_schema, first_rows, session_zone, slots_of

__all__ = [
    "BUFFER_ROWS",
    "Prepared",
    "aggregate_batch",
    "buffered",
    "check_sample",
    "codes",
    "combine",
    "first_groups",
    "forwarding_fails",
    "sorted_groups",
    "update_states",
]

#: Rows that the combine stage holds before it emits their states.
BUFFER_ROWS = 131_072
#: Most rows of a batch of results.
_RESULT_ROWS = 10_000
#: Column of the states that Python merges, listed per key.
_PARTS = "__skewless_parts"


def _spark_schema(ddl: str) -> StructType:
    parsed = _parse_datatype_string(ddl)
    if not isinstance(parsed, StructType):
        raise DataError(f"Aggregator: {ddl!r} is not a list of 'name type' columns.")
    return parsed


class Prepared:
    """An aggregator checked against a frame: schemas resolved, ready to be shipped to the tasks."""

    def __init__(self, verb: str, df: DataFrame, keys: KeyColumns, aggregator: Aggregator) -> None:
        if not isinstance(aggregator, Aggregator):
            got = (
                f"the class itself; write {aggregator.__name__}()"
                if isinstance(aggregator, type)
                else f"{type(aggregator).__name__}; for Spark's own aggregates call agg"
            )
            raise DataError(f"{verb}: takes an instance of skewless.Aggregator, got {got}.")
        self.aggregator = copy.copy(aggregator)
        self.inputs = [
            resolve_column(f"{verb}: {_of(aggregator)}", df, c) for c in aggregator.inputs
        ]
        self.state = _spark_schema(aggregator.state)
        self.result = _spark_schema(aggregator.result)
        _check_merges(verb, aggregator, self.state)
        #: State columns that `Aggregator.merge` puts together.
        self.by_merge = [f for f in self.state.fields if f.name not in aggregator.merges]
        taken = {*keys.names, "window"}
        for field in (*self.state.fields, *self.result.fields):
            if field.name in taken:
                raise DataError(
                    f"{verb}: {_of(aggregator)} names a column {field.name!r}, which the result "
                    "already has; rename it."
                )
        self.aggregator.state_schema = arrow_schema(self.state, session_zone(df.sparkSession))
        self.aggregator.result_schema = arrow_schema(self.result, session_zone(df.sparkSession))

    def merged(self, where: Column | None = None) -> list[Column]:
        """Return Spark's aggregates over the states: native merges, and a list of what Python merges.

        Rows for which `where` does not hold have no state.
        """
        native = [
            NATIVE_MERGES[self.aggregator.merges[f.name]](F.col(quoted(f.name)))
            .cast(f.dataType)
            .alias(f.name)
            for f in self.state.fields
            if f.name in self.aggregator.merges
        ]
        if not self.by_merge:
            return native
        parts = F.struct(*[F.col(quoted(f.name)) for f in self.by_merge])
        if where is not None:
            parts = F.when(where, parts)  # a list leaves nulls out
        return [*native, F.collect_list(parts).alias(_PARTS)]

    def joined(self, merged: DataFrame) -> DataFrame:
        """Return a merged frame with one state for each list of what Python merges."""
        if not self.by_merge:
            return merged
        names = {f.name for f in self.state.fields}
        kept = [f for f in merged.schema.fields if f.name not in {*names, _PARTS}]
        schema = StructType([*kept, *self.state.fields])
        aggregator, parts = self.aggregator, [f.name for f in self.by_merge]
        out = arrow_schema(schema, session_zone(merged.sparkSession))

        def join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    states = _with_merged(aggregator, pa.Table.from_batches([batch]), parts)
                    yield from states.select(out.names).cast(out).combine_chunks().to_batches()

        return map_batches(merged, join_batches, schema)

    def finish(self, merged: DataFrame, kept: Sequence[StructField]) -> DataFrame:
        """Return the `kept` columns of a merged frame and the result columns."""
        schema = StructType([*kept, *self.result.fields])
        aggregator = self.aggregator
        out = arrow_schema(schema, session_zone(merged.sparkSession))
        names, n_kept = [f.name for f in self.state.fields], len(kept)
        parts = [f.name for f in self.by_merge]

        def finish_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows == 0:
                    continue
                states = pa.Table.from_batches([batch])
                if parts:
                    states = _with_merged(aggregator, states, parts)
                results = aggregator.finish_groups(states.select(names))
                columns = batch.columns[:n_kept] + [c.combine_chunks() for c in results.columns]
                yield pa.RecordBatch.from_arrays(
                    [c.cast(f.type) for c, f in zip(columns, out, strict=True)], schema=out
                )

        return map_batches(merged, finish_batches, schema)


def _of(aggregator: Aggregator) -> str:
    return type(aggregator).__name__


def _check_merges(verb: str, aggregator: Aggregator, state: StructType) -> None:
    names = state.fieldNames()
    for column, merge in aggregator.merges.items():
        if column not in names:
            raise DataError(
                f"{verb}: {_of(aggregator)}.merges names {column!r}, which is no state column"
                f"{did_you_mean(column, names)}."
            )
        if merge not in NATIVE_MERGES:
            raise DataError(
                f"{verb}: {_of(aggregator)}.merges[{column!r}] is {merge!r}"
                f"{did_you_mean(merge, NATIVE_MERGES)}; there is {', '.join(NATIVE_MERGES)}."
            )
    if type(aggregator).merge is Aggregator.merge:
        for name in names:
            if name not in aggregator.merges:
                raise DataError(
                    f"{verb}: {_of(aggregator)}.merges lacks state column {name!r}, and there is no "
                    f"merge(left, right); write one, or name a native merge of every state column: "
                    f"{', '.join(NATIVE_MERGES)}."
                )


def _with_merged(aggregator: Aggregator, states: pa.Table, parts: list[str]) -> pa.Table:
    """Replace the list of partial states of each key by their merged columns."""
    listed = states[_PARTS].combine_chunks()
    # Offsets of a sliced list start above 0, and `flatten` drops what lies outside.
    starts = listed.offsets.to_numpy().astype(np.int64)
    partial = pa.Table.from_struct_array(listed.flatten())
    merged = aggregator.merge_groups(partial, starts - starts[0])
    if merged.num_rows != states.num_rows:
        raise DataError(
            f"{_of(aggregator)}.merge_groups returned {merged.num_rows} states for "
            f"{states.num_rows} keys."
        )
    for name in parts:
        states = states.append_column(name, merged[name])
    return states


def combine(
    df: DataFrame,
    keys: KeyColumns,
    prepared: Prepared,
    time: str | None = None,
    pane_us: int | None = None,
    packed: tuple[StructType, Callable[[pa.Table], pa.Table]] | None = None,
) -> DataFrame:
    """Return one state per task, key and pane: the combine stage.

    Parameters
    ----------
    df
        Rows, placed on their workers.
    keys
        Key columns.
    prepared
        The aggregator.
    time
        Event-time column; its latest value in the pane is kept, so that a watermark set on the result
        stands where it would on the rows. Rows without a time are dropped, as Spark's windows do.
    pane_us
        Length of a pane, microseconds; panes start at the epoch.
    packed
        What to make of the key columns, the time and the states before they leave the task, and the
        schema of that.
    """
    fields = {f.name: f for f in df.schema.fields}
    heads = [StructField(n, fields[n].dataType) for n in keys.names]
    if time is not None:
        heads.append(StructField(time, fields[time].dataType))
    schema = StructType([*heads, *prepared.state.fields])
    states_of = _combiner(schema, prepared, keys, time, pane_us, session_zone(df.sparkSession))

    def combine_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in states_of(batches):
            packed_up = found if packed is None else packed[1](found)
            yield from packed_up.combine_chunks().to_batches()

    layout = schema if packed is None else packed[0]
    return map_batches(df.select(*_read(keys, prepared, time)), combine_batches, layout)


def _read(keys: KeyColumns, prepared: Prepared, time: str | None = None) -> list[Column]:
    wanted = [*keys.names, *([time] if time else []), *prepared.inputs]
    return [F.col(quoted(name)) for name in dict.fromkeys(wanted)]


def _combiner(
    schema: StructType,
    prepared: Prepared,
    keys: KeyColumns,
    time: str | None,
    pane_us: int | None,
    zone: str,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]]:
    """Return what turns the rows of a task into states, one per buffer, key and pane."""
    out = arrow_schema(schema, zone)
    aggregator, inputs, names = prepared.aggregator, prepared.inputs, list(keys.names)
    state_names = prepared.state.fieldNames()

    def states_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for rows in buffered(batches, BUFFER_ROWS):
            if time is not None:
                rows = rows.filter(rows[time].is_valid())  # noqa: PLW2901
            if rows.num_rows == 0:
                continue
            order, starts = sorted_groups(rows, names, time, pane_us)
            rows = rows.take(pa.array(order))  # noqa: PLW2901
            states = update_states(aggregator, rows.select(inputs), starts)
            first = rows.select(names).take(pa.array(starts[:-1]))
            columns = [*first.columns]
            if time is not None:
                # Within a group the rows are in the order of their time: the last is the latest.
                columns.append(rows[time].take(pa.array(starts[1:] - 1)))
            columns += [states[name] for name in state_names]
            cast = [c.cast(f.type) for c, f in zip(columns, out, strict=True)]
            yield pa.table(cast, schema=out)

    return states_of


def update_states(aggregator: Aggregator, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
    """Return one state per group of rows, or raise `DataError` if there are more or fewer."""
    states = aggregator.update_groups(rows, starts)
    if states.num_rows != len(starts) - 1:
        raise DataError(
            f"{_of(aggregator)}.update_groups returned {states.num_rows} states for "
            f"{len(starts) - 1} groups."
        )
    return states


def buffered(batches: Iterator[pa.RecordBatch], n_rows: int) -> Iterator[pa.Table]:
    """Yield the batches of a task as tables of at least so many rows, the last one excepted."""
    held: list[pa.RecordBatch] = []
    length = 0
    for batch in batches:
        held.append(batch)
        length += batch.num_rows
        if length >= n_rows:
            yield pa.Table.from_batches(held)
            held, length = [], 0
    if held:
        yield pa.Table.from_batches(held)


def sorted_groups(
    rows: pa.Table, keys: list[str], time: str | None, pane_us: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that sorts rows by (pane, key, time), and where each (pane, key) starts."""
    columns = [codes(rows[name]) for name in keys]
    if time is not None and pane_us is not None:
        times = rows[time].cast(pa.timestamp("us", rows[time].type.tz)).to_numpy().astype(np.int64)
        panes = np.floor_divide(times, pane_us)
        order = np.lexsort((times, *columns, panes))
        columns.append(panes)
    else:
        order = np.lexsort(tuple(columns))
    changed = np.zeros(len(order), np.bool_)
    changed[0] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    return order, np.append(np.flatnonzero(changed), len(order)).astype(np.int64)


def codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return equal integers for equal values: dictionary codes, or the key hash of a nested value."""
    if pa.types.is_nested(column.type):
        from skewless.keys import hash64  # compiles kernels: only where they are needed

        return hash64(column).view(np.int64)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


#: Rows that `check_sample` looks at.
_SAMPLE_ROWS = 5_000


def check_sample(df: DataFrame, keys: KeyColumns, aggregator: Aggregator, verb: str) -> None:
    """Run one small job: work on the first rows of a frame whole and in parts, and compare.

    Raises
    ------
    DataError
        The results differ.
    """
    prepared, rows, starts = first_groups(df, keys, aggregator, verb)
    if rows.num_rows:
        check_merge(verb, prepared, rows, starts)


def first_groups(
    df: DataFrame,
    keys: KeyColumns,
    aggregator: Aggregator,
    verb: str,
    n_rows: int = _SAMPLE_ROWS,
) -> tuple[Aggregator, pa.Table, NDArray[np.int64]]:
    """Run one small job: return the aggregator with its schemas set, and some rows sorted by group.

    Returns
    -------
    aggregator, rows, starts
        The input columns; group ``i`` is ``rows[starts[i]:starts[i + 1]]``.
    """
    prepared = Prepared(verb, df, keys, aggregator)
    wanted = list(dict.fromkeys([*keys.names, *prepared.inputs]))
    rows = first_rows(df.select(*[F.col(quoted(c)) for c in wanted]), n_rows)
    if rows.num_rows == 0:
        return prepared.aggregator, rows.select(prepared.inputs), np.zeros(1, np.int64)
    order, starts = sorted_groups(rows, list(keys.names), None, None)
    return prepared.aggregator, rows.take(pa.array(order)).select(prepared.inputs), starts


def _merging_tasks(df: DataFrame) -> int:
    """Return as many tasks as run side by side, if Spark says, and as it shuffles into at most."""
    shuffled = default_workers(df)
    return min(shuffled, slots_of(df.sparkSession) or shuffled)


def aggregate_batch(
    placed: DataFrame,
    keys: KeyColumns,
    aggregator: Aggregator,
    verb: str = "group_by",
    *,
    whole: bool = False,
) -> DataFrame:
    """Combine, merge and finish over a batch frame whose rows are on their workers already.

    Parameters
    ----------
    placed, keys, aggregator, verb
        The rows, and what is made of them.
    whole
        Whether every key is on one worker only, which can then finish it (`skewless.spark.forwarding`).
    """
    prepared = Prepared(verb, placed, keys, aggregator)
    fields = {f.name: f for f in placed.schema.fields}
    kept = [fields[name] for name in keys.names]
    if whole and not forwarding_fails(placed, keys, prepared):
        return _finished_at_once(placed, keys, prepared, kept)
    combined = combine(placed, keys, prepared)
    if prepared.by_merge:
        # Adaptive execution sees few bytes and would merge them all in one task, whatever that takes.
        combined = combined.repartition(_merging_tasks(placed), *keys.columns)
    merged = combined.groupBy(*keys.columns).agg(*prepared.merged())
    return prepared.finish(merged, kept)


def forwarding_fails(df: DataFrame, keys: KeyColumns, prepared: Prepared) -> str:
    """Return why a key that is whole is not finished where it is combined; empty if it is."""
    kinds = [df.schema[name].dataType for name in keys.names]
    return why_not(df.sparkSession, kinds, prepared.state.fields, prepared.aggregator)


def _finished_at_once(
    placed: DataFrame, keys: KeyColumns, prepared: Prepared, kept: list[StructField]
) -> DataFrame:
    zone = session_zone(placed.sparkSession)
    schema = StructType([*kept, *prepared.result.fields])
    out, names = arrow_schema(schema, zone), list(keys.names)
    states_schema = StructType([*kept, *prepared.state.fields])
    states_of = _combiner(states_schema, prepared, keys, None, None, zone)
    aggregator, state_names = prepared.aggregator, prepared.state.fieldNames()
    lists = "concat" in aggregator.merges.values()

    def merge(states: pa.Table) -> pa.Table:
        return fold(aggregator, states, names, lambda rows: sorted_groups(rows, names, None, None))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        states = held(states_of(batches), merge)
        if states is None:
            return
        if lists:
            states = merge(states)  # Spark's merge makes an empty list of none
        results = aggregator.finish_groups(states.select(state_names))
        columns = [*states.select(names).columns, *results.columns]
        cast = [c.cast(f.type) for c, f in zip(columns, out, strict=True)]
        yield from pa.table(cast, schema=out).combine_chunks().to_batches(_RESULT_ROWS)

    return map_batches(placed.select(*_read(keys, prepared)), work, schema)
