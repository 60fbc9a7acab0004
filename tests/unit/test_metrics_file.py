"""The metrics file: one writer, readers that may come at any moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skewless.errors import DataError, ParameterError
from skewless.operations import BatchMetrics, MetricsFile, Tail


def metrics(batch: int) -> BatchMetrics:
    return BatchMetrics(batch, 1, 3, (1, 2))


def ids(batches: list[BatchMetrics]) -> list[int]:
    return [one.batch for one in batches]


def test_batches_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for batch in (0, 1, 2, 1):
        file.append(metrics(batch))
    assert ids(file.read().batches) == [0, 1, 2, 1]
    assert ids(file.read(last=2).batches) == [2, 1]
    assert file.read() == file.read(last=99)


def test_a_run_that_ended_says_so_until_another_begins(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.append(metrics(0))
    assert file.read().ended is None
    file.end("run-1", "out of memory")
    assert file.read().ended == ("run-1", "out of memory")
    tail = Tail(file)
    tail.update()
    assert tail.ended == ("run-1", "out of memory")
    file.append(metrics(1))
    tail.update()
    assert tail.ended is None
    assert file.read().ended is None
    file.end("run-2")
    tail.update()
    assert tail.ended == ("run-2", None)


def test_damaged_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.append(metrics(0))
    with file.path.open("ab") as raw:
        raw.write(b'{"batch": 1}\n\xff\xfe\n[1, 2]\nnull\n' + b"[" * 100_000 + b"\n")
    file.append(metrics(2))
    found = file.read()
    assert (ids(found.batches), found.damaged) == ([0, 2], 5)


def test_half_a_line_of_a_killed_writer_costs_that_line_only(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.append(metrics(0))
    with file.path.open("ab") as raw:
        raw.write(metrics(1).to_line().encode()[:20])
    tail = Tail(file)
    assert ids(tail.update()) == [0]  # half a line may be a whole one in a moment
    assert tail.damaged == 0
    file.append(metrics(2))
    assert ids(tail.update()) == [2]
    assert tail.damaged == 1


def test_a_full_file_becomes_the_old_one(tmp_path: Path) -> None:
    size = len(metrics(0).to_line()) + 1
    file = MetricsFile(tmp_path, max_bytes=3 * size)
    for batch in range(10):
        file.append(metrics(batch))
    # A file is full when it holds more than three lines.
    assert ids(file.read().batches) == [4, 5, 6, 7, 8, 9]
    assert {path.name for path in tmp_path.iterdir()} == {"batches.jsonl", "batches.old.jsonl"}


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_misses_nothing_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = len(metrics(0).to_line()) + 1
    file = MetricsFile(tmp_path, max_bytes=5 * size)
    tail, seen, written = Tail(file), [], 0
    for _ in range(60):
        for _ in range(int(rng.integers(0, 5))):
            file.append(metrics(written % 10))
            written += 1
        seen += ids(tail.update())
    assert seen == [batch % 10 for batch in range(written)]
    assert tail.damaged == 0


def test_a_follower_waits_for_the_file_and_survives_its_loss(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    tail = Tail(file, keep=2)
    assert tail.update() == []
    for batch in range(3):
        file.append(metrics(batch))
    assert ids(tail.update()) == [0, 1, 2]
    assert ids(list(tail.batches)) == [1, 2]
    file.path.unlink()
    assert tail.update() == []
    file.append(metrics(3))
    assert ids(tail.update()) == [3]


def test_a_folder_without_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^metrics: folder .* holds no batches.jsonl; give"):
        MetricsFile(tmp_path).read()
    with pytest.raises(ParameterError, match=r"^MetricsFile: last must be an int of at least 1"):
        MetricsFile(tmp_path).read(last=0)
    with pytest.raises(ParameterError, match=r"^MetricsFile: max_bytes must be an int of at least"):
        MetricsFile(tmp_path, max_bytes=0)
