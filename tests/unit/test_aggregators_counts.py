"""TopK and FollowCounts against collections.Counter: any split, any order, every type."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.spark.aggregators import FollowCounts, TopK
from tests.unit.split_rows import run

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
words = st.none() | st.sampled_from(["a", "b", "ä", "", "bb", "z", "zz"])
keys = st.sampled_from(["k", "l", "m"])


def best(counter, k):
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:k]


@EXAMPLES
@given(
    st.lists(st.tuples(keys, words), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(0, 999),
)
def test_any_split_gives_the_most_frequent_values(rows, k, seed):
    columns = {"w": pa.array([w for _, w in rows], pa.string())}
    found = run(TopK("w", k), [key for key, _ in rows], columns, seed)
    for key, result in found.items():
        counter = Counter(w for name, w in rows if name == key and w is not None)
        assert [(e["value"], e["n"]) for e in result["top"]] == best(counter, k)


@EXAMPLES
@given(
    st.lists(st.tuples(keys, words, st.none() | st.integers(-5, 50)), min_size=1, max_size=60),
    st.integers(0, 999),
)
def test_values_can_be_ranked_by_the_sum_of_a_column(rows, seed):
    columns = {
        "w": pa.array([w for _, w, _ in rows], pa.string()),
        "bytes": pa.array([b for _, _, b in rows], pa.int32()),
    }
    found = run(TopK("w", 3, by="bytes"), [key for key, _, _ in rows], columns, seed)
    for key, result in found.items():
        counter = Counter()
        for name, word, weight in rows:
            if name == key and word is not None and weight is not None:
                counter[word] += weight
        assert [(e["value"], e["n"]) for e in result["top"]] == best(counter, 3)


@EXAMPLES
@given(
    st.lists(st.tuples(keys, words, words), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(0, 999),
)
def test_any_split_gives_the_most_frequent_pairs(rows, k, seed):
    columns = {
        "w": pa.array([w for _, w, _ in rows], pa.string()),
        "next": pa.array([f for _, _, f in rows], pa.string()),
    }
    found = run(FollowCounts("w", "next", k), [key for key, _, _ in rows], columns, seed)
    for key, result in found.items():
        counter = Counter((w, f) for name, w, f in rows if name == key and None not in (w, f))
        assert result["n"] == counter.total()
        assert [((e["value"], e["next"]), e["n"]) for e in result["follows"]] == best(counter, k)


VALUES = {
    "string": ["b", "a"],
    "binary": [b"b", b"a\0"],
    "boolean": [True, False],
    "tinyint": [3, -3],
    "smallint": [300, -300],
    "int": [70_000, -70_000],
    "bigint": [2**40, -(2**40)],
    "float": [0.5, -0.25],
    "double": [math.inf, -1e300],
    "date": [dt.date(2024, 1, 2), dt.date(1969, 1, 1)],
    "timestamp": [
        dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc),
        dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc),
    ],
    "timestamp_ntz": [dt.datetime(2024, 1, 2), dt.datetime(1960, 1, 1)],  # noqa: DTZ001
    "decimal(20,2)": [Decimal("10.25"), Decimal("9.50")],
}


@pytest.mark.parametrize("value_type", VALUES)
@pytest.mark.parametrize("seed", [0, 3])
def test_every_type_is_counted_and_comes_back(value_type, seed):
    high, low = VALUES[value_type]
    top = TopK("v", 3, value_type=value_type)
    values = pa.array(
        [high, low, None, low, high, low], top.result_schema[0].type.value_type[0].type
    )
    found = run(top, [1, 1, 1, 1, 2, 2], {"v": values}, seed)
    assert found[1]["top"] == [{"value": low, "n": 2}, {"value": high, "n": 1}]
    assert found[2]["top"] == [{"value": low, "n": 1}, {"value": high, "n": 1}]
    follow = FollowCounts("v", "v", 3, value_type=value_type)
    assert run(follow, [1] * 6, {"v": values}, seed)[1]["follows"][0]["next"] == low


@pytest.mark.parametrize("seed", range(4))
def test_there_is_one_nan_and_one_zero(seed):
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    values = pa.array([0.0, -0.0, 5.0, *odd, math.nan], pa.float64(), from_pandas=False)
    top = run(TopK("v", 9, value_type="double"), [1] * 6, {"v": values}, seed)[1]["top"]
    assert [e["n"] for e in top] == [3, 2, 1]
    assert math.isnan(top[0]["value"])
    assert str(top[1]["value"]) == "0.0"


def test_only_nulls_give_an_empty_list():
    assert run(TopK("w", 2), [1, 1], {"w": pa.nulls(2)}, 0) == {1: {"top": []}}
    found = run(FollowCounts("w", "x", 2), [1], {"w": pa.array(["a"]), "x": pa.nulls(1)}, 0)
    assert found == {1: {"n": 0, "follows": []}}


def test_many_keys_equal_a_counter():
    rng = np.random.default_rng(5)
    keys = np.sort(rng.integers(0, 3_000, 40_000))
    values = rng.zipf(1.5, len(keys)) % 1000
    names, first = np.unique(keys, return_index=True)
    top = TopK("v", 3, value_type="bigint")
    starts = np.append(first, len(keys)).astype(np.int64)
    found = top.finish_groups(top.update_groups(pa.table({"v": values}), starts))["top"]
    for i in range(0, len(names), 71):
        counter = Counter(values[keys == names[i]].tolist())
        assert [(e["value"], e["n"]) for e in found[i].as_py()] == best(counter, 3)


def test_updates_of_one_key_add_up_and_a_copy_goes_on():
    top = pickle.loads(pickle.dumps(TopK("w", 1, value_type="int")))  # noqa: S301 (our own bytes)
    state = top.update(top.create(), pa.table({"w": pa.array([1, 2, 2], pa.int32())}))
    state = top.update(state, pa.table({"w": pa.array([1, 1], pa.int32())}))
    assert top.finish(state) == {"top": [{"value": 1, "n": 3}]}
    assert top.finish(top.create()) == {"top": []}


def test_a_narrower_type_of_the_same_kind_is_widened():
    values = {"v": pa.array([1, 1], pa.int8()), "s": pa.array(["a", "a"], pa.large_string())}
    assert run(TopK("v", 1, value_type="bigint"), [1, 1], values, 0)[1]["top"][0]["value"] == 1
    assert run(TopK("s", 1), [1, 1], values, 0)[1]["top"][0]["value"] == "a"


def test_a_column_of_another_type_is_refused():
    with pytest.raises(
        DataError, match=r"^TopK: column 'v' holds int64, not a string; value_type is 's"
    ):
        run(TopK("v", 1), [1], {"v": pa.array([1])}, 0)
    with pytest.raises(DataError, match=r"^TopK: column 'b' must hold whole numbers .* double\.$"):
        run(TopK("v", 1, by="b"), [1], {"v": pa.array(["a"]), "b": pa.array([1.0])}, 0)


def test_a_sum_beyond_64_bits_is_refused():
    columns = {"v": pa.array(["a", "a", "b"]), "b": pa.array([2**62, 2**62, 2**61])}
    with pytest.raises(DataError, match="64 bits"):
        run(TopK("v", 1, by="b"), [1] * 3, columns, 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"k": 0}, "k must be an int of at least 1, got 0."),
        ({"k": 1, "by": 7}, "by must be a str, got 7."),
        ({"k": 1, "value_type": "strin"}, "(did you mean 'string'?)"),
        ({"k": 1, "value_type": "array<int>"}, "got 'array<int>'"),
        ({"k": 1, "value_type": "decimal(2,3)"}, "got 'decimal(2,3)'"),
        ({"k": 1, "value_type": None}, "got None."),
    ],
)
def test_bad_parameters_are_named(wrong, words):
    with pytest.raises(ParameterError) as error:
        TopK("v", **wrong)
    assert str(error.value).startswith("TopK: ")
    assert words in str(error.value)
    with pytest.raises(ParameterError, match=r"^FollowCounts: next_column must be a str, got 1\.$"):
        FollowCounts("v", 1, 1)
