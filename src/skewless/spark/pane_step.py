"""A worker's window state, batch by batch: partial results in, complete or changed windows out, as Arrow.

The state of a key are the panes that some window still needs, in the aggregator's own state columns, and
the running total where there is an inverse. It is kept by `skewless.state_store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.plain_values import decode, encode
from skewless.spark.aggregator import Aggregator
from skewless.spark.blocks import END
from skewless.spark.pane_states import PaneStates, State, Total
from skewless.spark.pane_windows import Clock, Held, PaneWindows, Spans

__all__ = ["DUE", "STATE_COLUMNS", "WindowStep", "state_schema"]

#: Columns of a key's state: panes with their ends, end of the last pane in the total, the total, and the
#: time at which the next window is complete.
_PANES, _UPTO, _TOTAL, DUE = "_panes", "_upto", "_total", "_due"
STATE_COLUMNS = (_PANES, _UPTO, _TOTAL, DUE)


def state_schema(aggregator: Aggregator) -> pa.Schema:
    """Return the columns of a key's state, Arrow."""
    pane = pa.struct([pa.field(END, pa.int64()), *aggregator.state_schema])
    return pa.schema(
        [
            pa.field(_PANES, pa.list_(pane)),
            pa.field(_UPTO, pa.int64()),
            pa.field(_TOTAL, pa.binary()),
            pa.field(DUE, pa.timestamp("us", "UTC")),
        ]
    )


class WindowStep:
    """The update of a stateful batch whose rows are partial results of panes.

    Parameters
    ----------
    states
        How the states of panes are put together.
    spans
        Shape of the windows.
    keys
        Key columns.
    outputs
        Columns of the result: window, keys, results.
    clock
        Watermarks of the batch.
    updates
        Whether windows come out when they change (update mode) or when they are complete (append).
    """

    def __init__(
        self,
        states: PaneStates,
        spans: Spans,
        keys: Sequence[str],
        outputs: pa.Schema,
        clock: Clock = Clock(0, 0),  # noqa: B008 - a tuple of numbers
        *,
        updates: bool = False,
    ) -> None:
        self.states, self.spans, self.keys, self.outputs = states, spans, list(keys), outputs
        self.clock, self.updates = clock, updates

    def at(self, clock: Clock, *, updates: bool) -> WindowStep:
        """Return the same for a batch with these watermarks."""
        return WindowStep(self.states, self.spans, self.keys, self.outputs, clock, updates=updates)

    def __call__(
        self, rows: pa.Table, slots: NDArray[np.int64], states: pa.Table
    ) -> tuple[pa.Table, pa.Table, NDArray[np.bool_]]:
        """Return states, output and which keys keep a state: a vectorised update."""
        windows = PaneWindows(self.states, self.spans)
        fresh = self._fresh(rows, slots, states.num_rows)
        held = self._held(states)
        found: list[tuple[int, int, State]] = []
        kept: list[Held] = []
        for slot, (before, parts) in enumerate(zip(held, fresh, strict=True)):
            # A key that is only due has not changed.
            step = windows.changed if self.updates else windows.complete
            done, after = step(before, parts, self.clock)
            found += [(slot, end, state) for end, state in done]
            kept.append(after)
        due = [windows.due(each, self.clock) for each in kept]
        stays = np.array([bool(each.panes) for each in kept], np.bool_)
        return self._columns(kept, due), self._output(found, states), stays

    def _fresh(
        self, rows: pa.Table, slots: NDArray[np.int64], n_keys: int
    ) -> list[list[tuple[int, State]]]:
        parts: list[list[tuple[int, State]]] = [[] for _ in range(n_keys)]
        ends = rows.column(END).to_pylist()
        columns = [rows.column(name).to_pylist() for name in self.states.names]
        values = zip(*columns, strict=True)
        for slot, end, state in zip(slots.tolist(), ends, values, strict=True):
            parts[slot].append((end, state))
        return parts

    def _held(self, states: pa.Table) -> list[Held]:
        names = self.states.names
        found = []
        columns = (states.column(name).to_pylist() for name in STATE_COLUMNS[:3])
        for panes, upto, total in zip(*columns, strict=True):
            if panes is None:  # a new key
                found.append(Held())
                continue
            each = tuple((pane[END], tuple(pane[name] for name in names)) for pane in panes)
            found.append(Held(each, upto, None if total is None else Total(*decode(total))))
        return found

    def _columns(self, kept: list[Held], due: list[int | None]) -> pa.Table:
        schema = state_schema(self.states.aggregator)
        names = self.states.names
        panes = [
            [{END: end, **dict(zip(names, state, strict=True))} for end, state in each.panes]
            for each in kept
        ]
        totals = [None if each.total is None else encode(tuple(each.total)) for each in kept]
        columns: list[list[Any]] = [panes, [each.upto for each in kept], totals, due]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _output(self, found: list[tuple[int, int, State]], states: pa.Table) -> pa.Table:
        if not found:
            return self.outputs.empty_table()
        slots, ends, values = zip(*found, strict=True)
        layout = self.states.aggregator.state_schema
        columns = [
            pa.array(list(column), field.type)
            for column, field in zip(zip(*values, strict=True), layout, strict=True)
        ]
        merged = pa.Table.from_arrays(columns, schema=layout)
        results = self.states.aggregator.finish_groups(merged)
        end = np.array(ends, np.int64)
        window = self.outputs.field(0).type
        bounds = [
            pa.array(times).cast(field.type)
            for times, field in zip((end - self.spans.size, end), list(window), strict=True)
        ]
        keys = states.select(self.keys).take(pa.array(slots)).combine_chunks()
        made = [
            pa.StructArray.from_arrays(bounds, fields=list(window)),
            *(column.combine_chunks() for column in (*keys.columns, *results.columns)),
        ]
        cast = [each.cast(field.type) for each, field in zip(made, self.outputs, strict=True)]
        return pa.Table.from_arrays(cast, schema=self.outputs)
