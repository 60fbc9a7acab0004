"""A stateful query on Spark whose driver is killed loses and doubles nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from skewless.state_store import read_state
from tests.oracles import stateful as oracle
from tests.spark import streams
from tests.spark.test_stateful import batches_of, plain

ROOT = Path(__file__).parents[2]
N_BATCHES = 4
DEATHS = [("between write and commit", 2), ("after commit", 1), ("before collection", 1)]


@pytest.mark.slow
def test_a_query_whose_driver_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    table = streams.rows(200, 8)
    streams.write(tmp_path / "in", table, N_BATCHES)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for point, nth in [*DEATHS, ("none", 0)]:
        life = [
            sys.executable,
            "-m",
            "tests.faults.state_spark_life",
            str(tmp_path),
            point,
            str(nth),
        ]
        done = subprocess.run(
            life,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == (-signal.SIGKILL if nth else 0), done.stderr[-3000:]
    expected, outputs, _ = oracle.run(batches_of(table, N_BATCHES), plain)
    rows = read_state(tmp_path / "state").to_pylist()
    assert len(rows) == len(expected)
    assert {row["k"]: {"n": row["n"], "fold": row["fold"]} for row in rows} == expected
    for batch, wanted in enumerate(outputs):
        found = pq.read_table(tmp_path / "out" / f"batch={batch}", partitioning=None).to_pylist()
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
