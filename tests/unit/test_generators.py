from __future__ import annotations

import numpy as np
import pytest

from skewless.datasets.generators import drifting, uniform, zipf
from skewless.errors import ParameterError


def frequencies(keys):
    return np.sort(np.unique(keys, return_counts=True)[1])[::-1] / len(keys)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
def test_zipf_frequencies_follow_the_law(exponent):
    n = 400_000
    expected = np.arange(1, 1001) ** -exponent
    expected /= expected.sum()
    head = frequencies(zipf(n, 1000, exponent, seed=5))[:20]
    assert np.abs(head - expected[:20]).max() < 5 * np.sqrt(expected[0] / n)


def test_the_hottest_of_100_000_keys_has_38_percent_at_exponent_1_5():
    assert frequencies(zipf(100_000, 100_000, 1.5))[0] == pytest.approx(0.384, abs=0.01)


def test_exponent_0_is_uniform():
    assert (zipf(5_000, 70, 0.0, seed=2) == uniform(5_000, 70, seed=2)).all()
    spread = frequencies(uniform(200_000, 100))
    assert spread[0] < 0.012
    assert spread[-1] > 0.008


def test_equal_arguments_give_equal_streams_and_seeds_change_them():
    assert zipf(1000, 50, 1.0, seed=1).tolist() == zipf(1000, 50, 1.0, seed=1).tolist()
    assert not set(zipf(1000, 50, 1.0, seed=1)) & set(zipf(1000, 50, 1.0, seed=2))


def test_the_stream_is_the_same_on_every_machine():
    assert zipf(3, 50, 1.0, seed=1).tolist() == [
        9575146525165940540,
        14476002199329607973,
        9977852208229780654,
    ]


def test_a_longer_stream_begins_with_the_shorter_one():
    assert (zipf(500, 50, 1.0)[:100] == zipf(100, 50, 1.0)).all()


def test_the_rank_cannot_be_read_off_the_key():
    keys, counts = np.unique(zipf(100_000, 1000, 1.0), return_counts=True)
    ranks = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    assert abs(np.corrcoef(np.arange(len(keys)), ranks)[0, 1]) < 0.1


def test_drifting_replaces_the_hot_keys_and_keeps_the_others():
    periods = drifting(60_000, 2000, 1.0, period=20_000, n_hot=5, seed=3).reshape(3, 20_000)
    hot = []
    for period in periods:
        keys, counts = np.unique(period, return_counts=True)
        hot.append(set(keys[np.argsort(-counts)[:5]].tolist()))
    assert not hot[0] & hot[1]
    assert not hot[1] & hot[2]
    for earlier, later, gone in zip(periods[:-1], periods[1:], hot[:-1], strict=True):
        assert not gone & set(later.tolist())
        cold = set(earlier.tolist()) & set(later.tolist())
        assert len(cold) > 0.8 * len(set(later.tolist()))


def test_drifting_with_a_period_as_long_as_the_stream_is_zipf():
    assert (drifting(900, 40, 1.2, period=900, seed=4) == zipf(900, 40, 1.2, seed=4)).all()


def test_an_empty_stream_and_a_single_key():
    assert len(zipf(0, 10, 1.0)) == len(drifting(0, 10, 1.0, period=5)) == 0
    assert zipf(0, 10, 1.0).dtype == np.uint64
    assert len(set(zipf(100, 1, 1.0).tolist())) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: zipf(-1, 10, 1.0), "zipf: n_tuples must be an int of at least 0, got -1"),
        (lambda: zipf(10, 0, 1.0), "zipf: n_keys must be an int of at least 1, got 0"),
        (lambda: zipf(10, 10, float("nan")), "zipf: exponent must be a float in"),
        (lambda: zipf(10, 10, -0.5), r"zipf: exponent must be a float in \[0, 20\], got -0.5"),
        (lambda: zipf(10, 10, 1.0, seed=-1), "zipf: seed must be an int in"),
        (lambda: uniform(10, 0), "uniform: n_keys must be an int of at least 1, got 0"),
        (lambda: drifting(10, 10, 1.0, period=0), "drifting: period must be an int of at least 1"),
        (lambda: drifting(10, 10, 1.0, period=5, n_hot=0), "drifting: n_hot must be an int of"),
    ],
)
def test_bad_parameters_are_named(call, words):
    with pytest.raises(ParameterError, match=words):
        call()
