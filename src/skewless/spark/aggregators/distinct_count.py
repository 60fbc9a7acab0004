"""DistinctCount: the number of distinct values of a column per key, by HyperLogLog.

P. Flajolet, E. Fusy, O. Gandouet, F. Meunier: HyperLogLog: the Analysis of a Near-optimal Cardinality
Estimation Algorithm, AofA 2007.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, kernel, mix
from skewless.keys import hash64
from skewless.parameters import Range, check
from skewless.sketches.hyper_log_log import HyperLogLogState, distinct, insert, no_registers
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.segments import column_of, kept

__all__ = ["DistinctCount"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_REGISTER_BITS = 5
#: Bytes of a register in a sparse state: two for its place, low byte first, and one for its value.
_ENTRY = 3


class DistinctCount(GroupAggregator):
    """Estimate the number of distinct values of a column per key.

    Use it where a key has many distinct values. Where it has few, Spark's ``count_distinct`` is exact
    and as cheap.

    Parameters
    ----------
    column : str
        The column whose values are counted; of any type but maps.
    precision : int in [4, 16]
        There are ``2**precision`` registers, 4096 by default.

    Notes
    -----
    Result: ``n_distinct``. Nulls are not counted; NaN is one value and -0.0 is 0.0.

    Guarantee: the standard error is about ``1.04 / sqrt(2**precision)``, 1.6 % by default (`error`); a
    few values are counted almost exactly. The state is the same however rows are split and in whatever
    order states are merged: that of `skewless.sketches.HyperLogLog` over ``hash64`` of all values.

    Cost: one hash and one register a row; 3 bytes a register to merge. State: 3 bytes per register in
    use, and at most ``2**precision`` bytes, a byte per register, once that is less.

    Deviations from the paper: those of `skewless.sketches.HyperLogLog`.

    Examples
    --------
    >>> users = DistinctCount("user")
    >>> state = users.update(users.create(), pa.table({"user": ["ann", "bob", "ann", None]}))
    >>> users.finish(state), len(state["registers"])
    ({'n_distinct': 2}, 6)

    References
    ----------
    AofA 2007, figure 3, doi:10.46298/dmtcs.3545.
    """

    def __init__(self, column: str, precision: Annotated[int, Range(4, 16)] = 12) -> None:
        check("DistinctCount", DistinctCount.__init__, column=column, precision=precision)
        self.column, self.precision = column, int(precision)
        self._declare(inputs=[column], state="registers binary", result="n_distinct bigint")

    @property
    def error(self) -> float:
        """The relative standard error."""
        return 1.04 / math.sqrt(1 << self.precision)

    def create(self) -> dict[str, Any]:
        """Return the state without a value: no register is in use."""
        return {"registers": b""}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the registers of each group."""
        column = column_of(rows, self.column)
        known = column.is_valid()
        hashes = hash64(column.filter(known))
        starts = kept(starts, known.to_numpy(zero_copy_only=False))
        ends, used = self._outputs(starts, _ENTRY)
        counter, seen = self._empty()
        _update(hashes, starts, counter, seen, used, ends)
        return pa.table({"registers": _as_binary(used, ends)})

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the highest value of each register over all parts of each key."""
        packed, places = _read(states["registers"])
        ends, used = self._outputs(places[starts], 1)
        counter, seen = self._empty()
        _merge(packed, places, starts, counter, seen, used, ends)
        return pa.table({"registers": _as_binary(used, ends)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the estimate of each state."""
        packed, places = _read(states["registers"])
        estimates = np.empty(states.num_rows)
        counter, seen = self._empty()
        _estimate(packed, places, counter, seen, estimates)
        return pa.table({"n_distinct": np.rint(estimates).astype(np.int64)})

    def _empty(self) -> tuple[HyperLogLogState, Ints]:
        """Return a counter to work in, and room for the places of its registers in use."""
        counter = no_registers(1, self.precision, _REGISTER_BITS)
        return counter, np.empty(1 << self.precision, np.int64)

    def _outputs(self, starts: Ints, n_bytes: int) -> tuple[Ints, Bytes]:
        """Return room for where states end, and for the most bytes that they can take together."""
        most = np.minimum(np.diff(starts) * n_bytes, 1 << self.precision)
        return np.zeros(len(starts), np.int64), np.empty(int(most.sum()), np.uint8)


