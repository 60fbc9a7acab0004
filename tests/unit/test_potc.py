from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.errors import ParameterError
from skewless.metrics import imbalance
from skewless.partitioners import PKG, Hash, OnGreedy, PoTC
from tests.oracles.pkg import candidates
from tests.oracles.potc import route


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
@pytest.mark.parametrize(("n_workers", "d"), [(2, 2), (8, 3), (64, 2)])
def test_every_route_of_a_longer_stream_equals_the_oracle(exponent, n_workers, d):
    keys = zipf(4000, 3000, exponent, seed=2)
    routes = PoTC(n_workers, d=d, seed=1).route(Chunk(None, keys)).tolist()
    assert routes == route(keys.tolist(), [], n_workers=n_workers, d=d, seed=1)


def test_a_key_stays_with_its_first_choice_even_if_the_other_candidate_is_empty():
    loads = np.bincount(PoTC(4).route(Chunk(None, [7] * 100)), minlength=4)
    first, second = candidates(7, 4, 2, 0)
    assert (loads[first], loads[second]) == (100, 0)


@pytest.mark.parametrize(
    ("before", "chosen"), [([0, 0], 0), ([1, 0], 1), ([3, 3], 0), ([2, 3], 0), ([9, 8], 1)]
)
def test_a_new_key_takes_the_less_loaded_candidate_and_the_first_of_equals(before, chosen):
    policy = PoTC(5)
    pair = candidates(42, 5, 2, 0)
    policy.state.load[pair] = before
    assert policy.route(Chunk(None, [42])).tolist() == [pair[chosen]]


def test_as_long_as_every_key_is_new_it_routes_as_pkg_does():
    keys = Chunk(None, np.arange(20_000))
    assert PoTC(64).route(keys).tolist() == PKG(64).route(keys).tolist()


def test_a_table_that_grows_forgets_nobody():
    keys = Chunk(None, np.arange(50_000))
    policy = PoTC(16)
    first = policy.route(keys)
    assert policy.route(keys).tolist() == first.tolist()
    assert policy.state.owners.used[0] == 50_000
    assert policy.state_bytes <= 52 * 50_000


@pytest.mark.parametrize("n_workers", [5, 10])
def test_the_order_of_table_2_while_no_key_is_too_heavy(n_workers):
    """Wikipedia, 5 workers: PKG 0.8, On-Greedy 7.8, PoTC 15.8, hashing 1.4e6."""
    keys = zipf(200_000, 10_000, 0.8, seed=1)
    found = [
        imbalance(np.bincount(policy(n_workers).route(Chunk(None, keys)), minlength=n_workers))
        for policy in (PKG, OnGreedy, PoTC, Hash)
    ]
    assert found == sorted(found)
    assert found[0] <= 2
    assert 20 * found[2] < found[3]


def test_with_too_many_workers_the_heaviest_key_alone_is_the_maximum():
    """Table II, 50 and 100 workers: On-Greedy and PoTC are equal, and near hashing."""
    keys = zipf(200_000, 10_000, 1.2, seed=1)
    heaviest = np.unique(keys, return_counts=True)[1].max()
    for policy in (PoTC(50), OnGreedy(50)):
        assert np.bincount(policy.route(Chunk(None, keys)), minlength=50).max() == heaviest


def test_more_than_64_candidates_are_refused():
    with pytest.raises(
        ParameterError,
        match=r"^PoTC: d must be at most 64, got 65; use OnGreedy to choose among all workers\.$",
    ):
        PoTC(100, d=65)
