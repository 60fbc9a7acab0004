"""Stateful streams on Spark: equal to plain Python over restarts, workers, policies and sinks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.errors import DataError, ParameterError
from skewless.state_store import Repartitioning
from tests.oracles import stateful as oracle
from tests.spark import streams
from tests.spark.test_readme import blocks

STATE, OUTPUT = "n bigint, fold bigint", "k string, n bigint, fold bigint"
Rows = list[dict[str, Any]]


def fold(key: tuple[Any, ...], rows: pa.Table, state: dict[str, Any] | None) -> Any:
    """A fold that depends on the order of a key's rows."""
    now = state or {"n": 0, "fold": 7}
    for value in rows.column("v").to_pylist():
        now = {"n": now["n"] + 1, "fold": (now["fold"] * 31 + (value or 0)) % 1_000_003}
    return now, [{"k": key[0], **now}]


def plain(key: Any, rows: Rows, state: Any) -> Any:
    table = pa.table({"v": [row["v"] for row in rows]})
    return fold((key,), table, state)


def batches_of(table: pa.Table, n_files: int) -> list[Rows]:
    edges = np.linspace(0, table.num_rows, n_files + 1).astype(int).tolist()
    whole = table.set_column(0, "ts", table.column("ts").cast(pa.int64())).to_pylist()
    return [whole[a:b] for a, b in pairwise(edges)]


def run(stateful: Any, folder: Path, sink: Callable[[DataFrame, int], Any] | None = None) -> None:
    """Run what there is in the source, then stop."""
    writer = stateful.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    query = writer.foreachBatch(sink).start() if sink else writer.start(str(folder / "out"))
    try:
        assert query.awaitTermination(240)
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()


def states(frame: DataFrame) -> dict[Any, dict[str, int]]:
    return {row["k"]: {"n": row["n"], "fold": row["fold"]} for row in frame.collect()}


def test_states_and_outputs_are_those_of_plain_python_over_restarts_with_other_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = streams.rows(600, 12)
    batches = batches_of(table, 4)
    edges = [0, *np.cumsum([len(rows) for rows in batches]).tolist()]
    source = tmp_path / "in"
    for turn, (first, last, policy) in enumerate(
        [(0, 2, skewless.KIP(3)), (2, 4, skewless.OffGreedy(2))]
    ):
        part = table.slice(edges[first], edges[last] - edges[first])
        streams.write(source, part, last - first, first)
        groups = skewless.group_by(
            streams.stream(spark, source), "k", policy=policy, state=str(tmp_path / "state")
        )
        stateful = groups.stateful(
            fold, STATE, OUTPUT, order_by="ts", repartition=Repartitioning.always()
        )
        run(stateful, tmp_path)
        assert len(stateful.batches) == 2 * (turn + 1)
    expected, outputs, _ = oracle.run(batches, plain)
    assert states(stateful.state()) == expected
    found = spark.read.parquet(str(tmp_path / "out"))
    for batch, rows in enumerate(outputs):
        mine = [r.asDict() for r in found.where(F.col("batch") == batch).drop("batch").collect()]
        assert sorted(mine, key=repr) == sorted(rows, key=repr)
    last = stateful.batches[-1]
    assert (len(last.loads), sum(last.loads)) == (2, len(batches[3]))
    third = stateful.batches[2]
    assert third.reason == "3 workers became 2"
    assert 0 < third.relative_migration <= 1
    assert "policy: OffGreedy(2)" in stateful.explain()
    assert stateful.state(2).count() <= stateful.state(3).count()


