"""Seeded key streams: uniform, Zipf, and Zipf whose hot keys are replaced every so often."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.drawing import names, ranks
from skewless.parameters import Count, Range, Seed, check

__all__ = ["drifting", "uniform", "zipf"]

Exponent = Annotated[float, Range(0, 20)]
Length = Annotated[int, Range(0)]


def zipf(
    n_tuples: Length, n_keys: Count, exponent: Exponent, *, seed: Seed = 0
) -> NDArray[np.uint64]:
    """Draw keys whose frequency falls with the `exponent`-th power of their rank.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur.
    exponent : float in [0, 20]
        0 is uniform; 1 is the usual law of words; at 1.5 the first of 100,000 keys has 38 % of all.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Notes
    -----
    The inverse of the exact distribution function, from a counter-based generator (SplitMix64), so
    the same arguments give the same stream on every machine. Keys are mixed ranks: nothing about a
    key tells how often it occurs.

    Examples
    --------
    >>> keys = zipf(100_000, 1_000, 1.0, seed=1)
    >>> counts = np.sort(np.unique(keys, return_counts=True)[1])[::-1]
    >>> [round(int(c) / 100_000, 2) for c in counts[:3]]
    [0.13, 0.07, 0.05]
    """
    check("zipf", zipf, n_tuples=n_tuples, n_keys=n_keys, exponent=exponent, seed=seed)
    return names(ranks(n_tuples, n_keys, exponent, seed), seed)


def uniform(n_tuples: Length, n_keys: Count, *, seed: Seed = 0) -> NDArray[np.uint64]:
    """Draw keys that are all equally frequent.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Examples
    --------
    >>> len(np.unique(uniform(10_000, 50)))
    50
    """
    check("uniform", uniform, n_tuples=n_tuples, n_keys=n_keys, seed=seed)
    return names(ranks(n_tuples, n_keys, 0.0, seed), seed)


def drifting(
    n_tuples: Length,
    n_keys: Count,
    exponent: Exponent,
    *,
    period: Count,
    n_hot: Count = 10,
    seed: Seed = 0,
) -> NDArray[np.uint64]:
    """Draw Zipf keys, the `n_hot` most frequent of which are replaced every `period` tuples.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur within one period.
    exponent : float in [0, 20]
        As in `zipf`.
    period : int of at least 1
        Tuples after which the hot keys change all at once.
    n_hot : int of at least 1
        How many of the most frequent ranks change their key; all others keep theirs for ever.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Examples
    --------
    >>> keys = drifting(20_000, 500, 1.5, period=10_000, n_hot=1)
    >>> first, second = (np.unique(part, return_counts=True) for part in np.split(keys, 2))
    >>> hottest = first[0][first[1].argmax()]
    >>> bool(hottest in second[0]), int(first[1].max()) // 1000, int(second[1].max()) // 1000
    (False, 3, 3)
    """
    check(
        "drifting",
        drifting,
        n_tuples=n_tuples,
        n_keys=n_keys,
        exponent=exponent,
        period=period,
        n_hot=n_hot,
        seed=seed,
    )
    drawn = ranks(n_tuples, n_keys, exponent, seed)
    generation = np.arange(n_tuples, dtype=np.int64) // period
    fresh = n_keys + generation * n_hot + drawn
    return names(np.where((drawn < n_hot) & (generation > 0), fresh, drawn), seed)
