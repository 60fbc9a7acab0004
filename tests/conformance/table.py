"""The policies under test and their configurations: a new policy is one more row here."""

from __future__ import annotations

from typing import Any

from skewless import partitioners, planners
from skewless.partitioners import Partitioner
from skewless.planners import Planner, Replanned, WrapAround
from skewless.policy import Policy, policy_name

CLASSES: tuple[type[Policy], ...] = (*partitioners.ALL, *planners.ALL, Replanned)
POLICIES: dict[str, type[Policy]] = {policy_name(cls): cls for cls in CLASSES}

#: Small windows and few workers, so that everything happens within a few hundred tuples.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "hash": [{"n_workers": 1}, {"n_workers": 2}, {"n_workers": 7, "seed": 3}],
    "shuffle": [{"n_workers": 1}, {"n_workers": 2}, {"n_workers": 7}],
    "time_based": [
        {"n_workers": 1, "batch": 7},
        {"n_workers": 2, "batch": 50},
        {"n_workers": 7, "batch": 45},
        {"n_workers": 9, "batch": 4},
    ],
    "pkg": [
        {"n_workers": 1},
        {"n_workers": 2},
        {"n_workers": 7, "seed": 3},
        {"n_workers": 8, "d": 3},
        {"n_workers": 3, "d": 64},
        {"n_workers": 5, "d": 1},
        {"n_workers": 1, "sources": 3},
        {"n_workers": 1, "estimates": "global", "sources": 2},
        {"n_workers": 1, "estimates": "probed", "sources": 2, "period": 20},
        {"n_workers": 6, "sources": 5},
        {"n_workers": 6, "estimates": "global", "sources": 3, "d": 3},
        {"n_workers": 7, "estimates": "global", "sources": 3},
        {"n_workers": 4, "estimates": "probed", "sources": 4, "period": 50, "seed": 2},
        {"n_workers": 5, "estimates": "probed", "period": 1, "d": 3},
    ],
    "potc": [
        {"n_workers": 1},
        {"n_workers": 2},
        {"n_workers": 7, "seed": 3},
        {"n_workers": 8, "d": 3},
        {"n_workers": 3, "d": 64},
        {"n_workers": 5, "d": 1},
    ],
    "on_greedy": [{"n_workers": 1}, {"n_workers": 2}, {"n_workers": 7}],
    "d_choices": [
        {"n_workers": 1},
        {"n_workers": 2},
        {"n_workers": 7, "seed": 3, "capacity": 5, "stats_window": 20},
        {"n_workers": 12, "epsilon": 0.02, "theta": 0.1, "stats_window": 40},
        {"n_workers": 64, "capacity": 16, "theta": 0.05, "stats_window": 30},
    ],
    "w_choices": [
        {"n_workers": 1},
        {"n_workers": 2},
        {"n_workers": 7, "seed": 3, "capacity": 5},
        {"n_workers": 12, "theta": 0.2},
    ],
    "cm": [
        {"n_workers": 1},
        {"n_workers": 2, "window": 50},
        {"n_workers": 7, "d": 5, "window": 60, "seed": 3},
        {"n_workers": 9, "d": 3, "window": 45, "slide": 20},
        {"n_workers": 7, "window": 40, "slide": 10},
        {"n_workers": 5, "d": 1, "window": 30},
        {"n_workers": 7, "window": 80, "cardinality": "hyper_log_log"},
    ],
    "am": [
        {"n_workers": 1},
        {"n_workers": 2, "window": 50},
        {"n_workers": 7, "d": 5, "window": 60, "seed": 3},
        {"n_workers": 9, "d": 3, "window": 45, "slide": 20},
        {"n_workers": 7, "window": 40, "slide": 10},
        {"n_workers": 5, "d": 1, "window": 30},
        {"n_workers": 7, "window": 80, "cardinality": "hyper_log_log"},
    ],
    "cam": [
        {"n_workers": 1},
        {"n_workers": 2, "window": 50},
        {"n_workers": 7, "d": 5, "window": 60, "seed": 3},
        {"n_workers": 9, "d": 3, "window": 45, "slide": 20},
        {"n_workers": 7, "window": 40, "slide": 10},
        {"n_workers": 5, "d": 1, "window": 30},
        {"n_workers": 7, "window": 80, "cardinality": "hyper_log_log"},
    ],
    "lm": [
        {"n_workers": 1},
        {"n_workers": 2, "window": 50, "p": 0.3},
        {"n_workers": 7, "d": 5, "window": 60, "p": 0.75, "seed": 3},
        {"n_workers": 9, "d": 3, "window": 45, "slide": 20},
        {"n_workers": 7, "window": 40, "slide": 10, "p": 0.9},
        {"n_workers": 5, "d": 1, "window": 30},
        {"n_workers": 7, "window": 80, "cardinality": "hyper_log_log", "p": 0.2},
        {"n_workers": 3, "p": 0.0},
        {"n_workers": 3, "p": 1.0},
    ],
    "da_greedy": [
        {"n_workers": 1, "window": 40, "slide": 10},
        {"n_workers": 2, "window": 60, "slide": 20},
        {"n_workers": 7, "window": 45, "slide": 20, "stats_window": 30, "seed": 3},
        {"n_workers": 12, "window": 30, "slide": 10, "stats_window": 15},
    ],
    "dalton": [
        {"n_workers": 1, "window": 40, "slide": 10},
        {"n_workers": 2, "window": 60, "slide": 20, "epsilon": 0.5},
        {"n_workers": 7, "window": 45, "slide": 20, "stats_window": 30, "seed": 3},
        {"n_workers": 9, "window": 30, "slide": 30, "p1": 0.9, "max_split": 2},
        {
            "n_workers": 2,
            "window": 60,
            "slide": 20,
            "stats_window": 30,
            "statistics": "count_min",
        },
        {
            "n_workers": 12,
            "window": 45,
            "slide": 20,
            "stats_window": 30,
            "statistics": "hybrid",
            "switch_keys": 5,
            "seed": 3,
        },
    ],
    "cooperative_dalton": [
        {"n_workers": 1, "window": 40, "slide": 20, "sync": 20, "adaptive": False},
        {"n_workers": 2, "window": 60, "slide": 20, "sources": 1, "sync": 30, "epsilon": 0.5},
        {
            "n_workers": 7,
            "window": 45,
            "slide": 20,
            "sync": 30,
            "shortest": 20,
            "latency": 9,
            "seed": 3,
        },
        {
            "n_workers": 2,
            "window": 60,
            "slide": 30,
            "sync": 20,
            "shortest": 15,
            "sources": 3,
            "latency": 50,
        },
        {
            "n_workers": 12,
            "window": 50,
            "slide": 50,
            "sync": 25,
            "sources": 3,
            "latency": 30,
            "adaptive": False,
            "max_split": 3,
            "p1": 0.9,
        },
    ],
    "wrap_around": [
        {"n_workers": 1},
        {"n_workers": 2, "hot_keys": 1},
        {"n_workers": 7, "hot_keys": 5, "seed": 3},
        {"n_workers": 8},
    ],
    "off_greedy": [
        {"n_workers": 1},
        {"n_workers": 2, "hot_keys": 1},
        {"n_workers": 7, "hot_keys": 5, "seed": 3},
        {"n_workers": 8},
    ],
    "kip": [
        {"n_workers": 1},
        {"n_workers": 2, "scale": 0.5},
        {"n_workers": 7, "scale": 1.5, "slack": 0.05, "seed": 3},
        {"n_workers": 8, "hosts": 4},
        {"n_workers": 3, "slack": 1e-6, "hosts": 5000},
    ],
    "prompt": [
        {"n_workers": 1},
        {"n_workers": 2, "hot_keys": 1},
        {"n_workers": 7, "hot_keys": 5, "seed": 3},
        {"n_workers": 40},
        {"n_workers": 8},
    ],
    "scan": [
        {"n_workers": 1, "hot_keys": 9},
        {"n_workers": 2, "theta": 1.5},
        {"n_workers": 7, "hot_keys": 5, "theta": 0.01, "seed": 3},
        {"n_workers": 8, "hot_keys": 20},
    ],
    "redist": [
        {"n_workers": 1, "hot_keys": 5},
        {"n_workers": 2, "hot_keys": 6, "theta": 1.5},
        {"n_workers": 7, "hot_keys": 5, "theta": 0.01, "seed": 3},
        {"n_workers": 3, "hot_keys": 8},
    ],
    "readj": [
        {"n_workers": 1, "hot_keys": 5},
        {"n_workers": 2, "hot_keys": 6, "theta": 1.5},
        {"n_workers": 7, "hot_keys": 6, "theta": 0.01, "seed": 3},
        {"n_workers": 3, "hot_keys": 8},
    ],
    "mixed": [
        {"n_workers": 1},
        {"n_workers": 2, "theta": 0.01, "table_keys": 3},
        {"n_workers": 7, "table_keys": 4, "theta": 0.3, "seed": 3},
        {"n_workers": 3, "theta": 0.02},
    ],
    "replanned": [
        {"planner": WrapAround(1), "every": 30},
        {"planner": WrapAround(5, hot_keys=4, seed=3), "every": 50},
        {"planner": WrapAround(8), "every": 20},
    ],
}

#: Length of the windows that a planner is driven with.
EVERY = 40


def partitioner(name: str, parameters: dict[str, Any]) -> Partitioner:
    """Return a fresh policy that routes; a planner is driven by `Replanned`."""
    policy = POLICIES[name](**parameters)
    if isinstance(policy, Planner):
        return Replanned(policy, every=EVERY)
    assert isinstance(policy, Partitioner)
    return policy
