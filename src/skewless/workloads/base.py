"""What the workloads share: an aggregator per key, a last stage, and a driver over chunks.

A workload is one of the papers' queries. On Spark it is an aggregator, handed to
``group_by(...).aggregate``; in one process, a `Partial` per worker runs the same code over `Chunk`
streams, with or without windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError, did_you_mean
from skewless.parameters import Count, check
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.counting import ranked
from skewless.spark.aggregators.segments import Starts, as_lists, group_of, lists_of, sums

__all__ = ["Partial", "Workload"]

#: Columns of a partial that are no state.
_PANE, _KEY = "__pane", "key"
#: States that are listed before those of one key are merged, at least.
_LIST = 50_000


class Workload(GroupAggregator):
    """A query of keyed rows whose work may be split: an aggregator per key, and a last stage.

    Attributes
    ----------
    per_key
        Whether there is a state per key. Without, all rows of a worker make one, and keys matter to
        routing only.
    in_order
        Whether `update` goes on from a state in a way that joining two states cannot do: then a
        `Partial` calls `update` for each key instead of joining what pieces of the stream gave.

    Notes
    -----
    A subclass is a `GroupAggregator`; one whose state columns all have native merges needs no
    `merge_groups`. `conclude` is the last stage, over the finished rows of all keys.
    """

    per_key: ClassVar[bool] = True
    in_order: ClassVar[bool] = False

    def start(self, window: Count | None = None, slide: Count | None = None) -> Partial:
        """Return the state of a worker that has seen nothing.

        Parameters
        ----------
        window : int of at least 1, or None
            Length of the windows, in the unit of `Chunk.time`; ``None``: all tuples are one.
        slide : int of at least 1, or None
            Distance of two windows; ``None``: `window`. A multiple of it makes the window.
        """
        return Partial(self, window, slide)

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Return the answer, given one finished row per key.

        Parameters
        ----------
        results
            The column ``key``, if the workload is `per_key`, and the result columns.
        end
            Where the window ends, exclusive; ``None`` without windows.

        Notes
        -----
        Needs no order of the rows. Unless a workload says otherwise, it is the rows by ascending key.
        """
        return results.sort_by(_KEY) if _KEY in results.column_names else results

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Return one merged state per key, for columns with native merges."""
        return self._natively(states, starts)

    def merge_states(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Return one merged state per key, all columns, as Spark and `merge_groups` do together.

        Parameters
        ----------
        states
            States sorted by key; those of key ``i`` are ``states[starts[i]:starts[i + 1]]``.
        starts
            int64, one entry per key and one more.
        """
        names = self.state_schema.names
        native = self._natively(states, starts)
        columns = {name: native[name] for name in native.column_names}
        rest = [name for name in names if name not in self.merges]
        if rest:
            joined = self.merge_groups(states.select(rest), starts)
            columns |= {name: joined[name] for name in rest}
        return pa.table({name: columns[name] for name in names}).cast(self.state_schema)

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the state after `rows`, all of one key."""
        fresh = self.update_groups(rows, np.array([0, rows.num_rows]))
        fresh = fresh.select(self.state_schema.names).cast(self.state_schema)
        return self.merge(state, fresh.to_pylist()[0])

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Return the state of two parts of a key's rows, all columns."""
        states = pa.Table.from_pylist([left, right], schema=self.state_schema)
        return dict(self.merge_states(states, np.array([0, 2])).to_pylist()[0])

    def _natively(self, states: pa.Table, starts: Starts) -> pa.Table:
        names = [name for name in self.merges if name in states.column_names]
        columns = [_native(self.merges[name], states[name], starts) for name in names]
        return pa.table(columns, names)

    def _rows(self, chunk: Chunk) -> pa.Table:
        """Return the input columns of a chunk's tuples."""
        owner, value = type(self).__name__, chunk.value
        if isinstance(value, pa.Table):
            for name in self.inputs:
                if name not in value.column_names:
                    raise DataError(
                        f"{owner}: the chunk's value has no column {name!r}"
                        f"{did_you_mean(name, value.column_names)}."
                    )
            return value.select(self.inputs)
        if len(self.inputs) != 1:
            raise DataError(
                f"{owner}: reads the columns {', '.join(self.inputs)}; the chunk's value must be a "
                f"pyarrow.Table that has them, got {type(value).__name__}."
            )
        column = chunk.key.view(np.int64) if value is None else value
        return pa.table({self.inputs[0]: column})


