"""Event times: the rate that was asked for, at every time, and nothing lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.arrivals import sinusoidal, stepped
from skewless.errors import ParameterError


def upto_stepped(t, rates, step_s):
    """Tuples that have come by second t: the rate added up, step by step."""
    whole, total, i = t, 0.0, 0
    while whole > 0:
        part = min(step_s, whole)
        total += part * rates[i % len(rates)]
        whole -= part
        i += 1
    return total


def upto_sinusoidal(t, mean, period, swing):
    return mean * (t + swing * period / (2 * math.pi) * (1 - math.cos(2 * math.pi * t / period)))


RATES = [[5.0], [1.0, 4.0], [0.0, 3.0, 0.0, 7.0], [2.0, 0.0], [0.25, 100.0, 3.0]]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("step_s", [0.5, 3.0])
def test_tuple_i_of_a_stepped_stream_comes_when_the_rate_adds_up_to_it(rates, step_s):
    times = stepped(200, rates, step_s) / 1e6
    fastest = max(rates)
    for i, t in enumerate(times.tolist(), start=1):
        assert upto_stepped(t, rates, step_s) == pytest.approx(i, abs=2e-6 * fastest + 1e-6)


@pytest.mark.parametrize("swing", [0.0, 0.5, 1.0])
def test_tuple_i_of_a_sinusoidal_stream_comes_when_the_rate_adds_up_to_it(swing):
    times = sinusoidal(500, 40.0, 3.0, swing=swing) / 1e6
    for i, t in enumerate(times.tolist(), start=1):
        assert upto_sinusoidal(t, 40.0, 3.0, swing) == pytest.approx(i, abs=1e-4)


def test_no_tuple_comes_while_the_rate_is_zero():
    times = stepped(300, [10.0, 0.0, 5.0], 1.0)
    within = times / 1e6 % 3.0
    assert not ((within > 1.000001) & (within < 1.999999)).any()


@pytest.mark.parametrize("seed", range(3))
def test_by_chance_the_mean_rate_is_kept_and_gaps_are_exponential(seed):
    n = 40_000
    times = stepped(n, [100.0], 1.0, by_chance=True, seed=seed) / 1e6
    assert times[-1] == pytest.approx(n / 100, rel=4 / math.sqrt(n))
    gaps = np.diff(times)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    counts = np.bincount(times.astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.3)


def test_by_chance_a_sine_is_followed_over_many_periods():
    times = sinusoidal(200_000, 1_000.0, 10.0, swing=0.8, by_chance=True, seed=4) / 1e6
    phase = np.histogram(times[times < 190] % 10.0, 10, (0, 10))[0] / 19
    middle = np.arange(10) + 0.5
    expected = 1_000 * (1 + 0.8 * np.sin(2 * np.pi * middle / 10))
    assert np.abs(phase - expected).max() < 60


@pytest.mark.parametrize("by_chance", [False, True])
def test_times_are_fit_for_a_chunk_and_a_longer_stream_begins_with_the_shorter(by_chance):
    def long(n):
        return stepped(n, [0.0, 3.0, 1e7], 0.7, by_chance=by_chance, seed=2)

    assert len(Chunk(long(1_000), np.arange(1_000))) == 1_000
    assert long(1_000)[:50].tolist() == long(50).tolist()
    assert len(long(0)) == 0
    assert sinusoidal(0, 1.0, 1.0).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stepped(5, [], 1.0), r"rates must hold numbers .* got \[\]"),
        (lambda: stepped(5, [0.0, 0.0], 1.0), "one above it"),
        (lambda: stepped(5, [1.0, -1.0], 1.0), "rates must hold"),
        (lambda: stepped(5, [float("inf")], 1.0), "rates must hold"),
        (lambda: stepped(5, [1.0], 0.0), "stepped: step_s must be a float above 0, got 0.0"),
        (lambda: sinusoidal(5, 0.0, 1.0), "sinusoidal: mean_rate must be a float above 0"),
        (lambda: sinusoidal(5, 1.0, 1.0, swing=1.5), r"swing must be a float in \[0, 1\], got 1.5"),
        (lambda: sinusoidal(-1, 1.0, 1.0), "n_tuples must be an int of at least 0, got -1"),
    ],
)
def test_bad_parameters_are_named(call, words):
    with pytest.raises(ParameterError, match=words):
        call()
