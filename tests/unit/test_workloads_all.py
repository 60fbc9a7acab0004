"""What every workload must do: any policy, any split and any order of merges give the oracle's answer."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import os
import pickle
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import partitioners, workloads
from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.planners import Replanned, WrapAround
from skewless.policy import policy_name
from skewless.spark.aggregator import NATIVE_MERGES, Aggregator
from skewless.spark.aggregators.ddl import arrow_schema
from skewless.workloads import Partial
from skewless.workloads.top_k import TopK
from tests.oracles import correlation_clustering, word_count
from tests.unit.workload_cases import CASES, Case, assert_same, expected, part_of, rows_of, stream

SMALL = os.environ.get("NUMBA_DISABLE_JIT") == "1"
N_TUPLES = 120 if SMALL else 300
N_WORKERS = 5
every = pytest.mark.parametrize("name", CASES)
EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True)

#: Short windows, so that policies split and move keys within a few hundred tuples.
WINDOWED = {"window": 40, "slide": 20}
POLICIES = {
    **{policy_name(cls): cls for cls in partitioners.ALL},
    "replanned": lambda n: Replanned(WrapAround(n), every=30),
}


def policy(name):
    cls = POLICIES[name]
    parameters = inspect.signature(cls).parameters
    given_ = {k: v for k, v in WINDOWED.items() if k in parameters}
    if "batch" in parameters:
        given_["batch"] = 50
    return cls(N_WORKERS, **given_)


def workers_of(name, chunk):
    """Return the worker of each tuple; `local` leaves rows where they are, at any source."""
    if name == "local":
        return np.random.default_rng(7).integers(0, N_WORKERS, len(chunk))
    return policy(name).route(chunk)


def split(case, chunk, workers, window=None, slide=None):
    """Return what each worker holds after its tuples, which come in several pieces."""
    parts = []
    for worker in range(N_WORKERS):
        part = case.workload.start(window, slide)
        rows = np.flatnonzero(workers == worker)
        for piece in np.array_split(rows, 3):
            part.update(part_of(chunk, piece))
        parts.append(part)
    return parts


@functools.cache
def stream_and_answer(name):
    chunk = stream(CASES[name], N_TUPLES, seed=4)
    return chunk, expected(CASES[name], chunk)


def merged(parts, order):
    whole = copy.deepcopy(parts[order[0]])
    for i in order[1:]:
        whole.merge(parts[i])
    return whole


@every
@pytest.mark.parametrize("by", [*POLICIES, "local"])
def test_every_policy_gives_the_sequential_answer(name, by):
    case = CASES[name]
    chunk, wanted = stream_and_answer(name)
    parts = split(case, chunk, workers_of(by, chunk))
    for order in ([0, 1, 2, 3, 4], np.random.default_rng(len(by)).permutation(N_WORKERS)):
        assert_same(merged(parts, list(order)).answer().to_pylist(), wanted)


@pytest.mark.parametrize("by", [*POLICIES, "local"])
def test_every_policy_keeps_the_bounds_of_heavy_hitters(by):
    case = Case(workloads.HeavyHitters(10, 6), None, word_count.answer)
    chunk = stream(case, N_TUPLES, seed=6)
    parts = split(case, chunk, workers_of(by, chunk))
    [answer] = merged(parts, [4, 1, 0, 3, 2]).answer().to_pylist()
    assert answer == merged(parts, [0, 1, 2, 3, 4]).answer().to_pylist()[0]
    counts = Counter(chunk.key.tolist())
    loads = [part.answer().to_pylist()[0]["n"] for part in parts]
    assert answer["n"] == sum(loads) == N_TUPLES
    for item in answer["heavy"]:
        assert item["n"] - item["error"] <= counts[item["value"]] <= item["n"]
        assert item["error"] <= sum(load / 6 for load in loads)
    listed = {item["value"] for item in answer["heavy"]}
    assert all(n <= answer["others"] for key, n in counts.items() if key not in listed)


@pytest.mark.parametrize("by", [*POLICIES, "local"])
def test_every_policy_keeps_number_mean_and_range_of_a_trees_histograms(by):
    continuous = lambda rng, keys: {  # noqa: E731
        "leaf": [0] * len(keys),
        "label": (keys % np.uint64(2)).tolist(),
        "x": rng.normal(size=len(keys)).tolist(),
    }
    case = Case(workloads.DecisionTree(most_bins=5), continuous, word_count.answer, n_keys=4)
    chunk = stream(case, N_TUPLES, seed=6)
    parts = split(case, chunk, workers_of(by, chunk))
    for row in merged(parts, [4, 1, 0, 3, 2]).answer().to_pylist():
        x = [c["x"] for _, key, c in rows_of(chunk) if key == row["key"]]
        [histogram] = row["histograms"]
        p, m = ([b[name] for b in histogram["bins"]] for name in "pm")
        assert len(p) <= 5
        assert sum(m) == len(x)
        assert np.dot(p, m) == pytest.approx(math.fsum(x), abs=1e-9)
        assert min(x) <= p[0] <= p[-1] <= max(x)


@pytest.mark.parametrize("by", [*POLICIES, "local"])
def test_every_policy_ends_in_a_local_optimum_of_unclear_clusters(by):
    unclear = lambda rng, keys: {  # noqa: E731
        "record": ["".join(rng.choice(list("ab"), rng.integers(1, 5))) for _ in keys]
    }
    cluster = workloads.CorrelationClustering()
    case = Case(cluster, unclear, correlation_clustering.answer, n_keys=6)
    chunk = stream(case, 40, seed=6)
    parts = split(case, chunk, workers_of(by, chunk))
    for row in merged(parts, [4, 1, 0, 3, 2]).answer().to_pylist():
        mine = [c["record"] for _, key, c in rows_of(chunk) if key == row["key"]]
        assert sorted(r for found in row["clusters"] for r in found) == sorted(mine)
        assert max(correlation_clustering.gains(row["clusters"]), default=0) <= 0
        assert row["cost"] == pytest.approx(correlation_clustering.cost(row["clusters"]))


@every
def test_a_single_worker_gives_the_answer_of_the_oracle(name):
    case = CASES[name]
    for seed in range(3):
        chunk = stream(case, N_TUPLES, seed)
        part = case.workload.start()
        for piece in chunk.pieces(37):
            part.update(piece)
        assert_same(part.answer().to_pylist(), expected(case, chunk))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].window])
@pytest.mark.parametrize("by", ["hash", "dalton", "shuffle"])
def test_every_window_has_the_sequential_answer(name, by):
    case = CASES[name]
    chunk = stream(case, N_TUPLES, seed=5)
    parts = split(case, chunk, workers_of(by, chunk), case.window, case.slide)
    whole = merged(parts, [3, 0, 4, 2, 1])
    first, last = int(chunk.time[0]), int(chunk.time[-1])
    ends = list(range(first + case.slide, last + case.window + 1, case.slide))
    assert whole.ends().tolist() == ends
    for end, answer in whole.answers():
        assert_same(answer.to_pylist(), expected(case, chunk, end))


@every
@EXAMPLES
@given(st.data())
def test_merging_is_associative_and_commutative(name, data):
    case = CASES[name]
    seed = data.draw(st.integers(0, 10**6))
    chunk = stream(case, data.draw(st.integers(3, 60)), seed)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(chunk)), min_size=2, max_size=2)))
    keys = np.unique(chunk.key)
    workload, states = case.workload, []
    for start, stop in pairwise([0, *cuts, len(chunk)]):
        piece = chunk[start:stop]
        if workload.per_key:
            piece = part_of(piece, np.flatnonzero(piece.key == keys[0]))
        rows = workload._rows(piece)
        states.append(workload.update(workload.create(), rows) if len(piece) else workload.create())
    a, b, c = states
    merge = workload.merge
    left, right, turned = merge(merge(a, b), c), merge(a, merge(b, c)), merge(c, merge(b, a))
    finished = workload.finish(left)
    assert_same(workload.finish(right), finished)
    assert_same(workload.finish(turned), finished)
    assert_same(workload.finish(merge(workload.create(), left)), finished)


@every
def test_states_survive_arrow_and_are_as_declared(name):
    case = CASES[name]
    workload, chunk = case.workload, stream(case, N_TUPLES, seed=8)
    part = workload.start()
    part.update(chunk)
    states = part.states()
    assert states.select(workload.state_schema.names).schema == workload.state_schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, states.schema) as writer:
        writer.write_table(states)
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert back.equals(states)
    finished = workload.finish_groups(back.select(workload.state_schema.names))
    again = workload.finish_groups(states.select(workload.state_schema.names))
    assert finished.equals(again)
    # One by one, through Python objects, as the rows of a frame.
    for state in states.select(workload.state_schema.names).to_pylist():
        row = pa.Table.from_pylist([state], schema=workload.state_schema)
        assert row.to_pylist() == [state]


@every
def test_a_partial_survives_pickling_amid_the_stream(name):
    case = CASES[name]
    chunk = stream(case, N_TUPLES, seed=9)
    part = case.workload.start(case.window, case.slide)
    part.update(chunk[:100])
    part = pickle.loads(pickle.dumps(part))  # noqa: S301 (our own bytes)
    part.update(chunk[100:])
    end = None if case.window is None else int(part.ends()[-1])
    assert_same(part.answer(end).to_pylist(), expected(case, chunk, end))


@every
def test_reading_states_or_answers_amid_the_stream_changes_nothing(name):
    case = CASES[name]
    chunk = stream(case, N_TUPLES, seed=10)
    part = case.workload.start()
    for piece in chunk.pieces(90):
        part.update(piece)
        part.answer()
    assert_same(part.answer().to_pylist(), expected(case, chunk))


@every
def test_one_row_no_rows_and_only_nulls(name):
    case = CASES[name]
    workload, chunk = case.workload, stream(case, 20, seed=11)
    part = workload.start()
    part.update(chunk[:0])
    assert_same(part.answer().to_pylist(), expected(case, chunk[:0]))
    for row in range(20):
        part = workload.start()
        part.update(chunk[row : row + 1])
        assert_same(part.answer().to_pylist(), expected(case, chunk[row : row + 1]))
    if chunk.value is not None:
        schema = chunk.value.schema
        for types in (schema, pa.schema([(field.name, pa.null()) for field in schema])):
            nulls = pa.Table.from_pylist([dict.fromkeys(schema.names)] * 20, schema=types)
            empty = Chunk(chunk.time, chunk.key, nulls)
            part = workload.start()
            part.update(empty)
            assert_same(part.answer().to_pylist(), expected(case, empty))


@every
def test_groups_without_rows_and_no_groups_at_all(name):
    case = CASES[name]
    workload = case.workload
    rows = workload._rows(stream(case, 20, seed=12))
    nothing = workload.finish(workload.create())
    states = workload.update_groups(rows, np.array([0, 0, 20, 20]))
    states = states.select(workload.state_schema.names).cast(workload.state_schema)
    found = workload.finish_groups(states).cast(workload.result_schema).to_pylist()
    assert_same([found[0], found[2]], [nothing, nothing])
    none = workload.update_groups(rows[:0], np.array([0]))
    none = none.select(workload.state_schema.names).cast(workload.state_schema)
    assert none.num_rows == 0
    assert workload.merge_states(none, np.array([0])).num_rows == 0
    assert workload.finish_groups(none).num_rows == 0


@every
def test_it_keeps_the_protocol_for_spark_to_check(name):
    workload = CASES[name].workload
    assert isinstance(workload, Aggregator)
    names = workload.state_schema.names
    assert arrow_schema(workload.state) == workload.state_schema
    assert arrow_schema(workload.result) == workload.result_schema
    assert set(workload.merges) <= set(names)
    assert set(workload.merges.values()) <= set(NATIVE_MERGES)
    assert list(workload.create()) == names
    assert list(workload.finish(workload.create())) == workload.result_schema.names


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].columns])
def test_inputs_are_only_read_and_may_come_in_pieces(name):
    case = CASES[name]
    workload, chunk = case.workload, stream(case, 30, seed=13)
    rows = workload._rows(chunk)
    before = rows.to_pylist()
    state = workload.create()
    frozen = copy.deepcopy(state)
    found = workload.update(state, rows)
    pieces = pa.concat_tables([rows[:7], rows[7:19], rows[19:]])
    assert_same(workload.finish(workload.update(state, pieces)), workload.finish(found))
    assert rows.to_pylist() == before
    assert state == frozen
    workload.merge(found, found)
    assert workload.update(frozen, rows) == found


def test_each_is_listed_and_imported_when_asked_for():
    tested = {type(case.workload).__name__ for case in CASES.values()}
    assert tested | {"HeavyHitters", "Partial", "Workload"} == set(workloads.__all__)
    assert set(workloads.__all__) <= set(dir(workloads))
    with pytest.raises(AttributeError, match="no attribute 'WordCounts'"):
        _ = workloads.WordCounts


@pytest.mark.parametrize("name", sorted(set(workloads.__all__) - {"Partial", "Workload"}))
def test_the_docstring_says_all_that_a_user_asks(name):
    cls = getattr(workloads, name)
    text = inspect.getdoc(cls)
    for parameter in inspect.signature(cls).parameters:
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)* : ", text, re.MULTILINE), parameter
    sections = ("Use it", "Not ", "Result:", "Guarantee:", "Cost:", "State:")
    for word in (*sections, "Deviations from the paper:", ">>> ", "References\n", "doi:10."):
        assert word in text, word


def test_the_last_stage_of_top_k_may_be_split_by_key():
    case = CASES["top_k"]
    part = case.workload.start()
    part.update(stream(case, N_TUPLES, seed=1))
    counts = workloads.WordCount().conclude(
        pa.table({"key": part.states()["key"], "n": part.states()["n"]})
    )
    keys = np.arange(counts.num_rows)
    best = [case.workload.conclude(counts.take(np.flatnonzero(keys % 3 == r))) for r in range(3)]
    whole = case.workload.conclude(pa.concat_tables(best))
    assert whole.equals(case.workload.conclude(counts))


def test_a_value_without_the_columns_is_refused_before_anything_is_counted():
    part = workloads.FetchLists().start()
    with pytest.raises(
        DataError, match=r"^FetchLists: .*no column 'url' \(did you mean 'urls'\?\)"
    ):
        part.update(Chunk(None, [1], pa.table({"urls": ["/"], "depth": [0]})))
    with pytest.raises(DataError, match=r"^FetchLists: reads the columns url, depth; .*NoneType"):
        part.update(Chunk(None, [1]))
    assert part.answer().num_rows == 0


def test_bad_windows_and_ends_are_refused_in_words():
    count = workloads.WordCount()
    for window, slide in ((None, 3), (10, 3), (2, 4)):
        with pytest.raises(ParameterError, match=r"^Partial: slide must divide the window, "):
            count.start(window, slide)
    with pytest.raises(ParameterError, match=r"^Partial: window must be an int of at least 1, got"):
        count.start(0)
    with pytest.raises(ParameterError, match=r"^Partial: workload must be an instance of a W"):
        Partial(workloads.WordCount)
    part = count.start(4, 2)
    with pytest.raises(
        ParameterError, match=r"^Partial: end must be a multiple of the slide, 2, g"
    ):
        part.answer(3)
    with pytest.raises(ParameterError, match=r"^Partial: end must be a multiple .* got None"):
        part.answer()
    with pytest.raises(ParameterError, match=r"^Partial: end must be None without windows, got 4"):
        count.start().answer(4)


def test_only_partials_made_alike_are_merged():
    part = TopK(3).start(4)
    for other in (TopK(2).start(4), TopK(3).start(), workloads.WordCount().start(4)):
        with pytest.raises(ParameterError, match=r"^Partial: other must be of a TopK made alike"):
            part.merge(other)
    part.merge(TopK(3).start(4))


def test_merging_leaves_the_other_as_it_was():
    case = CASES["correlation_clustering"]
    chunk = stream(case, 60, seed=2)
    one, other = case.workload.start(), case.workload.start()
    one.update(chunk[:20])
    other.update(chunk[20:40])
    one.merge(other)
    other.update(chunk[40:])
    one.update(chunk[40:])
    wanted = expected(case, chunk)
    assert_same(one.answer().to_pylist(), wanted)
    assert_same(other.answer().to_pylist(), expected(case, chunk[20:]))


def test_forgotten_panes_are_gone_and_all_others_stay():
    for name in ("word_count", "correlation_clustering"):
        case = CASES[name]
        chunk = stream(case, 200, seed=3)
        part = case.workload.start(case.window, case.slide)
        part.update(chunk)
        part.forget(60)
        assert part.ends()[0] == 60 + case.slide
        assert_same(part.answer(120).to_pylist(), expected(case, chunk[120:], 120))
    count = workloads.WordCount().start()
    count.update(Chunk(None, [1]))
    count.forget(99)
    assert count.answer()["n"].to_pylist() == [1]


def test_many_pieces_are_merged_on_the_way(monkeypatch):
    monkeypatch.setattr("skewless.workloads.base._LIST", 20)
    case = CASES["fetch_lists"]
    chunk, part = stream(case, 400, seed=3), case.workload.start()
    held = []
    for piece in chunk.pieces(5):
        part.update(piece)
        held.append(sum(table.num_rows for table in part._parts))
    assert max(held) <= 2 * max(20, case.n_keys)
    assert_same(part.answer().to_pylist(), expected(case, chunk))


def test_windows_before_time_zero_are_windows_too():
    part = workloads.WordCount().start(4, 2)
    part.update(Chunk([-5, -1, 0], [1, 1, 1]))
    assert {end: a["n"].to_pylist() for end, a in part.answers()} == {
        -4: [1],
        -2: [1],
        0: [1],
        2: [2],
        4: [1],
    }
    assert rows_of(Chunk([-5], [1])) == [(-5, 1, {})]
