"""Redist (Gedik, VLDB Journal 2014): of all keys and workers, the least utility per weight next."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.utility import Problem, as_plan
from tests.oracles.wrap_around import Plan, hashing


def plan(
    counts: Mapping[int, int],
    previous: Plan | None,
    *,
    n_workers: int,
    hot_keys: int | None = None,
    theta: float = 0.2,
    seed: int = 0,
) -> Plan:
    if sum(counts.values()) == 0:
        return previous or hashing(n_workers)
    problem = Problem(counts, previous, n_workers, hot_keys, theta, seed)
    placed: dict[int, int] = {}
    while len(placed) < len(problem.keys):
        best: tuple[float, int, int] | None = None
        for rank, key in enumerate(problem.keys):
            if key in placed:
                continue
            for worker in range(n_workers):
                worth = problem.utility({**placed, key: worker}) / problem.weight[key]
                if best is None or worth < best[0]:
                    best = worth, rank, worker
        assert best is not None
        placed[problem.keys[best[1]]] = best[2]
    return as_plan(placed, n_workers)
