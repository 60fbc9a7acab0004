from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import extra_fragments, loads, max_over_mean
from skewless.partitioners import CAM, PKG, Hash


@pytest.mark.parametrize(("n_workers", "exponent"), [(8, 0.5), (8, 1.0), (64, 0.5)])
def test_without_a_heavy_key_it_balances_as_pkg_with_the_fragments_of_hashing(n_workers, exponent):
    keys = zipf(100_000, 10_000, exponent, seed=1)
    policies = CAM(n_workers, window=100_000), PKG(n_workers), Hash(n_workers)
    routes = [policy.route(Chunk(None, keys)) for policy in policies]
    cam, pkg, hashed = (max_over_mean(loads(route, n_workers)) for route in routes)
    assert cam < pkg + 0.1
    assert cam < hashed - 0.04
    assert extra_fragments(keys, routes[0]) == 0
    assert extra_fragments(keys, routes[1]) > 0.3 * 10_000


def test_a_key_above_a_fair_share_stays_whole():
    keys = np.where(np.arange(10_000) % 2 == 0, 7, np.arange(10_000))
    route = CAM(8).route(Chunk(None, keys))
    assert len(np.unique(route[keys == 7])) == 1
    assert max_over_mean(loads(route, 8)) == pytest.approx(4, abs=0.01)


def test_with_a_slide_a_key_moves_only_after_a_window_without_it():
    time = [0, 35, 70, 105, 200]
    policy = CAM(2, window=40, slide=10)
    here = policy.route(Chunk(time[:4], [1] * 4))
    assert len(set(here.tolist())) == 1
    other = next(key for key in range(2, 99) if CAM(2).route(Chunk(None, [key]))[0] == here[0])
    assert policy.route(Chunk([200, 201], [other, 1])).tolist() == [here[0], 1 - here[0]]
