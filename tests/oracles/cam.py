"""cAM, Algorithm 4 of Holistic: the candidate that has the key, else the one with the fewest tuples."""

from __future__ import annotations

from tests.oracles.cardinality import Partition


class CAM(Partition):
    def decide(self, k: int, choices: list[int]) -> int:
        for c in choices:
            if self.contains(c, k):
                return c
        least = min(self.load(c) for c in choices)
        c = next(c for c in choices if self.load(c) == least)
        self.update(c, k)
        return c
