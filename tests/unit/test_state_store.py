"""Parts of the state store on their own: key identity, migration plans, the rule of change, files."""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of, rebucketed
from skewless.keys import hash64
from skewless.planners import KIP, OffGreedy
from skewless.routing import Routing
from skewless.state_store import Repartitioning, StateStore
from skewless.state_store.identity import key_numbers
from skewless.state_store.manifest import NO_TIMER, DataFile, Fragment
from skewless.state_store.migration import changed_owners, plan_workers, state_keys_moved
from skewless.state_store.repartitioning import Past, decide
from skewless.state_store.storage import Storage

# -- which rows have the same key --------------------------------------------------------------------

KEYS: dict[str, tuple[list[Any], pa.DataType]] = {
    "strings": (["b", "a", None, "b", "", None], pa.string()),
    "floats": ([0.0, -0.0, math.nan, None, -math.nan, 1.5], pa.float64()),
    "lists": ([[1, None], [1], [1, None], None, [], []], pa.list_(pa.int64())),
    "structs": (
        [
            {"x": 1, "y": None},
            {"x": 1, "y": "a"},
            None,
            {"x": 1, "y": None},
            {"x": 2, "y": "a"},
            None,
        ],
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
    ),
    "lists of floats": ([[0.0], [-0.0], [math.nan], [math.nan], [], None], pa.list_(pa.float64())),
    "booleans": ([True, False, None, True, None, False], pa.bool_()),
    "nothing": ([None] * 6, pa.null()),
}

