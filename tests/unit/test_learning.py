"""The feedback loop, fed with the metrics of made-up batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skewless.histogram import bucket_of
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
    assert len(loop.routing.hot[12345]) > 1
    assert len(loop.routing.hot.get(2**64 - 3, {0: 1.0})) == 1


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
