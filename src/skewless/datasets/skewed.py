"""Seeded key streams given by what is known of them: the share of the first key, or a log-normal law."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.drawing import names, ranks, units
from skewless.errors import ParameterError
from skewless.parameters import Count, Positive, Range, Seed, check

__all__ = ["log_normal", "zipf_by_share", "zipf_exponent"]

Share = Annotated[float, Range(0, 1, low_open=True, high_open=True)]
Length = Annotated[int, Range(0)]

#: The largest exponent of `zipf`; its first key has all but one tuple in a million.
_STEEPEST = 20.0
#: So many ranks are added up one by one; the rest of the sum is an integral with two corrections.
_SUMMED = 10_000
#: Keys of `log_normal` above this are one key: no stream that fits in memory has two of them.
_LARGEST = 1 << 62


def zipf_exponent(n_keys: Count, p1: Share) -> float:
    """Return the exponent at which the first of `n_keys` keys has the share `p1` of a Zipf stream.

    Parameters
    ----------
    n_keys : int of at least 1
        Number of different keys that can occur.
    p1 : float in (0, 1)
        Share of the most frequent key; at least ``1 / n_keys``.

    Returns
    -------
    float
        The exponent, in [0, 20], for `zipf`.

    Raises
    ------
    ParameterError
        `p1` is less than an equal share, or more than exponent 20 gives.

    Notes
    -----
    Bisection on ``1 / p1 = sum of r**-s for r = 1 .. n_keys``. Above 10,000 keys the sum is continued by
    the Euler-Maclaurin formula, to about 1e-12, so that 31 million keys cost no more.

    Examples
    --------
    >>> round(zipf_exponent(2_900_000, 0.0932), 3)
    1.055
    >>> zipf_exponent(4, 0.25)
    0.0
    """
    check("zipf_exponent", zipf_exponent, n_keys=n_keys, p1=p1)
    low, high = 0.0, _STEEPEST
    if not 1 / _harmonic(n_keys, low) <= p1 * (1 + 1e-12) or p1 > 1 / _harmonic(n_keys, high):
        raise ParameterError(
            f"zipf_exponent: p1 of {n_keys} keys must be in [{1 / n_keys:.3g}, "
            f"{1 / _harmonic(n_keys, high):.8g}], got {p1!r}."
        )
    if p1 * n_keys <= 1:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _harmonic(n_keys, middle) * p1 > 1:
            low = middle
        else:
            high = middle
    return high


def _harmonic(n_keys: int, s: float) -> float:
    """Return the sum of ``r**-s`` over the ranks 1 to `n_keys`."""
    a = min(n_keys, _SUMMED)
    head = float((np.arange(1, a + 1, dtype=np.float64) ** -s).sum())
    if n_keys == a:
        return head
    b = float(n_keys)
    area = math.log(b / a) if s == 1 else (b ** (1 - s) - a ** (1 - s)) / (1 - s)
    return head + area + (b**-s - a**-s) / 2 - s * (b ** (-s - 1) - a ** (-s - 1)) / 12


def zipf_by_share(
    n_tuples: Length, n_keys: Count, p1: Share, *, seed: Seed = 0
) -> NDArray[np.uint64]:
    """Draw Zipf keys, the most frequent of which has the share `p1`.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    n_keys : int of at least 1
        Number of different keys that can occur.
    p1 : float in (0, 1)
        Share of the most frequent key; at least ``1 / n_keys``.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Raises
    ------
    ParameterError
        `p1` cannot be had with so many keys.

    Examples
    --------
    >>> keys = zipf_by_share(100_000, 5_000, 0.2, seed=1)
    >>> round(float(np.unique(keys, return_counts=True)[1].max()) / 100_000, 2)
    0.2
    """
    check("zipf_by_share", zipf_by_share, n_tuples=n_tuples, n_keys=n_keys, p1=p1, seed=seed)
    return names(ranks(n_tuples, n_keys, zipf_exponent(n_keys, p1), seed), seed)


def log_normal(
    n_tuples: Length,
    mu: Annotated[float, Range(-20, 20)],
    sigma: Positive,
    *,
    seed: Seed = 0,
) -> NDArray[np.uint64]:
    """Draw keys that are log-normal numbers, rounded to whole ones.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    mu : float in [-20, 20]
        Mean of the number's logarithm.
    sigma : float above 0
        Standard deviation of the number's logarithm.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Notes
    -----
    Which number becomes which key is left open by the paper. Rounding to the nearest whole number
    gives what its Table I states: for 10 million draws of (1.789, 2.366), a first key of 14.71 % and
    an expected 16,356 keys, where the table has 14.71 % and 16 k; for (2.245, 1.133), 7.01 % and 1,098,
    where it has 7.01 % and 1.1 k. Rounding down would make the first key of LN1 22.5 %.

    Normal numbers are made by the method of Box and Muller, from two draws each.

    References
    ----------
    M. A. Uddin Nasir, G. De Francisci Morales, D. Garcia-Soriano, N. Kourtellis, M. Serafini, The
    Power of Both Choices: Practical Load Balancing for Distributed Stream Processing Engines, ICDE
    2015, doi:10.1109/ICDE.2015.7113279, section V-A, Table I.

    Examples
    --------
    >>> keys = log_normal(100_000, 2.245, 1.133, seed=1)
    >>> round(float(np.unique(keys, return_counts=True)[1].max()) / 100_000, 3)
    0.070
    """
    check("log_normal", log_normal, n_tuples=n_tuples, mu=mu, sigma=sigma, seed=seed)
    radius = np.sqrt(-2 * np.log1p(-units(n_tuples, seed)))
    normal = radius * np.cos(2 * np.pi * units(n_tuples, seed, lane=1))
    numbers = np.exp(np.minimum(mu + sigma * normal, math.log(_LARGEST)))
    return names(np.rint(numbers).astype(np.int64), seed)
