"""CM, Algorithm 2 of Holistic: the candidate with the fewest keys."""

from __future__ import annotations

from tests.oracles.cardinality import Partition


class CM(Partition):
    def decide(self, k: int, choices: list[int]) -> int:
        least = min(self.estimate(c) for c in choices)
        c = next(c for c in choices if self.estimate(c) == least)
        self.update(c, k)
        return c
