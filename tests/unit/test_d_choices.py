from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import extra_fragments
from skewless.partitioners import DChoices, WChoices
from skewless.partitioners.d_choices import _solve
from skewless.sketches import SpaceSaving
from tests.oracles.d_choices import candidates, route, solve


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2, 1.5])
@pytest.mark.parametrize("n_workers", [2, 8, 12, 64])
def test_every_route_of_a_longer_stream_equals_the_oracle(exponent, n_workers):
    keys = zipf(2500, 500, exponent, seed=2)
    settings = {"stats_window": 300, "seed": 1, "epsilon": 1e-3}
    routes = DChoices(n_workers, **settings).route(Chunk(None, keys)).tolist()
    assert routes == route(keys.tolist(), [], n_workers=n_workers, **settings)


@pytest.mark.parametrize("n_workers", [2, 7, 12, 64, 100])
def test_the_candidates_of_a_key_are_distinct_up_to_all_workers(n_workers):
    for key in range(50):
        assert len(set(candidates(key, n_workers, n_workers, 0))) == n_workers


def test_the_workers_of_a_head_key_are_its_candidates():
    partitioner = DChoices(60, stats_window=100)
    keys = np.where(np.arange(6000) % 10 == 0, 7, 1000 + np.arange(6000))
    routes = partitioner.route(Chunk(None, keys))
    assert partitioner.d < 60
    late = routes[3000:][keys[3000:] == 7]
    assert set(late.tolist()) <= set(candidates(7, 60, partitioner.d, 0))


@pytest.mark.parametrize(
    ("shares", "n_workers", "epsilon", "d"),
    [
        ([], 8, 1e-4, 2),  # no head: two choices for all
        ([0.1], 8, 0.05, 2),  # below two fair shares
        ([0.9], 8, 1e-4, 8),  # nearly everything: all workers
        ([0.3], 100, 1e-2, 30),
        ([0.3], 100, 1e-4, 54),
    ],
)
def test_d_for_shares_of_the_head(shares, n_workers, epsilon, d):
    total = 10_000
    summary = SpaceSaving(total)
    heavy = [round(share * total) for share in shares]
    summary.update(np.arange(len(shares)), heavy)
    summary.update(np.arange(100, 100 + total - sum(heavy)))
    assert solve(shares, n_workers, epsilon) == d
    assert _solve(summary.state, n_workers, 1 / (5 * n_workers), epsilon) == d


@pytest.mark.parametrize("n_workers", [3, 10, 50, 100])
def test_d_equals_the_oracle_for_random_heads(n_workers):
    random = np.random.default_rng(n_workers)
    for epsilon in (1e-4, 1e-3, 1e-2, 0.1):
        weights = np.sort(random.pareto(0.8, 30))[::-1]
        counts = (10_000 * weights / weights.sum() * random.uniform(0.2, 0.9)).astype(int)
        summary = SpaceSaving(20_000)
        summary.update(np.arange(30), counts)
        summary.update(np.arange(100, 100 + 10_000 - counts.sum()))
        theta = 1 / (5 * n_workers)
        p = sorted((c / 10_000 for c in counts.tolist() if c >= theta * 10_000), reverse=True)
        assert _solve(summary.state, n_workers, theta, epsilon) == solve(p, n_workers, epsilon)


def test_d_choices_makes_fewer_fragments_than_w_choices_at_zipf_1():
    keys = zipf(300_000, 100_000, 1.0, seed=1)
    fewer = extra_fragments(keys, DChoices(64).route(Chunk(None, keys)))
    assert fewer < 0.95 * extra_fragments(keys, WChoices(64).route(Chunk(None, keys)))
