"""Planned batches without Spark: blocks, reduce buckets and window state, over crashes and restarts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.histogram import Histogram
from skewless.keys import hash64
from skewless.planners import Prompt, WrapAround
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.blocks import BUCKET, END, HASH, LATEST, TUPLES, Block, References
from skewless.spark.pane_states import PaneStates
from skewless.spark.pane_step import DUE, WindowStep, state_schema
from skewless.spark.pane_windows import Clock, Spans
from skewless.state_store import Repartitioning, StateStore, fragments
from skewless.state_store.fragments import read_file
from skewless.state_store.job import Job, run_batch
from skewless.state_store.repartitioning import Past
from skewless.state_store.step import Receipt, Task, Timing, run_step
from skewless.state_store.update import Update
from tests.oracles import reduce_buckets as buckets_oracle
from tests.oracles import stream_windows as oracle
from tests.spark import streams
from tests.unit.multiset import Multiset

S = streams.SECOND_US
SIZE, SLIDE, DELAY = 10 * S, 4 * S, 3 * S
SPANS = Spans(SIZE, SLIDE, 2 * S)
STAMP = pa.timestamp("us", "UTC")
KEYS = pa.schema([("k", pa.string())])
STATE = pa.schema(
    [
        ("n", pa.int64()),
        ("counts", pa.list_(pa.struct([("value", pa.int64()), ("times", pa.int64())]))),
    ]
)
RESULT = pa.schema([("n_rows", pa.int64()), ("values", pa.list_(pa.int64()))])
PARTIAL = pa.schema([*KEYS, (END, pa.int64()), (LATEST, STAMP), (TUPLES, pa.int64()), *STATE])
LAYOUT = pa.schema(
    [(BUCKET, pa.int32()), *KEYS]
    + [(name, pa.int64()) for name in (END, LATEST, TUPLES)]
    + list(STATE)
)
WINDOW = pa.struct([("start", STAMP), ("end", STAMP)])
OUTPUT = pa.schema([("window", WINDOW), *KEYS, *RESULT])


def multiset() -> Multiset:
    made = Multiset()
    made.state_schema, made.result_schema = STATE, RESULT
    return made


def step() -> WindowStep:
    states = PaneStates(multiset(), STATE.names, {"n": "int"})
    assert states.invertible
    return WindowStep(states, SPANS, KEYS.names, OUTPUT)


def job(folder: Path, reducers: int, **options: Any) -> Job:
    update = Update(step(), "vectorised", "arrow", state_schema(multiset()), OUTPUT)
    return Job(
        StateStore(folder),
        KEYS,
        PARTIAL,
        update,
        Routing.hashing(reducers),
        Timing(LATEST, DELAY, timer=DUE, drops=False),
        Repartitioning(memory=0.0),
        counted=TUPLES,
        **{"buckets": 8, "keep": 3, "compact_after": 2, **options},
    )


class Run:
    """Batches of a query, each planned by a policy, in this process; `seen` keeps what they did."""

    def __init__(self, work: Job, policy: Policy, *, updates: bool = False) -> None:
        self.work, self.policy, self.updates = work, policy, updates
        self.seen: list[dict[str, Any]] = []

    def batch(self, number: int, table: pa.Table) -> dict[tuple[int, Any], Any]:
        """Run a batch; return its windows."""
        manifest = run_batch(self.work, "q", number, self.execute(table))
        tables = [read_file(self.work.store.storage, file) for file in manifest.output]
        found = {}
        for row in pa.concat_tables([OUTPUT.empty_table(), *tables]).to_pylist():
            start, end = (round(row["window"][at].timestamp() * S) for at in ("start", "end"))
            assert end - start == SIZE
            assert (end, row["k"]) not in found
            found[end, row["k"]] = row["n_rows"], row["values"]
        return found

    def execute(self, table: pa.Table) -> Any:
        def execute(task: Task) -> Iterable[Receipt]:
            clock = Clock(task.late_us or 0, task.watermark_us or 0)
            rows = table.filter(table["ts"].is_valid())
            stamps = rows["ts"].cast(pa.int64()).to_numpy()
            open_ = stamps // SPANS.pane * SPANS.pane + SPANS.pane > SPANS.needed_after(clock.late)
            rows = rows.filter(pa.array(open_))
            hashes = hash64(rows["k"].combine_chunks())
            routing = self.policy.learn(Histogram.of(hashes))
            owner = routing.route(hashes)
            rows = rows.append_column(HASH, pa.array(hashes.view(np.int64)))
            blocks = []
            for number in range(routing.n_workers):
                block = Block(
                    multiset(),
                    ("v",),
                    KEYS.names,
                    "ts",
                    SPANS.pane,
                    References.of(routing),
                    task.routing.n_workers,
                    self.policy.seed,
                    LAYOUT,
                )
                mine = rows.filter(pa.array(owner == number)).select(block.columns())
                parts = list(block(iter(mine.to_batches(max_chunksize=50))))
                blocks.append(pa.Table.from_batches(parts, schema=LAYOUT))
            self.seen.append({"hashes": hashes, "owner": owner, "plan": routing, "blocks": blocks})
            partial = pa.concat_tables(blocks)
            latest = partial[LATEST].cast(pa.timestamp("us")).cast(STAMP)
            partial = partial.set_column(partial.column_names.index(LATEST), LATEST, latest)
            update = task.update._replace(call=task.update.call.at(clock, updates=self.updates))
            hashed = hash64(partial["k"].combine_chunks())
            at = task.routing.route(hashed)
            for worker in range(task.routing.n_workers):
                own = at == worker
                mine = partial.filter(pa.array(own)).select(PARTIAL.names)
                yield run_step(task._replace(update=update), worker, mine, hashed[own])

        return execute


def result(values: list[object]) -> tuple[int, list[object]]:
    return len(values), sorted(v for v in values if v is not None)


def expected(tables: list[pa.Table], *, updates: bool = False) -> list[dict[Any, Any]]:
    found = oracle.windows(streams.rows_of(tables), SIZE, SLIDE, DELAY)
    return [
        {at: result(values) for at, values in (updated if updates else complete).items()}
        for complete, updated in found
    ][: len(tables)]


@pytest.mark.parametrize("updates", [False, True], ids=["append", "update"])
@pytest.mark.parametrize("seed", range(3))
def test_windows_are_those_of_the_reference_over_restarts_with_other_blocks_and_reducers(
    seed: int, updates: bool, tmp_path: Path
) -> None:
    tables = streams.unruly(seed, n_batches=7, n_rows=200)
    found = []
    for number, table in enumerate(tables):
        if number % 2 == 0:
            policy = [Prompt(4), WrapAround(2), Prompt(3, hot_keys=2), Prompt(1)][number // 2]
            query = Run(job(tmp_path, 1 + (number + seed) % 3), policy, updates=updates)
            fragments._cache = fragments._Cache(2**20)  # as a new process has it
        found.append(query.batch(number, table))
    assert found == expected(tables, updates=updates)
    assert sum(map(len, found)) > 50


@pytest.mark.parametrize("n", [1, 3, 5])
def test_blocks_and_buckets_of_a_batch_are_those_of_the_planner_alone(
    n: int, tmp_path: Path
) -> None:
    reducers = 4
    query = Run(job(tmp_path, reducers), Prompt(n))
    for number, table in enumerate(streams.unruly(5, n_batches=3)):
        query.batch(number, table)
    for seen in query.seen:
        counts = Histogram.of(seen["hashes"])
        plan = Prompt(n).plan(counts)
        assert seen["plan"] == plan
        loads = np.bincount(seen["owner"], minlength=n)
        # A split key is dealt in turn, and each turn is a 64th of a fragment at most.
        assert np.abs(loads - plan.loads(counts)).max() <= 1 + counts.total / 64
        assert loads.max() <= 1.1 * loads.mean()
        split = set(plan.split_keys.tolist())
        assert bool(split) == (n > 1)
        for number, block in enumerate(seen["blocks"]):
            keys, sizes = np.unique(seen["hashes"][seen["owner"] == number], return_counts=True)
            clusters = dict(zip(keys.tolist(), sizes.tolist(), strict=True))
            assert sum(clusters.values()) == sum(block[TUPLES].to_pylist()) == loads[number]
            wanted = buckets_oracle.reduce_buckets(clusters, split, reducers)
            hashes = hash64(block["k"].combine_chunks()).tolist()
            pairs = zip(hashes, block[BUCKET].to_pylist(), strict=True)
            assert set(pairs) == set(wanted.items())
        # A split key is put together in one place, whoever dealt it.
        whole = pa.concat_tables(seen["blocks"])
        places: dict[Any, set[int]] = {}
        for key, bucket in zip(whole["k"].to_pylist(), whole[BUCKET].to_pylist(), strict=True):
            places.setdefault(key, set()).add(bucket)
        assert {len(each) for each in places.values()} == {1}


class Died(BaseException):
    """What a hook raises in place of a kill."""


POINTS = ["before write", "after write", "before commit", "between write and commit"]
POINTS += ["after commit", "before collection", "in collection"]


@pytest.mark.parametrize("point", POINTS)
def test_a_batch_that_dies_and_comes_again_counts_once(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = streams.unruly(3, n_batches=6, n_rows=150)
    before = Run(job(tmp_path, 2), Prompt(3))
    found = [before.batch(number, table) for number, table in enumerate(tables[:4])]

    def die(reached: str) -> None:
        if reached == point:
            raise Died

    monkeypatch.setattr("skewless.state_store.faults.hook", die)
    with pytest.raises(Died):
        before.batch(4, tables[4])
    monkeypatch.setattr("skewless.state_store.faults.hook", None)
    after = Run(job(tmp_path, 2), Prompt(2))
    version = after.work.store.newest().version
    found.append(after.batch(4, tables[4]))
    again = after.batch(4, tables[4])
    # Once it is committed, nothing of it runs again: its record is handed over.
    assert len(after.seen) == (0 if point in POINTS[4:] else 1)
    assert again == found[4]
    assert after.work.store.newest().version == version + len(after.seen)
    found.append(after.batch(5, tables[5]))
    assert found == expected(tables)


def test_the_reducers_count_the_batch_for_the_plan_of_the_next(tmp_path: Path) -> None:
    query = Run(job(tmp_path, 2), Prompt(2))
    for number, table in enumerate(streams.unruly(8, n_batches=3)):
        query.batch(number, table)
        known = Past.load(query.work.store.newest().past).total()
        counts = Histogram.of(query.seen[-1]["hashes"])
        assert known is not None
        assert dict(zip(known.keys.tolist(), known.counts.tolist(), strict=True)) == dict(
            zip(counts.keys.tolist(), counts.counts.tolist(), strict=True)
        )
        assert Prompt(2).plan(known) == query.seen[-1]["plan"]


def test_keys_are_forgotten_once_no_window_needs_them(tmp_path: Path) -> None:
    tables = streams.unruly(2, n_batches=3)
    query = Run(job(tmp_path, 2), Prompt(2))
    for number, table in enumerate(tables):
        query.batch(number, table)
    assert query.work.store.newest().n_keys > 10
    far = pa.table(
        {
            "ts": pa.array([9_000 * S], STAMP),
            "k": ["k1"],
            "v": pa.array([1], pa.int64()),
            "x": [0.0],
        }
    )
    query.batch(3, far)  # its time is known to the next batch
    query.batch(4, far)
    assert query.work.store.newest().n_keys == 1
