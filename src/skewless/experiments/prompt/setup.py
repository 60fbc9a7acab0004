"""What the rows of Prompt share: who takes part, what a batch costs, and the highest stable rate.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, sections 3 and 7.

The paper names no costs. Here a tuple costs its map task, and a key of a block its reduce task, what
they cost by default everywhere in skewless (`skewless.costs.Costs`: 1.3 and 5 us), 400 times over, so
that batches of some hundred thousand tuples fill their interval on 32 tasks where the paper's hold
millions on 320. Map tasks combine, so that a reduce task gets one partial result for each key and block.
Partitioning is done while the batch collects, and costs no processing time (the paper's early release).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewless.costs import Costs
from skewless.datasets import zipf_by_share
from skewless.partitioners import CAM, PKG, Hash, Shuffle, TimeBased
from skewless.planners import Prompt, WrapAround
from skewless.policy import Policy
from skewless.simulator import simulate

__all__ = [
    "BLOCKS",
    "COLOURS",
    "COSTS",
    "EXACT",
    "NAMES",
    "SAID",
    "TWEETS",
    "batch_s",
    "best_cam",
    "policy_of",
    "stable_rate",
    "tweets",
]

BLOCKS = 32
_TIMES = 400
COSTS = Costs(0.0, *(_TIMES * part for part in Costs()[1:]))
#: As the paper lists them, and ours last.
NAMES = ("time_based", "shuffle", "hash", "pk2", "pk5", "cam", "prompt", "wrap_around")
#: Those that the plots' palette has not got, or has twice.
COLOURS = {"pk2": "#0072b2", "pk5": "#e69f00", "prompt": "#d55e00"}
SAID = (
    "32 map and 32 reduce tasks; 520 us a tuple and 2 ms a partial result, which is what skewless "
    "assumes by default, 400 times over"
)
#: Different keys of the paper's tweets, Table 1.
TWEETS = 790_000
#: Keys that Prompt places one by one, all others by bucket; and so many that it places all.
HOT_KEYS, EXACT = 2_000, 10**6


def policy_of(
    name: str, n: int, batch: int, seed: int, d: int = 2, hot_keys: int = HOT_KEYS
) -> Policy:
    """Return a contestant for batches of `batch` units of time; the cAM has `d` candidates."""
    made: dict[str, Callable[[], Policy]] = {
        "time_based": lambda: TimeBased(n, batch=batch),
        "shuffle": lambda: Shuffle(n),
        "hash": lambda: Hash(n, seed=seed),
        "pk2": lambda: PKG(n, d=2, seed=seed),
        "pk5": lambda: PKG(n, d=5, seed=seed),
        "cam": lambda: CAM(n, d=d, window=batch, seed=seed),
        "prompt": lambda: Prompt(n, hot_keys=hot_keys, seed=seed),
        "wrap_around": lambda: WrapAround(n, seed=seed),
    }
    return made[name]()


def tweets(n_tuples: int, seed: int) -> NDArray[np.uint64]:
    """Return words of tweets: as many keys as the paper's, and PKG's share of the first one."""
    return zipf_by_share(n_tuples, TWEETS, 0.0267, seed=seed)


def batch_s(name: str, keys: NDArray[np.uint64], seed: int, d: int = 2) -> float:
    """Return how long a batch of these keys is processed (Eq. 1): the slowest map, then reduce task."""
    n = len(keys)
    panes = simulate(
        keys,
        policy_of(name, BLOCKS, n, seed, d),
        window=n,
        batch=n,
        reducers=BLOCKS,
        costs=COSTS,
        seed=seed,
    ).panes
    return float(panes.combine_s[0] + panes.merge_s[0])


def stable_rate(
    takes: Callable[[int], float], interval_s: float, first: int = 50_000, rounds: int = 4
) -> float:
    """Return the tuples per second of the largest batch that is processed within its interval.

    `takes` says how long so many tuples are processed; that it is nearly proportional to them makes
    few rounds enough.

    Examples
    --------
    >>> stable_rate(lambda n: n / 1000, 3.0)
    1000.0
    """
    n, rate = first, 0.0
    for _ in range(rounds):
        seconds = takes(n)
        rate = n / seconds
        n = max(1, round(rate * interval_s))
    return rate


def best_cam(takes: Callable[[int], float], candidates: tuple[int, ...] = (2, 5, 10)) -> float:
    """Return the best of what cAM reaches with several numbers of candidates, as the paper does."""
    return max(takes(d) for d in candidates)
