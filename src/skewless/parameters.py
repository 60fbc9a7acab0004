"""Ranges of parameters, written once in a signature and read by validation, docs and command line."""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from skewless.errors import ParameterError

__all__ = ["Count", "Positive", "Range", "Seed", "check", "specification"]


@dataclass(frozen=True)
class Range:
    """A closed or half-open interval for a number, as metadata of ``Annotated``.

    Parameters
    ----------
    low, high
        Bounds; ``None`` leaves that side open for ever.
    low_open, high_open
        Whether the bound itself is excluded.

    Examples
    --------
    >>> Range(0, 1, low_open=True).words(float)
    'a float in (0, 1]'
    >>> Range(1).words(int)
    'an int of at least 1'
    """

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        """Say whether `value` lies inside."""
        if isinstance(value, float) and math.isnan(value):
            return False
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    def words(self, kind: type) -> str:
        """Describe the interval in the words of an error."""
        article = "an int" if kind is int else f"a {kind.__name__}"
        low, high = _exactly(self.low), _exactly(self.high)
        if self.high is None:
            return f"{article} {'above' if self.low_open else 'of at least'} {low}"
        left, right = "(" if self.low_open else "[", ")" if self.high_open else "]"
        return f"{article} in {left}{low}, {high}{right}"


def _exactly(bound: float | None) -> str:
    return str(bound) if bound is None or isinstance(bound, int) else f"{bound:g}"


Count = Annotated[int, Range(1)]
Positive = Annotated[float, Range(0, low_open=True)]
Seed = Annotated[int, Range(0, 2**63 - 1)]


@functools.cache
def specification(function: Any) -> dict[str, tuple[type, bool, Range | None]]:
    """Return ``{parameter: (type, may be None, range)}`` of a function's annotated signature."""
    hints = get_type_hints(function, include_extras=True)
    found: dict[str, tuple[type, bool, Range | None]] = {}
    for name in inspect.signature(function).parameters:
        if name in hints:
            kind, optional, bounds = _read(hints[name])
            if kind is not None:
                found[name] = (kind, optional, bounds)
    return found


def _read(hint: Any) -> tuple[type | None, bool, Range | None]:
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        kind, optional, _ = _read(inner)
        return kind, optional, next((m for m in metadata if isinstance(m, Range)), None)
    options = get_args(hint)
    if type(None) in options:
        kind, _, bounds = _read(next(o for o in options if o is not type(None)))
        return kind, True, bounds
    return (hint if hint in (int, float, bool, str) else None), False, None


def check(owner: str, function: Any, **values: Any) -> None:
    """Raise `ParameterError` for the first value that its annotated parameter does not allow.

    Parameters
    ----------
    owner
        The name that opens the sentence: a class or a verb.
    function
        The callable whose signature holds the types and ranges.
    **values
        What the caller passed, by parameter name.

    Examples
    --------
    >>> def pkg(n_workers: Count): ...
    >>> check("PKG", pkg, n_workers=0)
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: PKG: n_workers must be an int of at least 1, got 0.
    """
    for name, (kind, optional, bounds) in specification(function).items():
        if name not in values:
            continue
        value = values[name]
        if value is None and optional:
            continue
        if not (_is_a(value, kind) and (bounds is None or bounds.holds(value))):
            article = "an int" if kind is int else f"a {kind.__name__}"
            wanted = bounds.words(kind) if bounds else article
            raise ParameterError(f"{owner}: {name} must be {wanted}, got {value!r}.")


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, Integral)
    if kind is float:
        return isinstance(value, Real)
    return isinstance(value, kind)
