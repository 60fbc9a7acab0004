"""Sliding windows by running totals: a pane is added when a window reaches it, subtracted when it leaves.

A window of ``size`` by ``slide`` then costs two additions however many panes it holds. What is
subtracted must be exactly what was added, so totals are kept in Python's unbounded integers: a double is
a whole multiple of ``2 ** -1074``, and sums of those never round.
"""

from __future__ import annotations

import decimal
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from skewless.plain_values import decode, encode
from skewless.spark.aggregator import Aggregator

__all__ = ["Emitted", "Running", "States", "Sums", "Totals", "exact_scale"]

#: Every finite double is a whole multiple of 2 ** -1074, the smallest of them.
_SMALLEST = 1074
#: Digits that a sum of decimals may have: far more than the 38 of Spark's.
_EXACT = decimal.Context(prec=400, Emin=-9999, Emax=9999, traps=[decimal.Inexact])


class Totals(Protocol):
    """How the partial results of panes are added and subtracted."""

    def plus(self, total: Any, pane: tuple[Any, ...]) -> Any:
        """Return the total with a pane's partial results; `total` is ``None`` if it is the first."""

    def minus(self, total: Any, pane: tuple[Any, ...]) -> Any:
        """Return the total without a pane that is in it."""

    def write(self, total: Any) -> tuple[Any, ...]:
        """Return the partial results of all panes in the total."""


class Sums:
    """Sums of numbers: exact, with nulls left out as Spark leaves them out.

    Parameters
    ----------
    kinds
        Of each column ``"int"``, ``"float"``, or the number of digits after the point of a decimal.

    Notes
    -----
    A column is an integer and the number of its values that are not null, so that a window whose last
    value has left is null again; for floats also how many are NaN, infinite and minus infinite. The
    total of floats is the sum of the panes' results, rounded once: nothing drifts, however long the
    query runs. Cost: about a microsecond a column and pane. A double's integer has up to 2,100 bits.

    Examples
    --------
    >>> sums = Sums(["float", "int"])
    >>> total = sums.plus(sums.plus(None, (0.1, None)), (1e300, 4))
    >>> sums.write(sums.minus(total, (1e300, 4)))
    (0.1, None)
    """

    def __init__(self, kinds: Sequence[str | int]) -> None:
        self.kinds = list(kinds)

    def _read(self, values: tuple[Any, ...]) -> list[int]:
        found: list[int] = []
        for value, kind in zip(values, self.kinds, strict=True):
            if kind == "float":
                found += _of_float(value)
            elif value is None:
                found += (0, 0)
            elif kind == "int":
                found += (int(value), 1)
            else:
                found += (int(_EXACT.scaleb(value, int(kind))), 1)
        return found

    def plus(self, total: list[int] | None, pane: tuple[Any, ...]) -> list[int]:
        """Add a pane."""
        more = self._read(pane)
        return more if total is None else [a + b for a, b in zip(total, more, strict=True)]

    def minus(self, total: list[int], pane: tuple[Any, ...]) -> list[int]:
        """Subtract a pane."""
        return [a - b for a, b in zip(total, self._read(pane), strict=True)]

    def write(self, total: list[int]) -> tuple[Any, ...]:
        """Return the columns of a total."""
        parts = iter(total)
        found: list[Any] = []
        for kind in self.kinds:
            value, known = next(parts), next(parts)
            if kind == "float":
                found.append(_to_float(value, known, next(parts), next(parts), next(parts)))
            elif known == 0:
                found.append(None)
            elif kind == "int":
                found.append(value)
            else:
                found.append(exact_scale(value, -int(kind)))
        return tuple(found)


def exact_scale(value: int, power: int) -> decimal.Decimal:
    """Return ``value * 10 ** power``.

    Examples
    --------
    >>> exact_scale(-250, -2)
    Decimal('-2.50')
    """
    return _EXACT.scaleb(_EXACT.create_decimal(value), power)


def _of_float(value: float | None) -> tuple[int, ...]:
    """Return (multiple of 2 ** -1074, not null, NaN, infinite, minus infinite)."""
    if value is None:
        return 0, 0, 0, 0, 0
    if math.isfinite(value):
        top, bottom = value.as_integer_ratio()
        return top << (_SMALLEST - bottom.bit_length() + 1), 1, 0, 0, 0
    return 0, 1, int(math.isnan(value)), int(value == math.inf), int(value == -math.inf)


