"""From the type of an Arrow array to the kernel that hashes its buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from skewless.errors import DataError
from skewless.kernel import SPARK_SEED
from skewless.keys import xxhash
from skewless.keys.xxhash import Bytes, Rows, Words

__all__ = ["hash_column", "refuse_unhashable"]

_INT64_MAX = 2**63 - 1
_DECIMAL_IN_LONG = 18
_DAY_MS = 86_400_000
#: Factor and divisor that turn a unit of time into microseconds.
_MICROSECONDS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that kernels know as read-only, so that each is compiled for one kind only."""
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


_NO_BITS: Bytes = _read_only(np.empty(0, np.uint8))
_EACH_ROW: Rows = _read_only(np.empty(0, np.int64))


def hash_column(array: Any, running: Words, *, fresh: bool) -> None:
    """Replace each row's running hash by that of the row's value, seeded with it.

    `array` is a ``pyarrow.Array``; `fresh` says that every running hash still is Spark's seed.
    """
    if fresh and pa.types.is_dictionary(array.type) and len(array.dictionary) < len(array):
        hashes = np.full(len(array.dictionary) + 1, SPARK_SEED, np.uint64)
        _hash(array.dictionary, _EACH_ROW, hashes[:-1])
        running[:] = hashes[_indices(array)]  # the last stands for null
    else:
        _hash(array, _EACH_ROW, running)


def _indices(array: Any) -> NDArray[np.int64]:
    """Return where each value is in the dictionary; a null is one past the end."""
    indices = array.indices.cast(pa.int64())
    filled: NDArray[np.int64] = pc.fill_null(indices, len(array.dictionary)).to_numpy()
    return filled


def _hash(array: Any, owner: Rows, running: Words) -> None:
    """Add every value of an array to the running hash of the row that owns it."""
    kind = array.type
    if len(array) == 0 or pa.types.is_null(kind):
        return
    if pa.types.is_dictionary(kind):
        _hash(_decoded(array), owner, running)
    elif pa.types.is_struct(kind):
        for child in array.flatten():  # a null struct nulls its fields
            _hash(child, owner, running)
    elif _is_list(kind):
        _hash_lists(array, owner, running)
    elif _is_bytes(kind):
        _hash_bytes(array, owner, running)
    else:
        _hash_numbers(array, owner, running)


def _hash_numbers(array: Any, owner: Rows, running: Words) -> None:
    kind = array.type
    bits, first = _validity(array)
    if pa.types.is_float32(kind):
        xxhash.hash_floats(_values(array, np.uint32), bits, first, owner, running)
    elif pa.types.is_float64(kind):
        xxhash.hash_doubles(_values(array, np.uint64), bits, first, owner, running)
    elif _is_long(kind):
        xxhash.hash_longs(_read_only(_longs(array)), bits, first, owner, running)
    elif pa.types.is_decimal128(kind):
        data = _values(array, np.dtype("V16")).view(np.uint8)
        xxhash.hash_decimals(data, bits, first, owner, running)
    else:
        xxhash.hash_ints(_read_only(_ints(array)), bits, first, owner, running)


