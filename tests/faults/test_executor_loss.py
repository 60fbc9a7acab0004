"""A split survives the loss of an executor: reruns of map tasks send every row where it went before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.children import run

SCRIPT = Path(__file__).with_name("executor_loss.py")


def lose(folder: Path, rounds: int, behind_shuffle: str) -> list[dict[str, object]]:
    done = run(SCRIPT, folder, str(rounds), behind_shuffle, timeout_s=800)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, object]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_an_executor_lost_between_map_and_reduce_costs_no_row(tmp_path) -> None:
    assert lose(tmp_path, 1, "no") == [{"killed": 1, "exact": True, "workers_of_hot": 4}]


@pytest.mark.slow
@pytest.mark.parametrize("behind_shuffle", ["no", "yes"])
def test_ten_lost_executors_out_of_ten_cost_no_row(tmp_path, behind_shuffle) -> None:
    expected = {"killed": 1, "exact": True, "workers_of_hot": 4}
    assert lose(tmp_path, 10, behind_shuffle) == [expected] * 10
