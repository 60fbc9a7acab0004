"""The protocol of an aggregator: create, update, merge, finish, for a state in Spark's columns."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["NATIVE_MERGES", "Aggregator"]

#: Name of a merge -> Spark's aggregate that does it.
NATIVE_MERGES: dict[str, Callable[[Column], Column]] = {
    "sum": F.sum,
    "min": F.min,
    "max": F.max,
    "bit_and": F.bit_and,
    "bit_or": F.bit_or,
    "bit_xor": F.bit_xor,
    "bool_and": F.bool_and,
    "bool_or": F.bool_or,
    "hll_union": F.hll_union_agg,
    "concat": lambda column: F.flatten(F.collect_list(column)),
}


class Aggregator(abc.ABC):
    """A custom aggregate whose work may be split over several tasks per key.

    Attributes
    ----------
    inputs
        Names of the columns that `update` reads.
    state
        Spark schema of the state, as DDL text: ``"n long, total double"``.
    result
        Spark schema of the result columns, as DDL text.
    merges
        Native merge of state columns, one of `NATIVE_MERGES` each. With ``"concat"`` the column is an
        array, and the arrays of all fragments are joined in no particular order. Columns that are not
        named here are merged by `merge`, in Python; none needs to be.
    max_rows
        Most rows that one call of `update` gets.

    Notes
    -----
    `update` must not depend on the order of the rows, and merging the states of any two parts of a
    key's rows must give the state of the whole: rows are split by load, not by content.

    `update_groups`, `merge_groups` and `finish_groups` are the vectorised forms; override them where
    a Python call per key is too slow. They run in the tasks, on a copy of the aggregator whose
    `state_schema` and `result_schema` hold the Arrow schemas of `state` and `result`.

    Examples
    --------
    >>> class Mean(Aggregator):
    ...     inputs = ("x",)
    ...     state = "n long, total double"
    ...     result = "mean double"
    ...     merges = {"n": "sum", "total": "sum"}
    ...     def create(self):
    ...         return {"n": 0, "total": 0.0}
    ...     def update(self, state, rows):
    ...         x = rows["x"].to_numpy()
    ...         return {"n": state["n"] + len(x), "total": state["total"] + float(x.sum())}
    ...     def finish(self, state):
    ...         return {"mean": state["total"] / state["n"]}
    >>> import pyarrow as pa
    >>> mean = Mean()
    >>> mean.finish(mean.update(mean.create(), pa.table({"x": [1.0, 3.0]})))
    {'mean': 2.0}
    """

    inputs: ClassVar[Sequence[str]]
    state: ClassVar[str]
    result: ClassVar[str]
    merges: ClassVar[Mapping[str, str]] = {}
    max_rows: ClassVar[int] = 10_000
    state_schema: pa.Schema
    result_schema: pa.Schema

    @abc.abstractmethod
    def create(self) -> dict[str, Any]:
        """Return the state of no rows."""

    @abc.abstractmethod
    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the state after `rows`, at most `max_rows` rows of one key, columns as in `inputs`."""

    @abc.abstractmethod
    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the result columns of a merged state."""

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Return the state of two parts of a key's rows, of the columns that `merges` does not name.

        Must be associative and commutative: fragments come in no particular order. Needed as soon as
        `merges` leaves a state column out.
        """
        raise NotImplementedError(type(self).__name__)

    def subtract(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Return the state `left` without the part `right` of its rows: the inverse of `merge`.

        Only for windows with running totals, and only of the columns that `merges` does not name.
        ``subtract(merge(a, b), b)`` must give the results of ``a``.
        """
        raise NotImplementedError(type(self).__name__)

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return one state per group, in order.

        Parameters
        ----------
        rows
            Rows sorted by group; group ``i`` is ``rows[starts[i]:starts[i + 1]]``.
        starts
            int64, one entry per group and one more.
        """
        states: list[dict[str, Any]] = []
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            state = self.create()
            for first in range(start, stop, self.max_rows):
                state = self.update(state, rows.slice(first, min(self.max_rows, stop - first)))
            states.append(state)
        return pa.Table.from_pylist(states, schema=self.state_schema)

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return one merged state per key, in order, of the columns that `merges` does not name.

        Parameters
        ----------
        states
            States sorted by key; those of key ``i`` are ``states[starts[i]:starts[i + 1]]``, at least
            one.
        starts
            int64, one entry per key and one more.
        """
        listed = states.to_pylist()
        merged = []
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            state = listed[start]
            for other in listed[start + 1 : stop]:
                state = self.merge(state, other)
            merged.append(state)
        return pa.Table.from_pylist(merged, schema=states.schema)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return one row of result columns per merged state, in order."""
        finished = [self.finish(state) for state in states.to_pylist()]
        return pa.Table.from_pylist(finished, schema=self.result_schema)