EXPECTED = {
    "strings": [0, 1, 2, 0, 3, 2],
    "floats": [0, 0, 1, 2, 1, 3],
    "lists": [0, 1, 0, 2, 3, 3],
    "structs": [0, 1, 2, 0, 3, 2],
    "lists of floats": [0, 0, 1, 1, 2, 3],
    "booleans": [0, 1, 2, 0, 2, 1],
    "nothing": [0, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("collide", [False, True], ids=["by hash", "all hashes alike"])
def test_rows_have_the_same_number_as_in_grouping(kind: str, collide: bool) -> None:
    values, type_ = KEYS[kind]
    column = pa.array(values, type_)
    hashes = np.full(6, 9, np.uint64)
    if not collide:
        hashes = np.array([7 * n for n in EXPECTED[kind]], np.uint64)
    assert key_numbers(pa.table({"k": column}), hashes).tolist() == EXPECTED[kind]


def test_two_key_columns_are_one_key() -> None:
    table = pa.table({"a": [1, 1, 2, 1], "b": ["x", None, "x", None]})
    assert key_numbers(table, hash64(table)).tolist() == [0, 1, 2, 1]
    assert key_numbers(table, np.zeros(4, np.uint64)).tolist() == [0, 1, 2, 1]


# -- who reads what ----------------------------------------------------------------------------------


def fragment(worker: int, bucket: int, keys: int = 10) -> Fragment:
    file = DataFile(f"f{worker}-{bucket}", "base", keys, 100, "0", 1)
    return Fragment(worker, bucket, keys, NO_TIMER, (file,))


def routings(seed: int) -> Routing:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    hot = {int(h): {int(rng.integers(n)): 1.0} for h in rng.integers(1, 2**63, rng.integers(0, 5))}
    buckets = rng.integers(0, n, bucket_count(n)) if rng.random() < 0.7 else None
    return Routing(n, hot, buckets, seed=int(rng.integers(0, 2)))


@pytest.mark.parametrize("seed", range(20))
def test_every_key_is_read_by_its_new_owner_and_by_nobody_else_kept(seed: int) -> None:
    before, after = routings(2 * seed), routings(2 * seed + 1)
    n_buckets, own_seed = 16, before.seed
    rng = np.random.default_rng(seed)
    keys = np.concatenate((rng.integers(0, 2**63, 400).astype(np.uint64), before.keys, after.keys))
    old, new = before.route(keys), after.route(keys)
    bucket = bucket_of(keys, n_buckets, own_seed)
    held = {(int(w), int(b)) for w, b in zip(old, bucket, strict=True)}
    fragments = tuple(fragment(w, b) for w, b in sorted(held))
    plans = plan_workers(fragments, before, after, n_buckets, own_seed)
    assert len(plans) == after.n_workers
    for o, n, b in zip(old.tolist(), new.tolist(), bucket.tolist(), strict=True):
        plan = plans[n]
        sources = [f.worker for f in plan.rebuilt.get(b, ())]
        if b in plan.own:
            assert o == n  # kept as it is, so the key was there
        else:
            assert o in sources
        if o != n and o < after.n_workers:
            assert b not in plans[o].own  # the old owner writes what is left to it
    for worker, plan in enumerate(plans):
        assert not plan.own.keys() & plan.rebuilt.keys()
        assert all(f.worker == worker for f in plan.own.values())


def test_a_fragment_that_keeps_its_keys_is_left_alone() -> None:
    before = Routing.hashing(4)
    key = 12345
    owner = int(before.route([key])[0])
    after = Routing(4, {key: {(owner + 1) % 4: 1.0}})
    bucket = int(bucket_of([key], 16)[0])
    fragments = tuple(fragment(w, b) for w, b in itertools.product(range(4), range(16)))
    plans = plan_workers(fragments, before, after, 16, 0)
    rebuilt = {(w, b) for w, plan in enumerate(plans) for b in plan.rebuilt}
    assert rebuilt == {(owner, bucket), ((owner + 1) % 4, bucket)}
    assert changed_owners(before, after, 16, 0) == {bucket: {(owner, (owner + 1) % 4)}}


def test_the_estimate_of_moved_keys_is_near_the_truth() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**63, 20_000).astype(np.uint64)
    before, after = Routing.hashing(4), Routing(4, None, rng.integers(0, 4, bucket_count(4)))
    counts = np.bincount(bucket_of(keys, 16), minlength=16)
    fragments = tuple(fragment(0, b, int(n)) for b, n in enumerate(counts))
    truth = int((before.route(keys) != after.route(keys)).sum())
    assert state_keys_moved(fragments, before, after, 16) == pytest.approx(truth, rel=0.03)
    assert state_keys_moved(fragments, before, before, 16) == 0


# -- when the routing changes ------------------------------------------------------------------------


def counted(counts: dict[int, int], n_workers: int = 4) -> Histogram:
    return Histogram(
        list(counts), list(counts.values()), np.zeros(bucket_count(n_workers), np.int64)
    )


def test_the_past_fades_or_is_the_sum_of_the_last_batches() -> None:
    fading, last = Past(), Past()
    for count in (80, 40, 8):
        fading = fading.add(counted({7: count}), Repartitioning(memory=0.5), 64)
        last = last.add(counted({7: count}), Repartitioning(last=2), 64)
    for past, total, weight in ((fading, 8 + 20 + 20, 1.75), (last, 48, 2.0)):
        known = Past.load(past.dump()).total()
        assert known is not None
        assert (known.counts.tolist(), past.weight) == ([total], weight)
    assert fading.add(counted({}), Repartitioning(), 64) is fading


def test_a_tail_in_other_buckets_keeps_its_weight_and_place() -> None:
    rng = np.random.default_rng(1)
    tail = rng.integers(0, 9, 2048)
    other = rebucketed(Histogram([1], [5], tail), 2100, 0)
    assert other.tail is not None
    assert other.total == int(tail.sum()) + 5
    half = np.cumsum(other.tail)[1049], np.cumsum(tail)[1023]
    assert abs(int(half[0]) - int(half[1])) <= 1


@pytest.mark.parametrize(
    ("horizon", "cost", "gain", "changed"),
    [(10, 1.0, 0.05, True), (1, 1.0, 0.05, True), (1, 100.0, 0.05, False), (10, 1.0, 0.5, False)],
)
def test_a_routing_is_taken_if_it_saves_more_than_its_migration_costs(
    horizon: int, cost: float, gain: float, changed: bool
) -> None:
    # Two keys of 100 rows on one of two workers: apart, the fullest worker has 100 of 200 rows less.
    keys = np.arange(1, 200, dtype=np.uint64)
    one, other = keys[Routing.hashing(2).route(keys) == 0][:2].tolist()
    rule = Repartitioning(memory=0.0, horizon=horizon, migration_cost=cost, min_gain=gain)
    past = Past().add(counted({one: 101, other: 99}, 2), rule, 64)
    fragments = (fragment(0, 0, 50),)
    decision = decide(OffGreedy(2, hot_keys=2), rule, past, Routing.hashing(2), fragments, 32)
    assert decision.gain_rows == pytest.approx(99)
    assert 1 <= decision.moved_keys <= 51
    assert decision.changed is changed
    expected = gain * 200 < 99 and horizon * 99 > cost * decision.moved_keys
    assert expected is changed


def test_a_first_plan_and_a_plan_for_other_workers_are_taken_as_they_are() -> None:
    rule = Repartitioning(migration_cost=1e9)
    first = decide(KIP(4), rule, Past(), None, (), 32)
    assert (first.routing, first.changed) == (Routing.hashing(4), True)
    past = Past().add(counted({5: 100, 6: 90}), rule, 64)
    other = decide(KIP(6), rule, past, first.routing, (fragment(0, 0, 10**6),), 32)
    assert (other.routing.n_workers, other.changed) == (6, True)
    assert other.reason == "4 workers became 6"
    assert set(other.routing.keys.tolist()) == {5, 6}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory": 1.0}, r"memory must be a float in \[0, 1\), got 1.0"),
        ({"last": 0}, "last must be an int of at least 1, got 0"),
        ({"horizon": 0}, "horizon must be an int of at least 1, got 0"),
        ({"migration_cost": -1}, "migration_cost must be a float of at least 0, got -1"),
        ({"min_gain": -0.1}, r"min_gain must be a float in \[0, 1\), got -0.1"),
    ],
)
def test_a_rule_out_of_range_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=f"Repartitioning: {sentence}"):
        Repartitioning(**options)


