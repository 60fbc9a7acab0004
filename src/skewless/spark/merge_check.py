"""Whether an aggregator may be split: a sample is worked on whole and in parts, and compared."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.errors import DataError
from skewless.spark.aggregator import Aggregator

__all__ = ["check_merge"]

#: Groups that are compared, and the parts that each is cut into.
_GROUPS, _PARTS = 20, 3


def _known(rule: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    """Return a merge that leaves nulls out, as Spark's aggregates do."""

    def merge(values: list[Any]) -> Any:
        left = [value for value in values if value is not None]
        return functools.reduce(rule, left) if left else None

    return merge


#: The native merges that can be done here.
_NATIVE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _known(operator.add),
    "min": _known(min),
    "max": _known(max),
    "bit_and": _known(operator.and_),
    "bit_or": _known(operator.or_),
    "bit_xor": _known(operator.xor),
    "bool_and": _known(lambda a, b: a and b),
    "bool_or": _known(lambda a, b: a or b),
    "concat": lambda values: [x for value in values if value is not None for x in value],
}


def check_merge(verb: str, aggregator: Aggregator, rows: pa.Table, starts: Any) -> None:
    """Raise unless merged parts of groups give the result of the whole groups.

    Parameters
    ----------
    verb
        Opens the error sentence.
    aggregator
        With its schemas set.
    rows
        Input columns, sorted by group; group ``i`` is ``rows[starts[i]:starts[i + 1]]``.
    starts
        One entry per group and one more.

    Raises
    ------
    DataError
        A group of the sample has another result when it is split.
    """
    if not set(aggregator.merges.values()) <= set(_NATIVE):
        return  # sketches can only be merged by Spark
    sizes = np.diff(starts)
    for group in np.argsort(-sizes, kind="stable")[:_GROUPS].tolist():
        part = rows.slice(int(starts[group]), int(sizes[group]))
        whole = _finished(aggregator, [part])
        # Dealt like rows to workers: every third row to a part, so parts hold unlike rows.
        cut = [part.take(np.arange(i, part.num_rows, _PARTS)) for i in range(_PARTS)]
        split = _finished(aggregator, [piece for piece in cut if piece.num_rows])
        for name, value in whole.items():
            if not _alike(value, split[name]):
                raise DataError(
                    f"{verb}: {type(aggregator).__name__} gives {name}={split[name]!r} for "
                    f"{part.num_rows} rows of a key in {_PARTS} parts, and {value!r} for all at once; "
                    "its merge loses or doubles something, or its update depends on the order of rows."
                )


def _finished(aggregator: Aggregator, parts: list[pa.Table]) -> dict[str, Any]:
    states = [
        aggregator.update_groups(part, np.array([0, part.num_rows], np.int64)).to_pylist()[0]
        for part in parts
    ]
    merges = aggregator.merges
    merged = {name: _NATIVE[how]([s[name] for s in states]) for name, how in merges.items()}
    rest = [name for name in states[0] if name not in merges]
    if rest:
        fields = [aggregator.state_schema.field(name) for name in rest]
        listed = [{name: state[name] for name in rest} for state in states]
        table = pa.Table.from_pylist(listed, schema=pa.schema(fields))
        found = aggregator.merge_groups(table, np.array([0, len(states)], np.int64))
        merged |= found.to_pylist()[0]
    state = pa.Table.from_pylist([merged], schema=aggregator.state_schema)
    return dict(aggregator.finish_groups(state).to_pylist()[0])


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and (
            all(map(_alike, a, b)) or Counter(map(repr, a)) == Counter(map(repr, b))
        )
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[name], b[name]) for name in a)
    return bool(a == b)
