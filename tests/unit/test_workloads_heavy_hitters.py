"""HeavyHitters: one SpaceSaving sketch per worker, and an error with two terms under two choices."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from skewless.partitioners import PKG, Hash, Shuffle
from skewless.workloads import HeavyHitters
from tests.oracles.space_saving import SpaceSaving

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
items = st.lists(st.integers(0, 4) | st.integers(0, 30), max_size=120)


def part_of(query, keys, workers, worker):
    part = query.start()
    mine = keys[workers == worker]
    for piece in np.array_split(mine, 3):
        part.update(Chunk(None, piece))
    return part


def merged(query, keys, workers, order):
    whole = query.start()
    for worker in order:
        whole.merge(part_of(query, keys, workers, worker))
    return whole.answer().to_pylist()[0]


def assert_bounds(answer, counts: Counter, k: int) -> None:
    """What the docstring promises, item by item."""
    assert answer["n"] == counts.total()
    listed = [(-item["n"], item["value"]) for item in answer["heavy"]]
    assert listed == sorted(listed)
    assert len(listed) <= k
    for item in answer["heavy"]:
        assert item["n"] - item["error"] <= counts[item["value"]] <= item["n"]
    names = {item["value"] for item in answer["heavy"]}
    assert all(counts[value] <= answer["others"] for value in counts.keys() - names)


@EXAMPLES
@given(items, st.integers(1, 8), st.lists(st.integers(1, 50), max_size=3))
def test_a_single_worker_is_one_sketch_whatever_the_pieces(stream, capacity, cuts):
    oracle = SpaceSaving(capacity)
    for key in stream:
        oracle.update(key)
    query, edges = HeavyHitters(99, capacity), [0, *sorted(cuts), len(stream)]
    part = query.start()
    for start, stop in itertools.pairwise(edges):
        part.update(Chunk(None, np.array(stream[start:stop], np.uint64)))
    answer = part.answer().to_pylist()[0]
    found = [(item["value"], item["n"], item["error"]) for item in answer["heavy"]]
    assert found == oracle.top()
    assert answer["others"] == oracle.least()


@EXAMPLES
@given(items, st.integers(1, 8), st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_bounds_hold_for_any_split_and_do_not_depend_on_the_order(
    stream, capacity, n_workers, random
):
    keys = np.array(stream, np.uint64)
    workers = np.array([random.randrange(n_workers) for _ in stream])
    query = HeavyHitters(5, capacity)
    first = merged(query, keys, workers, range(n_workers))
    order = random.sample(range(n_workers), n_workers)
    assert merged(query, keys, workers, order) == first
    assert_bounds(first, Counter(stream), 5)


@EXAMPLES
@given(items, items, items, st.integers(1, 5))
def test_merging_is_associative_and_commutative(a, b, c, capacity):
    query = HeavyHitters(9, capacity, "v")
    a, b, c = (
        query.update(query.create(), pa.table({"v": pa.array(s, pa.int64())})) for s in (a, b, c)
    )
    left = query.merge(query.merge(a, b), c)
    assert query.merge(a, query.merge(b, c)) == left
    assert query.merge(c, query.merge(a, b))["leasts"] == left["leasts"]
    assert query.finish(query.merge(query.merge(c, b), a)) == query.finish(left)
    nothing = query.merge(query.create(), left)
    assert query.finish(nothing) == query.finish(left)


@pytest.mark.parametrize("n_workers", [4, 16, 64])
def test_under_pkg_the_error_has_two_terms_whatever_the_number_of_workers(n_workers):
    keys = zipf(30_000, 4_000, 1.1, seed=3)
    workers = PKG(n_workers).route(Chunk(None, keys))
    query = HeavyHitters(50, 40, choices=2)
    answer = merged(query, keys, workers, range(n_workers))
    assert_bounds(answer, Counter(keys.view(np.int64).tolist()), 50)
    terms = np.sort(np.bincount(workers, minlength=n_workers))[::-1] / query.capacity
    assert max(item["error"] for item in answer["heavy"]) <= terms[:2].sum()


def test_the_bound_of_shuffling_grows_with_the_workers_and_that_of_pkg_does_not():
    keys = zipf(30_000, 4_000, 1.1, seed=3)
    bound = {}
    for n_workers in (4, 32):
        for policy, choices in ((PKG(n_workers), 2), (Shuffle(n_workers), None)):
            workers = policy.route(Chunk(None, keys))
            query = HeavyHitters(20, 40, choices=choices)
            answer = merged(query, keys, workers, range(n_workers))
            bound[policy.name, n_workers] = (
                answer["others"],
                max(item["error"] for item in answer["heavy"]),
            )
    # The share of a worker shrinks as workers are added, so two terms of it do too.
    assert bound["pkg", 32][1] < bound["pkg", 4][1]
    assert bound["shuffle", 32][1] > bound["pkg", 32][1]


def test_a_policy_that_keeps_keys_whole_has_the_error_of_one_sketch():
    keys = zipf(20_000, 3_000, 1.2, seed=5)
    workers = Hash(8).route(Chunk(None, keys))
    query = HeavyHitters(30, 25, choices=1)
    answer = merged(query, keys, workers, range(8))
    assert_bounds(answer, Counter(keys.view(np.int64).tolist()), 30)
    most = np.bincount(workers).max() / query.capacity
    assert all(item["error"] <= most for item in answer["heavy"])


def test_the_states_of_two_workers_by_hand():
    """Two counters each; 1 is on both, so its bounds add up, and 3 may hide behind the other's least."""
    query = HeavyHitters(9, 2, "v")
    left = query.update(query.create(), pa.table({"v": [1, 1, 1, 2]}))
    right = query.update(query.create(), pa.table({"v": [1, 3, 3, 4]}))
    # 4 took over the counter of 1.
    assert right["counters"] == [
        {"value": 4, "n": 2, "error": 1, "least": 2, "parts": 1},
        {"value": 3, "n": 2, "error": 0, "least": 2, "parts": 1},
    ]
    both = query.merge(left, right)
    assert (both["n"], both["leasts"]) == (8, [2, 1])
    assert query.finish(both) == {
        "n": 8,
        "heavy": [
            {"value": 1, "n": 5, "error": 2},
            {"value": 2, "n": 3, "error": 2},
            {"value": 3, "n": 3, "error": 1},
            {"value": 4, "n": 3, "error": 2},
        ],
        "others": 3,
    }


