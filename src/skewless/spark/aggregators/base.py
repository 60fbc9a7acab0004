"""What the ready-made aggregators share: they work on groups, and one key is a group of its own."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.spark.aggregator import Aggregator
from skewless.spark.aggregators.ddl import arrow_schema

__all__ = ["GroupAggregator"]

_NATIVE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "min": min,
    "max": max,
}


class GroupAggregator(Aggregator):
    """An aggregator written for many groups at once; the forms for one key follow from those.

    Notes
    -----
    A subclass checks its parameters, calls `_declare`, and writes `create` and the three vectorised
    forms. Those name their columns as `state` and `result` do, and leave the exact Arrow types to the
    caller, who casts.
    """

    def _declare(self, inputs: Sequence[str], state: str, result: str) -> None:
        """Set what the protocol reads, for this instance."""
        # Through the dictionary: the protocol declares these for classes, whose columns are fixed.
        self.__dict__.update(
            inputs=tuple(dict.fromkeys(inputs)),
            state=state,
            result=result,
            state_schema=arrow_schema(state),
            result_schema=arrow_schema(result),
        )

    @abc.abstractmethod
    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return one state per group, in order."""

    @abc.abstractmethod
    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return one merged state per key, in order, of the columns that `merges` does not name."""

    @abc.abstractmethod
    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return one row of result columns per merged state, in order."""

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the state after `rows`, all of one key."""
        one = np.array([0, rows.num_rows])
        fresh = self.update_groups(rows, one).select(self.state_schema.names)
        more = fresh.cast(self.state_schema).to_pylist()[0]
        native = {name: _NATIVE[how](state[name], more[name]) for name, how in self.merges.items()}
        return {**self.merge(state, more), **native}

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Return the state of two parts of a key's rows, of the columns that `merges` does not name."""
        fields = [field for field in self.state_schema if field.name not in self.merges]
        states = pa.Table.from_pylist([left, right], schema=pa.schema(fields))
        merged = self.merge_groups(states, np.array([0, 2])).select(states.column_names)
        return merged.cast(states.schema).to_pylist()[0]

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the result columns of a merged state."""
        states = pa.Table.from_pylist([state], schema=self.state_schema)
        return self.finish_groups(states).cast(self.result_schema).to_pylist()[0]