class Partial:
    """What one worker holds of a workload: a state per key and pane, with the driver's three verbs.

    Parameters
    ----------
    workload : Workload
        The query.
    window : int of at least 1, or None
        Length of the windows, in the unit of `Chunk.time`; ``None``: all tuples are one window.
    slide : int of at least 1, or None
        Distance of two windows; ``None``: the window. A multiple of it makes the window.

    Notes
    -----
    Values of a chunk: a ``pyarrow.Table`` with the workload's input columns by name; or an array, if
    there is one input column; or ``None``, and that column is the key. Windows are made of panes of
    one slide, which start at multiples of it; a window ends where a pane does.

    Examples
    --------
    >>> from skewless.workloads import WordCount
    >>> count = WordCount("word")
    >>> left, right = count.start(), count.start()
    >>> left.update(Chunk(None, [7, 7, 9]))
    >>> right.update(Chunk(None, [9, 9]))
    >>> left.merge(right)
    >>> left.answer().to_pylist()
    [{'key': 7, 'n': 2}, {'key': 9, 'n': 3}]
    """

    def __init__(
        self, workload: Workload, window: Count | None = None, slide: Count | None = None
    ) -> None:
        if not isinstance(workload, Workload):
            raise ParameterError(
                f"Partial: workload must be an instance of a Workload, got {workload!r}."
            )
        check("Partial", Partial.__init__, window=window, slide=slide)
        if slide is not None and (window is None or window % slide):
            raise ParameterError(
                f"Partial: slide must divide the window, {window!r}, got {slide!r}."
            )
        self.workload = workload
        self.window, self.slide = window, window if slide is None else slide
        self._parts: list[pa.Table] = []
        self._open: dict[tuple[int, int], dict[str, Any]] = {}
        self._most = 2 * _LIST

    def update(self, chunk: Chunk) -> None:
        """Take in a piece of the stream."""
        rows, workload = self.workload._rows(chunk), self.workload  # noqa: SLF001 (one file)
        if len(chunk) == 0:
            return
        panes = np.zeros(len(chunk), np.int64) if self.slide is None else chunk.time // self.slide
        keys = chunk.key if workload.per_key else np.zeros(len(chunk), np.uint64)
        order, starts = _grouped(panes, keys)
        if len(starts) > 2:
            rows = rows.take(pa.array(order))
        panes, keys = panes[order][starts[:-1]], keys[order][starts[:-1]]
        if workload.in_order:
            places = zip(panes.tolist(), keys.tolist(), strict=True)
            for place, start, stop in zip(places, starts[:-1], starts[1:], strict=True):
                state = self._open.get(place) or workload.create()
                self._open[place] = workload.update(state, rows[int(start) : int(stop)])
        else:
            states = workload.update_groups(rows, starts)
            self._parts.append(_placed(workload, panes, keys, states))
            if sum(part.num_rows for part in self._parts) > self._most:
                self._most = 2 * max(_LIST, self.states().num_rows)

    def merge(self, other: Partial) -> None:
        """Add what another worker holds; `other` stays as it is."""
        if type(self.workload) is not type(other.workload) or (
            (vars(self.workload), self.window, self.slide)
            != (vars(other.workload), other.window, other.slide)
        ):
            raise ParameterError(
                f"Partial: other must be of a {type(self.workload).__name__} made alike, with the same "
                f"windows, got a {type(other.workload).__name__}, window={other.window!r}, "
                f"slide={other.slide!r}."
            )
        self._parts += [*other._parts, *other._closed()]

    def states(self) -> pa.Table:
        """Return the states: ``__pane``, ``key`` and the state columns, by pane and key.

        Notes
        -----
        This is what a combiner sends. A pane is its number: its start over the slide.
        """
        parts = [*self._parts, *self._closed()]
        if len(parts) != 1:
            parts = [_merged(self.workload, pa.concat_tables(parts or [_nothing(self.workload)]))]
        if not self._open:  # states that go on are not merged for good
            self._parts = parts
        return parts[0]

    def forget(self, before: int) -> None:
        """Drop the panes that end at `before` or earlier: no window that is asked for has them.

        Parameters
        ----------
        before
            Start of the oldest window that will be asked for, in the unit of `Chunk.time`.
        """
        if self.slide is not None:
            first = before // self.slide
            self._parts = [
                part.filter(pc.greater_equal(part[_PANE], first)) for part in self._parts
            ]
            self._open = {place: s for place, s in self._open.items() if place[0] >= first}

    def ends(self) -> NDArray[np.int64]:
        """Return where the windows end that have tuples, exclusive, ascending; int64."""
        if self.window is None or self.slide is None:
            return np.empty(0, np.int64)
        panes = np.unique(self.states()[_PANE].to_numpy())
        upto = np.arange(1, self.window // self.slide + 1)
        return np.unique(panes[:, None] + upto[None, :]) * self.slide

    def answer(self, end: int | None = None) -> pa.Table:
        """Return the answer over all tuples, or over the window that ends at `end`, exclusive.

        Raises
        ------
        ParameterError
            There are windows and `end` is none of their ends, or there are none and it is given.
        """
        workload, states = self.workload, self.states()
        if self.window is None or self.slide is None:
            if end is not None:
                raise ParameterError(f"Partial: end must be None without windows, got {end!r}.")
        else:
            if end is None or end % self.slide:
                raise ParameterError(
                    f"Partial: end must be a multiple of the slide, {self.slide}, got {end!r}; "
                    "ends() lists those of windows with tuples."
                )
            last = end // self.slide
            first = last - self.window // self.slide
            low, high = np.searchsorted(states[_PANE].to_numpy(), [first, last])
            states = states[int(low) : int(high)]
            together = pa.array(np.zeros(states.num_rows, np.int64))
            states = _merged(workload, states.set_column(0, _PANE, together))
        if not workload.per_key and states.num_rows == 0:
            nothing = pa.Table.from_pylist([workload.create()], schema=workload.state_schema)
            states = _placed(workload, np.zeros(1, np.int64), np.zeros(1, np.uint64), nothing)
        finished = workload.finish_groups(states.select(workload.state_schema.names))
        finished = finished.select(workload.result_schema.names).cast(workload.result_schema)
        if workload.per_key:
            finished = finished.add_column(0, _KEY, states[_KEY])
        return workload.conclude(finished, end)

    def answers(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield ``(end, answer)`` of every window that has tuples."""
        for end in self.ends().tolist():
            yield end, self.answer(end)

    def _closed(self) -> list[pa.Table]:
        if not self._open:
            return []
        panes, keys = np.array(list(self._open), object).T
        states = pa.Table.from_pylist(list(self._open.values()), schema=self.workload.state_schema)
        return [_placed(self.workload, panes.astype(np.int64), keys.astype(np.uint64), states)]


def _nothing(workload: Workload) -> pa.Table:
    none = pa.Table.from_pylist([], schema=workload.state_schema)
    return _placed(workload, np.empty(0, np.int64), np.empty(0, np.uint64), none)


def _placed(workload: Workload, panes: Any, keys: Any, states: pa.Table) -> pa.Table:
    states = states.select(workload.state_schema.names).cast(workload.state_schema)
    return states.add_column(0, _KEY, pa.array(keys)).add_column(0, _PANE, pa.array(panes))


def _grouped(panes: NDArray[np.int64], keys: NDArray[np.uint64]) -> tuple[Starts, Starts]:
    """Return an order by pane and key that keeps that of arrival, and where each pair starts."""
    order = np.lexsort((keys, panes))
    panes, keys = panes[order], keys[order]
    changed = np.flatnonzero((panes[1:] != panes[:-1]) | (keys[1:] != keys[:-1])) + 1
    first = [0] if len(order) else []
    return order, np.concatenate([first, changed, [len(order)]]).astype(np.int64)


def _merged(workload: Workload, parts: pa.Table) -> pa.Table:
    """Return one state per pane and key."""
    panes, keys = parts[_PANE].to_numpy(), parts[_KEY].to_numpy()
    order, starts = _grouped(panes, keys)
    parts = parts.take(pa.array(order)).combine_chunks()
    if len(starts) - 1 == parts.num_rows:
        return parts
    states = workload.merge_states(parts.select(workload.state_schema.names), starts)
    first = order[starts[:-1]]
    return _placed(workload, panes[first], keys[first], states)


def _native(how: str, column: pa.ChunkedArray, starts: Starts) -> pa.Array:
    """Merge a column natively, nulls left out as Spark does; a group has at least one row."""
    values = column.combine_chunks()
    if how == "concat":
        inner, elements = lists_of(values)
        return as_lists(inner[starts], elements)
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if how == "sum" and plain and values.null_count == 0:
        return pa.array(sums(values.to_numpy(), starts), from_pandas=False)
    group = group_of(starts)
    if how in {"min", "max"}:
        known = values.is_valid().to_numpy(zero_copy_only=False)
        codes, (found,) = ranked([values.drop_null()])
        best = np.full(len(starts) - 1, -1 if how == "max" else len(found))
        (np.maximum if how == "max" else np.minimum).at(best, group[known], codes)
        none = (best < 0) | (best == len(found))
        return found.take(pa.array(best, mask=none))
    table = pa.table({"group": group, "value": values})
    rows = table.group_by("group", use_threads=False).aggregate([("value", how)])
    return rows.sort_by("group")[f"value_{how}"].combine_chunks().cast(values.type)
