"""FetchLists, EntityCounts and the queries of cluster monitoring: what is special to each."""

from __future__ import annotations

import re
import time

import numpy as np
import pyarrow as pa
import pytest

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.workloads import CpuByClass, EntityCounts, FetchLists, MeanCpuByJob
from skewless.workloads.entity_counts import capitalised
from tests.oracles.entity_counts import entities


def test_a_page_has_the_least_depth_of_all_parts_and_the_links_of_all():
    lists = FetchLists(2, 100)
    left = lists.update(lists.create(), pa.table({"url": ["/a", "/b"], "depth": [2, 1]}))
    right = lists.update(lists.create(), pa.table({"url": ["/a", "/a"], "depth": [1, 3]}))
    both = lists.merge(left, right)
    assert both == {
        "found": [{"url": "/a", "depth": 1, "links": 3}, {"url": "/b", "depth": 1, "links": 1}]
    }
    assert lists.finish(both) == {"n": 2, "pages": ["/a", "/b"], "took_ms": 200}


def test_the_longest_list_is_what_a_round_waits_for():
    part = FetchLists(50, 1000).start()
    hosts = np.repeat(np.arange(3, dtype=np.uint64), [1, 20, 80])
    urls = [f"/{i}" for i in range(len(hosts))]
    part.update(Chunk(None, hosts, pa.table({"url": urls, "depth": [0] * len(hosts)})))
    assert part.answer()["took_ms"].to_pylist() == [1_000, 20_000, 50_000]


def test_capitalised_finds_the_runs_of_the_definition():
    for text in ("", "no names", "Ada Lovelace met Babbage", "In Rome In Paris", "a B c D E f G"):
        assert capitalised(text) == entities(text)


def test_a_recogniser_of_ones_own():
    numbers = EntityCounts(1, recognise=lambda text: re.findall(r"\d+", text))
    state = numbers.update(numbers.create(), pa.table({"text": ["1 22 1", "22 22"]}))
    assert numbers.finish(state) == {"n": 2, "entities": [{"entity": "22", "n": 3}]}


def test_the_emulated_cost_is_slept_once_per_batch_by_the_length_of_its_texts(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    slow = EntityCounts(us_per_char=100)
    rows = pa.table({"text": ["12345", None, "123"]})
    slow.update_groups(rows, np.array([0, 2, 3]))
    assert slept == [pytest.approx(8e-4)]
    EntityCounts().update_groups(rows, np.array([0, 2, 3]))
    assert len(slept) == 1


def test_sums_and_means_of_sliding_windows_by_hand():
    events = Chunk([0, 59, 60, 61], [0, 0, 0, 3], np.array([0.5, 0.25, 0.125, 1.0]))
    total, mean = CpuByClass().start(60, 1), MeanCpuByJob().start(60, 1)
    total.update(events)
    mean.update(events)
    table = {60: [0.75], 61: [0.375], 62: [0.375, 1.0], 120: [0.125, 1.0], 121: [1.0]}
    for end, sums in table.items():
        assert total.answer(end)["cpu"].to_pylist() == sums
    assert mean.answer(60)["mean_cpu"].to_pylist() == [0.375]
    # Only requests that fall into some window: 1 .. 60 past each event.
    assert total.ends().tolist() == list(range(1, 122))


def test_bad_parameters_and_columns_are_named():
    with pytest.raises(
        ParameterError, match=r"^EntityCounts: us_per_char must be a float of at least"
    ):
        EntityCounts(us_per_char=-1)
    with pytest.raises(
        ParameterError, match=r"^EntityCounts: recognise must be a function of one t"
    ):
        EntityCounts(recognise="names")
    with pytest.raises(
        ParameterError, match=r"^FetchLists: limit must be an int of at least 1, got 0"
    ):
        FetchLists(0)
    with pytest.raises(DataError, match=r"^MeanCpuByJob: column 'cpu_request' must hold numbers"):
        MeanCpuByJob().start().update(Chunk(None, [1], np.array(["much"])))
    lists = FetchLists()
    with pytest.raises(DataError, match=r"^FetchLists: column 'depth' must hold whole numbers"):
        lists.update(lists.create(), pa.table({"url": ["/"], "depth": [0.5]}))
