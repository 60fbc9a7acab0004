"""Gedik's utility (VLDB Journal 2014), in plain Python, for the oracles of his three planners."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.hashing import mix, spread
from tests.oracles.wrap_around import Plan, hashing


class Problem:
    """Keys to place, where they are, and what a placement is worth."""

    def __init__(
        self,
        counts: Mapping[int, int],
        previous: Plan | None,
        n_workers: int,
        hot_keys: int | None,
        theta: float,
        seed: int,
    ) -> None:
        self.n_workers, self.theta = n_workers, theta
        plain = hashing(n_workers)[1]
        old_hot, old_owner = previous or ({}, plain)

        def bucket(key: int) -> int:
            return spread(mix(key, seed), len(plain))

        def now(key: int) -> int:
            shares = old_hot.get(key)
            if shares:
                return min(shares, key=lambda worker: (-shares[worker], worker))
            return old_owner[bucket(key)]

        ranked = sorted(counts, key=lambda key: (-counts[key], key))
        self.keys = [key for key in ranked[: hot_keys or max(2 * n_workers, 64)] if counts[key]]
        self.weight = {key: float(counts[key]) for key in self.keys}
        self.before = {key: now(key) for key in self.keys}
        gone = [key for key in old_hot if key not in self.weight]
        self.m0 = sum(float(counts.get(k, 0)) for k in gone if now(k) != plain[bucket(k)])
        total = sum(self.weight.values()) + sum(float(counts.get(k, 0)) for k in gone)
        self.unit = total / n_workers

    def rho(self, placed: Mapping[int, int]) -> float:
        size, cost = [0.0] * self.n_workers, [0.0] * self.n_workers
        for key, worker in placed.items():
            size[worker] += self.weight[key]
            cost[worker] += self.weight[key] ** 2
        rho_s, rho_c, rho_n = self._one(size), self._one(cost), self._one(size)
        return float((rho_s * rho_c * rho_n) ** (1 / 3))

    def _one(self, load: list[float]) -> float:
        return (max(load) - min(load)) / (self.theta * (sum(load) / self.n_workers))

    def gamma(self, placed: Mapping[int, int]) -> float:
        moved = sum(self.weight[k] for k, worker in placed.items() if worker != self.before[k])
        return (self.m0 + moved) / self.unit

    def utility(self, placed: Mapping[int, int]) -> float:
        return self.rho(placed) + self.gamma(placed)


def as_plan(placed: Mapping[int, int], n_workers: int) -> Plan:
    return {key: {placed[key]: 1.0} for key in sorted(placed)}, hashing(n_workers)[1]
