from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.metrics import imbalance, loads
from skewless.partitioners import PKG, Hash
from tests.oracles.pkg import route


@pytest.fixture(scope="module")
def stream():
    """Heaviest key 10 %: up to 19 workers two choices are enough (section IV)."""
    return zipf(200_000, 10_000, 1.0, seed=1)


def mean_imbalance(workers, n_workers):
    """The average of I(t) = max - mean over the stream, as in Table II and Figure 2."""
    total = np.zeros(n_workers)
    found = []
    for part in np.split(workers, 200):
        total += np.bincount(part, minlength=n_workers)
        found.append(imbalance(total))
    return np.mean(found)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"sources": 5},
        {"estimates": "global", "sources": 5},
        {"estimates": "probed", "sources": 5, "period": 300},
    ],
)
def test_every_route_of_a_longer_stream_equals_the_oracle(exponent, d, parameters):
    keys = zipf(4000, 500, exponent, seed=2)
    routes = PKG(16, d=d, seed=1, **parameters).route(Chunk(None, keys)).tolist()
    assert routes == route(
        keys.tolist(), list(range(4000)), n_workers=16, d=d, seed=1, **parameters
    )


@pytest.mark.parametrize("n_workers", [2, 3, 5, 8, 64])
def test_the_two_candidates_of_a_key_never_coincide(n_workers):
    """Else a key would meet the same worker twice, though it has just been loaded."""
    for key in range(1000):
        first, second = PKG(n_workers).route(Chunk(None, [key, key]))
        assert first != second


@pytest.mark.parametrize("d", [3, 7])
def test_no_two_of_d_candidates_coincide(d):
    for key in range(300):
        assert len(set(PKG(9, d=d).route(Chunk(None, [key] * d)).tolist())) == d


def test_all_pairs_of_workers_are_equally_likely():
    pairs = np.zeros((6, 6))
    for key in range(6000):
        first, second = PKG(6).route(Chunk(None, [key, key]))
        pairs[first, second] += 1
    expected = 6000 / 30
    off = pairs[~np.eye(6, dtype=bool)]
    assert ((off - expected) ** 2 / expected).sum() < 58.3  # chi-square, 29 degrees, p = 0.001


@pytest.mark.parametrize(
    ("n_workers", "share_of_all", "at_most"),
    [(4, 0.0, 1.0), (16, 1 / 8 - 1 / 16, 1.06), (32, 1 / 8 - 1 / 32, 1.02)],
)
@pytest.mark.parametrize("n_tuples", [10_000, 20_000, 40_000])
def test_above_two_fair_shares_the_imbalance_grows_with_the_stream(
    n_workers, share_of_all, at_most, n_tuples
):
    """Every fourth tuple is of one key: up to n = 2 / p_1 = 8 all is even, beyond it has p_1 / 2."""
    keys = np.arange(n_tuples)
    keys[::4] = 0
    found = imbalance(loads(PKG(n_workers).route(Chunk(None, keys)), n_workers))
    least = share_of_all * n_tuples
    assert least <= found <= max(at_most, at_most * least)


@pytest.mark.parametrize(
    ("load", "chosen"), [([0, 0], 0), ([1, 0], 1), ([5, 5], 0), ([5, 6], 0), ([6, 5], 1)]
)
def test_the_less_loaded_candidate_is_taken_and_the_first_of_equals(load, chosen):
    pair = PKG(7).route(Chunk(None, [3, 3]))
    policy = PKG(7)
    policy.state.load[0, pair] = load
    assert policy.route(Chunk(None, [3])).tolist() == [pair[chosen]]


def test_sources_do_not_see_what_the_others_send():
    """Two sources alternate on one key: each goes first, then second, by itself."""
    first, second = PKG(4).route(Chunk(None, [7, 7])).tolist()
    found = PKG(4, sources=2).route(Chunk(None, [7] * 6)).tolist()
    assert found == [first, first, second, second, first, first]
    assert PKG(4, estimates="global", sources=2).route(Chunk(None, [7] * 4)).tolist() == [
        first,
        second,
        first,
        second,
    ]


