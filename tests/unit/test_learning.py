"""The feedback loop, fed with the metrics of made-up batches."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from skewless.active_workers import ActiveWorkers, Elastic
from skewless.histogram import bucket_of
from skewless.operations import BatchMetrics, Timing
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.learning import Loop
from skewless.spark.panes import duration_us
from skewless.spark.policy_log import PolicyLog

N, BUCKETS = 4, 2048


def metrics(loop: Loop, keys: np.ndarray, version: int) -> dict[str, object]:
    """What Spark would report of a batch routed by the loop's routing."""
    loads = np.bincount(loop.routing.route(keys), minlength=N)
    buckets = np.bincount(bucket_of(keys, BUCKETS), minlength=BUCKETS)
    found, counts = np.unique(keys, return_counts=True)
    heavy = np.argsort(-counts)[:8]
    return {
        "rows": len(keys),
        "version": version,
        "loads": [{"item": i, "count": int(c)} for i, c in enumerate(loads) if c],
        "buckets": [{"item": i, "count": int(c)} for i, c in enumerate(buckets) if c],
        "keys": [{"item": int(found.view(np.int64)[i]), "count": int(counts[i])} for i in heavy],
    }


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    """Give a loop that learns with WrapAround."""
    log = PolicyLog(tmp_path)
    log.write(Routing.hashing(N))
    return Loop(log, WrapAround(N), N, 0, BUCKETS)


def skewed(seed: int) -> np.ndarray:
    keys = np.random.default_rng(seed).integers(1, 5_000, 20_000).astype(np.uint64)
    keys[::2] = np.uint64(2**64 - 3)
    return keys


def test_the_load_is_even_from_the_second_batch_on(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1))
    loop.learn(1, metrics(loop, skewed(1), loop.version))
    ratios = [record.max_over_mean for record in loop.records]
    assert ratios[0] > 2.4
    assert ratios[1] < 1.1
    assert loop.log.versions()[-1] >= 2
    assert "WrapAround(4)" in loop.log.read(2).facts["policy"]
    assert len((loop.log.folder / "batches.jsonl").read_text().splitlines()) == 2


def test_the_histogram_keeps_every_row(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1))
    assert loop.records[0].histogram.total == 20_000
    assert int(loop.records[0].histogram.counts[0]) == 10_000


def test_a_batch_of_one_row_does_not_undo_what_was_learned(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1))
    learned = loop.routing
    hot = 2**64 - 3
    assert len(learned.hot[hot]) > 1
    loop.learn(1, metrics(loop, np.array([77], np.uint64), loop.version))
    assert loop.routing.hot.keys() >= learned.hot.keys()
    assert loop.routing.hot[hot].keys() == learned.hot[hot].keys()
    loop.learn(2, metrics(loop, skewed(2), loop.version))
    assert loop.records[-1].max_over_mean < 1.1


def test_small_batches_in_a_row_replace_what_was_known(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1))
    other = skewed(1)
    other[::2] = np.uint64(12345)
    for batch in range(1, 12):
        loop.learn(batch, metrics(loop, other[:10_000], loop.version))
    assert 12345 in loop.routing.hot
    assert 2**64 - 3 not in loop.routing.hot


def test_an_empty_batch_teaches_nothing(loop: Loop) -> None:
    loop.learn(0, {"rows": 0, "version": None, "loads": [], "buckets": [], "keys": []})
    assert not loop.records
    assert loop.log.versions() == [1]


def test_a_policy_log_that_was_removed_is_written_anew(loop: Loop) -> None:
    keys = skewed(0)
    for batch in range(2):
        loop.learn(batch, metrics(loop, keys, 1))
    for version in loop.log.versions():
        loop.log.path(version).unlink()
    loop.learn(2, metrics(loop, keys, 0))
    newest = loop.log.newest(N)
    assert newest is not None
    assert newest.routing == loop.routing


def timing(batch: int, seconds: float, run: str = "run") -> Timing:
    return Timing("query", run, "clicks", 1_000.0 + 10 * batch, seconds, None, 2.5)


