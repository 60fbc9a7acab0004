"""Correlation: covariance and Pearson's coefficient of two columns, from merged co-moments.

P. Pebay: Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order
Statistical Moments, Sandia report SAND2008-6212, 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.parameters import check
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.segments import centred, kept, numbers, sums

__all__ = ["Correlation"]

_SUMS = ("xx", "yy", "xy")


class Correlation(GroupAggregator):
    """Relate two numeric columns per key: count of pairs, covariance, Pearson's correlation.

    Use it to find keys whose columns rise and fall together. Not for relations that are not linear.

    Parameters
    ----------
    x : str
        A column of numbers; they are read as doubles.
    y : str
        Another, or the same.

    Notes
    -----
    Result: ``n`` (rows where neither column is null), ``covar_samp``, ``covar_pop``, ``corr``. Null
    where there is no value: all but `n` without a pair, `covar_samp` and `corr` of one pair, `corr`
    where a column does not vary (Spark's ``corr`` divides by zero there, an error in ANSI mode). A NaN
    makes all but `n` NaN.

    Guarantee: exact but for rounding, however rows are split; an offset costs no more digits than it
    costs the mean.

    Cost: some twenty passes of numpy over the rows. State: 48 bytes.

    Examples
    --------
    >>> correlation = Correlation("x", "y")
    >>> rows = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": [2.0, 4.0, None, 8.0]})
    >>> correlation.finish(correlation.update(correlation.create(), rows))["corr"]
    1.0

    References
    ----------
    SAND2008-6212, equation 3.11; doi:10.2172/1028931.
    """

    def __init__(self, x: str, y: str) -> None:
        check("Correlation", Correlation.__init__, x=x, y=y)
        self.x, self.y = x, y
        self._declare(
            inputs=[x, y],
            state="n bigint, mean_x double, mean_y double, xx double, yy double, xy double",
            result="n bigint, covar_samp double, covar_pop double, corr double",
        )

    def create(self) -> dict[str, Any]:
        """Return the co-moments of no pairs."""
        return {"n": 0, "mean_x": 0.0, "mean_y": 0.0, "xx": 0.0, "yy": 0.0, "xy": 0.0}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the co-moments of each group: each pair is a part of one."""
        x, known_x = numbers("Correlation", rows, self.x)
        y, known_y = numbers("Correlation", rows, self.y)
        known = known_x & known_y
        none = np.zeros(int(known.sum()))
        return _joined(kept(starts, known), none + 1.0, x[known], y[known], none, none, none)

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the co-moments of all parts of each key."""
        n = states["n"].to_numpy().astype(np.float64)
        some = n > 0
        columns = [states[name].to_numpy()[some] for name in ("mean_x", "mean_y", *_SUMS)]
        return _joined(kept(starts, some), n[some], *columns)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return covariance and correlation of each state."""
        n, xx, yy, xy = (states[name].to_numpy().astype(np.float64) for name in ("n", *_SUMS))
        with np.errstate(all="ignore"):
            # Two roots: the product of the sums may overflow or vanish where they do not.
            spread = np.sqrt(xx) * np.sqrt(yy)
            results = {
                "covar_samp": (xy / (n - 1), n <= 1),
                "covar_pop": (xy / n, n == 0),
                "corr": (xy / spread, (n <= 1) | (spread == 0)),
            }
        columns = [pa.array(values, mask=is_null) for values, is_null in results.values()]
        return pa.table([states["n"], *columns], ["n", *results])


def _joined(
    starts: NDArray[np.int64],
    n: NDArray[np.float64],
    mean_x: NDArray[np.float64],
    mean_y: NDArray[np.float64],
    xx: NDArray[np.float64],
    yy: NDArray[np.float64],
    xy: NDArray[np.float64],
) -> pa.Table:
    """Join parts of at least one pair each: their sums about the means of all (Pebay, 3.11)."""
    with np.errstate(all="ignore"):
        centre_x, dx = centred(mean_x, n, starts)
        centre_y, dy = centred(mean_y, n, starts)
        joined = {
            "n": sums(n, starts).astype(np.int64),
            "mean_x": centre_x,
            "mean_y": centre_y,
            "xx": sums(xx + n * dx * dx, starts),
            "yy": sums(yy + n * dy * dy, starts),
            "xy": sums(xy + n * dx * dy, starts),
        }
    return pa.table(joined)
