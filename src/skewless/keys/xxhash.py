"""XXH64 (Collet's xxHash, 64 bits) over the buffers of Arrow arrays, seeded as Spark seeds it.

Every kernel adds one array to `running`, the hash of each row so far, which is the seed of its
next value; a null leaves it alone. ``owner[i]`` is the row that value `i` belongs to, so that the
elements of a list chain in their order; an empty `owner` says that value `i` belongs to row `i`.
`bits` is Arrow's validity bitmap from bit `first` on; an empty one says that nothing is null.

Specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, section "XXH64".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from skewless.kernel import kernel, xxh64_long

__all__ = [
    "Bytes",
    "Rows",
    "Words",
    "hash_bytes",
    "hash_decimals",
    "hash_doubles",
    "hash_floats",
    "hash_ints",
    "hash_longs",
]

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]
Words = NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)
_U4 = np.uint64(4)
_U64 = np.uint64(64)

_FLOAT_MAGNITUDE = np.uint32(0x7FFFFFFF)
_FLOAT_INFINITY = np.uint32(0x7F800000)
_FLOAT_NAN = np.uint32(0x7FC00000)
_DOUBLE_MAGNITUDE = np.uint64(0x7FFFFFFFFFFFFFFF)
_DOUBLE_INFINITY = np.uint64(0x7FF0000000000000)
_DOUBLE_NAN = np.uint64(0x7FF8000000000000)


def _unaligned(width: int) -> Callable[[Bytes, int], np.uint64]:
    """Return a function that reads `width` bytes, little endian, from any place in a buffer."""

    def load(_context: Any, data: Any, position: Any) -> Any:  # noqa: ARG001 - numba counts them
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            word = ir.IntType(8 * width)
            address = builder.gep(array.data, [arguments[1]], source_etype=ir.IntType(8))
            pointer = builder.bitcast(address, word.as_pointer())
            return builder.zext(builder.load(pointer, align=1, typ=word), ir.IntType(64))

        return types.uint64(data, types.int64), generate

    instruction: Any = intrinsic(load)

    def read(data: Bytes, position: int) -> np.uint64:
        word = data[position : position + width].tobytes()
        number: np.uint64 = np.uint64(int.from_bytes(word, "little"))
        return number

    def compiled(data: Any, position: Any) -> Any:  # noqa: ARG001 - numba compares the names
        def body(data: Any, position: Any) -> Any:
            return instruction(data, position)

        return body

    overload(read, strict=False)(compiled)
    return read


# Plain Python when numba is switched off, one load instruction when it is on. None checks bounds.
_load64 = _unaligned(8)
_load32 = _unaligned(4)
_load8 = _unaligned(1)


@kernel
def _rotate(x: np.uint64, n: int) -> np.uint64:
    left = np.uint64(n)
    rotated: np.uint64 = (x << left) | (x >> (_U64 - left))
    return rotated


@kernel
def _round(accumulator: np.uint64, lane: np.uint64) -> np.uint64:
    mixed: np.uint64 = _rotate(accumulator + lane * _P2, 31) * _P1
    return mixed


@kernel
def _merge(h: np.uint64, accumulator: np.uint64) -> np.uint64:
    merged: np.uint64 = (h ^ _round(_ZERO, accumulator)) * _P1 + _P4
    return merged


@kernel
def _avalanche(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    final: np.uint64 = h ^ (h >> np.uint64(32))
    return final


@kernel
def _xxh64_int(value: np.uint32, seed: np.uint64) -> np.uint64:
    """Return XXH64 of one 4-byte value."""
    h = (seed + _P5 + _U4) ^ (np.uint64(value) * _P1)
    return _avalanche(_rotate(h, 23) * _P2 + _P3)


@kernel
def _xxh64_bytes(data: Bytes, start: int, length: int, seed: np.uint64) -> np.uint64:
    """Return XXH64 of ``data[start : start + length]``; reads nothing outside it."""
    at = start
    end = start + length
    if length >= 32:  # steps 1 to 3: four accumulators over stripes of 32 bytes
        v1 = seed + _P1 + _P2
        v2 = seed + _P2
        v3 = seed
        v4 = seed - _P1
        while at + 32 <= end:
            v1 = _round(v1, _load64(data, at))
            v2 = _round(v2, _load64(data, at + 8))
            v3 = _round(v3, _load64(data, at + 16))
            v4 = _round(v4, _load64(data, at + 24))
            at += 32
        h = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
        h = _merge(_merge(_merge(_merge(h, v1), v2), v3), v4)
    else:
        h = seed + _P5
    h += np.uint64(length)  # step 4
    while at + 8 <= end:  # step 5: what is left, by 8, by 4, by 1
        h = _rotate(h ^ _round(_ZERO, _load64(data, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        h = _rotate(h ^ (_load32(data, at) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        h = _rotate(h ^ (_load8(data, at) * _P5), 11) * _P1
        at += 1
    return _avalanche(h)  # step 6


@kernel
def _is_null(bits: Bytes, position: int) -> bool:
    return bits.size != 0 and ((bits[position >> 3] >> (position & 7)) & 1) == 0


@kernel
def hash_ints(
    values: NDArray[np.int32], bits: Bytes, first: int, owner: Rows, running: Words
) -> None:
    """Add values that Spark hashes as 4 bytes: boolean, byte, short, int, date."""
    for i in range(values.size):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            running[row] = _xxh64_int(np.uint32(values[i]), running[row])


@kernel
def hash_longs(
    values: NDArray[np.int64], bits: Bytes, first: int, owner: Rows, running: Words
) -> None:
    """Add values that Spark hashes as 8 bytes: long, timestamp, interval, decimal up to 18."""
    for i in range(values.size):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            running[row] = xxh64_long(np.uint64(values[i]), running[row])


@kernel
def hash_floats(
    words: NDArray[np.uint32], bits: Bytes, first: int, owner: Rows, running: Words
) -> None:
    """Add the bits of floats; every NaN counts as the canonical one and -0.0 as 0.0."""
    for i in range(words.size):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            word = words[i]
            magnitude = word & _FLOAT_MAGNITUDE
            if magnitude > _FLOAT_INFINITY:
                word = _FLOAT_NAN
            elif magnitude == 0:
                word = magnitude
            running[row] = _xxh64_int(word, running[row])


@kernel
def hash_doubles(words: Words, bits: Bytes, first: int, owner: Rows, running: Words) -> None:
    """Add the bits of doubles; every NaN counts as the canonical one and -0.0 as 0.0."""
    for i in range(words.size):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            word = words[i]
            magnitude = word & _DOUBLE_MAGNITUDE
            if magnitude > _DOUBLE_INFINITY:
                word = _DOUBLE_NAN
            elif magnitude == _ZERO:
                word = magnitude
            running[row] = xxh64_long(word, running[row])


@kernel
def hash_bytes(
    data: Bytes, offsets: NDArray[Any], bits: Bytes, first: int, owner: Rows, running: Words
) -> None:
    """Add strings or binaries: value `i` is ``data[offsets[i] : offsets[i + 1]]``."""
    for i in range(offsets.size - 1):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            start = np.int64(offsets[i])
            length = np.int64(offsets[i + 1]) - start
            running[row] = _xxh64_bytes(data, start, length, running[row])


@kernel
def hash_decimals(data: Bytes, bits: Bytes, first: int, owner: Rows, running: Words) -> None:
    """Add decimals of 16 bytes as Java's ``BigInteger.toByteArray`` gives their unscaled value.

    That is two's complement, big endian, in as few bytes as keep the sign.
    """
    reversed_bytes = np.empty(16, np.uint8)
    for i in range(data.size // 16):
        if not _is_null(bits, first + i):
            row = owner[i] if owner.size else i
            low = 16 * i
            last = low + 15
            sign = np.uint8(255) if data[last] >= 128 else np.uint8(0)
            while last > low and data[last] == sign and (data[last - 1] ^ sign) < 128:
                last -= 1
            length = last - low + 1
            for j in range(length):
                reversed_bytes[j] = data[last - j]
            running[row] = _xxh64_bytes(reversed_bytes, 0, length, running[row])
