from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import drifting, zipf
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.partitioners import Hash
from skewless.planners import Replanned, WrapAround
from skewless.routing import Routing


def test_the_first_window_is_hashed_and_the_next_is_balanced():
    keys = zipf(40_000, 5_000, 1.5, seed=1)
    policy = Replanned(WrapAround(8), every=20_000)
    workers = policy.route(Chunk(None, keys))
    assert workers[:20_000].tolist() == Routing.hashing(8).route(keys[:20_000]).tolist()
    assert np.bincount(workers[20_000:]).max() < 1.1 * 20_000 / 8


def test_history_plans_the_first_window():
    keys = zipf(20_000, 5_000, 1.5, seed=1)
    policy = Replanned(WrapAround(8), every=20_000, history=Histogram.of(keys))
    assert np.bincount(policy.route(Chunk(None, keys))).max() < 1.1 * 20_000 / 8
    assert policy.moves is None


def test_windows_start_at_multiples_of_every_whenever_the_stream_begins():
    policy = Replanned(WrapAround(4), every=10)
    routings = []
    for time in (-15, -11, -10, -1, 0, 9, 10):
        policy.route(Chunk([time] * 8, [7] * 8))
        routings.append(policy.routing)
    changed = [a is not b for a, b in itertools.pairwise(routings)]
    # -15 and -11 are one window; the first change splits key 7, after that the plan stays.
    assert changed == [False, True, False, False, False, False]
    assert policy.moves is not None
    assert policy.moves.total == 0


def test_empty_windows_change_nothing():
    policy = Replanned(WrapAround(4), every=10)
    policy.route(Chunk([0] * 8, [7] * 8))
    assert len(policy.route(Chunk([], []))) == 0
    late = policy.route(Chunk([1_000_000] * 8, [7] * 8))
    assert np.bincount(late).tolist() == [2, 2, 2, 2]


def test_moves_are_those_of_the_last_change_weighed_by_the_closed_window():
    policy = Replanned(WrapAround(4), every=100)
    keys = drifting(300, 30, 1.5, period=100, n_hot=3, seed=2)
    for start in range(0, 300, 100):
        before = policy.routing
        rows = slice(start, start + 100)
        policy.route(Chunk(None, keys)[rows])
        if start:
            closed = Histogram.of(keys[start - 100 : start])
            assert policy.routing == policy.planner.plan(closed, before)
            expected = policy.routing.moves(before, closed)
            assert policy.moves is not None
            assert policy.moves.total == expected.total > 0
            assert policy.moves.key.tolist() == expected.key.tolist()


def test_more_tuples_than_are_collected_at_once_are_all_counted():
    keys = np.tile(zipf(9_000, 400, 0.5, seed=1), 9)
    seen = []

    class Listening(WrapAround):
        def plan(self, histogram, previous=None):
            seen.append(histogram)
            return super().plan(histogram, previous)

    policy = Replanned(Listening(4), every=len(keys))
    for piece in Chunk(None, np.append(keys, keys[:1])).pieces(7_001):
        policy.route(piece)
    expected = Histogram.of(keys)
    assert seen[-1].keys.tolist() == expected.keys.tolist()
    assert seen[-1].counts.tolist() == expected.counts.tolist()


def test_learn_is_the_planners_plan():
    histogram = Histogram.of(zipf(5_000, 100, 1.2))
    assert Replanned(WrapAround(4), every=9).learn(histogram) == WrapAround(4).plan(histogram)


def test_it_knows_its_planners_workers_and_says_what_it_is():
    policy = Replanned(WrapAround(4, hot_keys=9, seed=3), every=100)
    assert (policy.n_workers, policy.seed, policy.name) == (4, 3, "replanned")
    assert repr(policy) == "Replanned(WrapAround(4, hot_keys=9, seed=3), every=100)"


replanned: Any = Replanned  # what a caller without a type checker may try


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: replanned(Hash(4), every=10),
            r"planner must be a planner such as .*got Hash\(4\)",
        ),
        (lambda: replanned("wrap_around", every=10), "got 'wrap_around'"),
        (lambda: Replanned(WrapAround(4), every=0), "every must be an int of at least 1, got 0"),
        (lambda: replanned(WrapAround(4), every=1, history={1: 2}), "history must be a Histogram"),
    ],
)
def test_bad_parameters_are_named(call, words):
    with pytest.raises(ParameterError, match=f"Replanned: {words}|Replanned: .*{words}"):
        call()
