"""The on-line histogram of a streaming decision tree: update, merge, sum and uniform.

Y. Ben-Haim, E. Tom-Tov: A Streaming Parallel Decision Tree Algorithm, JMLR 11, 2010, section 2.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.kernel import kernel

__all__ = ["Bins", "insert", "merged", "reduced", "sum_upto", "uniform"]

Floats = NDArray[np.float64]


class Bins(NamedTuple):
    """A histogram: `m` values around each of `p`."""

    p: Floats
    """float64: the bins, ascending and all different."""
    m: Floats
    """float64: how many values each stands for."""


def insert(bins: Bins, values: ArrayLike, most: int) -> Bins:
    """Return the histogram after `values`, in order, of at most `most` bins (Algorithm 1).

    Examples
    --------
    >>> paper = insert(Bins(np.empty(0), np.empty(0)), [23, 19, 10, 16, 36, 2, 9], 5)
    >>> paper.p.tolist(), paper.m.tolist()
    ([2.0, 9.5, 17.5, 23.0, 36.0], [1.0, 2.0, 2.0, 1.0, 1.0])
    """
    p, m = np.zeros(most + 1), np.zeros(most + 1)
    used = len(bins.p)
    p[:used], m[:used] = bins
    used = _insert(p, m, used, np.asarray(values, np.float64), most)
    return Bins(p[:used], m[:used])


def merged(left: Bins, right: Bins, most: int) -> Bins:
    """Return the histogram of two parts (Algorithm 2).

    Examples
    --------
    >>> first = Bins(np.array([2.0, 9.5, 17.5, 23.0, 36.0]), np.array([1.0, 2.0, 2.0, 1.0, 1.0]))
    >>> both = merged(first, Bins(np.array([30.0, 32.0, 45.0]), np.ones(3)), 5)
    >>> both.p.round(2).tolist(), both.m.tolist()
    ([2.0, 9.5, 19.33, 32.67, 45.0], [1.0, 2.0, 3.0, 3.0, 1.0])
    """
    return reduced(np.concatenate([left.p, right.p]), np.concatenate([left.m, right.m]), most)


def reduced(p: Floats, m: Floats, most: int) -> Bins:
    """Return bins of any number of parts as one histogram: equal ones joined, then the nearest.

    Examples
    --------
    >>> reduced(np.array([5.0, 1.0, 5.0]), np.array([1.0, 1.0, 2.0]), 5)
    Bins(p=array([1., 5.]), m=array([1., 3.]))
    """
    found, place = np.unique(p, return_inverse=True)
    p, m = found, np.bincount(place, m, len(found)).astype(np.float64)
    used = len(p)
    while used > most:
        used = _join_nearest(p, m, used)
    return Bins(p[:used], m[:used])


def sum_upto(bins: Bins, b: float) -> float:
    """Return how many values are about at most `b` (Algorithm 3): half a bin lies at its left.

    Examples
    --------
    >>> both = Bins(np.array([2.0, 9.5, 58 / 3, 98 / 3, 45.0]), np.array([1.0, 2.0, 3.0, 3.0, 1.0]))
    >>> round(sum_upto(both, 15.0), 2)
    3.28
    """
    p, m = bins
    if len(p) == 0 or b < p[0]:
        return 0.0
    if b >= p[-1]:
        return float(m.sum())
    i = int(np.searchsorted(p, b, side="right")) - 1
    along = (b - p[i]) / (p[i + 1] - p[i])
    m_b = m[i] + (m[i + 1] - m[i]) * along
    return float(m[:i].sum() + m[i] / 2 + (m[i] + m_b) / 2 * along)


def uniform(bins: Bins, n: int) -> list[float]:
    """Return ``n - 1`` points that cut the values in `n` about equal parts (Algorithm 4).

    Examples
    --------
    >>> both = Bins(np.array([2.0, 9.5, 58 / 3, 98 / 3, 45.0]), np.array([1.0, 2.0, 3.0, 3.0, 1.0]))
    >>> [round(u, 2) for u in uniform(both, 3)]
    [15.22, 28.96]

    The paper prints 15.21 and 28.98: it goes on from sums rounded to two places.
    """
    p, m = bins
    if len(p) < 2:
        return []
    # `sum_upto` at each bin; at the last the half to its right is there too.
    upto = np.cumsum(m) - m / 2
    points = []
    for j in range(1, n):
        s = j / n * m.sum()
        if s <= upto[0]:
            points.append(float(p[0]))
            continue
        if s >= upto[-1]:
            points.append(float(p[-1]))
            continue
        i = int(np.searchsorted(upto, s, side="right")) - 1
        d = s - upto[i]
        a = m[i + 1] - m[i]
        # d = (m_i + m_z) / 2 * z, a quadratic in z whose root is in [0, 1).
        z = d / m[i] if a == 0 else (-m[i] + np.sqrt(m[i] * m[i] + 2 * a * d)) / a
        points.append(float(p[i] + (p[i + 1] - p[i]) * z))
    return points


@kernel
def _join_nearest(p: Floats, m: Floats, used: int) -> int:
    """Replace the two nearest bins, of equal gaps the first, by their mean (Algorithm 1, lines 5-7)."""
    best = 0
    for i in range(1, used - 1):
        if p[i + 1] - p[i] < p[best + 1] - p[best]:
            best = i
    total = m[best] + m[best + 1]
    # Between the two, whatever the rounding: bins stay ascending.
    mean = (p[best] * m[best] + p[best + 1] * m[best + 1]) / total
    p[best] = min(max(mean, p[best]), p[best + 1])
    m[best] = total
    for i in range(best + 1, used - 1):
        p[i], m[i] = p[i + 1], m[i + 1]
    return used - 1


@kernel
def _insert(p: Floats, m: Floats, used: int, values: Floats, most: int) -> int:
    for value in values:
        i = np.searchsorted(p[:used], value)
        if i < used and p[i] == value:
            m[i] += 1.0
            continue
        for j in range(used, i, -1):
            p[j], m[j] = p[j - 1], m[j - 1]
        p[i], m[i] = value, 1.0
        used += 1
        if used > most:
            used = _join_nearest(p, m, used)
    return used