def test_sessions_close_when_their_timer_passes_the_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("a", 1, 1), ("a", 5, 2), ("b", 6, 3), ("a", 40, 4), ("c", 90, 5), ("d", 200, 6)]
    table = pa.table(
        {
            "ts": pa.array([t * 1_000_000 for _, t, _ in rows], pa.timestamp("us", "UTC")),
            "k": [k for k, _, _ in rows],
            "v": pa.array([v for _, _, v in rows], pa.int64()),
            "x": pa.array([0.0] * len(rows)),
        }
    )
    streams.write(tmp_path / "in", table, 6)

    def session(key: Any, rows: Any, state: Any) -> Any:
        if len(rows) == 0:
            return None, [{"k": key[0], "n": state["n"], "fold": -1}]
        return {"n": (state["n"] if state else 0) + len(rows), "fold": 0}, None

    stateful = skewless.group_by(
        streams.stream(spark, tmp_path / "in"),
        "k",
        policy="kip",
        workers=2,
        state=str(tmp_path / "s"),
    ).stateful(session, STATE, OUTPUT, time="ts", watermark="0 seconds", timeout="10 seconds")
    seen: list[tuple[int, Any]] = []
    run(
        stateful,
        tmp_path,
        lambda frame, batch: seen.extend((batch, (r["k"], r["n"])) for r in frame.collect()),
    )
    # The watermark of a batch is the latest time before it: 40 s closes what ended by 30 s, one later.
    assert sorted(seen) == [(4, ("b", 1)), (5, ("a", 3))]
    assert sorted(states(stateful.state())) == ["c", "d"]


def test_a_batch_whose_sink_failed_is_handed_over_again_from_its_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams.write(tmp_path / "in", streams.rows(200, 5), 2)
    calls: list[int] = []
    got: dict[int, list[Any]] = {}

    def stateful() -> Any:
        groups = skewless.group_by(
            streams.stream(spark, tmp_path / "in"),
            "k",
            policy=skewless.Hash(2),
            state=str(tmp_path / "s"),
        )
        return groups.stateful(count, STATE, OUTPUT, form="vectorised")

    def count(rows: pa.Table, slots: Any, states: pa.Table) -> Any:
        n = states.column("n").fill_null(0).to_numpy() + np.bincount(slots, minlength=len(states))
        table = pa.table({"k": states.column("k"), "n": n, "fold": n})
        return table, table

    def sink(frame: DataFrame, batch: int) -> None:
        calls.append(batch)
        got[batch] = frame.collect()
        if calls == [0, 1]:
            raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        run(stateful(), tmp_path, sink)
    first = dict(got)
    run(stateful(), tmp_path, sink)
    assert calls == [0, 1, 1]
    assert sorted(got[1], key=repr) == sorted(first[1], key=repr)
    assert sum(row["n"] for row in stateful().state().collect()) == 200
    assert [record.batch for record in stateful().batches] == [0, 1]


def test_a_function_that_raises_names_the_key_and_its_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams.write(tmp_path / "in", streams.rows(50, 5), 1)

    def fails(key: Any, rows: Any, state: Any) -> Any:
        raise ValueError("no good")

    stateful = skewless.group_by(
        streams.stream(spark, tmp_path / "in"),
        "k",
        policy="hash",
        workers=2,
        state=str(tmp_path / "s"),
    ).stateful(fails, STATE, OUTPUT)
    with pytest.raises(Exception, match=r"stateful: fails raised ValueError for key .*: no good"):
        run(stateful, tmp_path, lambda frame, batch: None)
    assert stateful.batches == []


