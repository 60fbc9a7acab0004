"""Sliding windows of sums, many keys at once: a window is the difference of two prefix sums.

The panes of a slot's keys lie in one table, sorted by key and time. One pass adds them up from the start;
what a window holds is then what was added up to its end, less what was added up to its start: two looks,
however many panes there are between. Sums are whole numbers (a double is one of some power of two), so
nothing is lost by adding up more than is wanted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.spark.running import exact_scale

__all__ = ["END", "KEY", "PrefixSums"]

#: Columns of a table of panes, and of windows, before those of the sums.
END, KEY = "__skewless_end", "__skewless_key"
_DONE = b"done"
#: Whole numbers whose absolute values add up to less are added in 64 bits.
_SMALL = 2.0**62
#: Bits of the digits of a double.
_DIGITS = 53


class PrefixSums:
    """The windows of many keys, over columns that are added up; `dump` is all that it remembers.

    Parameters
    ----------
    sums
        Names and types of the columns: integers, floating point or decimals of 128 bits.
    size, slide, pane
        Lengths of window, slide and pane, microseconds; windows start at multiples of the slide.

    Notes
    -----
    A column of a window is null if it is null in all its panes. Doubles are added exactly and rounded
    once. Cost: sorting the panes that are held, and two binary searches for each window that is emitted.
    Numbers are added in 64 bits where those are enough, else as Python's integers.

    Examples
    --------
    >>> windows = PrefixSums(pa.schema([("n", pa.int64())]), size=20, slide=10, pane=10)
    >>> windows.add(pa.table({END: [10, 20], KEY: [b"a", b"a"], "n": [1, 2]}))
    >>> found = windows.advance(30)
    >>> found[END].to_pylist(), found["n"].to_pylist()
    ([10, 20, 30], [1, 3, 2])
    >>> windows.next_end is None
    True
    """

    def __init__(self, sums: pa.Schema, size: int, slide: int, pane: int) -> None:
        self.sums, self.size, self.slide, self.pane = sums, size, slide, pane
        self.done: int | None = None
        self.next_end: int | None = None
        """End of the next window that will be complete, as of the last `advance`; ``None`` if none is."""
        self.schema = pa.schema([(END, pa.int64()), (KEY, pa.binary()), *sums])
        self.panes = self.schema.empty_table()

    def dump(self) -> bytes:
        """Return all that is remembered, as an Arrow stream."""
        done = b"" if self.done is None else str(self.done).encode()
        held = self.panes.replace_schema_metadata({_DONE: done})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, held.schema) as writer:
            writer.write_table(held)
        return sink.getvalue().to_pybytes()

    def load(self, content: bytes) -> PrefixSums:
        """Remember what `dump` returned; return itself.

        Raises
        ------
        DataError
            It is no such thing, or holds other columns.
        """
        try:
            held = pa.ipc.open_stream(content).read_all()
            done = (held.schema.metadata or {})[_DONE]
        except (pa.ArrowInvalid, KeyError) as error:
            raise DataError(
                f"windows: the checkpoint holds no running totals of this version ({error!r}); start the "
                "query with a new checkpoint."
            ) from error
        if not held.schema.equals(self.schema):
            had, wanted = (
                ", ".join(f"{field.name} {field.type}" for field in list(schema)[2:])
                for schema in (held.schema, self.schema)
            )
            raise DataError(
                f"windows: the checkpoint holds running totals of {had}, the query has {wanted}; go on "
                "with the same aggregates, or start with a new checkpoint."
            )
        self.done = int(done) if done else None
        self.panes = held.replace_schema_metadata(None)
        return self

    def add(self, panes: pa.Table) -> None:
        """Take closed panes, in any order: their ends in microseconds, their keys and their sums."""
        self.panes = pa.concat_tables(
            [self.panes, panes.select(self.schema.names).cast(self.schema)]
        )

    def advance(self, watermark: int) -> pa.Table:
        """Return all windows that end at the watermark or before and were not returned yet.

        Returns
        -------
        pyarrow.Table
            End in microseconds, key (a dictionary), and the sums, by key and end.
        """
        keys = self.panes[KEY].combine_chunks().dictionary_encode()
        code = keys.indices.to_numpy().astype(np.int64)
        end = self.panes[END].to_numpy()
        order = np.lexsort((end, code))
        panes, code, end = self.panes.take(pa.array(order)), code[order], end[order]
        found_code, found_end = self._complete(code, end, watermark)
        left, right = self._bounds(code, end, found_code, found_end)
        columns = [_summed(panes[f.name].combine_chunks(), f, left, right) for f in self.sums]
        self._evict(panes, end, watermark)
        heads = [
            pa.array(found_end),
            pa.DictionaryArray.from_arrays(pa.array(found_code, pa.int32()), keys.dictionary),
        ]
        return pa.table([*heads, *columns], names=self.schema.names)

    def _complete(
        self, code: NDArray[np.int64], end: NDArray[np.int64], watermark: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return key and end of the windows that are complete, in order.

        A pane is in the windows from `first` to `last`; those that the pane before it, of the same key,
        is in as well are that one's.
        """
        first, last = self._at_or_after(end), self._at_or_after(end + self.size) - self.slide
        begin = first.copy()
        same = code[1:] == code[:-1]
        begin[1:][same] = np.maximum(first[1:], last[:-1] + self.slide)[same]
        if self.done is not None:
            begin = np.maximum(begin, self._at_or_after(self.done + 1))
        stop = np.minimum(last, watermark - (watermark - self.size) % self.slide)
        many = np.maximum((stop - begin) // self.slide + 1, 0)
        nth = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        return np.repeat(code, many), np.repeat(begin, many) + nth * self.slide

    def _bounds(
        self,
        code: NDArray[np.int64],
        end: NDArray[np.int64],
        found_code: NDArray[np.int64],
        found_end: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the panes of each window begin and stop among the sorted panes."""
        base = int(end.min(initial=0))
        # Keys are so far apart that a window's start never reaches the panes of the key before.
        apart = (int(end.max(initial=0)) - base + self.size) // self.pane + 1
        place = code * apart + (end - base) // self.pane
        until = found_code * apart + (found_end - base) // self.pane
        left = np.searchsorted(place, until - self.size // self.pane, side="right")
        return left, np.searchsorted(place, until, side="right")

    def _evict(self, panes: pa.Table, end: NDArray[np.int64], watermark: int) -> None:
        after = watermark + 1 + (self.size - watermark - 1) % self.slide
        kept = end > after - self.size
        self.panes = panes.filter(pa.array(kept))
        self.done = watermark if self.done is None else max(self.done, watermark)
        self.next_end = int(max(after, self._at_or_after(end[kept].min()))) if kept.any() else None

    def _at_or_after(self, time: Any) -> Any:
        return time + (self.size - time) % self.slide


class _Wholes(NamedTuple):
    """A column as whole numbers."""

    values: NDArray[Any]
    """64-bit integers, or Python's; 0 for nulls, NaN and infinities."""
    unit: int = 0
    """Of floats: the values are multiples of ``2 ** unit``."""


def _summed(
    column: pa.Array, field: pa.Field, left: NDArray[np.int64], right: NDArray[np.int64]
) -> pa.Array:
    """Return the sums of ``column[left:right]``, null where no value is known."""

    def between(values: NDArray[Any]) -> NDArray[Any]:
        zero = np.zeros(1, values.dtype)
        upto = np.concatenate([zero, np.cumsum(values, dtype=values.dtype)])
        return upto[right] - upto[left]

    known = between(column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)) > 0
    if pa.types.is_floating(field.type):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        values = _to_floats(between, floats)
        return pa.array(values, mask=~known).cast(field.type)
    if pa.types.is_decimal(field.type):
        return _to_decimals(between(_of_decimals(column)), known, field)
    wholes = between(_in_64_bits(column.fill_null(0).to_numpy().astype(np.int64)))
    try:
        return pa.array(wholes, field.type, mask=~known)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise DataError(
            f"agg: a sum in {field.name} leaves {field.type}; cast the column to decimal(38, 0) "
            "before adding it up."
        ) from error


def _in_64_bits(values: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values themselves if no sum of some can overflow, else as Python's integers."""
    small = float(np.abs(values.astype(np.float64)).sum()) < _SMALL
    return values if small else values.astype(object)


def _to_floats(between: Any, floats: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.isfinite(floats)
    wholes = _of_floats(np.where(finite, floats, 0.0))
    sums = between(wholes.values)
    if sums.dtype == object:
        found = np.array([_scaled(value, wholes.unit) for value in sums], np.float64)
    else:
        with np.errstate(over="ignore"):
            found = np.ldexp(sums.astype(np.float64), wholes.unit)
    if not finite.all():
        above, below, nan = (
            between(kind.astype(np.int64)) > 0
            for kind in (floats == math.inf, floats == -math.inf, np.isnan(floats))
        )
        found[above], found[below], found[nan | (above & below)] = math.inf, -math.inf, math.nan
    return found


def _of_floats(floats: NDArray[np.float64]) -> _Wholes:
    """Return finite doubles as multiples of the largest power of two that divides them all.

    Examples
    --------
    >>> _of_floats(np.array([0.75, -2.0, 0.0]))
    _Wholes(values=array([ 3, -8,  0]), unit=-2)
    >>> _of_floats(np.array([1e300, 0.1])).values.dtype
    dtype('O')
    """
    fraction, power = np.frexp(floats)
    digits = np.ldexp(fraction, _DIGITS).astype(np.int64)
    some = digits != 0
    if not some.any():
        return _Wholes(digits)
    lowest = np.frexp((digits[some] & -digits[some]).astype(np.float64))[1] - 1
    power = power.astype(np.int64) - _DIGITS
    unit = int((power[some] + lowest).min())
    shift = np.where(some, power - unit, 0)
    if int(power[some].max()) + _DIGITS - unit + len(floats).bit_length() > int(math.log2(_SMALL)):
        # The digits of 0.5 end in zeros: shifted down or up, nothing is cut off.
        pairs = zip(digits.tolist(), shift.tolist(), strict=True)
        wholes = [n << by if by >= 0 else n >> -by for n, by in pairs]
        return _Wholes(np.array([*wholes, None], object)[:-1], unit)
    moved = np.where(shift >= 0, digits << np.maximum(shift, 0), digits >> np.maximum(-shift, 0))
    return _Wholes(moved, unit)


def _scaled(value: int, unit: int) -> float:
    """Return ``value * 2 ** unit``, rounded once."""
    try:
        return value / (1 << -unit) if unit < 0 else float(value << unit)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _of_decimals(column: pa.Array) -> NDArray[Any]:
    """Return the digits of decimals as whole numbers; 0 for null."""
    known = column.is_valid().to_numpy(zero_copy_only=False)
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[column.offset : column.offset + len(column)].T.copy()
    low, high = np.where(known, low, 0), np.where(known, high, 0)
    if (high == low >> 63).all():
        return _in_64_bits(low)
    return (high.astype(object) << 64) + low.view(np.uint64).astype(object)


def _to_decimals(wholes: NDArray[Any], known: NDArray[np.bool_], field: pa.Field) -> pa.Array:
    limit = 10**field.type.precision
    if len(wholes) and max(int(wholes.max()), -int(wholes.min())) >= limit:
        raise DataError(
            f"agg: a sum in {field.name} has more digits than {field.type} holds; divide the column, or "
            "cast it to a decimal with fewer digits behind the point, before adding it up."
        )
    if wholes.dtype == object:
        values = [exact_scale(value, -field.type.scale) for value in wholes.tolist()]
        return pa.array([v if k else None for v, k in zip(values, known, strict=True)], field.type)
    words = np.stack([wholes, wholes >> 63], axis=1)
    packed = [None, pa.py_buffer(words.tobytes())]
    found = pa.Array.from_buffers(field.type, len(wholes), packed)
    return pc.if_else(pa.array(known), found, pa.scalar(None, field.type))
