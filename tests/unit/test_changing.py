"""Streams that change: tuple for tuple the oracle's, and changing where they say they do."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.datasets.changing import alternating, redrawn, redrawn_exponents, renamed
from skewless.datasets.generators import zipf
from skewless.datasets.specs import SPECS, from_spec, is_spec
from skewless.errors import ParameterError
from tests.oracles import datasets as oracle


def shares(keys):
    return np.sort(np.unique(keys, return_counts=True)[1])[::-1] / len(keys)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
@pytest.mark.parametrize(
    ("n", "n_keys", "period"), [(0, 5, 3), (1, 1, 1), (95, 8, 10), (60, 9, 60)]
)
def test_streams_equal_the_oracle_tuple_for_tuple(seed, n, n_keys, period):
    found = renamed(n, n_keys, 1.2, period=period, seed=seed)
    assert found.tolist() == oracle.renamed(n, n_keys, 1.2, period, seed)
    found = alternating(n, n_keys, 1.2, period=period, seed=seed)
    assert found.tolist() == oracle.alternating(n, n_keys, 1.2, period, seed)
    found = redrawn(n, n_keys, period=period, low=0.5, high=1.5, seed=seed)
    assert found.tolist() == oracle.redrawn(n, n_keys, period, 0.5, 1.5, seed)
    assert found.dtype == np.uint64


def test_zipf_equals_the_oracle_tuple_for_tuple():
    expected = [oracle.name(rank, 4) for rank in oracle.zipf_ranks(500, 40, 0.9, 4)]
    assert zipf(500, 40, 0.9, seed=4).tolist() == expected


def test_renamed_keys_never_come_back_and_keep_their_law():
    periods = renamed(90_000, 500, 1.0, period=30_000, seed=3).reshape(3, -1)
    sets = [set(part.tolist()) for part in periods]
    assert not sets[0] & sets[1]
    assert not sets[1] & sets[2]
    assert not sets[0] & sets[2]
    expected = 1 / sum(oracle.zipf_weights(500, 1.0))
    for part in periods:
        assert shares(part)[0] == pytest.approx(expected, abs=0.01)


def test_alternating_is_uniform_then_zipf_with_the_same_hot_key():
    periods = alternating(80_000, 400, 1.5, period=20_000, seed=3).reshape(4, -1)
    for even in periods[::2]:
        assert shares(even)[0] < 2.5 / 400
    expected = 1 / sum(oracle.zipf_weights(400, 1.5))
    hot = set()
    for odd in periods[1::2]:
        assert shares(odd)[0] == pytest.approx(expected, abs=0.02)
        keys, counts = np.unique(odd, return_counts=True)
        hot.add(int(keys[counts.argmax()]))
    assert len(hot) == 1


def test_redrawn_changes_exponent_and_hot_keys_at_each_period():
    exponents = redrawn_exponents(6, low=0.5, high=1.5, seed=8)
    assert ((exponents >= 0.5) & (exponents < 1.5)).all()
    periods = redrawn(240_000, 300, period=40_000, low=0.5, high=1.5, seed=8).reshape(6, -1)
    hottest = []
    for part, exponent in zip(periods, exponents, strict=True):
        expected = 1 / sum(oracle.zipf_weights(300, exponent))
        assert shares(part)[0] == pytest.approx(expected, abs=0.01)
        keys, counts = np.unique(part, return_counts=True)
        hottest.append(int(keys[counts.argmax()]))
    assert len(set(hottest)) >= 5
    assert len(np.unique(periods)) == 300


def test_exponents_of_all_seeds_fill_the_interval_evenly():
    drawn = redrawn_exponents(20_000, low=0.5, high=1.5, seed=1)
    assert drawn.mean() == pytest.approx(1.0, abs=0.01)
    assert np.histogram(drawn, 10, (0.5, 1.5))[0].min() > 1_800


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("zipf:1.5", lambda: zipf(200, 100_000, 1.5, seed=7)),
        ("zipf:1.5,40", lambda: zipf(200, 40, 1.5, seed=7)),
        ("zipf: n_keys = 1_000 , exponent=1", lambda: zipf(200, 1_000, 1.0, seed=7)),
        ("renamed:1.0,50,n_keys=9", lambda: renamed(200, 9, 1.0, period=50, seed=7)),
        ("redrawn:50", lambda: redrawn(200, 100_000, period=50, seed=7)),
        ("alternating:1.0,50,20", lambda: alternating(200, 20, 1.0, period=50, seed=7)),
    ],
)
def test_a_spec_is_the_generator_with_its_arguments(spec, expected):
    assert is_spec(spec)
    assert from_spec(spec, 200, seed=7).tolist() == expected().tolist()


@pytest.mark.parametrize("name", [*SPECS, "voters", "ln1"])
def test_every_name_draws_a_stream(name):
    given = {
        "zipf": ":1",
        "zipf_by_share": ":0.1",
        "log_normal": ":1,1",
        "drifting": ":1,9",
        "renamed": ":1,9",
        "redrawn": ":9",
        "alternating": ":1,9",
    }
    keys = from_spec(name + given.get(name, ""), 20, seed=1)
    assert (len(keys), keys.dtype) == (20, np.uint64)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("zpf:1", r"zpf:1: no generator is named 'zpf' \(did you mean 'zipf'"),
        ("zipf", "zipf: exponent is missing; write zipf:exponent,n_keys"),
        ("zipf:x", "zipf:x: exponent must be a number, got 'x'"),
        ("zipf:1,1.5", "n_keys must be an int, got '1.5'"),
        ("zipf:1,2,3", "'3' has no place; values without a name come first"),
        ("zipf:n_keys=5,1", "'1' has no place"),
        ("zipf:1,n_kyes=5", r"no parameter 'n_kyes' \(did you mean 'n_keys'"),
        ("zipf:1,exponent=2", "exponent is given twice"),
        ("zipf:1,0", "zipf: n_keys must be an int of at least 1, got 0"),
        ("zipf:1,seed=3", "no parameter 'seed'"),
        ("voters:2", r"look_alike: scale must be a float in \(0, 1\], got 2.0"),
        ("redrawn:5,2,1", "redrawn: low must not be above high, got 2.0 and 1.0"),
    ],
)
def test_a_bad_spec_says_what_is_wrong(spec, words):
    with pytest.raises(ParameterError, match=words):
        from_spec(spec, 10)


def test_a_file_is_no_spec():
    assert not is_spec("zipf.csv")
    assert not is_spec("data/zipf:1")
