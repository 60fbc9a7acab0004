"""CorrelationClustering: distances, VOTE and GREEDY against the definition; a local optimum, always."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.workloads import CorrelationClustering
from skewless.workloads.edit_distance import ONE, agreement, edit_distance, packed
from tests.oracles import correlation_clustering as oracle

pytestmark = pytest.mark.jit_modes
EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
words = st.text("abc", max_size=6) | st.text("aé€𝄞", max_size=4)
lists = st.lists(words, max_size=9)


@EXAMPLES
@given(words, words)
def test_the_edit_distance_is_that_of_the_recurrence(a, b):
    codes, starts = packed([a, b])
    assert edit_distance(codes, starts[0], starts[1], starts[1], starts[2]) == oracle.distance(a, b)
    assert agreement(codes, starts, 0, 1) == oracle.weight(a, b)
    assert agreement(codes, starts, 1, 0) == oracle.weight(a, b)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("flaw", "lawn", 2),
        ("same", "same", 0),
        ("", "", 0),
    ],
)
def test_known_distances(a, b, distance):
    codes, starts = packed([a, b])
    assert edit_distance(codes, 0, starts[1], starts[1], starts[2]) == distance
    assert abs(agreement(codes, starts, 0, 1) / ONE) <= 1


@EXAMPLES
@given(lists)
def test_vote_is_that_of_the_definition(records):
    cluster = CorrelationClustering("v")
    state = cluster.update(cluster.create(), pa.table({"v": pa.array(records, pa.string())}))
    assert state["clusters"] == oracle.vote(records)


@EXAMPLES
@given(lists, st.lists(st.integers(0, 2), min_size=9, max_size=9))
def test_greedy_is_that_of_the_definition_and_ends_in_a_local_optimum(records, parts):
    cluster = CorrelationClustering("v")
    clusters = [
        found
        for part in range(3)
        for found in oracle.vote([r for r, p in zip(records, parts, strict=False) if p == part])
    ]
    result = cluster.finish({"clusters": clusters})
    assert result["clusters"] == oracle.greedy(clusters)
    assert result["cost"] == pytest.approx(oracle.cost(result["clusters"]), abs=1e-9)
    assert max(oracle.gains(result["clusters"]), default=0) <= 0
    assert result["cost"] <= oracle.cost(clusters) + 1e-9
    assert result["n"] == len(records)


@EXAMPLES
@given(lists, st.randoms(use_true_random=False))
def test_the_order_that_parts_come_in_does_not_matter(records, random):
    cluster = CorrelationClustering("v")
    clusters = oracle.vote(records)
    shuffled = [random.sample(found, len(found)) for found in clusters]
    random.shuffle(shuffled)
    assert cluster.finish({"clusters": shuffled}) == cluster.finish({"clusters": clusters})


def test_a_merge_a_split_and_a_move_by_hand():
    cluster = CorrelationClustering("v")
    merge = cluster.finish({"clusters": [["aaaa"], ["aaab"], ["zzzz"]]})
    assert merge["clusters"] == [["aaaa", "aaab"], ["zzzz"]]
    split = cluster.finish({"clusters": [["aaaa", "aaab", "zzzx", "zzzz"]]})
    assert split["clusters"] == [["aaaa", "aaab"], ["zzzx", "zzzz"]]
    move = cluster.finish({"clusters": [["aaaa", "aaab", "zzzy"], ["zzzx", "zzzz"]]})
    assert move["clusters"] == [["aaaa", "aaab"], ["zzzx", "zzzy", "zzzz"]]
    # Within clusters 1 - s is 1/4 for each of four pairs; between them s is 0.
    assert move["cost"] == pytest.approx(1.0)


def test_the_cost_of_a_split_is_no_higher_than_that_of_the_parts():
    rng = np.random.default_rng(2)
    records = ["".join(rng.choice(list("ab"), rng.integers(1, 7))) for _ in range(60)]
    cluster, whole = CorrelationClustering("v"), CorrelationClustering("v").start()
    for part in np.array_split(np.array(records, object), 4):
        other = cluster.start()
        other.update(Chunk(None, np.zeros(len(part), np.uint64), pa.array(part, pa.string())))
        whole.merge(other)
    voted = whole.states()["clusters"].to_pylist()[0]
    result = whole.answer().to_pylist()[0]
    assert result["n"] == 60
    assert sorted(r for found in result["clusters"] for r in found) == sorted(records)
    assert result["cost"] < oracle.cost(voted)
    assert max(oracle.gains(result["clusters"])) <= 0


def test_no_records_nulls_and_a_wrong_type():
    cluster = CorrelationClustering("v")
    rows = pa.table({"v": pa.array([None, None], pa.string())})
    empty = {"n": 0, "clusters": [], "cost": 0.0}
    assert cluster.finish(cluster.update(cluster.create(), rows)) == empty
    one = cluster.finish(cluster.update(cluster.create(), pa.table({"v": [""]})))
    assert one == {"n": 1, "clusters": [[""]], "cost": 0.0}
    with pytest.raises(DataError, match=r"^CorrelationClustering: column 'v' holds int64, not a s"):
        cluster.update(cluster.create(), pa.table({"v": [1]}))