def test_every_batch_is_a_line_of_the_metrics_file(loop: Loop) -> None:
    for batch in range(3):
        loop.learn(batch, metrics(loop, skewed(batch), loop.version), timing(batch, 1.5))
    first, second, third = loop.monitor.file.read().batches
    assert (first.version, first.hot_keys, first.active) == (1, 0, 4)
    assert [b.rows_total for b in (first, second, third)] == [20_000, 40_000, 60_000]
    assert [b.interval_s for b in (first, second, third)] == [None, 10.0, 10.0]
    assert third.timing == timing(2, 1.5)
    # The hottest key is named as Spark's xxhash64 gives it, with the workers that it was dealt to.
    assert first.hot[0] == (-3, 10_000, 1)
    assert second.hot[0] == (-3, 10_000, len(loop.log.read(second.version).routing.hot[2**64 - 3]))
    assert second.hot[0].workers >= 2
    assert (second.split_keys, second.extra_fragments) == (1, second.hot[0].workers - 1)
    for noted, record in zip((first, second, third), loop.records, strict=True):
        assert noted.loads == tuple(record.loads.tolist())
        assert noted.max_over_mean == pytest.approx(record.max_over_mean)
    loop.learn(0, metrics(loop, skewed(0), loop.version), timing(0, 1.5, "another run"))
    last = loop.monitor.file.read().batches[-1]
    assert (last.interval_s, last.rows_total, last.batches_total) == (None, 20_000, 1)


def test_a_batch_that_ran_on_an_older_version_is_told_of_by_that_one(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1))
    loop.learn(1, metrics(loop, skewed(1), 1))  # began before version 2 was there
    loop.learn(2, metrics(loop, skewed(2), 77))  # of somebody else
    late, foreign = loop.monitor.file.read().batches[1:]
    assert (late.version, late.hot_keys, late.hot[0].workers) == (1, 0, 1)
    assert (foreign.version, foreign.hot_keys, foreign.hot) == (77, None, ())


def test_every_batch_is_one_line_of_json_in_the_log(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "skewless.batches")
    loop.learn(0, metrics(loop, skewed(0), 1), timing(0, 1.5))
    [line] = [r.getMessage() for r in caplog.records if r.name == "skewless.batches"]
    assert BatchMetrics.of(json.loads(line)) == loop.monitor.file.read().batches[0]


def test_a_metrics_file_that_cannot_be_written_costs_a_warning_only(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.monitor.file.path.mkdir()
    loop.learn(0, metrics(loop, skewed(0), 1))
    loop.monitor.end(None, None)  # type: ignore[arg-type]
    assert "cannot note batch 0" in caplog.text
    assert "cannot note the end" in caplog.text
    assert loop.version == 2


def test_only_the_end_of_the_run_that_was_noted_is_written(loop: Loop) -> None:
    loop.learn(0, metrics(loop, skewed(0), 1), timing(0, 1.5))
    loop.monitor.end("of another query", None)
    assert loop.monitor.file.read().ended is None
    loop.monitor.end("run", "lost")
    assert loop.monitor.file.read().ended == ("run", "lost")


def test_short_batches_leave_workers_without_rows_and_a_restart_keeps_it_so(
    tmp_path: Path,
) -> None:
    policy = Elastic(WrapAround(N), ActiveWorkers(2, N, patience=1))
    loop = Loop(PolicyLog(tmp_path), policy, N, 0, BUCKETS)
    for batch in range(6):
        told = {**metrics(loop, skewed(batch), loop.version), "n_keys": 5_000}
        loop.learn(batch, told, timing(batch, 1.0))
    noted = loop.monitor.file.read().batches
    # The first batch has no interval yet, and each number comes into force in the batch after.
    assert [b.active for b in noted] == [4, 4, 3, 2, 2, 2]
    assert all(sum(b.loads[b.active :]) == 0 for b in noted)
    assert noted[-1].max_over_mean < 1.1
    assert noted[-1].n_keys == 5_000
    facts = loop.log.read(loop.version).facts
    assert facts["scaling"]
    assert facts["max_over_mean"] < 1.1
    assert [record.active for record in loop.records] == [4, 4, 3, 2, 2, 2]
    assert policy.workers.active == N  # the user's object is left alone
    again = Loop(PolicyLog(tmp_path), policy, N, 0, BUCKETS)
    again.learn(6, metrics(again, skewed(6), again.version), timing(6, 8.5))
    assert again.monitor.file.read().batches[-1].active == 2
    for batch in range(7, 10):
        again.learn(batch, metrics(again, skewed(batch), again.version), timing(batch, 12.0))
    assert again.monitor.file.read().batches[-1].active == 4


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1 microsecond", 1),
        ("1.5 seconds", 1_500_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("interval 2 weeks", 1_209_600_000_000),
        ("20 days", 1_728_000_000_000),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert duration_us("window", "size", text) == us