def _ints(array: Any) -> NDArray[np.int32]:
    """Return what Spark holds in 32 bits or fewer."""
    kind = array.type
    if pa.types.is_boolean(kind):
        end = array.offset + len(array)
        packed = np.frombuffer(array.buffers()[1], np.uint8, (end + 7) // 8)
        flags = np.unpackbits(packed, count=end, bitorder="little")[array.offset :]
        return flags.astype(np.int32)
    if pa.types.is_date32(kind):
        return _values(array, np.int32)
    if pa.types.is_date64(kind):
        _refuse_outside(array, -(2**31) * _DAY_MS, 2**31 * _DAY_MS - 1, "Spark's date")
        return (_values(array, np.int64) // _DAY_MS).astype(np.int32)
    return _values(array, kind.to_pandas_dtype()).astype(np.int32, copy=False)


def _longs(array: Any) -> NDArray[np.int64]:
    """Return what Spark holds in 64 bits."""
    kind = array.type
    if pa.types.is_uint32(kind):
        return _values(array, np.uint32).astype(np.int64)
    if pa.types.is_uint64(kind):
        _refuse_outside(array, 0, _INT64_MAX, "Spark's long")
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        factor, divisor = _MICROSECONDS[kind.unit]
        values = _values(array, np.int64)
        if factor > 1:
            most = _INT64_MAX // factor
            _refuse_outside(array, -most, most, "Spark's microseconds in 64 bits")
            return values * factor
        return values // divisor if divisor > 1 else values
    if pa.types.is_decimal(kind):
        wide = array.cast(pa.decimal128(kind.precision, kind.scale))
        return np.ascontiguousarray(_values(wide, np.dtype("V16")).view(np.int64)[::2])
    return _values(array, np.int64)


def _refuse_outside(array: Any, low: int, high: int, what: str) -> None:
    """Raise for a value that overflows Spark's type; nulls may hold anything."""
    kind = array.type
    numbers = array if pa.types.is_unsigned_integer(kind) else array.view(pa.int64())
    bounds = pc.min_max(numbers)
    for value in (bounds["min"].as_py(), bounds["max"].as_py()):
        if value is not None and not low <= value <= high:
            raise DataError(
                f"hash64: {value} as {kind} does not fit {what}; cast the column or filter the row."
            )


def _hash_bytes(array: Any, owner: Rows, running: Words) -> None:
    kind = array.type
    if pa.types.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    kind = array.type
    n = len(array)
    data_buffer = array.buffers()[-1]
    data = _NO_BITS if not data_buffer else _read_only(np.frombuffer(data_buffer, np.uint8))
    if pa.types.is_fixed_size_binary(kind):
        offsets = np.arange(array.offset, array.offset + n + 1, dtype=np.int64) * kind.byte_width
    else:
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = _values(array, np.int64 if wide else np.int32, extra=1)
    bits, first = _validity(array)
    xxhash.hash_bytes(data, _read_only(offsets), bits, first, owner, running)


def _hash_lists(array: Any, owner: Rows, running: Words) -> None:
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64, copy=False)
    rows = owner if owner.size else np.arange(len(array))
    values = array.flatten()  # without what a null list may point to
    if not _interleaves(values.type):
        _hash(values, _read_only(np.repeat(rows, counts)), running)
        return
    # An element adds several columns, and all of them come before the next element: go by position.
    starts = np.cumsum(counts) - counts
    alive = np.flatnonzero(counts)
    position = 0
    while alive.size:
        _hash(values.take(pa.array(starts[alive] + position)), _read_only(rows[alive]), running)
        position += 1
        alive = alive[counts[alive] > position]


def _interleaves(kind: Any) -> bool:
    """Whether a value is hashed from more than one array, however deep inside."""
    if pa.types.is_dictionary(kind) or _is_list(kind):
        return _interleaves(kind.value_type)
    if pa.types.is_struct(kind):
        return kind.num_fields > 1 or any(_interleaves(field.type) for field in kind)
    return False


def _decoded(array: Any) -> Any:
    """Return the values of a dictionary array; wide offsets, as they may be longer than 2 GiB."""
    dictionary = array.dictionary
    if pa.types.is_string(dictionary.type):
        dictionary = dictionary.cast(pa.large_string())
    elif pa.types.is_binary(dictionary.type):
        dictionary = dictionary.cast(pa.large_binary())
    return dictionary.take(array.indices)


def _validity(array: Any) -> tuple[Bytes, int]:
    """Return the bitmap of what is not null, and the place of the array's first bit in it."""
    bitmap = array.buffers()[0]
    if bitmap is None or array.null_count == 0:
        return _NO_BITS, 0
    return _read_only(np.frombuffer(bitmap, np.uint8)), array.offset


def _values(array: Any, dtype: DTypeLike, extra: int = 0) -> NDArray[Any]:
    """Return the buffer that follows the bitmap as an array, from the array's offset on."""
    width = np.dtype(dtype).itemsize
    buffer = array.buffers()[1]
    values = np.frombuffer(buffer, dtype, len(array) + extra, array.offset * width)
    return _read_only(values)


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_long(kind: Any) -> bool:
    return bool(
        pa.types.is_int64(kind)
        or pa.types.is_uint32(kind)
        or pa.types.is_uint64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or (pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_IN_LONG)
    )


def _is_int(kind: Any) -> bool:
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or (pa.types.is_integer(kind) and not _is_long(kind))
    )


def refuse_unhashable(kind: Any, label: str) -> None:
    """Raise a DataError that names the column if a type, or one inside it, has no Spark hash."""
    if isinstance(kind, pa.BaseExtensionType):
        advice = f"hash its storage ({kind.storage_type}) instead"
    elif pa.types.is_dictionary(kind) or _is_list(kind):
        refuse_unhashable(kind.value_type, label)
        return
    elif pa.types.is_struct(kind):
        for field in kind:
            refuse_unhashable(field.type, f"{label}.{field.name}")
        return
    elif pa.types.is_map(kind):
        advice = (
            "Spark's xxhash64 refuses maps, as equal maps may list their entries differently; "
            "group by a sorted list of their entries, or by one entry"
        )
    elif pa.types.is_decimal256(kind):
        advice = "Spark's decimals end at 38 digits; cast it to decimal128"
    elif (
        pa.types.is_null(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal(kind)
        or _is_int(kind)
        or _is_long(kind)
        or _is_bytes(kind)
    ):
        return
    else:
        advice = "cast it to a number, a string, a date or a timestamp"
    raise DataError(f"hash64: {label} has type {kind}, which cannot be hashed as a key: {advice}.")
