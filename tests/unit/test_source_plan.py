"""Ranges of offsets for the tasks of a batch, and the batch's budget among partitions that lag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.source_plan import admit, split_ranges

pending = st.dictionaries(
    st.integers(0, 30),
    st.tuples(st.integers(0, 10_000), st.integers(0, 5_000)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def test_one_huge_partition_and_many_small_ones_take_the_tasks_that_were_asked_for() -> None:
    ranges = split_ranges({0: (0, 1_000_000)} | dict.fromkeys(range(1, 100), (7, 17)), 200)
    assert len(ranges) == 200
    huge = [r.end - r.start for r in ranges if r.partition == 0]
    assert len(huge) == 101
    assert max(huge) <= 9_901


@given(pending, st.integers(1, 60))
def test_every_offset_is_read_once_and_no_shorter_longest_range_exists(offsets, tasks) -> None:
    ranges = split_ranges(offsets, tasks)
    read = [(r.partition, offset) for r in ranges for offset in range(r.start, r.end)]
    assert sorted(read) == sorted((p, at) for p, (a, b) in offsets.items() for at in range(a, b))
    assert all(r.start < r.end for r in ranges)
    filled = [b - a for a, b in offsets.values() if b > a]
    assert len(ranges) <= max(tasks, len(filled))
    longest = max((r.end - r.start for r in ranges), default=1)
    if longest > 1 and len(filled) <= tasks:
        assert sum(-(-size // (longest - 1)) for size in filled) > tasks


def test_fewer_tasks_than_partitions_give_a_range_each() -> None:
    assert len(split_ranges({p: (0, 100 * p) for p in range(5)}, 1)) == 4


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({"a": (9, 5)}, "'a' ends at 5, before it starts at 9"),
        ({"a": (-1, 5)}, "whole numbers of at least 0, got -1"),
        ({"a": (0, 2.5)}, "got 2.5"),
    ],
)
def test_offsets_that_cannot_be_are_refused(offsets, message) -> None:
    with pytest.raises(DataError, match=message):
        split_ranges(offsets, 4)
    with pytest.raises(ParameterError, match="tasks must be an int of at least 1, got 0"):
        split_ranges({}, 0)


def test_a_lagging_partition_takes_its_part_of_the_budget_and_no_budget_reads_nothing() -> None:
    assert admit({"a": 100, "b": 100, "c": 1_000}, 120) == {"a": 10, "b": 10, "c": 100}
    assert admit({"a": 100, "b": 8_000_000}, 0) == {"a": 0, "b": 0}
    assert admit({"a": 3, "b": 0}, 10) == {"a": 3, "b": 0}
    assert admit({}, 5) == {}
    with pytest.raises(ParameterError, match="budget must be an int of at least 0, got -1"):
        admit({"a": 1}, -1)
    with pytest.raises(DataError, match="'a' needs whole numbers of at least 0, got -3"):
        admit({"a": -3}, 10)


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 1_000)), st.integers(0, 20_000))
def test_the_budget_is_used_up_and_nobody_gets_more_than_waits(lags, budget) -> None:
    found = admit(lags, budget)
    assert sum(found.values()) == min(budget, sum(lags.values()))
    total = max(1, sum(lags.values()))
    for partition, lag in lags.items():
        assert 0 <= found[partition] <= lag
        assert abs(found[partition] - min(1, budget / total) * lag) < 1
