from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.windows import SlidingCounts, TumblingCounts
from skewless.windows.tournament import play, play_all, runner_up, width_for
from tests.oracles.windows import Tuples

STEPS = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(0, 200), st.integers(0, 5) | st.just(2**64 - 1)),
    max_size=80,
)
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12)).map(lambda s: (max(s), min(s)))


def stream(steps, start=-50):
    times = np.cumsum([step for step, _ in steps], dtype=np.int64) + start
    return list(zip(times.tolist(), [key for _, key in steps], strict=True))


def chunk_of(tuples):
    return Chunk([t for t, _ in tuples], np.array([k for _, k in tuples], np.uint64))


def content(histogram):
    return dict(zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True))


@settings(deadline=None, derandomize=True)  # the first example compiles
@given(STEPS, SIZES, st.integers(1, 80))
def test_sliding_counts_equal_a_recount_after_every_piece(steps, sizes, piece):
    counts, oracle, tuples = SlidingCounts(*sizes), Tuples(), stream(steps)
    for i in range(0, len(tuples), piece):
        counts.update(chunk_of(tuples[i : i + piece]))
        oracle.update(tuples[i : i + piece])
        expected = oracle.sliding(*sizes)
        assert content(counts.answer()) == expected
        assert counts.total == expected.total()
        assert counts.keys().tolist() == sorted(expected)
        asked = [0, 1, 2, 3, 4, 5, 6, 2**64 - 1]
        assert counts.count(np.array(asked, np.uint64)).tolist() == [expected[k] for k in asked]


@settings(deadline=None, derandomize=True)  # the first example compiles
@given(STEPS, st.integers(1, 30), st.integers(1, 80))
def test_tumbling_counts_equal_a_recount_after_every_piece(steps, window, piece):
    counts, oracle, tuples = TumblingCounts(window), Tuples(), stream(steps)
    for i in range(0, len(tuples), piece):
        counts.update(chunk_of(tuples[i : i + piece]))
        oracle.update(tuples[i : i + piece])
        expected = oracle.tumbling(window)
        assert content(counts.answer()) == expected
        assert content(counts.closed()) == oracle.tumbling(window, age=1)
        assert counts.total == expected.total()
        assert counts.keys().tolist() == sorted(expected)
        assert counts.count([0, 3, 6]).tolist() == [expected[k] for k in (0, 3, 6)]


@settings(deadline=None, derandomize=True)  # the first example compiles
@given(STEPS, STEPS, SIZES)
def test_merging_two_streams_counts_both(left, right, sizes):
    streams = stream(left), stream(right, start=-30)
    oracle = Tuples()
    oracle.update([*streams[0], *streams[1]])
    for make, answers in (
        (lambda: SlidingCounts(*sizes), [("answer", oracle.sliding(*sizes))]),
        (
            lambda: TumblingCounts(sizes[0]),
            [("answer", oracle.tumbling(sizes[0])), ("closed", oracle.tumbling(sizes[0], age=1))],
        ),
    ):
        one, two = make(), make()
        one.update(chunk_of(streams[0]))
        two.update(chunk_of(streams[1]))
        before = content(two.answer())
        one.merge(two)
        for verb, expected in answers:
            assert content(getattr(one, verb)()) == expected
        assert one.total == sum(answers[0][1].values())
        assert content(two.answer()) == before


@pytest.mark.jit_modes
@pytest.mark.parametrize("make", [lambda: SlidingCounts(300, 100), lambda: TumblingCounts(300)])
def test_counting_goes_on_after_pickling_and_after_a_merge(make):
    keys = np.random.default_rng(5).integers(0, 400, 4000)
    whole, parts = make(), make()
    whole.update(Chunk(None, keys))
    parts.update(Chunk(None, keys)[:1700])
    parts = pickle.loads(pickle.dumps(parts))  # noqa: S301 (our own bytes)
    parts.merge(make())
    parts.update(Chunk(None, keys)[1700:])
    assert content(parts.answer()) == content(whole.answer())


@pytest.mark.parametrize("make", [lambda: SlidingCounts(3000, 1000), lambda: TumblingCounts(2000)])
def test_the_table_grows_with_the_keys_of_a_window_and_not_with_those_of_the_stream(make):
    few, many, counts = make(), make(), make()
    few.update(Chunk(None, np.arange(30_000)))
    many.update(Chunk(None, np.arange(300_000)))
    assert few.state.table.entry.nbytes == many.state.table.entry.nbytes
    for piece in Chunk(None, np.arange(30_000)).pieces(777):
        counts.update(piece)
    assert content(counts.answer()) == content(few.answer())


@pytest.mark.jit_modes
def test_a_key_that_left_the_window_comes_back_with_a_count_of_one():
    counts = SlidingCounts(2, 1)
    counts.update(Chunk([0, 0, 5, 9], [1, 1, 2, 1]))
    assert counts.count([1, 2]).tolist() == [1, 0]


@pytest.mark.jit_modes
def test_after_a_gap_the_window_that_closed_last_is_empty():
    counts = TumblingCounts(10)
    counts.update(Chunk([0, 25], [1, 1]))
    assert len(counts.closed()) == 0
    assert counts.count([1]).tolist() == [1]


@pytest.mark.parametrize("make", [lambda: SlidingCounts(10, 5), lambda: TumblingCounts(10)])
def test_time_that_runs_back_between_chunks_is_refused(make):
    counts = make()
    counts.update(Chunk([7, 8], [1, 1]))
    with pytest.raises(
        DataError, match="time must not decrease from chunk to chunk, got 3 after 8"
    ):
        counts.update(Chunk([3], [1]))
    counts.update(Chunk(None, []))
    assert counts.total == 2


def test_bad_parameters_are_refused():
    with pytest.raises(ParameterError, match="window must be an int of at least 1, got 0"):
        TumblingCounts(0)
    with pytest.raises(ParameterError, match="slide must be an int of at least 1, got 0"):
        SlidingCounts(10, 0)
    with pytest.raises(ParameterError, match="slide must be at most the window of 10, got 11"):
        SlidingCounts(10, 11)
    with pytest.raises(DataError, match="cannot merge windows of 20 by 5"):
        SlidingCounts(10, 5).merge(SlidingCounts(20, 5))
    with pytest.raises(DataError, match="cannot merge windows of 20 into windows of 10"):
        TumblingCounts(10).merge(TumblingCounts(20))


@settings(deadline=None, derandomize=True)  # the first example compiles
@given(
    st.integers(1, 20).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.integers(0, n - 1),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(-3, 3)), max_size=40),
        )
    )
)
def test_a_tournament_names_the_best_and_the_second_value_after_every_change(case):
    n, favourite, changes = case
    value, winner = np.full(n, -2.0), np.zeros(width_for(n), np.int32)
    play_all(value, winner, favourite)
    for player, now in changes:
        value[player] = now
        play(value, winner, player, favourite)
        best = favourite if value[favourite] == value.max() else int(value.argmax())
        if n > 1:
            assert winner[1] == best
            assert runner_up(value, winner, -9.0) == np.delete(value, best).max()
