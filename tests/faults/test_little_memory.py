"""A hot key of a million rows goes through every verb in 512 MB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.children import run

SCRIPT = Path(__file__).with_name("little_memory.py")


@pytest.mark.slow
def test_a_million_rows_of_one_key_go_through_512_mb(tmp_path: Path) -> None:
    done = run(SCRIPT, tmp_path, timeout_s=800)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found.pop("heap_mb") <= 512
    n = 1_000_000
    assert found == {
        "window": n * (n - 1) // 2,
        "top_n": [0, 1, 2],
        "dedupe": 0,
        "aggregate": n,
        "join": n,
        "repartition": n,
    }
