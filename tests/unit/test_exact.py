"""Exact mode without Spark: tasks that route, a driver that answers, batch by batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.partitioners import (
    AM,
    CAM,
    CM,
    LM,
    PKG,
    CooperativeDalton,
    DAGreedy,
    Dalton,
    DChoices,
    Hash,
    OnGreedy,
    PoTC,
    Shuffle,
    WChoices,
)
from skewless.partitioners.pkg import _route_two as pkg_kernel
from skewless.planners import WrapAround
from skewless.spark import exact
from skewless.spark.exact import Syncs, Task, require_exact

N = 8
EXACT = (AM, CAM, CM, LM, DAGreedy, DChoices, OnGreedy, PoTC, Shuffle, WChoices)


def skewed(seed: int, n_rows: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    keys = rng.integers(1, 3_000, n_rows).astype(np.uint64)
    keys[rng.random(n_rows) < 0.4] = np.uint64(77)
    return keys


@pytest.mark.parametrize("cls", [Hash, PKG, Dalton])
def test_a_task_routes_as_the_policy_itself_whatever_the_batches(cls) -> None:
    keys = skewed(0, 3_000)
    task = Task(cls(N), 0, b"")
    parts = [task.route(part) for part in np.split(keys, [1, 10, 1_500])]
    assert np.array_equal(np.concatenate(parts), cls(N).route(Chunk(None, keys)))
    assert task.message() is None


def run(policy, n_batches: int, n_tasks: int, folder: Path) -> list[float]:
    """Max/mean of each batch, all tasks together."""
    syncs, version, ratios = Syncs(policy, "probed"), 1, []
    for batch in range(n_batches):
        begins_with = exact._published(str(folder), version)
        loads, messages, seen = np.zeros(N, np.int64), [], []
        for number in range(n_tasks):
            keys = skewed(10 * batch + number)
            task = Task(type(policy)(N), number, begins_with)
            again = Task(type(policy)(N), number, begins_with)
            workers = np.concatenate([task.route(part) for part in np.split(keys, 4)])
            assert np.array_equal(workers, again.route(keys)), (
                "a task that is run again routes anew"
            )
            loads += np.bincount(workers, minlength=N)
            messages += [m for m in [task.message()] if m is not None]
            seen.append(keys)
        ratios.append(float(loads.max() / loads.mean()))
        policy.learn(Histogram.of(np.concatenate(seen)))
        assert syncs.due(batch, 0, messages, float(batch))
        version += 1
        syncs.publish(folder, version)
        n_messages = n_tasks if isinstance(policy, CooperativeDalton) else 0
        assert syncs.records[-1] == (batch, 1, float(batch > 0), 0, n_messages)
    return ratios


def test_what_the_tasks_learn_together_evens_the_load_of_later_batches(tmp_path) -> None:
    ratios = run(CooperativeDalton(N), 4, 3, tmp_path)
    assert ratios[0] > 3.0
    assert max(ratios[1:]) < 1.1


def test_a_policy_without_messages_goes_on_from_what_the_driver_learned(tmp_path) -> None:
    assert max(run(Dalton(N), 4, 3, tmp_path)) < 2.0


def test_the_interval_doubles_while_the_driver_is_late_and_halves_while_it_is_idle() -> None:
    syncs = Syncs(Hash(2), "probed")
    lags = [1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    published = [syncs.due(batch, lag, [], 2.0 * batch) for batch, lag in enumerate(lags)]
    assert [batch for batch, due in enumerate(published) if due] == [0, 2, 6]
    found = [(r.batch, r.batches, r.seconds, r.lag) for r in syncs.records]
    assert found == [(0, 1, 0.0, 1), (2, 2, 4.0, 1), (6, 4, 8.0, 1)]
    later = [batch for batch in range(11, 30) if syncs.due(batch, 0, [], 2.0 * batch)]
    assert later == [14, 18, 20, *range(21, 30)]


def test_a_lost_or_damaged_file_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    Syncs(PKG(2), "probed").publish(tmp_path, 2)
    assert len(exact._published(str(tmp_path), 2)) > 50
    path = tmp_path / "exact-000000002.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        assert exact._published(str(tmp_path), 2) == b""
    with pytest.warns(UserWarning, match="is not read"):
        assert exact._published(str(tmp_path), 3) == b""


def test_local_estimates_publish_nothing(tmp_path: Path) -> None:
    Syncs(PKG(2), "local").publish(tmp_path, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "state", "estimates", "words"),
    [
        (WrapAround(4), "folder", "probed", "decide tuple by tuple.*WrapAround"),
        ("local", "folder", "probed", "decide tuple by tuple.*'local'"),
        (PKG(4), None, "probed", "state="),
        (PKG(4), "folder", "guessed", "'probed', 'local' or 'global', got 'guessed'"),
    ],
)
def test_what_exact_mode_cannot_do_is_refused(policy, state, estimates, words) -> None:
    with pytest.raises(ParameterError, match=words):
        require_exact(policy, state, estimates)


@pytest.mark.parametrize("cls", [Hash, PKG, Dalton, *EXACT])
def test_a_task_goes_on_exactly_from_what_the_driver_published(cls, tmp_path: Path) -> None:
    keys = skewed(3, 6_000)
    driver = cls(N)
    driver.route(driver._next(keys[:3_000]))
    Syncs(driver, "probed").publish(tmp_path, 2)
    content = exact._published(str(tmp_path), 2)
    assert b"skewless" not in content  # numbers, and no name of a class
    task = Task(cls(N), 0, content)
    assert np.array_equal(task.route(keys[3_000:]), driver.route(driver._next(keys[3_000:])))


def test_keys_that_arrow_lends_take_no_kernel_of_their_own() -> None:
    keys = np.arange(500, dtype=np.int64) % 7
    task, other = Task(PKG(4), 0, b""), Task(PKG(4), 0, b"")
    own = task.route(keys.copy())
    compiled = len(getattr(pkg_kernel, "signatures", []))
    keys.flags.writeable = False
    assert (other.route(keys) == own).all()
    assert len(getattr(pkg_kernel, "signatures", [])) == compiled
