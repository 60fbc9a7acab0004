"""A routing as Catalyst expressions: native code on every row, no Python.

`routing_column` holds the arrays of a routing as literals (batch: the routing is known when the plan
is made) and leaves out what that routing has no use for; `worker_column` reads them from a struct
column (stream: the struct is read anew in every micro-batch), so it must do for any routing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.routing import EVERY_WORKER, Routing
from skewless.routing_tables import GROUP_CHOICE, Tables

__all__ = [
    "TABLE_SCHEMA",
    "TableColumns",
    "bucket_column",
    "needs_salt",
    "routing_column",
    "sql_array",
    "struct_tables",
    "worker_column",
]

#: Spark type of `Tables`, the struct that a streaming query reads in every micro-batch.
TABLE_SCHEMA = (
    "displacement array<bigint>, key array<bigint>, base array<int>, count array<int>, "
    "slot array<int>, bucket array<int>"
)


#: As Spark's signed bigint.
_GROUP_CHOICE = int(GROUP_CHOICE.view(np.int64))


class TableColumns(NamedTuple):
    """The arrays of `Tables` as columns, and the lengths of three of them as bigint columns."""

    displacement: Column
    key: Column
    base: Column
    count: Column  # type: ignore[assignment]
    slot: Column
    bucket: Column
    n_groups: Column
    n_places: Column
    n_buckets: Column


def struct_tables(struct: Column) -> TableColumns:
    """Return the tables held by a struct column of `TABLE_SCHEMA`."""
    arrays = [struct.getField(name) for name in Tables._fields]
    displacement, key, _, _, _, bucket = arrays
    sizes = [F.size(array).cast("bigint") for array in (displacement, key, bucket)]
    return TableColumns(*arrays, *sizes)


def worker_column(
    tables: TableColumns, key_hash: Column, salt: Column, n_workers: int, seed: int
) -> Column:
    """Return the worker of each row, an int column in ``[0, n_workers)``.

    Parameters
    ----------
    tables
        The routing.
    key_hash
        Spark's ``xxhash64`` of the key columns, bigint.
    salt
        Non-negative bigint that picks the slot of a split key.
    n_workers, seed
        Of the routing.
    """
    group = _spread(_mix(key_hash, F.lit(_GROUP_CHOICE)), tables.n_groups)
    place = _spread(_mix(key_hash, F.get(tables.displacement, group)), tables.n_places)
    base = F.get(tables.base, place)
    # The second condition always holds: needed twice on every path, the place is computed once.
    hot = (F.get(tables.key, place) == key_hash) & (place >= 0) & (base >= 0)
    dealt = F.get(tables.slot, base + F.pmod(salt, F.get(tables.count, place)).cast("int"))
    bucket = _spread(_mix(key_hash, F.lit(seed)), tables.n_buckets)
    owner = F.get(tables.bucket, bucket)
    cold = F.when(owner >= 0, owner).otherwise(F.pmod(salt, F.lit(n_workers)).cast("int"))
    return F.when(hot, dealt).otherwise(cold)


def needs_salt(routing: Routing) -> bool:
    """Say whether some key has several workers, so that a row's worker takes more than its key."""
    return len(routing.split_keys) > 0 or bool((routing.buckets == EVERY_WORKER).any())


def routing_column(routing: Routing, key_hash: str, salt: Column | None) -> Column:
    """Return the worker of each row under a routing that is known when the plan is made.

    Equal to `worker_column` over the same tables, without the parts that this routing has no use
    for (the hot-key table, the salt, the buckets of plain hashing), and built from SQL text, which
    takes a tenth of the calls to the JVM.

    Parameters
    ----------
    routing
        The routing.
    key_hash
        Spark's ``xxhash64`` of the key columns, as SQL text: a column name, or the call.
    salt
        Non-negative bigint; may be ``None`` if not `needs_salt`.
    """
    cold = F.expr(_sql_owner(routing, key_hash))
    dealt_out = routing.buckets == EVERY_WORKER
    if salt is not None and dealt_out.any():
        anywhere = F.pmod(salt, F.lit(routing.n_workers)).cast("int")
        cold = anywhere if dealt_out.all() else F.when(cold >= 0, cold).otherwise(anywhere)
    if len(routing.keys) == 0:
        return cold
    tables = routing.tables
    group = _sql_spread(_sql_mix(key_hash, f"{_GROUP_CHOICE}L"), len(tables.displacement))
    choice = f"get({sql_array(tables.displacement, 'bigint')}, {group})"
    place = _sql_spread(_sql_mix(key_hash, choice), len(tables.key))
    signed = tables.key.view(np.int64)
    # Spark computes a common subexpression once only if it is needed twice on every path: the second
    # condition, which always holds, makes it so for the place and the hash.
    hot = F.expr(f"get({sql_array(signed, 'bigint')}, {place}) = {key_hash} AND {place} >= 0")
    if salt is None or len(routing.split_keys) == 0:
        owner = tables.slot[np.maximum(tables.base, 0)]
        return F.when(hot, F.expr(f"get({sql_array(owner, 'int')}, {place})")).otherwise(cold)
    base = F.expr(f"get({sql_array(tables.base, 'int')}, {place})")
    count = F.expr(f"get({sql_array(tables.count, 'int')}, {place})")
    dealt = F.get(F.expr(sql_array(tables.slot, "int")), base + F.pmod(salt, count).cast("int"))
    return F.when(hot, dealt).otherwise(cold)


def _sql_owner(routing: Routing, key_hash: str) -> str:
    """Return the owner of the key's bucket as SQL text."""
    n, n_buckets = routing.n_workers, len(routing.buckets)
    mixed = _sql_mix(key_hash, f"{routing.seed}L")
    runs = np.arange(n_buckets, dtype=np.int64) * n // n_buckets
    if n_buckets % n == 0 and np.array_equal(routing.buckets, runs):
        # Equal runs of buckets: floor(floor(x n m) / m) = floor(x n), so the table says nothing more.
        return _sql_spread(mixed, n)
    return f"get({sql_array(routing.buckets, 'int')}, {_sql_spread(mixed, n_buckets)})"


def sql_array(values: NDArray[Any] | Sequence[Any], kind: str) -> str:
    """Return an array literal as SQL text; `kind` is the type of an element."""
    # A JSON text folds to an array literal at once; a call of array() takes a node for each entry.
    text = json.dumps(np.asarray(values).tolist(), separators=(",", ":"))
    return f"from_json('{text}', 'array<{kind}>')"


def _sql_mix(key_hash: str, choice: str) -> str:
    return f"xxhash64({choice}, {key_hash})"


def _sql_spread(mixed: str, n: int) -> str:
    high = f"shiftrightunsigned({mixed}, 32)"
    return f"cast(shiftrightunsigned({high} * {n}L, 32) as int)"


def bucket_column(key_hash: Column, n_buckets: int, seed: int) -> Column:
    """Return the bucket of each row, int: equal to `skewless.histogram.bucket_of`."""
    return _spread(_mix(key_hash, F.lit(seed)), F.lit(n_buckets).cast("bigint"))


def _mix(key_hash: Column, choice: Column) -> Column:
    return F.xxhash64(choice.cast("bigint"), key_hash)


def _spread(mixed: Column, n: Column) -> Column:
    return F.shiftrightunsigned(F.shiftrightunsigned(mixed, 32) * n, 32).cast("int")