@pytest.mark.parametrize(
    ("policy", "options", "error", "sentence"),
    [
        (skewless.WrapAround(4), {}, ParameterError, r"WrapAround\(4\) splits keys.*use KIP"),
        (skewless.PKG(4), {}, ParameterError, r"PKG\(4\) splits keys"),
        (skewless.Routing.shuffling(4), {}, ParameterError, "splits keys"),
        ("local", {}, ParameterError, "'local' gives keys no owner"),
        ("kip", {"form": "rows"}, ParameterError, "form must be one of"),
        ("kip", {"timeout": "5 seconds"}, ParameterError, "give both or none"),
        ("kip", {"time": "ts"}, ParameterError, "give both or none"),
        ("kip", {"time": "v", "watermark": "1 second"}, DataError, "'v' must be a timestamp"),
        (
            "kip",
            {"time": "ts", "watermark": "1 second", "timer": "n"},
            DataError,
            "timer='n' must name a timestamp column",
        ),
        ("kip", {"order_by": "tz"}, DataError, "column 'tz' is not in the frame"),
        ("kip", {"keep": 0}, ParameterError, "keep must be an int of at least 1, got 0"),
        ("kip", {"repartition": 3}, ParameterError, "must be a Repartitioning"),
    ],
)
def test_bad_input_is_refused_before_a_query_starts(
    policy: Any,
    options: dict[str, Any],
    error: type[Exception],
    sentence: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    stream = streams.stream(spark, tmp_path / "in")
    workers = 4 if isinstance(policy, str) else None
    groups = skewless.group_by(
        stream, "k", policy=policy, workers=workers, state=str(tmp_path / "s")
    )
    with pytest.raises(error, match=sentence):
        groups.stateful(fold, STATE, OUTPUT, **options)


def test_missing_and_foreign_folders_schemas_and_sinks_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "policy-000000001.json").write_text("{}")
    stream = streams.stream(spark, tmp_path / "in")
    with pytest.raises(ParameterError, match=r"give group_by\(\.\.\., state=\.\.\.\)"):
        skewless.group_by(stream, "k").stateful(fold, STATE, OUTPUT)
    foreign = skewless.group_by(stream, "k", state=str(tmp_path / "other"))
    with pytest.raises(DataError, match="holds other files"):
        foreign.stateful(fold, STATE, OUTPUT)
    groups = skewless.group_by(stream, "k", workers=2, state=str(tmp_path / "s"))
    with pytest.raises(DataError, match="none named like a key"):
        groups.stateful(fold, "k string", OUTPUT)
    with pytest.raises(DataError, match="takes \\(key, rows, state\\)"):
        groups.stateful(lambda rows: rows, STATE, OUTPUT)
    stateful = groups.stateful(fold, STATE, OUTPUT)
    with pytest.raises(ParameterError, match="checkpointLocation"):
        stateful.writeStream.start(str(tmp_path / "out"))
    writer = stateful.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(ParameterError, match="one of them"):
        writer.start()


def test_two_queries_on_one_state_folder_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    streams.write(tmp_path / "in", streams.rows(60, 5), 1)
    groups = skewless.group_by(
        streams.stream(spark, tmp_path / "in"),
        "k",
        policy="hash",
        workers=2,
        state=str(tmp_path / "s"),
    )
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    run(groups.stateful(fold, STATE, OUTPUT), tmp_path / "one")
    with pytest.raises(Exception, match="holds the state of another query"):
        run(groups.stateful(fold, STATE, OUTPUT), tmp_path / "two")


@pytest.mark.slow
def test_every_example_of_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "stateful.md"
    rows = [("a", 1, 0.0, 1.0), ("b", 2, 1.0, 3.0), ("a", 1, 1.0, 3.0), ("a", 9, 2.0, 5.0)]
    table = pa.table(
        {
            "ts": pa.array([i * 1_000_000 for i in range(4)], pa.timestamp("us", "UTC")),
            "user": [row[0] for row in rows],
            "event": [f"e{row[1]}" for row in rows],
            "x": [row[2] for row in rows],
            "y": [row[3] for row in rows],
        }
    )
    streams.write(tmp_path / "in", table, 1)
    schema = "ts timestamp, user string, event string, x double, y double"
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    names: dict[str, Any] = {
        "stream": stream,
        "clicks": stream,  # the three jobs are run in test_readme.py
        "links": stream.selectExpr("user AS host", "event AS url"),
        "pages": stream.selectExpr("user AS host", "event AS text"),
    }
    source = "\n".join(blocks(page)).replace("/shared", str(tmp_path))
    source = source.replace("counted.state()", "query.awaitTermination(); counted.state()")
    exec(compile(source, str(page), "exec"), names)  # noqa: S102 - our own page
    assert {(r.user, r.total) for r in names["counted"].state().collect()} == {("a", 3), ("b", 1)}
    found: dict[str, list[Any]] = {}
    for name in ("sessions", "unique", "models"):
        folder = tmp_path / f"run-{name}"
        folder.mkdir()
        run(names[name], folder, lambda frame, _, name=name: found.update({name: frame.collect()}))
    assert sorted(row.event for row in found["unique"]) == ["e1", "e2", "e9"]
    assert {(r.user, r.clicks) for r in names["sessions"].state().collect()} == {("a", 3), ("b", 1)}
    a, b = 0.0, 0.0
    for _, _, x, y in [row for row in rows if row[0] == "a"]:
        error = a * x + b - y
        a, b = a - 0.1 * error * x, b - 0.1 * error
    of_a = names["models"].state().where("user = 'a'").first()
    assert of_a is not None
    assert list(of_a.weights) == pytest.approx([a, b])