def test_local_estimates_are_within_a_small_factor_of_global_ones(stream):
    """Figure 2: less than an order of magnitude between G and L, far below hashing."""
    chunk = Chunk(None, stream)
    known, local, hashed = (
        mean_imbalance(policy.route(chunk), 10)
        for policy in (PKG(10, estimates="global"), PKG(10, sources=5), Hash(10))
    )
    assert known < 2
    assert local < 5 * known
    assert local < hashed / 1000


@pytest.mark.parametrize("sources", [1, 5, 10, 20])
def test_the_imbalance_is_at_most_the_sum_of_the_local_ones(stream, sources):
    """Section III-B."""
    workers = PKG(10, sources=sources).route(Chunk(None, stream))
    local = [imbalance(loads(workers[source::sources], 10)) for source in range(sources)]
    assert imbalance(loads(workers, 10)) <= sum(local) + 1e-6
    assert max(local) <= 5


def test_local_and_global_estimates_choose_differently_all_the_same(stream):
    """Section V: of the destinations, 47 % of the union of both are common to both."""
    chunk = Chunk(None, stream)
    known, local = PKG(10).route(chunk), PKG(10, sources=5).route(chunk)
    common = (known == local).sum()
    assert 0.40 < common / (2 * len(stream) - common) < 0.55


@pytest.mark.parametrize("period", [100, 1000, 20_000])
def test_probing_brings_nothing(stream, period):
    """Figure 3: L5P1 is no better than L5; here, one or two tuples of 20,000 a worker."""
    chunk = Chunk(None, stream)
    local = PKG(10, sources=5).route(chunk)
    probed = PKG(10, estimates="probed", sources=5, period=period).route(chunk)
    assert abs(mean_imbalance(local, 10) - mean_imbalance(probed, 10)) < 3


def test_a_probe_replaces_all_estimates_by_the_true_loads():
    policy = PKG(4, estimates="probed", sources=2, period=10)
    policy.route(Chunk([3, 4, 9], [7, 7, 8]))
    before = policy.state.sent.copy()
    assert before.sum() == 3
    assert policy.state.load.sum() == 2 * 3
    policy.route(Chunk([10], [8]))
    assert policy.state.load.sum(axis=1).tolist() == [3, 3 + 2]
    assert np.array_equal(policy.state.load[0], before)


def test_a_single_source_routes_the_same_whatever_it_estimates(stream):
    chunk = Chunk(None, stream[:20_000])
    expected = PKG(8).route(chunk).tolist()
    assert PKG(8, estimates="global").route(chunk).tolist() == expected
    assert PKG(8, estimates="probed", period=7).route(chunk).tolist() == expected


def test_probes_need_time_that_goes_on():
    policy = PKG(4, estimates="probed", period=10)
    policy.route(Chunk([5, 30], [1, 2]))
    with pytest.raises(DataError, match=r"^PKG: time must not decrease .* got 29 after 30; number"):
        policy.route(Chunk([29], [3]))
    PKG(4, sources=3).route(Chunk([29], [3]))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (
            {"estimates": "remote"},
            "PKG: estimates must be 'global', 'local' or 'probed', got 'remote'.",
        ),
        (
            {"estimates": "probed"},
            (
                "PKG: period must be an int of at least 1 with estimates='probed', got None; say after "
                "how much time the true loads are looked up."
            ),
        ),
        (
            {"period": 60},
            (
                "PKG: period must be None with estimates='local', got 60; loads are looked up with "
                "estimates='probed' only."
            ),
        ),
        (
            {"estimates": "global", "period": 60},
            (
                "PKG: period must be None with estimates='global', got 60; loads are looked up with "
                "estimates='probed' only."
            ),
        ),
        ({"sources": 0}, "PKG: sources must be an int of at least 1, got 0."),
        ({"d": 65}, "PKG: d must be at most 64, got 65; use Shuffle to spread further."),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters, sentence):
    with pytest.raises(ParameterError) as caught:
        PKG(4, **parameters)
    assert str(caught.value) == sentence
