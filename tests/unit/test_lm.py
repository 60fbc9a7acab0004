from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import drifting, zipf
from skewless.metrics import cardinalities, extra_fragments, hybrid_imbalance, loads
from skewless.partitioners import CM, LM, PKG


@pytest.mark.parametrize("n_workers", [1, 2, 8, 64])
@pytest.mark.parametrize("d", [2, 5])
def test_with_all_weight_on_the_tuples_it_is_pkg(n_workers, d):
    keys = Chunk(None, zipf(20_000, 3000, 1.2, seed=1))
    lm, pkg = LM(n_workers, d=d, p=1.0), PKG(n_workers, d=d)
    assert lm.route(keys).tolist() == pkg.route(keys).tolist()


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(("window", "slide"), [(60_000, None), (3000, None), (3000, 500)])
def test_with_all_weight_on_the_keys_it_is_cm(d, window, slide):
    keys = Chunk(None, drifting(20_000, 3000, 1.2, period=2000, n_hot=4))
    lm, cm = (
        cls(8, d=d, window=window, slide=slide, **extra)
        for cls, extra in ((LM, {"p": 0.0}), (CM, {}))
    )
    assert lm.route(keys).tolist() == cm.route(keys).tolist()


@pytest.mark.parametrize("n_workers", [8, 64])
@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2])
def test_the_hybrid_imbalance_is_far_below_that_of_tuples_or_keys_alone(n_workers, exponent):
    """Section 4.3: the main goal is to minimise Eq. 10."""
    keys = zipf(100_000, 10_000, exponent, seed=1)

    def uneven(policy):
        route = policy.route(Chunk(None, keys))
        return hybrid_imbalance(loads(route, n_workers), cardinalities(keys, route, n_workers))

    lm = uneven(LM(n_workers, window=100_000))
    assert lm < 0.05
    assert lm < 0.4 * min(uneven(PKG(n_workers)), uneven(CM(n_workers, window=100_000)))


def test_two_keys_that_take_turns_stay_on_a_worker_each():
    """Section 7, first scenario of minimal aggregation cost: Gamma = 2."""
    keys = np.arange(1000) % 2
    assert extra_fragments(keys, LM(2).route(Chunk(None, keys))) == 0


def test_keys_that_come_once_each_are_not_split():
    """Section 7, second scenario."""
    keys = np.arange(5000)
    assert extra_fragments(keys, LM(8).route(Chunk(None, keys))) == 0


@pytest.mark.parametrize("slide", [None, 50])
@pytest.mark.parametrize("n_workers", [3, 40])
def test_least_and_most_stay_right_however_the_stream_is_cut(n_workers, slide):
    """Each call looks for them anew, so a stale one would show."""
    keys = drifting(4000, 200, 1.0, period=300, n_hot=3)
    whole = LM(n_workers, window=400, slide=slide).route(Chunk(None, keys))
    policy = LM(n_workers, window=400, slide=slide)
    parts = [policy.route(Chunk([t], keys[t : t + 1])) for t in range(4000)]
    assert np.concatenate(parts).tolist() == whole.tolist()
