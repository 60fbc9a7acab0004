"""DAGreedy, the greedy baseline of Dalton (PVLDB 16(3), 2022), with exact fractions.

Hot keys by Definition 3.3, load and fragments over the sliding window as in section 3.3.
"""

from __future__ import annotations

from collections import Counter, deque
from fractions import Fraction

from tests.oracles.hashing import mix, spread


class DAGreedy:
    """One tuple at a time."""

    def __init__(
        self, n: int, *, window: int, slide: int, stats_window: int | None = None, seed: int = 0
    ) -> None:
        self.n, self.slide, self.seed = n, slide, seed
        self.stats_window = stats_window or max(slide, 8 * n)
        self.n_slides = (window + slide - 1) // slide
        self.stats_number: int | None = None
        self.count: Counter[int] = Counter()
        self.total, self.total_prev = 0, 0
        self.last_hot: dict[int, int] = {}
        self.slides: deque[tuple[int, list[tuple[int, int]]]] = deque()

    def route(self, t: int, k: int) -> int:
        self._statistics_window(t // self.stats_window)
        number = t // self.slide
        if not self.slides or self.slides[-1][0] != number:
            self.slides.append((number, []))
        while self.slides[0][0] <= number - self.n_slides:
            self.slides.popleft()
        self.count[k] += 1
        self.total += 1
        if self.total_prev > 0 and self.count[k] * self.n >= self.total_prev:
            assert self.stats_number is not None
            self.last_hot[k] = self.stats_number
        c = self._best(k) if k in self.last_hot else spread(mix(k, self.seed), self.n)
        self.slides[-1][1].append((k, c))
        return c

    def _best(self, k: int) -> int:
        pairs = [pair for _, slide in self.slides for pair in slide]
        load = Counter(worker for _, worker in pairs)
        mean = Fraction(len(pairs), self.n)

        def score(worker: int) -> Fraction:
            there = Fraction(int((k, worker) in pairs))
            over = (load[worker] - mean) / mean if mean else Fraction(0)
            return there / 2 - over / 2

        return max(range(self.n), key=lambda worker: (score(worker), -worker))

    def _statistics_window(self, number: int) -> None:
        if self.stats_number == number:
            return
        follows = self.stats_number is not None and number == self.stats_number + 1
        self.total_prev = self.total if follows else 0
        self.total = 0
        self.count.clear()
        self.stats_number = number
        self.last_hot = {k: last for k, last in self.last_hot.items() if last >= number - 1}