# -- files -------------------------------------------------------------------------------------------


def test_a_name_can_be_committed_once(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.commit("m/1.json", b"first")
    with pytest.raises(FileExistsError):
        storage.commit("m/1.json", b"second")
    assert storage.read("m/1.json") == b"first"
    assert storage.names("m") == ["1.json"]


def test_a_filesystem_without_links_commits_by_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", no_links)
    test_a_name_can_be_committed_once(tmp_path)


def test_a_folder_by_url_is_the_folder_by_path(tmp_path: Path) -> None:
    Storage(tmp_path).write("a/b", b"x")
    by_url = pickle.loads(pickle.dumps(Storage(tmp_path.as_uri())))  # noqa: S301 - our own
    assert by_url.read("a/b") == b"x"
    assert by_url.names("nowhere") == []
    by_url.delete("a/b")
    by_url.delete("a/b")
    assert Storage(tmp_path).names("a") == []


def test_a_filesystem_that_is_not_local_works_too(tmp_path: Path) -> None:
    from pyarrow import fs

    storage = Storage(tmp_path)
    storage._fs = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    storage._root, storage._local = "inner", False
    storage.write("a/b", b"x")
    storage.commit("m/1", b"1")
    with pytest.raises(FileExistsError):
        storage.commit("m/1", b"2")
    assert (storage.read("m/1"), storage.names("a")) == (b"1", ["b"])
    storage.delete_folder("a")
    assert storage.names("a") == []


def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(DataError, match="'nope://x' cannot be reached"):
        StateStore("nope://x")