def test_a_merged_state_may_go_on_and_keeps_its_bounds():
    query = HeavyHitters(9, 3, "v")
    rng = np.random.default_rng(1)
    values = rng.zipf(1.5, 900) % 40
    state = query.create()
    for part in np.array_split(values[:600], 4):
        state = query.merge(state, query.update(query.create(), pa.table({"v": part})))
    state = query.update(state, pa.table({"v": values[600:]}))
    assert_bounds(query.finish(state), Counter(values.tolist()), 9)


def test_reading_the_answer_amid_the_stream_leaves_one_sketch():
    keys = zipf(2_000, 300, 1.1, seed=5)
    query = HeavyHitters(9, 10, choices=1)
    asked, silent = query.start(), query.start()
    for piece in np.array_split(keys, 7):
        asked.update(Chunk(None, piece))
        asked.answer()
        silent.update(Chunk(None, piece))
    assert asked.answer().equals(silent.answer())
    assert asked.states()["leasts"].to_pylist() == silent.states()["leasts"].to_pylist()
    assert len(asked.states()["leasts"].to_pylist()[0]) == 1


def test_strings_and_nulls():
    query = HeavyHitters(1, 2, "v", "string")
    rows = pa.table({"v": ["b", None, "a", "b"]})
    assert query.finish(query.update(query.create(), rows)) == {
        "n": 3,
        "heavy": [{"value": "b", "n": 2, "error": 0}],
        "others": 1,
    }
    state = query.update(query.create(), pa.table({"v": pa.array([None], pa.string())}))
    assert query.finish(state) == {"n": 0, "heavy": [], "others": 0}


def test_states_survive_arrow():
    query = HeavyHitters(3, 4)
    part = query.start()
    part.update(Chunk(None, zipf(500, 40, 1.0, seed=2)))
    states = part.states()
    assert states.select(query.state_schema.names).schema == query.state_schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, states.schema) as writer:
        writer.write_table(states)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(states)


def test_no_rows_at_all_are_an_answer():
    assert HeavyHitters(3, 4).start().answer().to_pylist() == [{"n": 0, "heavy": [], "others": 0}]


def test_bad_parameters_and_columns_are_named():
    query = HeavyHitters(1, 2, "v")
    with pytest.raises(
        ParameterError, match=r"^HeavyHitters: capacity must be an int in \[1, 1073"
    ):
        HeavyHitters(1, 0)
    with pytest.raises(
        ParameterError, match=r"^HeavyHitters: choices must be an int of at least 1"
    ):
        HeavyHitters(1, 2, choices=0)
    with pytest.raises(DataError, match=r"^HeavyHitters: column 'v' holds string, not a whole n"):
        HeavyHitters(1, 2, "v").update(query.create(), pa.table({"v": ["a"]}))
