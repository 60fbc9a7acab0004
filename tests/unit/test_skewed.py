"""Streams by share, log-normal streams, look-alikes: what is declared of them holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skewless.datasets.generators import zipf
from skewless.datasets.look_alikes import LOOK_ALIKES, look_alike
from skewless.datasets.skewed import log_normal, zipf_by_share, zipf_exponent
from skewless.errors import ParameterError
from tests.oracles import datasets as oracle


def p1(keys):
    return float(np.unique(keys, return_counts=True)[1].max()) / len(keys)


@pytest.mark.parametrize("n_keys", [2, 7, 1_000, 10_000, 10_001, 25_000])
@pytest.mark.parametrize("times_fair", [1.0, 1.01, 1.5, 1.9])
def test_the_exponent_gives_the_share_when_its_law_is_added_up(n_keys, times_fair):
    share = times_fair / n_keys
    weights = oracle.zipf_weights(n_keys, zipf_exponent(n_keys, share))
    assert 1 / math.fsum(weights) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.0932, 0.3845, 0.9, 0.999])
def test_the_exponent_gives_large_shares_too(share):
    weights = oracle.zipf_weights(30_000, zipf_exponent(30_000, share))
    assert 1 / math.fsum(weights) == pytest.approx(share, rel=1e-9)


def test_the_continued_sum_is_that_of_31_million_ranks():
    s = zipf_exponent(31_000_000, 0.0267)
    total = sum(
        float((np.arange(lo, min(lo + 10**6, 31_000_001)) ** -s).sum())
        for lo in range(1, 31_000_001, 10**6)
    )
    assert 1 / total == pytest.approx(0.0267, rel=1e-9)


def test_a_zipf_stream_of_known_exponent_is_found_again():
    share = 1 / math.fsum(oracle.zipf_weights(5_000, 1.2))
    assert zipf_exponent(5_000, share) == pytest.approx(1.2, abs=1e-9)
    assert (zipf_by_share(500, 5_000, 1 / 5_000, seed=3) == zipf(500, 5_000, 0.0, seed=3)).all()


@pytest.mark.parametrize(("mu", "sigma"), [(1.789, 2.366), (2.245, 1.133), (0.0, 0.1)])
def test_log_normal_keys_are_rounded_numbers_as_the_oracle_draws_them(mu, sigma):
    numbers = oracle.log_normal_numbers(3_000, mu, sigma, 11)
    expected = [oracle.name(number, 11) for number in numbers]
    # numpy's logarithm may differ from C's in the last bit; a number on a half is then another.
    same = np.asarray(expected, np.uint64) == log_normal(3_000, mu, sigma, seed=11)
    assert same.mean() > 0.999


@pytest.mark.parametrize(
    ("name", "share", "distinct"), [("ln1", 0.1471, 16_000), ("ln2", 0.0701, 1_100)]
)
def test_the_log_normal_sets_have_the_shares_and_keys_of_pkg_table_1(name, share, distinct):
    one = LOOK_ALIKES[name]
    assert (one.p1, one.n_keys) == (share, distinct)
    shares = oracle.rounded_log_normal_shares(*one.log_normal, upto=300_000)
    assert round(max(shares), 4) == share
    expected = math.fsum(-math.expm1(one.messages * math.log1p(-s)) for s in shares)
    assert expected == pytest.approx(distinct, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share", "distinct"), [("ln1", 0.1471, 16_000), ("ln2", 0.0701, 1_100)]
)
def test_ten_million_log_normal_draws_have_the_keys_of_pkg_table_1(name, share, distinct):
    keys, counts = np.unique(look_alike(name, 10_000_000, seed=1), return_counts=True)
    assert counts.max() / 1e7 == pytest.approx(share, abs=5e-4)
    assert len(keys) == pytest.approx(distinct, rel=0.03)


@pytest.mark.parametrize("name", [n for n, one in LOOK_ALIKES.items() if one.n_keys < 500_000])
def test_a_look_alike_has_its_share_and_no_more_than_its_keys(name):
    one, n = LOOK_ALIKES[name], 300_000
    keys = look_alike(name, n, seed=2)
    tolerance = 4 * math.sqrt(one.p1 * (1 - one.p1) / n)
    assert p1(keys) == pytest.approx(one.p1, abs=tolerance)
    assert len(np.unique(keys)) <= 1.02 * one.n_keys


@pytest.mark.parametrize("name", ["wikipedia", "twitter", "livejournal", "voters"])
def test_a_scaled_look_alike_keeps_the_share_of_its_first_key(name):
    one, n = LOOK_ALIKES[name], 200_000
    keys = look_alike(name, n, scale=0.01, seed=5)
    assert p1(keys) == pytest.approx(one.p1, abs=5 * math.sqrt(one.p1 / n))
    assert len(np.unique(keys)) <= math.ceil(one.n_keys * 0.01)


def test_the_keys_that_can_occur_do_occur_in_a_long_stream():
    assert len(np.unique(look_alike("cashtags", 690_000, seed=1))) == pytest.approx(2_900, rel=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: zipf_exponent(10, 0.05), r"p1 of 10 keys must be in \[0.1, 0.999999.*got 0.05"),
        (lambda: zipf_exponent(1, 0.5), "p1 of 1 keys must be in"),
        (lambda: zipf_exponent(10, 1.0), r"p1 must be a float in \(0, 1\), got 1.0"),
        (lambda: zipf_by_share(10, 0, 0.5), "n_keys must be an int of at least 1, got 0"),
        (lambda: zipf_by_share(-1, 9, 0.5), "zipf_by_share: n_tuples must be an int of at least"),
        (lambda: log_normal(10, 0.0, 0.0), "log_normal: sigma must be a float above 0, got 0.0"),
        (lambda: log_normal(10, 99.0, 1.0), "mu must be a float in"),
        (lambda: look_alike("votes", 10), r"no data set is named 'votes' \(did you mean 'voters'"),
        (lambda: look_alike("voters", 10, scale=0.0), r"scale must be a float in \(0, 1\], got 0"),
    ],
)
def test_bad_parameters_are_named(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


def test_huge_numbers_of_a_wide_log_normal_law_are_one_key():
    keys = log_normal(1_000, 20.0, 50.0, seed=1)
    assert keys.dtype == np.uint64
    assert len(log_normal(0, 1.0, 1.0)) == 0
