"""Counter-based draws under all generators: the same arguments give the same stream everywhere.

The generator is SplitMix64: G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number
Generators, OOPSLA 2014, section 4 (doi:10.1145/2660193.2660195). The i-th draw is a function of the
seed and of i alone, so a longer stream begins with the shorter one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["GAMMA", "by_weight", "mixed", "names", "ranks", "shuffled", "units"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_LANE = 0xD1B54A32D192ED03
_WORD = 2**64 - 1


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the output function of SplitMix64: a bijection of 64 bits."""
    z: NDArray[np.uint64] = words + GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def units(n: int, seed: int, lane: int = 0) -> NDArray[np.float64]:
    """Draw `n` floats in [0, 1), 53 bits each; every `lane` of a seed is a stream of its own.

    Examples
    --------
    >>> first = units(3, 7)
    >>> bool((units(5, 7)[:3] == first).all()), bool((units(3, 7, lane=1) == first).any())
    (True, False)
    """
    start = mixed(np.array([seed ^ (lane * _LANE & _WORD)], np.uint64))
    bits = mixed(start + np.arange(1, n + 1, dtype=np.uint64) * GAMMA)
    unit: NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return unit


def by_weight(unit: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn draws in [0, 1) into indices of `weights`, as likely as they weigh: the exact inverse."""
    upto = np.cumsum(weights)
    index: NDArray[np.int64] = np.searchsorted(upto, unit * upto[-1], side="right")
    return np.minimum(index, len(weights) - 1)


def ranks(n_tuples: int, n_keys: int, exponent: float, seed: int) -> NDArray[np.int64]:
    """Draw ranks of Zipf's law, 0 the most frequent, int64."""
    unit = units(n_tuples, seed)
    if exponent == 0:
        return (unit * n_keys).astype(np.int64)
    return by_weight(unit, np.arange(1, n_keys + 1, dtype=np.float64) ** -exponent)


def names(ranked: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Give each rank a 64-bit key, a different one for each: both steps can be undone."""
    salt = mixed(np.array([seed ^ 0x5DEECE66D], np.uint64))
    return mixed(ranked.astype(np.uint64) + salt)


def shuffled(n: int, seed: int, lane: int) -> NDArray[np.int64]:
    """Return a random order of ``0 .. n - 1``."""
    return np.argsort(units(n, seed, lane), kind="stable")
