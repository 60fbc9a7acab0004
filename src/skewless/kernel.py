"""What every compiled kernel shares: the decorator, the key mixer, the random generator.

The mixer is built from Spark's own ``xxhash64`` so that the simulator, a kernel and a Catalyst
expression send a key to the same place: ``mix(h, c)`` equals ``xxhash64(c, h)`` in Spark SQL for two
longs, and ``spread(x, n)`` needs only shifts and one product that cannot overflow a signed long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.options import DefaultOptions
from numpy.typing import NDArray

__all__ = [
    "SPARK_SEED",
    "inline_kernel",
    "kernel",
    "lean_kernel",
    "mix",
    "next_random",
    "spread",
    "unit_interval",
    "xxh64_long",
]

F = TypeVar("F", bound=Callable[..., Any])

#: The seed that Spark's ``xxhash64`` starts from.
SPARK_SEED = np.uint64(42)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_U8 = np.uint64(8)
_U11 = np.uint64(11)
_U27 = np.uint64(27)
_U29 = np.uint64(29)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)
_U33 = np.uint64(33)
_U37 = np.uint64(37)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def kernel(function: F) -> F:
    """Compile a kernel: no Python objects, no fast-math, no threads; kept on disk between runs."""
    return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


#: Options of numba that switch reference counts off, as long as it has them.
_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def lean_kernel(function: F) -> F:
    """Compile a kernel that allocates nothing and returns no array, without reference counts.

    In kernels that call others per tuple, counting the references to each array of the state takes
    more time than the algorithm: two atomic operations per array and call.
    """
    compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy", **_UNCOUNTED)(function)
    return compiled


def inline_kernel(function: F) -> F:
    """Compile a short lean kernel into those that call it, so that its arguments are not copied."""
    compiled: F = numba.njit(
        cache=True, nogil=True, error_model="numpy", forceinline=True, **_UNCOUNTED
    )(function)
    return compiled


@kernel
def xxh64_long(value: np.uint64, seed: np.uint64) -> np.uint64:
    """Return XXH64 of one 8-byte value, as Spark hashes a long."""
    h = seed + _P5 + _U8
    v = value * _P2
    v = (v << _U31) | (v >> _U33)
    h ^= v * _P1
    h = ((h << _U27) | (h >> _U37)) * _P1 + _P4
    h ^= h >> _U33
    h *= _P2
    h ^= h >> _U29
    h *= _P3
    h ^= h >> _U32
    return h


@kernel
def mix(key: np.uint64, choice: np.uint64) -> np.uint64:
    """Return the 64 mixed bits of `key` for the hash function number `choice`."""
    return xxh64_long(key, xxh64_long(choice, SPARK_SEED))


@kernel
def spread(mixed: np.uint64, n: np.uint64) -> np.int64:
    """Map mixed bits evenly on ``0 .. n - 1`` by the high 32 bits (Lemire's reduction); n < 2**31."""
    return np.int64(((mixed >> _U32) * n) >> _U32)


@kernel
def next_random(words: NDArray[np.uint64]) -> np.uint64:
    """Advance a SplitMix64 generator whose only word is ``words[0]``; return 64 random bits."""
    words[0] += _GAMMA
    z = words[0]
    z = (z ^ (z >> _U30)) * _M1
    z = (z ^ (z >> _U27)) * _M2
    return z ^ (z >> _U31)


@kernel
def unit_interval(bits: np.uint64) -> float:
    """Map 64 random bits on ``[0, 1)`` by their 53 highest."""
    return np.float64(bits >> _U11) * (1.0 / 9007199254740992.0)
