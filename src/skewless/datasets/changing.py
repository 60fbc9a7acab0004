"""Seeded key streams whose distribution changes: new names, new exponents, uniform and Zipf in turn."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.drawing import by_weight, names, ranks, shuffled, units
from skewless.errors import ParameterError
from skewless.parameters import Count, Range, Seed, check

__all__ = ["alternating", "redrawn", "redrawn_exponents", "renamed"]

Exponent = Annotated[float, Range(0, 20)]
Length = Annotated[int, Range(0)]

_EXPONENTS, _ORDERS = 1, 2


def renamed(
    n_tuples: Length, n_keys: Count, exponent: Exponent, *, period: Count, seed: Seed = 0
) -> NDArray[np.uint64]:
    """Draw Zipf keys, all of which get new names every `period` tuples.

    Use it for the hardest drift: nothing that was learned of any key is worth anything in the next
    period. Where only the hot keys change, take `drifting`.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur within one period.
    exponent : float in [0, 20]
        As in `zipf`.
    period : int of at least 1
        Tuples after which every key is replaced by a new one.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Examples
    --------
    >>> first, second = np.split(renamed(2_000, 50, 1.0, period=1_000), 2)
    >>> len(set(first.tolist()) & set(second.tolist()))
    0
    """
    check(
        "renamed",
        renamed,
        n_tuples=n_tuples,
        n_keys=n_keys,
        exponent=exponent,
        period=period,
        seed=seed,
    )
    drawn = ranks(n_tuples, n_keys, exponent, seed)
    generation = np.arange(n_tuples, dtype=np.int64) // period
    return names(generation * n_keys + drawn, seed)


def redrawn(
    n_tuples: Length,
    n_keys: Count,
    *,
    period: Count,
    low: Exponent = 0.5,
    high: Exponent = 1.5,
    seed: Seed = 0,
) -> NDArray[np.uint64]:
    """Draw Zipf keys under an exponent, and an order of the keys, that are drawn anew each period.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur; they are the same in all periods.
    period : int of at least 1
        Tuples between two changes.
    low, high : float in [0, 20]
        Ends of the interval that exponents are drawn from, uniformly.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Raises
    ------
    ParameterError
        A parameter is out of its range; `low` is above `high`.

    Notes
    -----
    `redrawn_exponents` tells the exponents. Each period costs a sort of `n_keys` numbers. The paper
    changes the distribution after 1,000 seconds; here the clock is the count of tuples.

    References
    ----------
    E. Zapridou, I. Mytilinis, A. Ailamaki, Dalton: Learned Partitioning for Distributed Data Streams,
    PVLDB 16(3), 2022, doi:10.14778/3570690.3570699, section 5.2 and Figure 9d.

    Examples
    --------
    >>> keys = redrawn(30_000, 200, period=10_000, seed=1)
    >>> [int(np.unique(part, return_counts=True)[1].max()) // 100 for part in np.split(keys, 3)]
    [15, 37, 4]
    """
    check(
        "redrawn",
        redrawn,
        n_tuples=n_tuples,
        n_keys=n_keys,
        period=period,
        low=low,
        high=high,
        seed=seed,
    )
    unit = units(n_tuples, seed)
    drawn = np.empty(n_tuples, np.int64)
    exponents = redrawn_exponents(-(-n_tuples // period), low=low, high=high, seed=seed)
    for i, exponent in enumerate(exponents.tolist()):
        rows = slice(i * period, (i + 1) * period)
        weights = np.arange(1, n_keys + 1, dtype=np.float64) ** -exponent
        drawn[rows] = shuffled(n_keys, seed, _ORDERS + i)[by_weight(unit[rows], weights)]
    return names(drawn, seed)


def redrawn_exponents(
    n_periods: Length, *, low: Exponent = 0.5, high: Exponent = 1.5, seed: Seed = 0
) -> NDArray[np.float64]:
    """Return the exponents of the first periods of `redrawn`.

    Parameters
    ----------
    n_periods : int of at least 0
        Number of periods.
    low, high : float in [0, 20]
        Ends of the interval.
    seed : int in [0, 9223372036854775807]
        The seed of the stream.

    Examples
    --------
    >>> redrawn_exponents(3, seed=1).round(2).tolist()
    [0.95, 1.44, 0.54]
    """
    check("redrawn", redrawn_exponents, n_periods=n_periods, low=low, high=high, seed=seed)
    if low > high:
        raise ParameterError(f"redrawn: low must not be above high, got {low!r} and {high!r}.")
    return low + (high - low) * units(n_periods, seed, _EXPONENTS)


def alternating(
    n_tuples: Length, n_keys: Count, exponent: Exponent, *, period: Count, seed: Seed = 0
) -> NDArray[np.uint64]:
    """Draw uniform keys for `period` tuples, then Zipf keys for as many, and so on in turn.

    Use it for events that make a few keys hot for a while and then pass.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur; they are the same all the time.
    exponent : float in [0, 20]
        Exponent of the second, fourth, ... period.
    period : int of at least 1
        Tuples between two changes.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Notes
    -----
    The same keys are hot in each Zipf period: the paper does not say that they change.

    References
    ----------
    E. Zapridou, I. Mytilinis, A. Ailamaki, Dalton: Learned Partitioning for Distributed Data Streams,
    PVLDB 16(3), 2022, doi:10.14778/3570690.3570699, section 5.2 and Figure 9a-c.

    Examples
    --------
    >>> keys = alternating(40_000, 100, 1.5, period=10_000, seed=1)
    >>> [int(np.unique(part, return_counts=True)[1].max()) // 1000 for part in np.split(keys, 4)]
    [0, 4, 0, 4]
    """
    check(
        "alternating",
        alternating,
        n_tuples=n_tuples,
        n_keys=n_keys,
        exponent=exponent,
        period=period,
        seed=seed,
    )
    even = ranks(n_tuples, n_keys, 0.0, seed)
    odd = ranks(n_tuples, n_keys, exponent, seed)
    turn = np.arange(n_tuples, dtype=np.int64) // period % 2
    return names(np.where(turn == 0, even, odd), seed)
