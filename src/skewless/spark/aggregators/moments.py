"""Moments: mean, variance, skewness and kurtosis of a column, from merged central moments.

P. Pebay: Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order
Statistical Moments, Sandia report SAND2008-6212, 2008; T. F. Chan, G. H. Golub, R. J. LeVeque:
Algorithms for Computing the Sample Variance, The American Statistician 37(3), 1983.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.parameters import check
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.segments import centred, kept, numbers, sums

__all__ = ["Moments"]

_HIGHER = ("m2", "m3", "m4")


class Moments(GroupAggregator):
    """Describe a numeric column per key: count, mean, variance, skewness, kurtosis.

    Use it to learn the shape of a distribution in one pass. For the mean alone Spark's own ``avg``
    is cheaper.

    Parameters
    ----------
    column : str
        A column of numbers; they are read as doubles.

    Notes
    -----
    Result: ``n`` (values that are not null), ``mean``, ``var_samp``, ``var_pop``, ``skewness`` and
    ``kurtosis`` as Spark defines them: the last two from population moments, kurtosis in excess of the
    normal's. Null where Spark gives null: all but `n` without a value, `var_samp` of one value,
    `skewness` and `kurtosis` of equal values. A NaN makes all but `n` NaN.

    Guarantee: the central moments are exact but for rounding, however rows are split; rows are centred
    on their mean before they are raised to a power, so an offset costs no more digits than it costs
    the mean. Equal values have a variance of exactly 0.

    Cost: some twenty passes of numpy over the rows. State: 40 bytes.

    Examples
    --------
    >>> moments = Moments("x")
    >>> state = moments.update(moments.create(), pa.table({"x": [1.0, 2.0, 3.0, None, 10.0]}))
    >>> {name: round(value, 3) for name, value in moments.finish(state).items()}
    {'n': 4, 'mean': 4.0, 'var_samp': 16.667, 'var_pop': 12.5, 'skewness': 1.018, 'kurtosis': -0.77}

    References
    ----------
    SAND2008-6212, equations 2.1 and 3.1; doi:10.2172/1028931. The American Statistician 37(3),
    doi:10.1080/00031305.1983.10483115.
    """

    def __init__(self, column: str) -> None:
        check("Moments", Moments.__init__, column=column)
        self.column = column
        self._declare(
            inputs=[column],
            state="n bigint, mean double, m2 double, m3 double, m4 double",
            result=(
                "n bigint, mean double, var_samp double, var_pop double, skewness double, "
                "kurtosis double"
            ),
        )

    def create(self) -> dict[str, Any]:
        """Return the moments of no values."""
        return {"n": 0, "mean": 0.0, "m2": 0.0, "m3": 0.0, "m4": 0.0}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the moments of each group: each value is a part of one."""
        x, known = numbers("Moments", rows, self.column)
        none = np.zeros(int(known.sum()))
        return _joined(kept(starts, known), none + 1.0, x[known], none, none, none)

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the moments of all parts of each key."""
        n = states["n"].to_numpy().astype(np.float64)
        some = n > 0
        columns = [states[name].to_numpy()[some] for name in ("mean", *_HIGHER)]
        return _joined(kept(starts, some), n[some], *columns)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return Spark's statistics of each state."""
        n, m2, m3, m4 = (states[name].to_numpy().astype(np.float64) for name in ("n", *_HIGHER))
        with np.errstate(all="ignore"):
            results = {
                "mean": (states["mean"].to_numpy(), n == 0),
                "var_samp": (m2 / (n - 1), n <= 1),
                "var_pop": (m2 / n, n == 0),
                "skewness": (np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2), (n == 0) | (m2 == 0)),
                "kurtosis": (n * m4 / (m2 * m2) - 3.0, (n == 0) | (m2 == 0)),
            }
        columns = [pa.array(values, mask=is_null) for values, is_null in results.values()]
        return pa.table([states["n"], *columns], ["n", *results])


def _joined(
    starts: NDArray[np.int64],
    n: NDArray[np.float64],
    mean: NDArray[np.float64],
    m2: NDArray[np.float64],
    m3: NDArray[np.float64],
    m4: NDArray[np.float64],
) -> pa.Table:
    """Join parts of at least one value each: their moments about the mean of all (Pebay, 3.1)."""
    with np.errstate(all="ignore"):
        centre, d = centred(mean, n, starts)
        d2 = d * d
        joined = {
            "n": sums(n, starts).astype(np.int64),
            "mean": centre,
            "m2": sums(m2 + n * d2, starts),
            "m3": sums(m3 + d * (3.0 * m2 + n * d2), starts),
            "m4": sums(m4 + 4.0 * d * m3 + d2 * (6.0 * m2 + n * d2), starts),
        }
    return pa.table(joined)
