"""The states of an aggregator in Python: merged as Spark or `merge` does, subtracted where they can be.

A query that keeps its own window state merges the panes of a key outside of Spark's aggregation, so the
merges that Spark has by name are done here once more, with its rules for nulls and NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from skewless.spark.aggregator import Aggregator
from skewless.spark.running import Sums

__all__ = ["MERGES", "PaneStates", "State", "Total"]

#: A state's columns, in the order of its schema.
State = tuple[Any, ...]


class Total(NamedTuple):
    """The states of several panes put together, so that one of them can be taken out again."""

    sums: list[int]
    """What `Sums` keeps of the added columns."""
    natives: list[Any]
    """Columns with another merge of Spark's."""
    merged: dict[str, Any]
    """Columns of the aggregator's own `merge`."""


class PaneStates:
    """How the states of panes are put together.

    Parameters
    ----------
    aggregator
        With its schemas set.
    names
        All state columns, in order.
    kinds
        Of the columns that are merged by ``"sum"``, by name, as `Sums` takes them.

    Notes
    -----
    Sums of numbers are kept as whole numbers of any size (`skewless.spark.running.Sums`): what is
    subtracted is exactly what was added. The other merges of Spark's have no inverse.

    Examples
    --------
    >>> class Span(Aggregator):
    ...     state = "n long, top long"
    ...     merges = {"n": "sum", "top": "max"}
    ...     create = update = finish = None
    >>> states = PaneStates(Span(), ["n", "top"], {"n": "int"})
    >>> states.merged([(2, None), (1, 7)]), states.invertible
    ((3, 7), False)
    """

    def __init__(
        self, aggregator: Aggregator, names: Sequence[str], kinds: Mapping[str, str | int]
    ) -> None:
        self.aggregator, self.names = aggregator, list(names)
        merges = aggregator.merges
        self._summed = [i for i, name in enumerate(names) if merges.get(name) == "sum"]
        self._native = [
            (i, MERGES[merges[name]])
            for i, name in enumerate(names)
            if merges.get(name, "sum") != "sum"
        ]
        self._own = [(i, name) for i, name in enumerate(names) if name not in merges]
        self._sums = Sums([kinds[self.names[i]] for i in self._summed])
        subtracts = not self._own or type(aggregator).subtract is not Aggregator.subtract
        self.invertible = subtracts and not self._native
        """Whether a pane can be taken out of a total."""

    def plus(self, total: Total | None, state: State) -> Total:
        """Return the total with one more pane."""
        if total is None:
            return self._read(state)
        sums, natives, own = self._read(state)
        return Total(
            [a + b for a, b in zip(total.sums, sums, strict=True)],
            [
                merge(a, b)
                for (_, merge), a, b in zip(self._native, total.natives, natives, strict=True)
            ],
            self.aggregator.merge(total.merged, own) if own else own,
        )

    def minus(self, total: Total, state: State) -> Total:
        """Return the total without a pane that is in it; only where `invertible`."""
        sums, natives, own = self._read(state)
        return Total(
            [a - b for a, b in zip(total.sums, sums, strict=True)],
            natives,
            self.aggregator.subtract(total.merged, own) if own else own,
        )

    def grown(self, total: Total, before: State | None, added: State, after: State) -> Total:
        """Return the total once a pane in it has grown by `added` from `before` to `after`.

        Sums of floats are rounded when a pane is written, so its old sum goes and its new one comes.
        """
        more = self.plus(total, added)
        if before is None:
            return more
        old, new = self._read(before).sums, self._read(after).sums
        sums = [a - b + c for a, b, c in zip(total.sums, old, new, strict=True)]
        return more._replace(sums=sums)

    def write(self, total: Total) -> State:
        """Return the state of all panes in a total."""
        found: list[Any] = [None] * len(self.names)
        for i, value in zip(self._summed, self._sums.write(total.sums), strict=True):
            found[i] = value
        for (i, _), value in zip(self._native, total.natives, strict=True):
            found[i] = value
        for i, name in self._own:
            found[i] = total.merged[name]
        return tuple(found)

    def merged(self, states: Sequence[State]) -> State:
        """Return the state of one or more parts of a key's rows."""
        if len(states) == 1:
            return states[0]
        total: Total | None = None
        for state in states:
            total = self.plus(total, state)
        assert total is not None  # noqa: S101 - there is at least one
        return self.write(total)

    def _read(self, state: State) -> Total:
        # `Sums.plus` without a total reads the columns.
        sums = self._sums.plus(None, tuple(state[i] for i in self._summed))
        natives = [state[i] for i, _ in self._native]
        return Total(sums, natives, {name: state[i] for i, name in self._own})


def _known(merge: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a merge that leaves nulls out, as Spark's aggregates do."""

    def merged(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        return merge(left, right)

    return merged


def _rank(value: Any) -> Any:
    """Return what sorts as Spark sorts: null first, NaN last, arrays and structs by their parts."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, [_rank(each) for each in value.values()])
    if isinstance(value, (list, tuple)):
        return (1, [_rank(each) for each in value])
    return (1, value)


def _least(left: Any, right: Any) -> Any:
    return min(left, right, key=_rank)


def _most(left: Any, right: Any) -> Any:
    return max(left, right, key=_rank)


#: Name of a merge of Spark's -> the same of two values.
MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "min": _known(_least),
    "max": _known(_most),
    "bit_and": _known(operator.and_),
    "bit_or": _known(operator.or_),
    "bit_xor": _known(operator.xor),
    "bool_and": _known(operator.and_),
    "bool_or": _known(operator.or_),
    "concat": _known(operator.add),
}
