"""Combiners that are slow for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ParameterError
from skewless.kernel import inline_kernel
from skewless.parameters import Positive, Range, check

__all__ = ["Spans", "Straggler", "factor_at", "spans_of"]

Index = Annotated[int, Range(0)]
Second = Annotated[float, Range(0)]


class Straggler:
    """A combiner whose every tuple takes `factor` times as long between two moments.

    Parameters
    ----------
    worker : int of at least 0
        Which combiner.
    factor : float above 0
        How many times as long a tuple takes; below 1 the combiner is faster than others.
    start_s, stop_s : float of at least 0
        From when to when, in seconds of the simulation; `stop_s` itself is not within. Left out: always.

    Notes
    -----
    What starts within the span takes as much longer, to its end. Factors of spans that overlap are
    multiplied.

    Examples
    --------
    >>> Straggler(3, 2.5, 60, 120)
    Straggler(3, 2.5, 60, 120)
    """

    def __init__(
        self, worker: Index, factor: Positive, start_s: Second = 0.0, stop_s: Second = math.inf
    ) -> None:
        check(
            "Straggler",
            type(self).__init__,
            worker=worker,
            factor=factor,
            start_s=start_s,
            stop_s=stop_s,
        )
        if not math.isfinite(factor):
            raise ParameterError(f"Straggler: factor must be finite, got {factor!r}.")
        if stop_s <= start_s:
            raise ParameterError(
                f"Straggler: stop_s must be above start_s of {start_s:g}, got {stop_s:g}."
            )
        self.worker, self.factor, self.start_s, self.stop_s = worker, factor, start_s, stop_s

    def __repr__(self) -> str:
        return f"Straggler({self.worker}, {self.factor:g}, {self.start_s:g}, {self.stop_s:g})"


class Spans(NamedTuple):
    """The spans of all combiners, as kernels read them."""

    first: NDArray[np.int64]
    """int64, (n + 1,): first span of each combiner."""
    start_us: NDArray[np.float64]
    """float64: begin of each span."""
    stop_us: NDArray[np.float64]
    """float64: end of each span."""
    factor: NDArray[np.float64]
    """float64: times as long."""


def spans_of(stragglers: Sequence[Straggler], n_workers: int) -> Spans:
    """Return the spans combiner by combiner."""
    for one in stragglers:
        if not isinstance(one, Straggler):
            raise ParameterError(
                f"simulate: stragglers must be Straggler objects, got {one!r}; write "
                f"[Straggler(0, 2.0)]."
            )
        if one.worker >= n_workers:
            raise ParameterError(
                f"simulate: a straggler must be one of the workers 0 to {n_workers - 1}, got "
                f"{one.worker}."
            )
    ordered = sorted(stragglers, key=lambda one: one.worker)
    counts = np.bincount([one.worker for one in ordered] or [0], minlength=n_workers)
    if not ordered:
        counts[:] = 0
    return Spans(
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        np.array([one.start_s * 1e6 for one in ordered], np.float64),
        np.array([one.stop_s * 1e6 for one in ordered], np.float64),
        np.array([one.factor for one in ordered], np.float64),
    )


@inline_kernel
def factor_at(spans: Spans, worker: int, now_us: float) -> float:
    """Return how many times as long a tuple takes that the combiner starts now."""
    factor = 1.0
    for i in range(spans.first[worker], spans.first[worker + 1]):
        if spans.start_us[i] <= now_us < spans.stop_us[i]:
            factor *= spans.factor[i]
    return factor
