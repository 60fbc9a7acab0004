"""An aggregator without Spark: rows split into fragments, updated apart, merged in any order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.spark.aggregators.base import GroupAggregator

NATIVE = {"sum": sum, "min": min, "max": max}


def run(aggregator: GroupAggregator, keys: list[Any], columns: dict[str, pa.Array], seed: int):
    """Return ``{key: result}``; `seed` chooses the fragments and the order of their states, 0 none."""
    shuffle = random.Random(seed)  # noqa: S311 (no secret)
    n_fragments = 1 if seed == 0 else shuffle.randint(1, 4)
    fragment = [shuffle.randrange(n_fragments) for _ in keys]
    states = []
    for f in range(n_fragments):
        states += states_of(
            aggregator, keys, columns, [i for i, g in enumerate(fragment) if g == f]
        )
    shuffle.shuffle(states)
    by_key: dict[Any, list[dict[str, Any]]] = {}
    for key, state in states:
        by_key.setdefault(key, []).append(state)
    merged = merge(aggregator, list(by_key.values()))
    results = aggregator.finish_groups(merged)
    assert results.column_names == aggregator.result_schema.names
    return dict(zip(by_key, results.cast(aggregator.result_schema).to_pylist(), strict=True))


def states_of(aggregator, keys, columns, rows: list[int]):
    """Return ``(key, state)`` of some rows, which update_groups gets sorted by key."""
    names = sorted({keys[i] for i in rows}, key=repr)
    order = sorted(rows, key=lambda i: names.index(keys[i]))
    sizes = [sum(keys[i] == name for i in rows) for name in names]
    table = pa.table(dict(columns)).take(pa.array(order, pa.int64()))
    states = aggregator.update_groups(
        table.select(list(aggregator.inputs)), np.cumsum([0, *sizes]).astype(np.int64)
    )
    assert states.num_rows == len(names)
    states = states.select(aggregator.state_schema.names).cast(aggregator.state_schema)
    return list(zip(names, states.to_pylist(), strict=True))


def merge(aggregator, listed: list[list[dict[str, Any]]]) -> pa.Table:
    """Merge the states of each key as Spark and merge_groups do together."""
    schema = aggregator.state_schema
    by_merge = [field for field in schema if field.name not in aggregator.merges]
    flat = [{f.name: state[f.name] for f in by_merge} for states in listed for state in states]
    starts = np.cumsum([0, *map(len, listed)]).astype(np.int64)
    table = pa.Table.from_pylist(flat, schema=pa.schema(by_merge))
    merged = aggregator.merge_groups(table, starts)
    columns = {name: merged[name] for name in merged.column_names}
    for name, how in aggregator.merges.items():
        columns[name] = pa.array(
            [NATIVE[how](state[name] for state in states) for states in listed],
            schema.field(name).type,
        )
    return pa.table({name: columns[name] for name in schema.names})
