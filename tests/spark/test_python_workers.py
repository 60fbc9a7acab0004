"""What a Python worker has loaded is kept from the garbage collector after its first task."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa

from skewless.spark import functions
from skewless.spark.python_workers import keep_loaded, map_batches

TASKS = 24


def test_a_worker_keeps_what_it_has_loaded_from_its_second_task_on(spark) -> None:
    def look(parts):
        import os

        for part in parts:
            n = part.num_rows
            yield pa.RecordBatch.from_pydict(
                {"pid": [os.getpid()] * n, "frozen": [gc.get_freeze_count()] * n}
            )

    df = spark.range(0, TASKS, 1, TASKS)
    found = map_batches(df, look, "pid bigint, frozen bigint").collect()
    assert len(found) == TASKS
    tasks_of = {}
    for row in found:
        tasks_of.setdefault(row["pid"], []).append(row["frozen"])
    several = [frozen for frozen in tasks_of.values() if len(frozen) > 1]
    assert several, "more tasks than slots"
    assert all(sum(count > 0 for count in frozen) >= len(frozen) - 1 for frozen in several)


def test_a_later_task_s_cycles_are_still_collected(spark) -> None:
    def cycles(parts):
        class Node:
            pass

        for part in parts:
            node = Node()
            node.me = node
            gone = weakref.ref(node)
            del node
            gc.collect()
            yield pa.RecordBatch.from_pydict({"gone": [gone() is None] * part.num_rows})

    df = spark.range(0, TASKS, 1, TASKS)
    assert all(row["gone"] for row in map_batches(df, cycles, "gone boolean").collect())


def test_the_driver_is_left_alone() -> None:
    keep_loaded()
    keep_loaded()
    assert gc.get_freeze_count() == 0


def test_a_function_over_groups_is_called_with_it(monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(functions, "keep_loaded", lambda: calls.append("kept"))
    whole = functions.read_function("apply", lambda rows: rows, None)
    assert whole.run("apply", (1,), "rows") == "rows"
    parts = functions.read_function("apply", lambda parts: parts, "arrow_batches")
    assert list(parts.batches("apply", (1,), iter(["one", "two"]))) == ["one", "two"]
    assert calls == ["kept", "kept"]
