"""HeavyHitters: the frequent values of a column per key, in a state of fixed size.

P. K. Agarwal, G. Cormode, Z. Huang, J. M. Phillips, Z. Wei, K. Yi: Mergeable Summaries, PODS 2012; the
counters are those of J. Misra, D. Gries: Finding Repeated Elements, 1982.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.parameters import Count, check
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.counting import Counts, count_rows, known_rows, parts_of
from skewless.spark.aggregators.ddl import checked_value_type, typed_values
from skewless.spark.aggregators.segments import kept, sums

__all__ = ["HeavyHitters"]


class HeavyHitters(GroupAggregator):
    """List the frequent values of a column per key from at most `capacity` counters.

    Use it where a key has too many distinct values to count them all. `TopK` is exact where it has
    not.

    Parameters
    ----------
    column : str
        The column whose values are counted.
    capacity : int of at least 1
        Counters per key.
    value_type : str
        Spark's type of `column`, such as ``"string"`` or ``"bigint"``.

    Notes
    -----
    Result: ``n``, the rows with a value; ``error``; ``heavy``, an array of ``struct<value, n>``, highest
    `n` first, of equal counts the lower value first. A listed value comes ``n - error`` to `n` times, any
    other at most `error` times. Nulls are not counted.

    Guarantee: ``error <= n / (capacity + 1)``, however rows are split and in whatever order states are
    merged, so every value above that share is listed. With at most `capacity` distinct values `error`
    is 0 and the counts are exact. Which rare values are listed, and `error` itself, depend on the
    split.

    Cost: one sort of the rows. State: `capacity` values and 8 bytes for each count, and 16.

    Deviations from the paper: all states of a key are added up before the count after the last that
    can be kept is subtracted, once. The part subtracted so far, the paper's error, is in the state and
    added to the counts that are reported, as SpaceSaving reports them.

    Examples
    --------
    >>> heavy = HeavyHitters("word", 2)
    >>> rows = pa.table({"word": ["the", "a", "the", "an", "the", "a"]})
    >>> heavy.finish(heavy.update(heavy.create(), rows))
    {'n': 6, 'error': 1, 'heavy': [{'value': 'the', 'n': 3}, {'value': 'a', 'n': 2}]}

    References
    ----------
    PODS 2012, section 3, doi:10.1145/2213556.2213562. Science of Computer Programming 2(2), 1982,
    doi:10.1016/0167-6423(82)90012-0.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}

    def __init__(self, column: str, capacity: Count, value_type: str = "string") -> None:
        check("HeavyHitters", HeavyHitters.__init__, column=column, capacity=capacity)
        self.value_type = checked_value_type("HeavyHitters", value_type)
        self.column, self.capacity = column, int(capacity)
        entry = f"array<struct<value: {value_type}, n: bigint>>"
        self._declare(
            inputs=[column],
            state=f"n bigint, error bigint, counters {entry}",
            result=f"n bigint, error bigint, heavy {entry}",
        )

    def create(self) -> dict[str, Any]:
        """Return no counters."""
        return {"n": 0, "error": 0, "counters": []}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Count each group exactly, then keep `capacity` counters."""
        values = typed_values("HeavyHitters", rows, self.column, self.value_type)
        group, columns = known_rows([values], starts)
        counts = count_rows(group, len(starts) - 1, columns)
        error, counters = self._reduced(counts)
        n = np.bincount(group, minlength=len(starts) - 1)
        return pa.table({"n": n, "error": error, "counters": counters})

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Add up the counters of all parts of each key, then keep `capacity`."""
        group, values, n = parts_of(states["counters"], starts)
        error, counters = self._reduced(count_rows(group, len(starts) - 1, values, n))
        error += sums(states["error"].to_numpy(), starts)
        return pa.table({"error": error, "counters": counters})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the most that each value with a counter can come."""
        error = states["error"].to_numpy()
        group, values, n = parts_of(states["counters"], np.arange(states.num_rows + 1))
        counts = count_rows(group, states.num_rows, values, n + error[group])
        starts, order = counts.top(self.capacity)
        heavy = counts.lists(["value"], starts, order, counts.n[order])
        return pa.table({"n": states["n"], "error": states["error"], "heavy": heavy})

    def _reduced(self, counts: Counts) -> tuple[NDArray[np.int64], pa.Array]:
        """Subtract the first count that cannot be kept from all of its group; drop those used up."""
        sizes, order = np.diff(counts.starts), counts.by_count()
        cut = np.zeros(len(sizes), np.int64)
        full = sizes > self.capacity
        cut[full] = counts.n[order[counts.starts[:-1][full] + self.capacity]]
        left = counts.n - np.repeat(cut, sizes)
        some = left > 0
        starts = kept(counts.starts, some)
        return cut, counts.lists(["value"], starts, np.flatnonzero(some), left[some])
