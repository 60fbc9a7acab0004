"""Prompt's map task: a block combined per key and pane, its clusters dealt to reduce buckets.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.histogram import bucket_of
from skewless.planners.reduce_buckets import reduce_buckets
from skewless.routing import EVERY_WORKER, Routing
from skewless.spark.aggregation import BUFFER_ROWS, buffered, sorted_groups, update_states
from skewless.spark.aggregator import Aggregator

__all__ = ["BUCKET", "END", "HASH", "LATEST", "TUPLES", "Block", "References"]

#: Columns of a partial result beside keys and states: reduce bucket; end of the pane and latest time in
#: it, microseconds; rows that it was made of. And the hash of the key, a column of the rows.
BUCKET, END, LATEST, TUPLES = (
    "__skewless_bucket",
    "__skewless_end",
    "__skewless_latest",
    "__skewless_tuples",
)
HASH = "__skewless_hash"


class References(NamedTuple):
    """A block's reference table: which of its keys lie in other blocks too.

    Examples
    --------
    >>> plan = Routing(2, {7: {0: 0.5, 1: 0.5}, 9: {1: 1.0}})
    >>> References.of(plan).split(np.array([7, 8, 9], np.uint64)).tolist()
    [True, False, False]
    """

    keys: NDArray[np.uint64]
    """uint64, ascending: keys with blocks of their own."""
    several: NDArray[np.bool_]
    """bool: whether each of them has several."""
    dealt: NDArray[np.bool_]
    """bool, by bucket of all other keys: whether its rows are dealt to every block."""
    seed: int

    @classmethod
    def of(cls, routing: Routing) -> References:
        """Return the table of a block plan."""
        several = np.diff(routing.offsets) > 1
        return cls(routing.keys, several, routing.buckets == EVERY_WORKER, routing.seed)

    def split(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Say of each key whether it lies in several blocks."""
        found: NDArray[np.bool_] = self.dealt[bucket_of(hashes, len(self.dealt), self.seed)]
        place = np.searchsorted(self.keys, hashes)
        known = place < len(self.keys)
        known[known] = self.keys[place[known]] == hashes[known]
        found[known] = self.several[place[known]]
        return found


class Block(NamedTuple):
    """What a map task does with its block.

    Parameters
    ----------
    aggregator, inputs
        What combines rows, and the columns that it reads.
    keys, time
        Key columns, and the event time, never null.
    pane_us
        Length of a pane, microseconds.
    references
        Which keys are split.
    n_buckets, seed
        Reduce buckets, and the seed of the hash that places split keys.
    layout
        Columns of the result: bucket, keys, pane, latest time, rows, states.

    Notes
    -----
    The task asks no other: a split key's bucket is that of its hash, all others are dealt by Algorithm 3
    over the rows of this block. Held in memory: the states of the block, and 131,072 rows at a time.
    """

    aggregator: Aggregator
    inputs: Sequence[str]
    keys: Sequence[str]
    time: str
    pane_us: int
    references: References
    n_buckets: int
    seed: int
    layout: pa.Schema

    def columns(self) -> list[str]:
        """Return the columns that the task reads."""
        return list(dict.fromkeys([*self.keys, self.time, *self.inputs, HASH]))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the block's partial results, one per key, pane and buffer of rows."""
        parts = [self._combined(rows) for rows in buffered(batches, BUFFER_ROWS) if rows.num_rows]
        if not parts:
            return
        block = pa.concat_tables(parts).combine_chunks()
        hashes = block.column(HASH).to_numpy().view(np.uint64)
        clusters, cluster = np.unique(hashes, return_inverse=True)
        tuples = block.column(TUPLES).to_numpy()
        sizes = np.bincount(cluster, tuples, len(clusters)).astype(np.int64)
        split = self.references.split(clusters)
        bucket = reduce_buckets(clusters, sizes, split, self.n_buckets, seed=self.seed)
        whole = block.append_column(BUCKET, pa.array(bucket[cluster], pa.int32()))
        yield from whole.select(self.layout.names).cast(self.layout).to_batches()

    def _combined(self, rows: pa.Table) -> pa.Table:
        names = list(self.keys)
        order, starts = sorted_groups(rows, names, self.time, self.pane_us)
        rows = rows.take(pa.array(order))
        states = update_states(self.aggregator, rows.select(list(self.inputs)), starts)
        first, last = pa.array(starts[:-1]), pa.array(starts[1:] - 1)
        times = rows.column(self.time).take(last)
        stamps = times.cast(pa.timestamp("us", times.type.tz)).to_numpy().astype(np.int64)
        found = {name: rows.column(name).take(first) for name in (*names, HASH)}
        found[END] = pa.array(np.floor_divide(stamps, self.pane_us) * self.pane_us + self.pane_us)
        found[LATEST] = pa.array(stamps)
        found[TUPLES] = pa.array(np.diff(starts))
        found.update({name: states.column(name) for name in states.column_names})
        return pa.table(found)
