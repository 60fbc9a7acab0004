"""Algorithm 1 of Holistic (PVLDB 10(11), 2017) with the structures of section 3.2.

The naive C is read off the tuples of the window, so that a sliding window needs no other rules. With
HyperLogLog the estimates are rounded to whole keys; its hash function is number seed + 64.
"""

from __future__ import annotations

from collections import deque

from tests.oracles.hyper_log_log import HyperLogLog
from tests.oracles.pkg import candidates


class Partition:
    """Algorithm 1; `decide` is Algorithm 2, 3, 4 or 5, for any number of candidates."""

    def __init__(
        self,
        n: int,
        *,
        d: int = 2,
        window: int = 60_000,
        slide: int | None = None,
        cardinality: str = "exact",
        seed: int = 0,
    ) -> None:
        self.n, self.d, self.seed = n, d, seed
        self.slide = slide or window
        self.n_slides = (window + self.slide - 1) // self.slide
        self.exact = cardinality == "exact"
        self.slides: deque[tuple[int, list[tuple[int, int]]]] = deque()
        self.reset_registers()

    def reset_registers(self) -> None:
        self.registers = [HyperLogLog(12, 5, self.seed + 64) for _ in range(self.n)]

    def route(self, t: int, k: int) -> int:
        number = t // self.slide
        if not self.slides or self.slides[-1][0] != number:
            self.slides.append((number, []))
            while self.slides[0][0] <= number - self.n_slides:  # lines 3 to 5
                self.slides.popleft()
            if not self.exact:
                self.reset_registers()
        c = self.decide(k, candidates(k, self.n, self.d, self.seed))  # lines 6 to 8
        self.slides[-1][1].append((k, c))  # L[c] += 1
        return c

    def decide(self, k: int, choices: list[int]) -> int:
        raise NotImplementedError

    def load(self, c: int) -> int:
        return sum(1 for _, slide in self.slides for _, worker in slide if worker == c)

    def estimate(self, c: int) -> int:
        if self.exact:
            return len({k for _, slide in self.slides for k, worker in slide if worker == c})
        return int(self.registers[c].estimate() + 0.5)

    def contains(self, c: int, k: int) -> bool:
        if self.exact:
            return any((k, c) in slide for _, slide in self.slides)
        return self.registers[c].contains(k)

    def update(self, c: int, k: int) -> None:
        if not self.exact:
            self.registers[c].update(k)
