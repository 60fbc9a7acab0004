from __future__ import annotations

import numpy as np
import pytest

from skewless.advisor import ADVISED, Outcome, advise, fitted_exponent, outcomes
from skewless.chunk import Chunk
from skewless.costs import Costs, calibrate, predicted_s
from skewless.datasets import zipf
from skewless.errors import ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.metrics import extra_fragments
from skewless.partitioners import Shuffle

COSTS = Costs(route_us=0.0, ship_us=0.5, update_us=1.5, merge_us=100.0)


def test_the_slowest_worker_sets_the_time_by_hand():
    assert predicted_s([1_000_000, 500_000], [1_000, 3_000], COSTS) == pytest.approx(2.1)
    assert predicted_s([10.0], [1], COSTS, routed=False) == pytest.approx(115e-6)
    with pytest.raises(ParameterError, match="one entry per worker"):
        predicted_s([1, 2], [1], COSTS)


@pytest.mark.parametrize("n_workers", [1, 2, 8])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_local_and_shuffle_are_predicted_as_they_are(n_workers, exponent):
    keys = zipf(50_000, 2_000, exponent, seed=1)
    found = {o.policy: o for o in outcomes(Histogram.of(keys), n_workers, COSTS)}
    workers = Shuffle(n_workers).route(Chunk(None, keys))
    assert found["shuffle"].max_over_mean == pytest.approx(1.0)
    real = extra_fragments(keys, workers)
    assert found["shuffle"].extra_fragments == pytest.approx(real, rel=0.03, abs=1)
    assert found["local"].extra_fragments == found["shuffle"].extra_fragments


def test_each_policy_is_predicted_as_its_routing_routes():
    keys = zipf(50_000, 2_000, 1.2, seed=1)
    whole = Histogram.of(keys)
    folded = whole.top(64, bucket_count(8))
    found = outcomes(folded, 8, COSTS, distinct=len(whole))
    assert [o.policy for o in found] == ["local", *ADVISED]
    for one in found:
        if one.policy in ("hash", "off_greedy", "kip"):
            assert one.extra_fragments == pytest.approx(0, abs=1e-6)
            assert one.split_keys == 0
        if one.policy == "wrap_around":
            assert 1.0 <= one.max_over_mean < 1.05
            assert 1 <= one.extra_fragments <= 7


def test_uniform_keys_are_left_to_hashing_and_a_hot_key_is_split():
    uniform = Histogram.of(zipf(100_000, 50_000, 0.0, seed=1))
    advice = advise(outcomes(uniform, 8, COSTS), 1e-5, 8)
    assert advice.policy == "hash"
    assert "under plain hashing" in advice.reason
    hot = Histogram.of(zipf(100_000, 50_000, 1.5, seed=1))
    advice = advise(outcomes(hot, 8, COSTS), 0.38, 8)
    assert advice.policy == "wrap_around"
    assert "3.0 fair shares" in advice.reason


def test_cheap_states_make_combining_in_place_the_advice():
    free = Costs(route_us=0.05, ship_us=1.0, update_us=0.5, merge_us=0.0)
    hot = Histogram.of(zipf(100_000, 1_000, 1.5, seed=1))
    advice = advise(outcomes(hot, 8, free), 0.38, 8)
    assert advice.policy == "local"
    assert "nearly every key on every worker" in advice.reason


def test_a_whole_key_is_spared_the_joining_of_states():
    keys = Histogram.of(np.repeat(np.arange(8_000, dtype=np.uint64), 4))
    making, both = Costs(0.0, 0.0, 0.0, 100.0), Costs(0.0, 0.0, 0.0, 300.0, joined_us=200.0)
    policies = ("hash", "shuffle")
    made, joined = (outcomes(keys, 8, costs, policies=policies) for costs in (making, both))
    local, hashed, shuffled = zip(joined, made, strict=True)
    assert hashed[0].predicted_s == pytest.approx(hashed[1].predicted_s)
    for one, free in (local, shuffled):
        # Each worker's eighth of the extra fragments, at 200 us.
        joined_s = one.extra_fragments / 8 * 200e-6
        assert one.predicted_s == pytest.approx(free.predicted_s + joined_s)


def test_the_simpler_policy_wins_a_tie():
    found = [
        Outcome("local", 1.0, 10.0, -1, 1.02),
        Outcome("wrap_around", 1.0, 1.0, 1, 1.0),
        Outcome("hash", 1.03, 0.0, 0, 1.029),
    ]
    assert advise(found, 0.1, 8).policy == "hash"


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.5, 2.0])
def test_the_zipf_exponent_of_a_drawn_stream_is_found(exponent):
    histogram = Histogram.of(zipf(1_000_000, 20_000, exponent, seed=4))
    assert fitted_exponent(histogram.counts, histogram.total) == pytest.approx(exponent, abs=0.08)


def test_too_few_keys_tell_no_exponent():
    assert fitted_exponent(np.array([100, 50]), 150) is None
    assert fitted_exponent(np.array([3, 2, 2, 1, 1, 1]), 10) is None


def test_an_empty_histogram_is_no_trouble():
    found = outcomes(Histogram([], [], np.zeros(bucket_count(4), np.int64)), 4, COSTS)
    assert all(o.max_over_mean == 1.0 and o.extra_fragments == 0 for o in found)


def test_calibration_measures_positive_costs_and_keeps_what_it_is_told():
    costs = calibrate(20.0)
    assert costs.update_us == 20.0
    assert all(0 < cost < 1_000 for cost in costs[:4])
    assert costs.stage_s == 0
    assert calibrate()._replace(update_us=20.0) == costs