def _to_float(value: int, known: int, nan: int, above: int, below: int) -> float | None:
    if known == 0:
        return None
    if nan or (above and below):
        return math.nan
    if above or below:
        return math.inf if above else -math.inf
    try:
        return value / (1 << _SMALLEST)  # rounds once, to the nearest double
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class States:
    """The states of an aggregator: sums for the columns that are added, the rest by its `subtract`.

    Parameters
    ----------
    aggregator
        With its schemas set.
    names
        All state columns, in order.
    summed
        Those that Spark adds; the others are those that the aggregator's `merge` puts together.
    kinds
        Of the summed columns, as `Sums` takes them.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        names: Sequence[str],
        summed: Sequence[str],
        kinds: Sequence[str | int],
    ) -> None:
        self.aggregator, self.names = aggregator, list(names)
        self.summed = [self.names.index(name) for name in summed]
        self.merged = [(i, name) for i, name in enumerate(self.names) if name not in summed]
        self.sums = Sums(kinds)

    def plus(self, total: Any, pane: tuple[Any, ...]) -> Any:
        """Merge a pane."""
        sums, state = self._read(pane)
        if total is None:
            return self.sums.plus(None, sums), state
        more = self.aggregator.merge(total[1], state) if state else state
        return self.sums.plus(total[0], sums), more

    def minus(self, total: Any, pane: tuple[Any, ...]) -> Any:
        """Subtract a pane."""
        sums, state = self._read(pane)
        less = self.aggregator.subtract(total[1], state) if state else state
        return self.sums.minus(total[0], sums), less

    def write(self, total: Any) -> tuple[Any, ...]:
        """Return the state columns."""
        found: list[Any] = [None] * len(self.names)
        for i, value in zip(self.summed, self.sums.write(total[0]), strict=True):
            found[i] = value
        for i, name in self.merged:
            found[i] = total[1][name]
        return tuple(found)

    def _read(self, pane: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(pane[i] for i in self.summed), {name: pane[i] for i, name in self.merged}


class Emitted(NamedTuple):
    """A window of a key that is complete."""

    end: int
    """End of the window, microseconds."""
    key: bytes
    values: tuple[Any, ...]
    """Its partial results."""


class _Key:
    """The panes of a key that some window still needs: (end, partial results)."""

    __slots__ = ("inside", "total", "waiting")

    def __init__(self) -> None:
        self.inside: deque[tuple[int, tuple[Any, ...]]] = deque()
        self.waiting: list[tuple[int, tuple[Any, ...]]] = []
        self.total: Any = None


class Running:
    """Running totals of many keys; `dump` is all that a query remembers of them.

    Parameters
    ----------
    totals
        How panes are added and subtracted.
    size, slide
        Of the windows, microseconds; windows start at multiples of the slide.

    Notes
    -----
    Panes come closed, in any order, and none ends before a watermark that was given to `advance`.

    Examples
    --------
    >>> windows = Running(Sums(["int"]), size=20, slide=10)
    >>> windows.add(10, b"a", (1,))
    >>> windows.add(20, b"a", (2,))
    >>> [(each.end, each.values) for each in windows.advance(30)]
    [(10, (1,)), (20, (3,)), (30, (2,))]
    >>> windows.next_end is None
    True
    """

    def __init__(self, totals: Totals, size: int, slide: int) -> None:
        self.totals, self.size, self.slide = totals, size, slide
        self.keys: dict[bytes, _Key] = {}
        self.done: int | None = None
        self.next_end: int | None = None
        """End of the next window that will be complete, as of the last `advance`; ``None`` if none is."""

    def dump(self) -> bytes:
        """Return all that is remembered, as JSON of plain values: no class of ours or of a user."""
        held = {
            key: (list(each.inside), each.waiting, each.total) for key, each in self.keys.items()
        }
        return encode((self.done, held))

    def load(self, content: bytes) -> Running:
        """Remember what `dump` returned; return itself."""
        self.done, held = decode(content)
        for key, (inside, waiting, total) in held.items():
            each = self.keys[key] = _Key()
            each.inside, each.waiting, each.total = deque(inside), waiting, total
        return self

    def add(self, end: int, key: bytes, values: tuple[Any, ...]) -> None:
        """Take a closed pane of a key, by its end in microseconds."""
        held = self.keys.get(key)
        if held is None:
            held = self.keys[key] = _Key()
        held.waiting.append((end, values))

    def advance(self, watermark: int) -> list[Emitted]:
        """Return all windows that end at the watermark or before and were not returned yet."""
        found: list[Emitted] = []
        after, ends = self._at_or_after(watermark + 1), []
        for key in list(self.keys):
            held = self.keys[key]
            held.waiting.sort(key=_end, reverse=True)
            end = self._first_end(held)
            while end <= watermark:
                self._slide(held, end)
                if held.inside:
                    found.append(Emitted(end, key, self.totals.write(held.total)))
                    end += self.slide
                elif held.waiting:
                    end = self._at_or_after(held.waiting[-1][0])
                else:
                    break
            self._evict(held, after)
            if held.inside:
                ends.append(after)
            elif held.waiting:
                ends.append(max(after, self._at_or_after(held.waiting[-1][0])))
            else:
                del self.keys[key]
        self.done = watermark if self.done is None else max(self.done, watermark)
        self.next_end = min(ends, default=None)
        return found

    def _first_end(self, held: _Key) -> int:
        """Return the end of the first window that holds a pane of the key and is still to come."""
        first = held.inside[0][0] if held.inside else min(map(_end, held.waiting))
        end = self._at_or_after(first)
        return end if self.done is None else max(end, self._at_or_after(self.done + 1))

    def _at_or_after(self, time: int) -> int:
        return time + (self.size - time) % self.slide

    def _slide(self, held: _Key, end: int) -> None:
        """Make the total that of the window with this end."""
        while held.waiting and held.waiting[-1][0] <= end:
            pane = held.waiting.pop()
            held.total = self.totals.plus(held.total, pane[1])
            held.inside.append(pane)
        self._evict(held, end)

    def _evict(self, held: _Key, end: int) -> None:
        """Subtract the panes that a window with this end no longer holds."""
        while held.inside and held.inside[0][0] <= end - self.size:
            pane = held.inside.popleft()[1]
            held.total = self.totals.minus(held.total, pane) if held.inside else None


def _end(pane: tuple[int, tuple[Any, ...]]) -> int:
    return pane[0]
