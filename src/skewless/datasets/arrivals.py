"""Event times of streams whose rate changes: stepped and sinusoidal, exact or by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.drawing import units
from skewless.errors import ParameterError
from skewless.parameters import Positive, Range, Seed, check

__all__ = ["sinusoidal", "stepped"]

Length = Annotated[int, Range(0)]
_US = 1_000_000
#: Newton would do with fewer steps, but halving needs no slope: the rate may touch zero.
_HALVINGS = 60


def stepped(
    n_tuples: Length,
    rates: Sequence[float],
    step_s: Positive,
    *,
    by_chance: bool = False,
    seed: Seed = 0,
) -> NDArray[np.int64]:
    """Return event times under a rate that is constant for `step_s` seconds, then the next one.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    rates
        Tuples per second in each step; after the last one the first comes again. A step may have
        rate 0, but not all.
    step_s : float above 0
        Seconds of each step.
    by_chance : bool
        ``False``: tuple i arrives when the rate adds up to i + 1. ``True``: a Poisson process, in
        which tuples arrive independently of each other.
    seed : int in [0, 9223372036854775807]
        Seed of the Poisson process.

    Returns
    -------
    numpy.ndarray
        Times in microseconds from the start of the stream, int64, not decreasing: for `Chunk`.

    Raises
    ------
    ParameterError
        A rate is negative or not finite, all are 0, or there is none.

    Examples
    --------
    >>> (stepped(6, [1.0, 4.0], 2.0) / 1e6).tolist()
    [1.0, 2.0, 2.25, 2.5, 2.75, 3.0]
    """
    check("stepped", stepped, n_tuples=n_tuples, step_s=step_s, by_chance=by_chance, seed=seed)
    levels = np.asarray(rates, np.float64)
    if levels.ndim != 1 or not np.isfinite(levels).all() or (levels < 0).any() or not levels.sum():
        raise ParameterError(
            f"stepped: rates must hold numbers of at least 0 and one above it, got {rates!r}."
        )
    wanted = _counts(n_tuples, by_chance, seed)
    rising = levels > 0  # while the rate is 0 nothing arrives, and the sum stands still
    reached = np.cumsum(levels * step_s)
    rounds, rest = np.divmod(wanted, reached[-1])
    back = (rest == 0) & (rounds > 0)  # the last tuple of a round belongs to that round
    rounds, rest = rounds - back, np.where(back, reached[-1], rest)
    ends, levels = reached[rising], levels[rising]
    starts = np.flatnonzero(rising) * step_s
    step = np.minimum(np.searchsorted(ends, rest, side="left"), len(ends) - 1)
    before = np.concatenate(([0.0], ends[:-1]))[step]
    seconds = rounds * len(rising) * step_s + starts[step] + (rest - before) / levels[step]
    return np.maximum.accumulate(np.rint(seconds * _US).astype(np.int64))


def sinusoidal(
    n_tuples: Length,
    mean_rate: Positive,
    period_s: Positive,
    *,
    swing: Annotated[float, Range(0, 1)] = 0.5,
    by_chance: bool = False,
    seed: Seed = 0,
) -> NDArray[np.int64]:
    """Return event times under the rate ``mean_rate * (1 + swing * sin(2 pi t / period_s))``.

    Parameters
    ----------
    n_tuples : int of at least 0
        Number of tuples.
    mean_rate : float above 0
        Tuples per second, the mean over a period.
    period_s : float above 0
        Seconds of a period.
    swing : float in [0, 1]
        How far the rate goes above and below its mean, as a part of the mean.
    by_chance : bool
        ``False``: tuple i arrives when the rate adds up to i + 1. ``True``: a Poisson process, in
        which tuples arrive independently of each other.
    seed : int in [0, 9223372036854775807]
        Seed of the Poisson process.

    Returns
    -------
    numpy.ndarray
        Times in microseconds from the start of the stream, int64, not decreasing: for `Chunk`.

    Notes
    -----
    The integral of the rate is inverted by halving, to the microsecond. Prompt (SIGMOD 2020,
    doi:10.1145/3318464.3389713, section 7) varies its input rate sinusoidally but gives neither
    period nor swing.

    Examples
    --------
    >>> times = sinusoidal(1_000, 100.0, 10.0, swing=1.0)
    >>> np.bincount(times // 2_500_000)[:4].tolist()
    [409, 409, 91, 90]
    """
    check(
        "sinusoidal",
        sinusoidal,
        n_tuples=n_tuples,
        mean_rate=mean_rate,
        period_s=period_s,
        swing=swing,
        by_chance=by_chance,
        seed=seed,
    )
    wanted = _counts(n_tuples, by_chance, seed) / (mean_rate * period_s)
    periods = np.floor(wanted)
    part = wanted - periods
    low, high = np.zeros(n_tuples), np.ones(n_tuples)
    for _ in range(_HALVINGS):  # the part of the period at which the part of its tuples has come
        middle = (low + high) / 2
        late = middle + swing * (1 - np.cos(2 * np.pi * middle)) / (2 * np.pi) >= part
        high, low = np.where(late, middle, high), np.where(late, low, middle)
    seconds = (periods + high) * period_s
    return np.maximum.accumulate(np.rint(seconds * _US).astype(np.int64))


def _counts(n_tuples: int, by_chance: bool, seed: int) -> NDArray[np.float64]:
    """Return what the rate must have added up to when each tuple arrives."""
    if not by_chance:
        return np.arange(1, n_tuples + 1, dtype=np.float64)
    return np.cumsum(-np.log1p(-units(n_tuples, seed)))
