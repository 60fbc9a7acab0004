"""Tumbling and sliding counts by keeping every tuple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Tuples:
    """All tuples so far; a window is counted anew whenever it is asked for."""

    def __init__(self) -> None:
        self.tuples: list[tuple[int, int]] = []

    def update(self, tuples: Iterable[tuple[int, int]]) -> None:
        self.tuples.extend(tuples)

    def _in(self, length: int, first: int, last: int) -> Counter[int]:
        return Counter(k for t, k in self.tuples if first <= t // length <= last)

    def _now(self, length: int) -> int:
        return max(t for t, _ in self.tuples) // length

    def tumbling(self, window: int, *, age: int = 0) -> Counter[int]:
        if not self.tuples:
            return Counter()
        number = self._now(window) - age
        return self._in(window, number, number)

    def sliding(self, window: int, slide: int) -> Counter[int]:
        if not self.tuples:
            return Counter()
        number = self._now(slide)
        return self._in(slide, number + 1 - (window + slide - 1) // slide, number)
