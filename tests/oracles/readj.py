"""Readj (Gedik, VLDB Journal 2014): the best move or swap that lowers rho, as long as there is one."""

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
    placed = dict(problem.before)
    moves = dict.fromkeys(placed, 0)
    while True:
        rho, utility = problem.rho(placed), problem.utility(placed)
        best: tuple[float, dict[int, int]] | None = None
        for rank, one in enumerate(problem.keys):
            if moves[one] > 5:
                continue
            changes = [({one: w}, problem.weight[one]) for w in range(n_workers)]
            for other in problem.keys[rank + 1 :]:
                if moves[other] <= 5:
                    swap = {one: placed[other], other: placed[one]}
                    changes.append((swap, problem.weight[one] - problem.weight[other]))
            for change, difference in changes:
                after = {**placed, **change}
                if problem.rho(after) < rho:
                    gain = (utility - problem.utility(after)) / difference
                    if best is None or gain > best[0]:
                        best = gain, change
        if best is None:
            return as_plan(placed, n_workers)
        placed.update(best[1])
        for key in best[1]:
            moves[key] += 1
