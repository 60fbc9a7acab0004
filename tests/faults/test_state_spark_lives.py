"""A stateful query on Spark whose driver is killed loses and doubles nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from skewless.state_store import read_state
from tests.faults.children import run
from tests.oracles import stateful as oracle
from tests.spark import streams
from tests.spark.test_stateful import batches_of, plain

N_BATCHES = 4
DEATHS = [("between write and commit", 2), ("after commit", 1), ("before collection", 1)]


@pytest.mark.slow
def test_a_query_whose_driver_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    table = streams.rows(200, 8)
    streams.write(tmp_path / "in", table, N_BATCHES)
    for point, nth in [*DEATHS, ("none", 0)]:
        module = "tests.faults.state_spark_life"
        done = run("-m", module, tmp_path, point, str(nth), timeout_s=280)
        assert done.returncode == (-signal.SIGKILL if nth else 0), done.stderr[-3000:]
    expected, outputs, _ = oracle.run(batches_of(table, N_BATCHES), plain)
    rows = read_state(tmp_path / "state").to_pylist()
    assert len(rows) == len(expected)
    assert {row["k"]: {"n": row["n"], "fold": row["fold"]} for row in rows} == expected
    for batch, wanted in enumerate(outputs):
        found = pq.read_table(tmp_path / "out" / f"batch={batch}", partitioning=None).to_pylist()
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
