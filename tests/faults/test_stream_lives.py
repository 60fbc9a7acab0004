"""A windowed query that learns, and whose driver or executors are killed, loses and doubles nothing.

``python -m tests.faults.test_stream_lives FOLDER 50`` does it fifty times and prints the count.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.children import run
from tests.oracles import stream_windows as oracle
from tests.spark import streams

S = streams.SECOND_US


def live(folder: Path, seed: int, *more: str) -> int:
    """Run one life and return its exit code."""
    done = run("-m", "tests.faults.stream_life", folder, str(seed), *more, timeout_s=800)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def prepare(folder: Path, n_batches: int) -> list[list[Any]]:
    """Write the files, and return what must come out, sorted."""
    table = streams.rows(200 * n_batches, 2 * n_batches, seed=3)
    streams.write(folder / "in", table, n_batches)
    rows = streams.rows_of([table])
    (batch,) = rows
    found: dict[tuple[int, Any], list[Any]] = {}
    # All rows are in order: one batch, whose empty successor emits what the watermark has passed.
    for complete, _ in oracle.windows([batch], 4 * S, 2 * S, S):
        found.update(complete)
    return sorted((expected(at, values) for at, values in found.items()), key=repr)


def expected(at: tuple[int, Any], values: list[Any]) -> list[Any]:
    known = [value for value in values if value is not None]
    return [at[0] // S, at[1], len(values), sum(known) if known else None]


def outcome(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    found["rows"].sort(key=repr)
    return found


def die(folder: Path, times: int, n_batches: int) -> int:
    """Die so often, or until all files are read; then live on, compare, and return the deaths."""
    wanted = prepare(folder, n_batches)
    deaths, seed = 0, 1
    while deaths < times and live(folder, seed) != 0:
        deaths, seed = deaths + 1, seed + 1
    assert live(folder, 0) == 0
    assert outcome(folder)["rows"] == wanted
    return deaths


@pytest.mark.slow
def test_a_driver_killed_at_random_moments_emits_each_window_once(tmp_path: Path) -> None:
    assert die(tmp_path, 5, 60) >= 3


@pytest.mark.slow
def test_lost_executors_cost_no_row_of_a_stream(tmp_path: Path) -> None:
    wanted = prepare(tmp_path, 12)
    assert live(tmp_path, 0, "cluster") == 0
    found = outcome(tmp_path)
    assert found["rows"] == wanted
    assert found["killed"] >= 2
    assert found["version"] >= 1


if __name__ == "__main__":
    killed = die(Path(sys.argv[1]), int(sys.argv[2]), 40 + 4 * int(sys.argv[2]))
    print(f"killed {killed} times, every window as it must be")  # noqa: T201
