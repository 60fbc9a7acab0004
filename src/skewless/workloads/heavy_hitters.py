"""HeavyHitters: the frequent items of a stream from one SpaceSaving summary per worker.

M. A. U. Nasir et al.: The Power of Both Choices, ICDE 2015; R. Berinde, P. Indyk, G. Cormode,
M. J. Strauss: Space-optimal Heavy Hitters with Strong Error Bounds, ACM TODS 35(4), 2010; A. Metwally,
D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements, ICDT 2005.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.parameters import Count, Range, check
from skewless.sketches import SpaceSaving
from skewless.spark.aggregator import Aggregator
from skewless.spark.aggregators.counting import ranked
from skewless.spark.aggregators.ddl import checked_value_type, typed_values
from skewless.spark.aggregators.segments import Starts, as_lists, group_of, lists_of
from skewless.workloads.base import Workload

__all__ = ["HeavyHitters"]

Ints = NDArray[np.int64]
_FIELDS = ("value", "n", "error", "least", "parts")


class HeavyHitters(Workload):
    """List the `k` most frequent items, each worker counting what it gets in `capacity` counters.

    Use it to see what splitting costs a sketch: the error of an item has a term for every worker
    that it may have been on. Not where a counter per distinct item fits in memory: `TopK` is exact.

    Parameters
    ----------
    k : int of at least 1
        How many items to list.
    capacity : int in [1, 1073741824]
        Counters of a worker.
    column : str
        The column of the items; in a `Partial` without values, the key.
    value_type : str
        Spark's type of `column`; ``"bigint"`` for the keys of a chunk.
    choices : int of at least 1, or None
        Parts of the stream, at most, that an item can be in: 2 under PKG, 1 under a policy that keeps
        keys whole; in a window of several panes, times those. ``None``: any of them.

    Notes
    -----
    Result: ``n``, the rows with an item; ``heavy``, an array of ``struct<value, n, error>``, highest
    `n` first, of equal ones the lower item first; ``others``, the most that an item can come that is
    not listed. Nulls are not counted.

    Guarantee: a listed item comes ``n - error`` to `n` times. Its error is at most the sum of
    ``n_j / capacity`` over the parts ``j`` that it may be in: of all parts, or of the `choices` largest
    (PKG, section VI-C, whose term for the merge is 0 here). `choices` that are too few void it; on
    Spark a part is a batch of a task, not a worker: leave it ``None`` there.

    Cost: a sort of each batch, to name its items, and a look-up per row. State: 5 words a counter;
    merged states hold the counters of all their parts.

    Deviations from the paper: states are merged without being cut back to `capacity`, so merging is
    associative and costs no accuracy, at `capacity` counters per part.

    Examples
    --------
    >>> from skewless.chunk import Chunk
    >>> query = HeavyHitters(1, 2, choices=1)
    >>> left, right = query.start(), query.start()
    >>> left.update(Chunk(None, [7, 7, 7, 1, 2]))
    >>> right.update(Chunk(None, [8, 8, 9]))
    >>> left.merge(right)
    >>> left.answer().to_pylist()
    [{'n': 8, 'heavy': [{'value': 7, 'n': 3, 'error': 0}], 'others': 2}]

    References
    ----------
    ICDE 2015, section VI-C, doi:10.1109/ICDE.2015.7113279. TODS 35(4),
    doi:10.1145/1862919.1862923. ICDT 2005, section 3, doi:10.1007/978-3-540-30570-5_27.
    """

    per_key: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    merges: ClassVar[dict[str, str]] = {"n": "sum"}

    def __init__(
        self,
        k: Count,
        capacity: Annotated[int, Range(1, 2**30)],
        column: str = "key",
        value_type: str = "bigint",
        choices: Count | None = None,
    ) -> None:
        check(
            "HeavyHitters",
            HeavyHitters.__init__,
            k=k,
            capacity=capacity,
            column=column,
            choices=choices,
        )
        self.value_type = checked_value_type("HeavyHitters", value_type)
        self.k, self.capacity, self.column, self.choices = int(k), int(capacity), column, choices
        self._declare(
            inputs=[column],
            state=(
                "n bigint, leasts array<bigint>, counters array<struct<"
                f"value: {value_type}, n: bigint, error: bigint, least: bigint, parts: bigint>>"
            ),
            result=(
                f"n bigint, heavy array<struct<value: {value_type}, n: bigint, error: bigint>>, "
                "others bigint"
            ),
        )

    def create(self) -> dict[str, Any]:
        """Return the summary of no rows."""
        return {"n": 0, "leasts": [], "counters": []}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the summary after `rows`: it goes on, unless it was merged from several."""
        counters = state["counters"]
        if (
            len(counters) > self.capacity
            or len(state["leasts"]) > 1
            or any(counter["parts"] > 1 for counter in counters)
        ):
            return self.merge(state, self.update(self.create(), rows))
        items = typed_values("HeavyHitters", rows, self.column, self.value_type).drop_null()
        kind = self.state_schema.field("counters").type.value_type[0].type
        known = pa.array([counter["value"] for counter in counters], kind)
        codes, values = ranked([pa.concat_arrays([known, items.cast(kind)])])
        sketch = SpaceSaving(self.capacity)
        # Slots fill up in the order of their counters, so this is the sketch that the state was.
        sketch.update(codes[: len(known)], [c["n"] for c in counters])
        sketch.state.errors[: len(known)] = [c["error"] for c in counters]
        sketch.update(codes[len(known) :])
        used = int(sketch.state.least[0])
        names = values[0].take(pa.array(sketch.state.key[:used].view(np.int64))).to_pylist()
        least = sketch.least
        counts, errors = sketch.state.counts[:used].tolist(), sketch.state.errors[:used].tolist()
        return {
            "n": sketch.total,
            "leasts": [least] if used == self.capacity else [],
            "counters": [
                dict(zip(_FIELDS, (name, n, error, least, 1), strict=True))
                for name, n, error in zip(names, counts, errors, strict=True)
            ],
        }

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return a summary of each group."""
        return Aggregator.update_groups(self, rows, starts)

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Put the counters of all parts of each key together, those of one item into one."""
        inner, leasts = lists_of(states["leasts"])
        counts = leasts.to_numpy()
        order = np.lexsort((-counts, np.repeat(group_of(starts), np.diff(inner))))
        outer, elements = lists_of(states["counters"])
        value, *rest = elements.flatten()
        code, values = ranked([value])
        width = max(1, len(values[0]))
        pairs = np.repeat(group_of(starts), np.diff(outer)) * width + code
        found, place = np.unique(pairs, return_inverse=True)
        columns = [values[0].take(pa.array(found % width))]
        for column in rest:
            total = np.zeros(len(found), np.int64)
            np.add.at(total, place, column.to_numpy())
            columns.append(pa.array(total))
        merged = pa.StructArray.from_arrays(columns, list(_FIELDS))
        edges = np.searchsorted(found, np.arange(len(starts)) * width)
        return pa.table(
            {
                "leasts": as_lists(inner[starts], pa.array(counts[order])),
                "counters": as_lists(edges, merged),
            }
        )

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the items that can come most often, and how often at most and at least."""
        return pa.Table.from_pylist(
            [self._finished(state) for state in states.to_pylist()], schema=self.result_schema
        )

    def _finished(self, state: dict[str, Any]) -> dict[str, Any]:
        leasts = sorted(state["leasts"], reverse=True)

        def unseen(parts: int, least: int) -> int:
            """Return how often an item can have come in parts that have no counter for it."""
            missing = sum(leasts) - least
            if self.choices is None:
                return missing
            return min(missing, sum(leasts[: max(0, self.choices - parts)]))

        items = []
        for counter in state["counters"]:
            more = unseen(counter["parts"], counter["least"])
            n, error = counter["n"] + more, counter["error"] + more
            items.append({"value": counter["value"], "n": n, "error": error})
        items.sort(key=lambda item: (-item["n"], item["value"]))
        others = max([unseen(0, 0), *(item["n"] for item in items[self.k : self.k + 1])])
        return {"n": state["n"], "heavy": items[: self.k], "others": others}
