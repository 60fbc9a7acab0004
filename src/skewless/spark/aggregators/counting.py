"""Counting values per group: exact counts of many groups at once, as lists in a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.ddl import typed_values
from skewless.spark.aggregators.segments import Starts, as_lists, column_of, group_of, lists_of

__all__ = ["Counts", "Ranking", "count_rows", "known_rows", "parts_of", "ranked", "whole_numbers"]

Ints = NDArray[np.int64]


class Counts(NamedTuple):
    """How often each value comes, by group and, within one, by ascending value."""

    starts: Starts
    """int64, (groups + 1,): where the values of each group start."""
    code: Ints
    """int64: place of the value in the sorted `values`."""
    n: Ints
    """int64: its count in the group."""
    values: list[pa.Array]
    """The distinct values, ascending; one column, or several that make up a value together."""

    def lists(self, names: Sequence[str], starts: Starts, keep: Ints, n: Ints) -> pa.Array:
        """Return lists of structs with the values at `keep` and their counts `n`."""
        columns = [column.take(pa.array(self.code[keep])) for column in self.values]
        return as_lists(starts, pa.StructArray.from_arrays([*columns, pa.array(n)], [*names, "n"]))

    def all(self, names: Sequence[str]) -> pa.Array:
        """Return every value and its count."""
        return self.lists(names, self.starts, np.arange(len(self.n)), self.n)

    def by_count(self) -> Ints:
        """Return an order of the values within each group: highest count first, then lowest value."""
        return np.lexsort((self.code, -self.n, group_of(self.starts)))

    def top(self, k: int) -> tuple[Starts, Ints]:
        """Return where each group's `k` most frequent values start among those, and which they are."""
        order, sizes = self.by_count(), np.diff(self.starts)
        place = np.arange(len(order)) - np.repeat(self.starts[:-1], sizes)
        return np.concatenate([[0], np.cumsum(np.minimum(sizes, k))]), order[place < k]


def ranked(columns: Sequence[pa.Array]) -> tuple[Ints, list[pa.Array]]:
    """Return the rank of each row's value among the distinct ones, and these in ascending order.

    Parameters
    ----------
    columns
        Without nulls; several make up a value together. Floats are equal as Spark's grouping has it:
        one NaN, above all numbers, and one zero.

    Examples
    --------
    >>> ranked([pa.array(["b", "a", "b"])])[0]
    array([1, 0, 1])
    """
    code, found = _ranked_column(columns[0])
    values = [found]
    for column in columns[1:]:
        more, found = _ranked_column(column)
        width = max(1, len(found))
        pairs, code = np.unique(code * width + more, return_inverse=True)
        left, right = pa.array(pairs // width), pa.array(pairs % width)
        values = [*(value.take(left) for value in values), found.take(right)]
    return code, values


def _ranked_column(values: pa.Array) -> tuple[Ints, pa.Array]:
    if pa.types.is_floating(values.type):
        plain = values.to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        plain[np.isnan(plain)] = np.nan
        values = pa.array(plain, values.type, from_pandas=False)
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return rank[encoded.indices.to_numpy()], encoded.dictionary.take(order)


def count_rows(
    group: Ints, n_groups: int, columns: Sequence[pa.Array], weights: Ints | None = None
) -> Counts:
    """Count the values of rows, or add up their weights.

    Parameters
    ----------
    group
        Group of each row.
    n_groups
        Number of groups; some may have no rows.
    columns
        The values, without nulls.
    weights
        What each row counts; 1 by default.
    """
    code, values = ranked(columns)
    width = max(1, len(values[0]))
    pairs = group * width + code
    if weights is None:
        found, n = np.unique(pairs, return_counts=True)
    else:
        order = np.argsort(pairs, kind="stable")
        found, first = np.unique(pairs[order], return_index=True)
        n = _added(weights[order], first)
    starts = np.searchsorted(found, np.arange(n_groups + 1) * width)
    return Counts(starts, found % width, n.astype(np.int64), values)


def _added(weights: Ints, first: Ints) -> Ints:
    """Add up the weights from each of `first` to the next; refuse sums that 64 bits cannot hold."""
    if len(first) == 0:
        return np.empty(0, np.int64)
    n: Ints = np.add.reduceat(weights, first)
    doubles = weights.astype(np.float64)
    most = 2.0**62  # doubles round: what is near 2**63 is refused too
    if np.abs(doubles).sum() >= most and (np.abs(np.add.reduceat(doubles, first)) >= most).any():
        raise DataError("A sum of weights leaves 64 bits; divide the weights by a common factor.")
    return n


def whole_numbers(owner: str, rows: pa.Table, column: str) -> pa.Array:
    """Return a column of whole numbers, nulls kept, or raise `DataError`."""
    values = column_of(rows, column)
    if not (pa.types.is_integer(values.type) or pa.types.is_null(values.type)):
        raise DataError(
            f"{owner}: column {column!r} must hold whole numbers to be added up exactly, it holds "
            f"{values.type}."
        )
    return values.cast(pa.int64())


def known_rows(columns: Sequence[pa.Array], starts: Starts) -> tuple[Ints, list[pa.Array]]:
    """Return the group of each row that has no null in any column, and the columns of those rows."""
    known = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        known &= column.is_valid().to_numpy(zero_copy_only=False)
    group = group_of(starts)
    if known.all():
        return group, list(columns)
    mask = pa.array(known)
    return group[known], [column.filter(mask) for column in columns]


def parts_of(column: Any, starts: Starts) -> tuple[Ints, list[pa.Array], Ints]:
    """Return key, values and counts of all elements in the states of each key."""
    inner, elements = lists_of(column)
    fields = elements.flatten()
    return np.repeat(group_of(starts), np.diff(inner)), fields[:-1], fields[-1].to_numpy()


class Ranking(GroupAggregator):
    """Count values exactly; a subclass says which, and names them in the result.

    Attributes
    ----------
    fields
        What the parts of a value are called in the result.
    answer
        Result column of the most frequent values.
    """

    fields: ClassVar[Sequence[str]]
    answer: ClassVar[str]
    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}
    k: int
    value_type: str
    columns: tuple[str, ...]
    by: str | None = None

    def create(self) -> dict[str, Any]:
        """Return the counts of no rows."""
        return {"n": 0, "counted": []}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the counts of each group."""
        owner = type(self).__name__
        columns = [typed_values(owner, rows, name, self.value_type) for name in self.columns]
        weights = None
        if self.by is not None:
            columns.append(whole_numbers(owner, rows, self.by))
        group, columns = known_rows(columns, starts)
        if self.by is not None:
            weights = columns.pop().to_numpy()
        counts = count_rows(group, len(starts) - 1, columns, weights)
        n = np.bincount(group, minlength=len(starts) - 1)
        return pa.table({"n": n, "counted": counts.all(self.fields)})

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Add up the counts of all parts of each key."""
        group, values, n = parts_of(states["counted"], starts)
        counts = count_rows(group, len(starts) - 1, values, n)
        return pa.table({"counted": counts.all(self.fields)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the most frequent values of each state."""
        group, values, n = parts_of(states["counted"], np.arange(states.num_rows + 1))
        counts = count_rows(group, states.num_rows, values, n)
        starts, best = counts.top(self.k)
        top = counts.lists(self.fields, starts, best, counts.n[best])
        return pa.table({"n": states["n"], self.answer: top}).select(self.result_schema.names)