def _read(column: Any) -> tuple[Bytes, Ints]:
    """Return the bytes of all states, and where each state starts in them."""
    states = column.combine_chunks().cast(pa.binary())
    end = states.offset + len(states)
    offsets = np.frombuffer(states.buffers()[1], np.int32)[states.offset : end + 1]
    data = states.buffers()[2]
    packed = np.frombuffer(data if data is not None else b"", np.uint8)
    return packed, offsets.astype(np.int64)


def _as_binary(used: Bytes, ends: Ints) -> pa.Array:
    """Return a binary column of states that lie one after the other."""
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(used[: ends[-1]])]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


@inline_kernel
def _raise(counter: HyperLogLogState, seen: Ints, n_seen: int, place: int, rank: int) -> int:
    """Raise a register of the counter to `rank`; return how many are in use."""
    before = np.int64(counter.register[0, place])
    if rank > before:
        if before == 0:
            seen[n_seen] = place
            n_seen += 1
        counter.register[0, place] = rank
        counter.zeros[0] -= before == 0
        counter.harmonic[0] += 2.0**-rank - 2.0**-before
    return n_seen


@inline_kernel
def _add(
    packed: Bytes, first: int, last: int, counter: HyperLogLogState, seen: Ints, n_seen: int
) -> int:
    """Add a state to the counter; return how many registers are in use.

    A dense state has a byte per register. Their number is a power of two, so no sparse one, of whole
    entries, is as long.
    """
    registers = counter.register.shape[1]
    if last - first == registers:
        for place in range(registers):
            n_seen = _raise(counter, seen, n_seen, place, np.int64(packed[first + place]))
    else:
        for i in range(first, last, _ENTRY):
            place = np.int64(packed[i]) + 256 * np.int64(packed[i + 1])
            n_seen = _raise(counter, seen, n_seen, place, np.int64(packed[i + 2]))
    return n_seen


@inline_kernel
def _clear(counter: HyperLogLogState, seen: Ints, n_seen: int) -> None:
    """Empty the counter."""
    for i in range(n_seen):
        counter.register[0, seen[i]] = 0
    counter.zeros[0] = counter.register.shape[1]
    counter.harmonic[0] = counter.register.shape[1]


@kernel
def _pack(counter: HyperLogLogState, seen: Ints, n_seen: int, used: Bytes, end: int) -> int:
    """Write the counter behind `end`, sparse or dense; return where it ends. Empties the counter."""
    registers = counter.register.shape[1]
    if _ENTRY * n_seen >= registers:
        used[end : end + registers] = counter.register[0]
        end += registers
    else:
        places = seen[:n_seen]
        places.sort()
        for place in places:
            used[end] = place & 255
            used[end + 1] = place >> 8
            used[end + 2] = counter.register[0, place]
            end += _ENTRY
    _clear(counter, seen, n_seen)
    return end


@kernel
def _update(
    hashes: NDArray[np.uint64],
    starts: Ints,
    counter: HyperLogLogState,
    seen: Ints,
    used: Bytes,
    ends: Ints,
) -> None:
    last = np.uint64(counter.register.shape[1] - 1)
    for group in range(len(starts) - 1):
        n_seen = 0
        for i in range(starts[group], starts[group + 1]):
            mixed = mix(hashes[i], np.uint64(0))
            place = np.int64(mixed & last)
            if counter.register[0, place] == 0:
                seen[n_seen] = place
                n_seen += 1
            insert(counter, 0, mixed)
        ends[group + 1] = _pack(counter, seen, n_seen, used, ends[group])


@kernel
def _merge(
    packed: Bytes,
    places: Ints,
    starts: Ints,
    counter: HyperLogLogState,
    seen: Ints,
    used: Bytes,
    ends: Ints,
) -> None:
    for key in range(len(starts) - 1):
        n_seen = 0
        for state in range(starts[key], starts[key + 1]):
            n_seen = _add(packed, places[state], places[state + 1], counter, seen, n_seen)
        ends[key + 1] = _pack(counter, seen, n_seen, used, ends[key])


@kernel
def _estimate(
    packed: Bytes,
    places: Ints,
    counter: HyperLogLogState,
    seen: Ints,
    estimates: NDArray[np.float64],
) -> None:
    for state in range(len(estimates)):
        n_seen = _add(packed, places[state], places[state + 1], counter, seen, 0)
        estimates[state] = distinct(counter, 0)
        _clear(counter, seen, n_seen)
