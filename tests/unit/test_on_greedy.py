from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.histogram import Histogram
from skewless.metrics import imbalance
from skewless.partitioners import OnGreedy, Shuffle
from skewless.planners import OffGreedy
from tests.oracles.on_greedy import route


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("n_workers", [2, 8, 300])
def test_every_route_of_a_longer_stream_equals_the_oracle(exponent, n_workers):
    keys = zipf(4000, 3000, exponent, seed=2)
    routes = OnGreedy(n_workers).route(Chunk(None, keys)).tolist()
    assert routes == route(keys.tolist(), [], n_workers=n_workers)


@pytest.mark.parametrize(
    ("stream", "loads"),
    [
        ("abc", [1, 1, 1]),
        ("aaab", [3, 1, 0]),
        ("aaabbcd", [3, 2, 2]),
        ("aaabbcddd", [3, 2, 4]),
        ("abcdef", [2, 2, 2]),
        ("abcabcdaaaa", [7, 2, 2]),
    ],
)
def test_a_new_key_takes_the_least_loaded_worker_and_keeps_it(stream, loads):
    keys = Chunk(None, [ord(letter) for letter in stream])
    assert np.bincount(OnGreedy(3).route(keys), minlength=3).tolist() == loads


def test_as_long_as_every_key_is_new_the_workers_take_turns():
    keys = Chunk(None, np.arange(10_000))
    assert OnGreedy(7).route(keys).tolist() == Shuffle(7).route(keys).tolist()


def test_a_table_that_grows_forgets_nobody():
    keys = Chunk(None, np.arange(50_000))
    policy = OnGreedy(16)
    first = policy.route(keys)
    assert policy.route(keys).tolist() == first.tolist()
    assert policy.state_bytes <= 52 * 50_000


def test_it_comes_near_the_plan_that_knows_every_weight():
    """Table II, Wikipedia and 5 workers: On-Greedy 7.8, Off-Greedy 0.8, hashing 1.4 million."""
    keys = Chunk(None, zipf(200_000, 10_000, 0.8, seed=1))
    counts = Histogram.of(keys)
    offline = OffGreedy(5, hot_keys=len(counts)).plan(counts).loads(counts)
    online = np.bincount(OnGreedy(5).route(keys), minlength=5)
    assert imbalance(offline) <= 1
    assert imbalance(online) < 0.005 * online.mean()
