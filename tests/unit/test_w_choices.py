from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import extra_fragments
from skewless.partitioners import PKG, DChoices, WChoices
from tests.oracles.w_choices import route

POLICIES = (WChoices, DChoices)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("n_workers", [2, 8, 64])
def test_every_route_of_a_longer_stream_equals_the_oracle(exponent, n_workers):
    keys = zipf(3000, 500, exponent, seed=2)
    routes = WChoices(n_workers, seed=1).route(Chunk(None, keys)).tolist()
    assert routes == route(keys.tolist(), [], n_workers=n_workers, seed=1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("n_workers", "most"), [(8, 1.001), (64, 1.01), (256, 1.1)])
def test_a_key_with_more_than_two_fair_shares_leaves_the_loads_even(policy, n_workers, most):
    keys = Chunk(None, zipf(300_000, 100_000, 1.5, seed=1))
    loads = np.bincount(policy(n_workers).route(keys), minlength=n_workers)
    assert loads.max() / loads.mean() <= most
    pkg = np.bincount(PKG(n_workers).route(keys), minlength=n_workers)
    assert pkg.max() / pkg.mean() > 1.5


@pytest.mark.parametrize("policy", POLICIES)
def test_the_tail_goes_where_two_choices_send_it(policy):
    """With theta 1 only the very first tuples can be head: all of those so far are of one key."""
    keys = Chunk(None, zipf(5000, 1000, 0.8, seed=3))
    routes = policy(16, theta=1.0).route(keys)
    pairs = np.unique(np.stack((keys.key.astype(np.int64), routes)), axis=1)
    fragments = np.unique(pairs[0], return_counts=True)[1]
    assert fragments.max() <= 3
    assert (fragments == 3).sum() <= 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_newcomer_does_not_inherit_the_rank_of_the_key_it_replaces(policy):
    """Tail keys take over slots with large counts; only their own count may make them head."""
    keys = zipf(50_000, 20_000, 0.0, seed=4)
    extra = extra_fragments(keys[5000:], policy(64, capacity=640).route(Chunk(None, keys))[5000:])
    plain = extra_fragments(keys[5000:], PKG(64).route(Chunk(None, keys))[5000:])
    assert extra <= 1.05 * plain


def test_head_keys_of_w_choices_take_the_workers_in_turn():
    assert WChoices(5).route(Chunk(None, [9] * 11)).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
