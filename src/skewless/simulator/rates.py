"""How fast a source's tuples come due: at a constant, stepped or sinusoidal rate."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ParameterError
from skewless.kernel import kernel
from skewless.parameters import Positive, Range, check

__all__ = ["Constant", "Rate", "Sinusoidal", "Stepped"]

NotNegative = Annotated[float, Range(0)]


class Rate(abc.ABC):
    """Tuples per second as a function of time; tuple i is due when i tuples have come before it."""

    @abc.abstractmethod
    def due_us(self, first: int, n_tuples: int) -> NDArray[np.float64]:
        """Return when the tuples ``first .. first + n_tuples - 1`` are due, float64, in microseconds."""


class Constant(Rate):
    """The same rate for ever.

    Parameters
    ----------
    per_s : float above 0
        Tuples per second.

    Examples
    --------
    >>> Constant(500_000).due_us(0, 3).tolist()
    [0.0, 2.0, 4.0]
    """

    def __init__(self, per_s: Positive) -> None:
        check("Constant", type(self).__init__, per_s=per_s)
        _finite("Constant", per_s=per_s)
        self.per_s = float(per_s)

    def __repr__(self) -> str:
        return f"Constant({self.per_s:g})"

    def due_us(self, first: int, n_tuples: int) -> NDArray[np.float64]:
        """Return when the tuples ``first .. first + n_tuples - 1`` are due, float64, in microseconds."""
        return np.arange(first, first + n_tuples, dtype=np.float64) * (1e6 / self.per_s)


class Stepped(Rate):
    """A rate that changes at given moments.

    Parameters
    ----------
    steps : sequence of (second, tuples per second)
        From when on which rate holds; the first at second 0, seconds ascending, the last for ever. A
        rate may be 0, a pause, but not the last.

    Examples
    --------
    A second at 2 tuples a second, a pause of a second, then 4 a second:

    >>> (Stepped([(0, 2), (1, 0), (2, 4)]).due_us(0, 4) / 1e6).tolist()
    [0.0, 0.5, 2.0, 2.25]
    """

    def __init__(self, steps: Sequence[tuple[float, float]]) -> None:
        try:
            table = np.array([(float(at), float(rate)) for at, rate in steps])
        except (TypeError, ValueError):
            raise ParameterError(
                f"Stepped: steps must be pairs of a second and a rate, got {steps!r}; write "
                f"[(0, 1000), (60, 2000)]."
            ) from None
        if not len(table) or table[0, 0] != 0 or not np.isfinite(table).all():
            raise ParameterError(
                f"Stepped: steps must be finite and begin at second 0, got {steps!r}."
            )
        if (np.diff(table[:, 0]) <= 0).any() or (table[:, 1] < 0).any() or table[-1, 1] == 0:
            raise ParameterError(
                f"Stepped: seconds must ascend, rates must be at least 0 and the last above 0, got "
                f"{steps!r}."
            )
        self._at_us, self._per_us = table[:, 0] * 1e6, table[:, 1] / 1e6
        self._before = np.concatenate(([0.0], np.cumsum(np.diff(self._at_us) * self._per_us[:-1])))

    def __repr__(self) -> str:
        pairs = zip(self._at_us.tolist(), self._per_us.tolist(), strict=True)
        return f"Stepped({[(at / 1e6, rate * 1e6) for at, rate in pairs]})"

    def due_us(self, first: int, n_tuples: int) -> NDArray[np.float64]:
        """Return when the tuples ``first .. first + n_tuples - 1`` are due, float64, in microseconds."""
        number = np.arange(first, first + n_tuples, dtype=np.float64)
        step = np.searchsorted(self._before, number, side="right") - 1
        due: NDArray[np.float64] = (
            self._at_us[step] + (number - self._before[step]) / self._per_us[step]
        )
        return due


class Sinusoidal(Rate):
    """A rate that swings about its mean, ``mean + amplitude * sin(2 pi t / period)``.

    Parameters
    ----------
    mean : float above 0
        Tuples per second in the mean.
    amplitude : float of at least 0
        Swing to either side, at most `mean`.
    period_s : float above 0
        Seconds of a swing.

    Examples
    --------
    >>> due = Sinusoidal(100, 100, 10).due_us(0, 1001)
    >>> round(float(due[1000]) / 1e6, 3), int((due < 5e6).sum())
    (10.0, 819)

    References
    ----------
    The rate that A. S. Abdelhamid et al., Prompt, SIGMOD 2020, section 7.3, test with,
    doi:10.1145/3318464.3389713.
    """

    def __init__(self, mean: Positive, amplitude: NotNegative, period_s: Positive) -> None:
        check("Sinusoidal", type(self).__init__, mean=mean, amplitude=amplitude, period_s=period_s)
        _finite("Sinusoidal", mean=mean, amplitude=amplitude, period_s=period_s)
        if amplitude > mean:
            raise ParameterError(
                f"Sinusoidal: amplitude must be at most the mean of {mean:g}, got {amplitude:g}; a "
                f"rate cannot be negative."
            )
        self.mean, self.amplitude, self.period_s = float(mean), float(amplitude), float(period_s)

    def __repr__(self) -> str:
        return f"Sinusoidal({self.mean:g}, {self.amplitude:g}, {self.period_s:g})"

    def due_us(self, first: int, n_tuples: int) -> NDArray[np.float64]:
        """Return when the tuples ``first .. first + n_tuples - 1`` are due, float64, in microseconds."""
        out = np.empty(n_tuples)
        _invert(first, self.mean, self.amplitude, self.period_s, out)
        return out * 1e6


def _finite(owner: str, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise ParameterError(f"{owner}: {name} must be finite, got {value!r}.")


@kernel
def _invert(
    first: int, mean: float, amplitude: float, period: float, out: NDArray[np.float64]
) -> None:
    """Find the second at which so many tuples have come: Newton's method, kept within a bracket."""
    turn = 2.0 * math.pi / period
    for i in range(len(out)):
        number = float(first + i)
        high = number / mean
        low = max(0.0, high - 2.0 * amplitude / (turn * mean))
        t = low
        for _ in range(100):
            come = mean * t + amplitude / turn * (1.0 - math.cos(turn * t)) - number
            if come > 0.0:
                high = t
            else:
                low = t
            slope = mean + amplitude * math.sin(turn * t)
            following = t - come / slope if slope > 0.0 else low
            if not low < following < high:
                following = 0.5 * (low + high)
            if abs(following - t) <= 1e-15 * (1.0 + t):
                break
            t = following
        out[i] = t if i == 0 else max(t, out[i - 1])
