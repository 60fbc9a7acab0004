"""Stateful batches equal plain Python, whatever the policy, the workers, and the restarts."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import DataError, ParameterError
from skewless.partitioners import Hash, PoTC
from skewless.planners import KIP, Mixed, OffGreedy, Readj, Redist, Scan, WrapAround
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.state_store import Repartitioning, read_state
from skewless.state_store.job import batches as reported
from skewless.state_store.job import run_batch
from skewless.state_store.step import Receipt, Task, Timing
from skewless.state_store.update import read_update
from tests.oracles import stateful as oracle
from tests.unit.state_runs import (
    OUTPUT,
    STATES,
    Restless,
    by_key,
    fold,
    fold_arrow,
    here,
    job,
    run,
    stream,
)

SECOND = 1_000_000


def states_of(folder: Path, batch: int | None = None) -> dict[Any, dict[str, int]]:
    rows = read_state(folder, batch=batch).to_pylist()
    assert len({row["k"] for row in rows}) == len(rows)
    return {row["k"]: {"n": row["n"], "fold": row["fold"]} for row in rows}


POLICIES = [
    Hash(4),
    PoTC(4),
    KIP(4),
    OffGreedy(3),
    Scan(4),
    Redist(4),
    Readj(4),
    Mixed(4),
    Restless(5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_states_and_outputs_are_those_of_plain_python_under_any_policy(
    policy: Policy, tmp_path: Path
) -> None:
    batches = stream(1)
    expected, outputs, _ = oracle.run(batches, fold)
    found = run(job(tmp_path, policy=policy, rule=Repartitioning.always()), batches)
    assert states_of(tmp_path) == expected
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in outputs]


@pytest.mark.parametrize("seed", range(6))
def test_workers_buckets_and_policies_may_change_at_every_restart(
    seed: int, tmp_path: Path
) -> None:
    batches = stream(seed, n_batches=10)
    expected, outputs, _ = oracle.run(batches, fold)
    rng = np.random.default_rng(seed)
    found = []
    for i, rows in enumerate(batches):
        n, other = int(rng.integers(1, 9)), int(rng.integers(3))
        policy = [Restless(n, seed=int(rng.integers(3))), KIP(n), Hash(n, seed=1)][other]
        work = job(tmp_path, policy=policy, rule=Repartitioning.always())
        found += run(work, [rows], first=i)
    assert states_of(tmp_path) == expected
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in outputs]
    workers = {row["_worker"] for row in read_state(tmp_path).to_pylist()}
    assert workers <= set(range(n))


@pytest.mark.parametrize("form", ["timeout", "timer"])
@pytest.mark.parametrize("seed", range(4))
def test_late_rows_go_and_silent_keys_time_out_as_in_plain_python(
    form: str, seed: int, tmp_path: Path
) -> None:
    batches = stream(seed, n_batches=14, n_rows=25, n_keys=40)
    delay, timeout = SECOND // 2, 2 * SECOND

    def timed(key: Any, rows: Any, state: Any) -> Any:
        now, out = fold(key, rows if isinstance(rows, list) else _ints(rows), state)
        if now is not None:
            now["until"] = now["fold"] * 20
        return now, out

    def _ints(rows: pa.Table) -> list[dict[str, Any]]:
        whole = rows.set_column(1, "ts", rows.column("ts").cast(pa.int64()))
        return whole.to_pylist()

    def timed_arrow(key: Any, rows: pa.Table, state: Any) -> Any:
        now, out = timed(key, rows, state)
        return now, out

    schema = STATES.append(pa.field("until", pa.timestamp("us", "UTC")))
    extra = {"timer": "until"} if form == "timer" else {"timeout": timeout}
    expected, outputs, lates = oracle.run(batches, timed, delay=delay, **extra)
    timing = (
        Timing("ts", delay, None, "until")
        if form == "timer"
        else Timing("ts", delay, timeout, None)
    )
    work = job(
        tmp_path,
        update=timed_arrow,
        states=schema,
        timing=timing,
        policy=Restless(3),
        rule=Repartitioning.always(),
    )
    found = run(work, batches)
    assert states_of(tmp_path) == {
        key: {"n": state["n"], "fold": state["fold"]} for key, state in expected.items()
    }
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in outputs]
    records = reported(work.store)
    assert [record.late_rows for record in records] == lates
    assert sum(record.timeouts for record in records) > 3
    assert sum(lates) > 3


def test_the_vectorised_form_gives_what_the_form_per_key_gives(tmp_path: Path) -> None:
    def count(rows: pa.Table, slots: np.ndarray, states: pa.Table) -> Any:
        fresh = np.bincount(slots, minlength=states.num_rows)
        n = states.column("n").fill_null(0).to_numpy() + fresh
        total = states.column("fold").fill_null(0).to_numpy().copy()
        np.add.at(total, slots, rows.column("v").to_numpy())
        table = pa.table({"k": states.column("k"), "n": n, "fold": total})
        return table, table, n < 40

    def plain(key: Any, rows: list[Any], state: Any) -> Any:
        n = (state["n"] if state else 0) + len(rows)
        total = (state["fold"] if state else 0) + sum(row["v"] for row in rows)
        return ({"n": n, "fold": total} if n < 40 else None), [{"k": key, "n": n, "fold": total}]

    batches = stream(3)
    expected, outputs, _ = oracle.run(batches, plain)
    found = run(job(tmp_path, update=count, form="vectorised"), batches)
    assert states_of(tmp_path) == expected
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in outputs]


def test_a_pandas_update_sees_the_rows_of_its_key_in_order(tmp_path: Path) -> None:
    def in_pandas(key: Any, rows: Any, state: Any) -> Any:
        assert type(rows).__module__.startswith("pandas")
        assert list(rows.columns) == ["k", "ts", "v"]
        return fold(key, rows.to_dict("records"), state)

    batches = stream(4, n_batches=4)
    expected, _, _ = oracle.run(batches, fold)
    run(job(tmp_path, update=in_pandas), batches)
    assert states_of(tmp_path) == expected


def test_keys_whose_hashes_collide_keep_states_of_their_own(tmp_path: Path) -> None:
    batches = stream(5, n_batches=5)
    expected, _, _ = oracle.run(batches, fold)

    def alike(rows: list[Any]) -> Any:
        from skewless.state_store.step import run_step
        from tests.unit.state_runs import ROWS

        def execute(task: Task) -> Any:
            table = pa.Table.from_pylist(rows, schema=ROWS)
            hashes = np.array([len(row["k"] or "") for row in rows], np.uint64)  # 0, 2 or 3
            owner = task.routing.route(hashes)
            for worker in range(task.routing.n_workers):
                mine = owner == worker
                yield run_step(task, worker, table.filter(pa.array(mine)), hashes[mine])

        return execute

    work = job(tmp_path, policy=Restless(3), rule=Repartitioning.always())
    for batch, rows in enumerate(batches):
        run_batch(work, "q", batch, alike(rows))
    assert states_of(tmp_path) == expected


# -- versions ----------------------------------------------------------------------------------------


def test_the_last_batches_can_be_read_while_older_files_go(tmp_path: Path) -> None:
    batches = stream(6)
    work = job(tmp_path, keep=3)
    run(work, batches)
    for last in (5, 6, 7):
        expected, _, _ = oracle.run(batches[: last + 1], fold)
        assert states_of(tmp_path, last) == expected
    with pytest.raises(DataError, match="the states after batches 5, 6, 7 only, not batch 4"):
        read_state(tmp_path, batch=4)
    needed = set().union(*(work.store.read(v).files() for v in work.store.versions()))
    on_disk = {str(p.relative_to(tmp_path)) for p in tmp_path.glob("data/**/*.parquet")}
    assert on_disk == needed
    assert len(work.store.versions()) == 3


def test_a_batch_that_was_committed_gives_its_recorded_output_and_changes_nothing(
    tmp_path: Path,
) -> None:
    batches = stream(7, n_batches=3)
    work = job(tmp_path)
    first = run(work, batches)

    def forbidden(task: Task) -> list[Receipt]:
        raise AssertionError("a committed batch must not run again")

    again = run_batch(work, "q", 2, forbidden)
    assert again.batch == 2
    assert run(work, [batches[2]], first=2) == [first[2]]
    assert work.store.versions() == [1, 2, 3]


def test_only_touched_buckets_are_rewritten(tmp_path: Path) -> None:
    work = job(tmp_path, policy=Hash(2), buckets=64)
    run(work, stream(8, n_batches=1))
    before = work.store.of_batch()
    run(work, [[{"k": "w3", "ts": 0, "v": 1}]], first=1)
    after = work.store.of_batch()
    fresh = [f for f in after.fragments if any(d.version == 2 for d in f.files)]
    assert len(fresh) == 1
    assert len(before.fragments) > 10
    assert {f for f in after.fragments if f not in fresh} <= set(before.fragments)


def test_a_fragment_is_compacted_when_it_has_many_files(tmp_path: Path) -> None:
    work = job(tmp_path, policy=Hash(1), buckets=1, compact_after=3)
    kinds = []
    for batch in range(7):
        run(work, [[{"k": "a", "ts": 0, "v": 1}, {"k": f"b{batch}", "ts": 0, "v": 1}]], first=batch)
        (fragment,) = work.store.of_batch().fragments
        kinds.append([file.kind for file in fragment.files])
    one, two, three = ["delta"], ["delta"] * 2, ["delta"] * 3
    assert kinds == [
        one,
        two,
        three,
        ["base", "delta"],
        ["base", *two],
        ["base", "delta"],
        ["base", *two],
    ]
    assert states_of(tmp_path)["a"]["n"] == 7


def test_a_state_of_another_query_is_refused_and_can_be_adopted(tmp_path: Path) -> None:
    batches = stream(9, n_batches=4)
    run(job(tmp_path), batches[:2], query="one")
    with pytest.raises(DataError, match=r"another query \(one, up to batch 1\).*adopt=True"):
        run(job(tmp_path), batches[2:], query="two")
    run(job(tmp_path, adopt=True), batches[2:], query="two")
    assert states_of(tmp_path) == oracle.run(batches, fold)[0]


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (9, "checkpoint is at batch 9, but folder .* is only at batch 4"),
        (0, "asks for batch 0, but folder .* is at batch 4 and keeps no sound record of 0"),
    ],
)
def test_a_checkpoint_that_does_not_belong_to_the_state_is_refused(
    batch: int, sentence: str, tmp_path: Path
) -> None:
    batches = stream(9, n_batches=5)
    work = job(tmp_path)
    run(work, batches)
    with pytest.raises(DataError, match=sentence):
        run_batch(work, "q", batch, here(batches[0]))


def test_a_missing_state_folder_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"checkpoint is at batch 3, but folder .* holds no state"):
        run_batch(job(tmp_path / "gone"), "q", 3, here([]))


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part-0.csv").write_text("a,b")
    with pytest.raises(DataError, match=r"holds other files \(part-0.csv\).*folder of its own"):
        run(job(tmp_path), stream(1, n_batches=1))
    with pytest.raises(DataError, match="holds other files"):
        read_state(tmp_path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    batches = stream(1, n_batches=2)
    run(job(tmp_path), batches[:1])
    changed = pa.schema([("n", pa.int32()), ("fold", pa.int64())])
    with pytest.raises(DataError, match="n int64, fold int64, but the query has n int32"):
        run(job(tmp_path, states=changed), batches[1:], first=1)


def test_two_writers_on_one_folder_are_told_apart_at_the_commit(tmp_path: Path) -> None:
    batches = stream(2, n_batches=2)
    work = job(tmp_path)
    run(work, batches[:1])

    def overtaken(task: Task) -> Any:
        run_batch(job(tmp_path), "q", 1, here(batches[1]))
        return here(batches[1])(task)

    with pytest.raises(DataError, match="has another writer: version 2 was committed"):
        run_batch(work, "q", 1, overtaken)
    assert states_of(tmp_path) == oracle.run(batches, fold)[0]


# -- repartitioning ----------------------------------------------------------------------------------


def test_a_plan_that_splits_keys_is_refused_before_any_worker_runs(tmp_path: Path) -> None:
    work = job(tmp_path, policy=WrapAround(4))
    hot = [{"k": "w1", "ts": 0, "v": 1}] * 200
    run(work, [hot])
    with pytest.raises(DataError, match=r"the routing of WrapAround\(4\) splits keys"):
        run(work, [hot], first=1)


def test_kip_moves_the_hot_keys_apart_and_says_what_moved(tmp_path: Path) -> None:
    # Four hot keys of one worker under plain hashing.
    names = [f"w{i}" for i in range(400)]
    from skewless.keys import hash64

    owner = Routing.hashing(4).route(hash64(pa.array(names)))
    hot = [name for name, worker in zip(names, owner.tolist(), strict=True) if worker == 2][:4]
    batch = [{"k": k, "ts": 0, "v": 1} for k in hot for _ in range(30)]
    batch += [{"k": k, "ts": 0, "v": 1} for k in names[:40]]
    work = job(tmp_path, policy=KIP(4), rule=Repartitioning(migration_cost=0.1))
    run(work, [batch, batch, batch])
    first, second, third = reported(work.store)
    assert first.max_over_mean > 3
    assert (second.changed, third.changed) == (True, False)
    assert second.max_over_mean == third.max_over_mean < 1.3
    assert 0 < second.moved_keys < second.keys
    assert second.relative_migration == second.moved_keys / first.keys
    assert second.migration_ms > 0
    assert third.moved_keys == 0


def test_a_change_that_costs_more_than_it_gains_is_not_made(tmp_path: Path) -> None:
    batches = stream(3, n_batches=4)
    work = job(tmp_path, policy=KIP(4), rule=Repartitioning(migration_cost=1e9))
    run(work, batches)
    records = reported(work.store)
    assert [record.changed for record in records] == [True, False, False, False]
    assert any("costs more" in record.reason for record in records)


def test_what_is_learned_survives_a_restart(tmp_path: Path) -> None:
    batches = stream(3, n_batches=6)
    without = job(tmp_path / "a", policy=KIP(4))
    run(without, batches)
    for i, rows in enumerate(batches):
        run(job(tmp_path / "b", policy=KIP(4)), [rows], first=i)
    one, other = without.store.of_batch(), job(tmp_path / "b").store.of_batch()
    assert (one.routing, one.past) == (other.routing, other.past)


def test_records_say_what_each_worker_got(tmp_path: Path) -> None:
    batches = stream(3, n_batches=3)
    work = job(tmp_path, policy=KIP(4))
    run(work, batches)
    for record, rows in zip(reported(work.store), batches, strict=True):
        assert sum(record.loads) == record.rows == len(rows)
        assert len(record.loads) == 4


# -- what an update may not do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        (
            lambda key, rows, state: 1 / 0,
            r"raised ZeroDivisionError for key 'w1': division by zero",
        ),
        (lambda key, rows, state: None, r"must return \(state or None.*for key 'w1'"),
        (lambda key, rows, state: ({"n": 1}, None), r"returned the state \['n'\] for key 'w1'"),
        (
            lambda key, rows, state: ({"n": "many", "fold": 1}, None),
            r"key 'w1' whose 'n' is 'many', which is no int64",
        ),
        (
            lambda key, rows, state: (None, [{"k": "a", "n": 1}]),
            r"rows for key 'w1' that do not fit output_schema .*a row has \['k', 'n'\]",
        ),
        (
            lambda key, rows, state: (None, [{"k": "a", "n": "x", "fold": 1}]),
            r"rows for key 'w1' that do not fit output_schema",
        ),
        (
            lambda key, rows, state: (None, pa.table({"k": ["a"]})),
            r"rows for key 'w1' .*the columns are \['k'\]",
        ),
        (lambda key, rows, state: (None, "rows"), r"for key 'w1' .*str is no frame"),
    ],
)
def test_a_bad_answer_of_an_update_is_refused_with_its_key(
    update: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=sentence):
        run(job(tmp_path, update=update), [[{"k": "w1", "ts": 0, "v": 1}]])
    assert job(tmp_path).store.newest() is None


def test_the_original_error_stays_attached(tmp_path: Path) -> None:
    def fails(key: Any, rows: Any, state: Any) -> Any:
        raise KeyError("x")

    with pytest.raises(DataError) as caught:
        run(job(tmp_path, update=fails), [[{"k": "w1", "ts": 0, "v": 1}]])
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda s: s, r"must return \(states, output\)"),
        (lambda s: (s.slice(0, 0), None), "one state for each of the 1 keys"),
        (lambda s: (s.select(["k"]), None), "returned states with the columns"),
        (lambda s: (s, s.select(["k"])), "returned output with the columns"),
        (lambda s: (s, None, [1]), "must return kept as 1 bools"),
    ],
)
def test_a_bad_answer_of_a_vectorised_update_is_refused(
    answer: Any, sentence: str, tmp_path: Path
) -> None:
    work = job(tmp_path, update=lambda rows, slots, states: answer(states), form="vectorised")
    with pytest.raises(DataError, match=sentence):
        run(work, [[{"k": "w1", "ts": 0, "v": 1}]])


def test_an_update_of_another_shape_is_refused() -> None:
    with pytest.raises(DataError, match=r"takes \(key, rows, state\)"):
        read_update(lambda key, rows: None, "per_key", STATES, OUTPUT)
    with pytest.raises(ParameterError, match="form must be one of per_key, vectorised"):
        read_update(fold_arrow, "rows", STATES, OUTPUT)
    with pytest.raises(DataError, match="must be a function, got int"):
        read_update(3, "per_key", STATES, OUTPUT)


def test_rows_come_as_the_hint_says() -> None:
    def arrow(key: Any, rows: pa.Table, state: Any) -> Any: ...
    def pandas(key: Any, rows: Any, state: Any) -> Any: ...

    assert read_update(arrow, "per_key", STATES, OUTPUT).library == "arrow"
    assert read_update(pandas, "per_key", STATES, OUTPUT).library == "pandas"


def test_states_of_any_type_come_back_as_they_were_returned(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("map", pa.map_(pa.string(), pa.int64())),
            ("list", pa.list_(pa.float64())),
            ("struct", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
            ("decimal", pa.decimal128(12, 2)),
            ("date", pa.date32()),
            ("bytes", pa.binary()),
            ("none", pa.string()),
        ]
    )
    value = {
        "map": {"a": 1, "b": None},
        "list": [0.5, None],
        "struct": {"x": 3, "y": ["u", None]},
        "decimal": decimal.Decimal("12345.67"),
        "date": dt.date(2021, 5, 31),
        "bytes": b"\x00\xff",
        "none": None,
    }
    seen = []

    def keep(key: Any, rows: pa.Table, state: Any) -> Any:
        seen.append(state)
        return state or value, None

    work = job(tmp_path, update=keep, states=schema, policy=Restless(2), compact_after=2)
    run(work, [[{"k": "a", "ts": 0, "v": 1}]] * 5)
    assert seen == [None, value, value, value, value]


def test_an_empty_batch_and_an_empty_state_are_fine(tmp_path: Path) -> None:
    work = job(tmp_path)
    assert run(work, [[], [], *stream(1, n_batches=1), []])[-1] == []
    assert work.store.of_batch().batch == 3
    assert list(itertools.chain(states_of(tmp_path, 1))) == []
