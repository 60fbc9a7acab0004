from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import cardinalities, extra_fragments, imbalance, loads, max_over_mean
from skewless.partitioners import AM, CAM, Hash

WINDOW = 100_000


def measured(measure, make, n_workers):
    """Return the mean of a measure over six seeds, on 10,000 keys of equal frequency."""
    found = []
    for seed in range(6):
        keys = zipf(WINDOW, 10_000, 0.0, seed=seed)
        found.append(measure(keys, make(n_workers, seed).route(Chunk(None, keys))))
    return np.mean(found)


def exact(n_workers, seed):
    return AM(n_workers, window=WINDOW, seed=seed)


def guessing(n_workers, seed):
    return AM(n_workers, window=WINDOW, cardinality="hyper_log_log", seed=seed)


def hashing(n_workers, seed):
    return Hash(n_workers, seed=seed)


@pytest.mark.parametrize("n_workers", [8, 64])
def test_with_hyper_log_log_tuples_are_less_even_than_exact_and_more_even_than_hashed(n_workers):
    """Section 6.1.2 and figure 7."""

    def uneven(keys, workers):
        return imbalance(loads(workers, n_workers))

    figures = [measured(uneven, make, n_workers) for make in (exact, guessing, hashing)]
    assert 1.1 * figures[0] < figures[1] < 0.9 * figures[2]


@pytest.mark.parametrize("n_workers", [8, 64])
def test_with_hyper_log_log_keys_are_less_even_and_some_are_split(n_workers):
    def uneven(keys, workers):
        return max_over_mean(cardinalities(keys, workers, n_workers))

    assert measured(uneven, exact, n_workers) < 1.02
    assert 1.01 < measured(uneven, guessing, n_workers) < 1.06
    assert measured(extra_fragments, exact, n_workers) == 0
    assert 0 < measured(extra_fragments, guessing, n_workers) < 0.1 * 10_000


@pytest.mark.parametrize("cls", [AM, CAM])
def test_with_hyper_log_log_and_50_000_keys_a_worker_most_of_the_balance_is_lost(cls):
    """Nearly every key then seems to be held by its first candidate."""
    keys = np.arange(400_000)

    def uneven(policy):
        return imbalance(loads(policy.route(Chunk(None, keys)), 8))

    exact, guessed = (cls(8, window=10**6, cardinality=c) for c in ("exact", "hyper_log_log"))
    assert uneven(exact) < 0.05 * uneven(Hash(8))
    assert uneven(guessed) > 0.4 * uneven(Hash(8))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_it_evens_out_keys_where_cam_evens_out_tuples(exponent):
    keys = zipf(WINDOW, 10_000, exponent, seed=1)
    am = AM(8, window=WINDOW).route(Chunk(None, keys))
    cam = CAM(8, window=WINDOW).route(Chunk(None, keys))
    assert max_over_mean(cardinalities(keys, am, 8)) < 1.01
    assert max_over_mean(cardinalities(keys, cam, 8)) > 1.05
    assert max_over_mean(loads(cam, 8)) < max_over_mean(loads(am, 8))


def test_a_key_is_forgotten_with_the_window_and_chosen_anew():
    """Algorithm 1, lines 3 to 5: key 1 goes to the other worker once its own has a key already."""
    here = int(AM(2).route(Chunk(None, [1]))[0])
    other = next(key for key in range(2, 99) if AM(2).route(Chunk(None, [key]))[0] == here)
    routes = AM(2, window=10).route(Chunk([0, 9, 10, 11, 19], [1, 1, other, 1, 1]))
    assert routes.tolist() == [here, here, here, 1 - here, 1 - here]
