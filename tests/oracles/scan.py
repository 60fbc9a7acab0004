"""Scan (Gedik, VLDB Journal 2014): keys by decreasing weight, each to the worker of least utility."""

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
    for key in problem.keys:
        placed[key] = min(
            range(n_workers),
            key=lambda worker: problem.utility({**placed, key: worker}),
        )
    return as_plan(placed, n_workers)
