"""Lossy Counting (VLDB 2002, section 4.2), line by line over a dictionary."""

from __future__ import annotations

import math


class LossyCounting:
    def __init__(self, epsilon: float) -> None:
        self.width = math.ceil(1 / epsilon)
        self.total = 0
        self.entries: dict[int, tuple[int, int]] = {}

    def update(self, key: int) -> None:
        self.total += 1
        current = math.ceil(self.total / self.width)
        count, delta = self.entries.get(key, (0, current - 1))
        self.entries[key] = (count + 1, delta)
        if self.total % self.width == 0:
            self.entries = {k: (f, d) for k, (f, d) in self.entries.items() if f + d > current}
