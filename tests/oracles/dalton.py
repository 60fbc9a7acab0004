"""Dalton (PVLDB 16(3), 2022) line by line: Algorithm 1, Eq. 3 to 5, section 3.3."""

from __future__ import annotations

import math
from collections import Counter, deque

from tests.oracles.count_min import CountMin
from tests.oracles.hashing import SplitMix64, mix, spread
from tests.oracles.hyper_log_log import HyperLogLog


class Dalton:
    """One tuple at a time, with the maps that the paper describes."""

    def __init__(
        self,
        n: int,
        *,
        window: int,
        slide: int,
        stats_window: int | None = None,
        statistics: str = "exact",
        switch_keys: int = 50_000,
        epsilon: float = 0.1,
        gamma: float = 0.1,
        p1: float = 0.5,
        max_split: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n, self.slide = n, slide
        self.stats_window = stats_window or max(slide, 8 * n, min(window, 4096))
        self.epsilon, self.gamma, self.p1, self.p2 = epsilon, gamma, p1, 1 - p1
        self.max_split, self.seed, self.random = max_split, seed, SplitMix64(seed)
        self.n_slides = (window + slide - 1) // slide
        # Heavy hitters (Definition 3.3 with the previous window's load), Q-table and its expiry.
        self.stats_number: int | None = None
        self.count: Counter[int] = Counter()
        self.total, self.total_prev = 0, 0
        self.q: dict[int, list[float]] = {}
        self.last_hot: dict[int, int] = {}
        # The sketch of a window, and its distinct keys; or None where counts are exact.
        self.statistics, self.switch_keys = statistics, switch_keys
        self.sketch: CountMin | None = None
        self.distinct: HyperLogLog | None = None
        if statistics == "count_min":
            self._sketch()
        # Per slide: loads of the workers, map from key to the workers it went to (section 3.3).
        self.slide_number: int | None = None
        self.slides: deque[tuple[int, list[int], dict[int, set[int]]]] = deque()
        self.load = [0] * n
        self.references: Counter[tuple[int, int]] = Counter()  # closed slides per key and worker

    def route(self, t: int, k: int) -> int:
        self._statistics_window(t // self.stats_window)
        self._slides(t // self.slide)
        # Lines 1 and 2.
        frequency = self._count(k)
        self.total += 1
        # Line 3.
        if self.total_prev > 0 and frequency * self.n >= self.total_prev:
            self.q.setdefault(k, [-2.0] * self.n)
            assert self.stats_number is not None
            self.last_hot[k] = self.stats_number
        home = spread(mix(k, self.seed), self.n)
        hot = k in self.q
        if not hot:
            c = home  # line 8
        elif self.random.unit() < self.epsilon:
            held = sorted(self._workers_of(k))
            if self.max_split is not None and len(held) >= self.max_split:
                c = held[spread(self.random.bits(), len(held))]
            else:
                c = spread(self.random.bits(), self.n)
        else:  # line 4
            best = max(self.q[k])
            c = home if self.q[k][home] == best else self.q[k].index(best)
        # Line 9, before the reward: Eq. 3 and 4 look at t + 1.
        _, loads, workers = self.slides[-1]
        loads[c] += 1
        self.load[c] += 1
        workers.setdefault(k, set()).add(c)
        if hot:  # lines 5 and 6
            mean = sum(self.load) / self.n
            imbalance = (self.load[c] - mean) / max(self.load[c], mean)
            aggregation = len(self._workers_of(k)) / self.n
            reward = -(self.p1 * imbalance + self.p2 * aggregation)
            self.q[k][c] = self.q[k][c] + self.gamma * (reward - self.q[k][c])
        return c

    def _count(self, k: int) -> int:
        """UpdateFrequency and EstimateFrequency."""
        if self.sketch is None or self.distinct is None:
            self.count[k] += 1
            return self.count[k]
        self.sketch.update(k)
        self.distinct.update(k)
        return self.sketch.estimate(k)

    def _sketch(self) -> None:
        """An error of 1/(4n) of the window at most, in five rows."""
        width = math.ceil(math.e * 4 * self.n)
        self.sketch = CountMin(width, 5, conservative=True, seed=self.seed + 1)
        self.distinct = HyperLogLog(12, 5, self.seed)

    def _workers_of(self, k: int) -> set[int]:
        """M_1(k) or X^A(k)."""
        now = self.slides[-1][2].get(k, set())
        return now | {w for w in range(self.n) if self.references[k, w] > 0}

    def _statistics_window(self, number: int) -> None:
        if self.stats_number == number:
            return
        follows = self.stats_number is not None and number == self.stats_number + 1
        self.total_prev = self.total if follows else 0
        self.total = 0
        keys: float = len(self.count) if self.distinct is None else self.distinct.estimate()
        if self.stats_number is not None and self.statistics == "hybrid":
            self.sketch = self.distinct = None
            if follows and keys >= self.switch_keys:
                self._sketch()
        elif self.statistics == "count_min":
            self._sketch()
        self.count.clear()
        self.stats_number = number
        for k in [k for k, last in self.last_hot.items() if last < number - 1]:
            del self.q[k], self.last_hot[k]

    def _slides(self, number: int) -> None:
        if self.slide_number == number:
            return
        if self.slides:  # merge the head into the aggregate
            for k, workers in self.slides[-1][2].items():
                for w in workers:
                    self.references[k, w] += 1
        while self.slides and self.slides[0][0] <= number - self.n_slides:  # drop the tail
            _, loads, map_of_keys = self.slides.popleft()
            self.load = [a - b for a, b in zip(self.load, loads, strict=True)]
            for k, workers in map_of_keys.items():
                for w in workers:
                    self.references[k, w] -= 1
        self.slide_number = number
        self.slides.append((number, [0] * self.n, {}))
