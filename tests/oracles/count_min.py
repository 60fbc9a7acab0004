"""Count-Min (2005, sections 3 and 4.1), and conservative update; row j hashes by function seed + j."""

from __future__ import annotations

from tests.oracles.hashing import mix, spread


class CountMin:
    def __init__(self, width: int, depth: int, conservative: bool, seed: int) -> None:
        self.width, self.depth, self.seed = width, depth, seed
        self.conservative = conservative
        self.rows = [[0] * width for _ in range(depth)]

    def places(self, key: int) -> list[int]:
        return [spread(mix(key, self.seed + j), self.width) for j in range(self.depth)]

    def update(self, key: int, weight: int = 1) -> None:
        bound = self.estimate(key) + weight
        for row, place in zip(self.rows, self.places(key), strict=True):
            row[place] = max(row[place], bound) if self.conservative else row[place] + weight

    def estimate(self, key: int) -> int:
        return min(row[place] for row, place in zip(self.rows, self.places(key), strict=True))
