from __future__ import annotations

import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import (
    cardinalities,
    cardinality_imbalance,
    extra_fragments,
    loads,
    max_over_mean,
)
from skewless.partitioners import CM, PKG


@pytest.mark.parametrize("n_workers", [2, 8, 64])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_keys_are_evener_than_under_pkg_and_tuples_are_not(n_workers, exponent):
    """Section 4.1: minimal cardinality imbalance, agnostic of tuple counts."""
    keys = zipf(100_000, 10_000, exponent, seed=1)
    cm = CM(n_workers, window=100_000).route(Chunk(None, keys))
    pkg = PKG(n_workers).route(Chunk(None, keys))
    uneven = [cardinality_imbalance(cardinalities(keys, way, n_workers)) for way in (cm, pkg)]
    assert uneven[0] <= max(1, 0.1 * uneven[1])
    assert max_over_mean(loads(cm, n_workers)) >= max_over_mean(loads(pkg, n_workers))


def test_it_does_not_limit_fragments():
    keys = zipf(100_000, 1000, 0.5, seed=1)
    assert extra_fragments(keys, CM(8, window=100_000).route(Chunk(None, keys))) > 0.8 * 1000


def test_a_key_stays_with_a_candidate_until_that_one_has_more_keys():
    first = int(CM(2).route(Chunk(None, [1]))[0])
    routes = CM(2).route(Chunk(None, [1, 1, 1, 1])).tolist()
    # The second tuple finds 1 key against 0; from then on both have the key, and ties go to the first.
    assert routes == [first, 1 - first, first, first]
