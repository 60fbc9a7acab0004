"""DAGreedy: when a hot key leaves the workers that hold it, and what that does to the load."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from skewless.metrics import extra_fragments, loads, max_over_mean
from skewless.partitioners import DAGreedy
from tests.oracles.hashing import mix, spread


def homes(n_workers: int, wanted: list[int]) -> list[int]:
    """Return keys whose hash names these workers."""
    found: list[int] = []
    key = 0
    for worker in wanted:
        key += 1
        while spread(mix(key, 0), n_workers) != worker:
            key += 1
        found.append(key)
    return found


#: A name, tuples of other keys per worker that came before, and where the next tuples of one hot key go.
#: The hot key is at worker 0, which has 10 tuples of it; 4 workers.
TABLE = {
    "it stays with the worker that holds it while no other is a mean load below": (
        [0, 12, 12, 12],
        [0, 0, 0, 0, 0, 0],
    ),
    "it leaves for the least loaded worker once that is more than a mean below": (
        [30, 8, 0, 20],
        [2],
    ),
    "of two empty workers it takes the lower one": (
        [30, 0, 0, 20],
        [1],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_hot_key_goes_where_the_score_is_highest(name: str) -> None:
    cold, expected = TABLE[name]
    hot, *others = homes(4, [0, 0, 1, 2, 3])
    policy = DAGreedy(4, window=10_000, slide=10_000, stats_window=1_000)
    first = [hot] * 10
    before = [key for key, n in zip(others, cold, strict=True) for _ in range(n)]
    policy.route(Chunk(np.zeros(len(first), np.int64), np.array(first, np.uint64)))
    policy.route(Chunk(np.zeros(len(before), np.int64), np.array(before, np.uint64)))
    # In the next statistics window the key is hot from its n-th part of these tuples on.
    heavy = -(-(len(first) + len(before)) // 4)
    warm = policy.route(Chunk(np.full(heavy - 1, 1_000), np.full(heavy - 1, hot, np.uint64)))
    assert set(warm.tolist()) == {0}
    load = [10 + cold[0] + heavy - 1, *cold[1:]]
    got = policy.route(Chunk(np.full(6, 1_001), np.full(6, hot, np.uint64))).tolist()
    assert got == _by_hand(load, 6)
    assert got[: len(expected)] == expected


def _by_hand(load: list[int], n_tuples: int) -> list[int]:
    """Score every worker as the rule says, in fractions of the mean."""
    load, holds, out = list(load), {0}, []
    for _ in range(n_tuples):
        total = sum(load)
        score = [(w in holds) * total - (load[w] * len(load) - total) for w in range(len(load))]
        best = score.index(max(score))
        load[best] += 1
        holds.add(best)
        out.append(best)
    return out


def test_one_key_alone_is_spread_within_a_mean_of_even() -> None:
    policy = DAGreedy(8, window=8_000, slide=100)
    load = loads(policy.route(Chunk(None, np.full(20_000, 7)))[10_000:], 8)
    assert max_over_mean(load) < 1.3


@pytest.mark.parametrize(("exponent", "n_workers", "worst"), [(1.0, 64, 2.0), (1.5, 64, 1.6)])
def test_zipf_streams_stay_below_twice_the_mean_with_few_fragments(
    exponent: float, n_workers: int, worst: float
) -> None:
    keys = zipf(600_000, 100_000, exponent, seed=1)
    policy = DAGreedy(n_workers)
    for start in range(0, len(keys), 100_000):
        part = keys[start : start + 100_000]
        workers = policy.route(Chunk(np.arange(start, start + len(part)), part))
    assert max_over_mean(loads(workers, n_workers)) < worst
    assert extra_fragments(part, workers) <= n_workers


def test_bad_windows_and_times_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"^DAGreedy: slide must be at most the window of 10"):
        DAGreedy(4, window=10, slide=11)
    policy = DAGreedy(4)
    policy.route(Chunk([5], [1]))
    with pytest.raises(DataError, match=r"^DAGreedy: time must not decrease .* got 4 after 5"):
        policy.route(Chunk([4], [1]))
