"""The numbers of a batch: what Spark's progress says, and the line that they are written as."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import DataError
from skewless.operations import BatchMetrics, Timing
from skewless.operations.batch_metrics import HotKey

PROGRESS = {
    "id": "5f3b",
    "runId": "9c21",
    "name": "clicks",
    "timestamp": "2026-03-01T12:00:10.250Z",
    "batchId": 7,
    "batchDuration": 1250,
    "durationMs": {"triggerExecution": 1250},
    "eventTime": {"max": "2026-03-01T12:00:08.000Z", "watermark": "2026-03-01T11:00:00.000Z"},
    "sources": [
        {
            "description": "KafkaV2[Subscribe[clicks]]",
            "startOffset": {"clicks": {"0": 10, "1": 20}},
            "endOffset": {"clicks": {"0": 15, "1": 25}},
            "latestOffset": {"clicks": {"0": 115, "1": 26}},
        }
    ],
}


def test_a_progress_is_read_from_text_and_from_a_mapping() -> None:
    expected = Timing("5f3b", "9c21", "clicks", 1772366410.25, 1.25, 101, 2.25)
    assert Timing.of(PROGRESS) == expected
    assert Timing.of(json.dumps(PROGRESS)) == expected


#: Name, what is put in place of a part of the progress, what is then read.
READINGS = {
    "an older Spark has the duration among the others": (
        {"batchDuration": None, "durationMs": {"triggerExecution": 40}},
        {"seconds": 0.04},
    ),
    "a partition that is new to the query counts from zero": (
        {"sources": [{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 5, "1": 9}}}]},
        {"behind": 9},
    ),
    "offsets as text are read too": (
        {"sources": [{"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":8}}'}]},
        {"behind": 3},
    ),
    "several sources are added up, those that count otherwise left out": (
        {
            "sources": [
                {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 8}}},
                {"endOffset": {"u": {"0": 1}}, "latestOffset": {"u": {"0": 2}}},
                {"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 9}},
            ]
        },
        {"behind": 4},
    ),
    "a source of files says nothing": (
        {"sources": [{"endOffset": {"logOffset": 3}, "latestOffset": None}]},
        {"behind": None},
    ),
    "a source that went back is not behind": (
        {"sources": [{"endOffset": {"t": {"0": 8}}, "latestOffset": {"t": {"0": 5}}}]},
        {"behind": 0},
    ),
    "events from the future are ahead": (
        {"eventTime": {"max": "2026-03-01T12:00:11.000Z"}},
        {"event_lag_s": -0.75},
    ),
    "no event time, no lag": ({"eventTime": {}}, {"event_lag_s": None}),
    "no name": ({"name": None}, {"name": None}),
    "a time that is none": ({"timestamp": "soon"}, {"started_s": None, "event_lag_s": None}),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_part_of_the_progress_is_read_so(name: str) -> None:
    changed, expected = READINGS[name]
    found = Timing.of({**PROGRESS, **changed})
    assert {field: getattr(found, field) for field in expected} == expected


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"sources": 3, "eventTime": 4}'])
def test_what_is_no_progress_says_nothing(text: str) -> None:
    assert Timing.of(text) == Timing()


def full() -> BatchMetrics:
    return BatchMetrics(
        batch=7,
        version=3,
        rows=60,
        loads=(30, 20, 10, 0),
        policy="WrapAround(4)",
        active=3,
        n_keys=12,
        hot=(HotKey(-(2**63), 25, 2), HotKey(2**63 - 1, 8, 1)),
        hot_keys=2,
        split_keys=1,
        extra_fragments=1,
        interval_s=10.0,
        rows_total=600,
        batches_total=8,
        timing=Timing.of(PROGRESS),
    )


def test_a_line_gives_back_what_was_written() -> None:
    line = full().to_line()
    assert "\n" not in line
    assert BatchMetrics.of(json.loads(line)) == full()
    assert json.loads(line)["started"] == "2026-03-01T12:00:10.250Z"
    assert json.loads(line)["hot"][0] == {"key": -(2**63), "rows": 25, "workers": 2}


def test_the_fullest_worker_is_compared_with_the_active_ones() -> None:
    assert full().max_over_mean == 1.5
    assert full()._replace(active=None).max_over_mean == 2.0
    assert full()._replace(rows=0, loads=(0, 0, 0, 0)).max_over_mean == 1.0


def test_the_line_of_an_earlier_release_lacks_fields() -> None:
    old = {"batch": 4, "version": 2, "rows": 30, "max_over_mean": 1.33, "loads": [10, 20]}
    assert BatchMetrics.of(old) == BatchMetrics(4, 2, 30, (10, 20))


@pytest.mark.parametrize(
    "change",
    [
        {"batch": None},
        {"batch": -1},
        {"batch": True},
        {"rows": "60"},
        {"rows": 59},
        {"loads": []},
        {"loads": 60},
        {"loads": [60, -1]},
        {"active": 5},
        {"active": 0},
        {"hot": [{"key": "x", "rows": 1, "workers": 1}]},
        {"hot": [{"key": 1}]},
        {"hot": 3},
        {"policy": 3},
        {"seconds": "long"},
        {"interval_s": math.inf},
        {"behind": True},
    ],
)
def test_what_is_no_row_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"^metrics: no row of batch metrics"):
        BatchMetrics.of({**full().as_row(), **change})


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_at_all_fails_with_another_error(value: object) -> None:
    with pytest.raises(DataError):
        BatchMetrics.of(value)  # type: ignore[arg-type]
