"""A routing in plain Python: look up the key, else its bucket; deal among several workers in turn.

Slots: 64 for each worker of a split key (one, if the shares are equal), by largest remainder, at
least one; the j-th of a worker's c slots belongs at (j + 1/2) / c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tests.oracles.hashing import mix, spread


def slots(shares: Mapping[int, float]) -> list[int]:
    workers = sorted(shares)
    if max(shares.values()) - min(shares.values()) < 1e-9:
        return workers
    n_slots = 64 * len(workers)
    exact = {w: shares[w] * n_slots for w in workers}
    copies = {w: max(math.floor(exact[w]), 1) for w in workers}
    missing = n_slots - sum(copies.values())
    for w in sorted(workers, key=lambda w: copies[w] - exact[w])[: max(missing, 0)]:
        copies[w] += 1
    at = [((j + 0.5) / copies[w], i, w) for i, w in enumerate(workers) for j in range(copies[w])]
    return [w for _, _, w in sorted(at)]


class Router:
    """Remembers whose turn it is."""

    def __init__(
        self,
        n_workers: int,
        hot: Mapping[int, Mapping[int, float]],
        owner: list[int],
        seed: int = 0,
    ) -> None:
        self.n_workers, self.owner, self.seed = n_workers, owner, seed
        self.slots = {key: slots(shares) for key, shares in hot.items()}
        self.turn = dict.fromkeys(hot, 0)
        self.everyone = 0

    def route(self, key: int) -> int:
        if key in self.slots:
            worker = self.slots[key][self.turn[key] % len(self.slots[key])]
            self.turn[key] += 1
            return worker
        worker = self.owner[spread(mix(key, self.seed), len(self.owner))]
        if worker < 0:
            worker = self.everyone % self.n_workers
            self.everyone += 1
        return worker
