"""XXH64 in plain Python, after the specification; and Spark's way to chain it over values.

Imports nothing of ours. https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

MASK = 2**64 - 1
PRIME_1 = 11400714785074694791
PRIME_2 = 14029467366897019727
PRIME_3 = 1609587929392839161
PRIME_4 = 9650029242287828579
PRIME_5 = 2870177450012600261


def _rotl(x: int, n: int) -> int:
    return (x << n | x >> 64 - n) & MASK


def _round(acc: int, lane: int) -> int:
    return _rotl((acc + lane * PRIME_2) & MASK, 31) * PRIME_1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    """Return XXH64 of `data`."""
    rest = data
    if len(data) < 32:
        acc = (seed + PRIME_5) & MASK
    else:
        accs = [seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1]
        while len(rest) >= 32:
            lanes = struct.unpack("<4Q", rest[:32])
            accs = [_round(acc & MASK, lane) for acc, lane in zip(accs, lanes, strict=True)]
            rest = rest[32:]
        acc = sum(_rotl(a, n) for a, n in zip(accs, (1, 7, 12, 18), strict=True)) & MASK
        for a in accs:
            acc = ((acc ^ _round(0, a)) * PRIME_1 + PRIME_4) & MASK
    acc = (acc + len(data)) & MASK
    while len(rest) >= 8:
        lane = int.from_bytes(rest[:8], "little")
        acc = (_rotl(acc ^ _round(0, lane), 27) * PRIME_1 + PRIME_4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        lane = int.from_bytes(rest[:4], "little")
        acc = (_rotl(acc ^ lane * PRIME_1 & MASK, 23) * PRIME_2 + PRIME_3) & MASK
        rest = rest[4:]
    for byte in rest:
        acc = _rotl(acc ^ byte * PRIME_5 & MASK, 11) * PRIME_1 & MASK
    acc = (acc ^ acc >> 33) * PRIME_2 & MASK
    acc = (acc ^ acc >> 29) * PRIME_3 & MASK
    return acc ^ acc >> 32


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)


def _int(value: int) -> bytes:
    return struct.pack("<i", value)


def _long(value: int) -> bytes:
    return struct.pack("<q", value)


def _folded(value: float) -> float:
    """Return one NaN for all, and 0.0 for -0.0."""
    return math.nan if math.isnan(value) else value or 0.0


#: Spark type by its SQL name: the bytes of a value; a timestamp is naive and in UTC.
BYTES: dict[str, Callable[[Any], bytes]] = {
    "boolean": _int,
    "tinyint": _int,
    "smallint": _int,
    "int": _int,
    "bigint": _long,
    "date": lambda value: _int((value - EPOCH.date()).days),
    "timestamp": lambda value: _long((value.replace(tzinfo=EPOCH.tzinfo) - EPOCH) // MICROSECOND),
    "interval": lambda value: _long(value // MICROSECOND),
    "float": lambda value: struct.pack("<f", _folded(value)),
    "double": lambda value: struct.pack("<d", _folded(value)),
    "string": str.encode,
    "binary": bytes,
}


def value_bytes(value: Any, kind: str) -> bytes:
    """Return the bytes that Spark hashes for a value of a Spark type."""
    if kind in BYTES:
        return BYTES[kind](value)
    name, precision, scale = kind.replace("(", " ").replace(",", " ").strip(")").split()
    if name != "decimal":
        raise ValueError(kind)
    unscaled = int(Decimal(value).scaleb(int(scale), Context(prec=80)))
    if int(precision) <= 18:
        return struct.pack("<q", unscaled)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def chain(value: Any, kind: Any, seed: int) -> int:
    """Return the hash after a value; a list type is ``[kind]``, a struct ``{name: kind}``."""
    if value is None:
        return seed
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        for element in value:
            seed = chain(element, kind[0], seed)
        return seed
    if isinstance(kind, Mapping):
        for name, field in kind.items():
            seed = chain(value[name], field, seed)
        return seed
    return xxh64(value_bytes(value, kind), seed)


def spark_hash(row: Iterable[Any], kinds: Iterable[Any]) -> int:
    """Return the unsigned bits of Spark's ``xxhash64`` of a row."""
    seed = 42
    for value, kind in zip(row, kinds, strict=True):
        seed = chain(value, kind, seed)
    return seed
