"""``skewless simulate``: the table and the file that it writes, and errors in words."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from skewless.cli import app
from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from skewless.keys import hash64
from skewless.partitioners import PKG
from skewless.simulator import simulate


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)], catch_exceptions=True)


@pytest.fixture
def clicks(tmp_path):
    users = pa.array([f"u{i}" for i in np.random.default_rng(0).zipf(1.5, 2_000) % 50])
    table = pa.table({"user": users, "n": range(2_000)})
    pq.write_table(table, tmp_path / "clicks.parquet")
    csv.write_csv(table, tmp_path / "clicks.csv")
    return tmp_path


def test_policies_are_shown_side_by_side_and_written_as_the_simulator_gives_them(tmp_path):
    out = tmp_path / "out.json"
    shown = run(
        *("zipf:1.2,n_keys=500", "--workers", 8, "--tuples", 4_000, "--window", 1_000),
        *("--slide", 500, "--seed", 3, "--policy", "pkg", "--policy", "hash", "--json", out),
    )
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0].strip() == "zipf:1.2,n_keys=500: 4,000 tuples, 8 workers, 7 windows"
    assert [line.split()[1] for line in lines if " pkg " in line or " hash " in line] == [
        "pkg",
        "hash",
    ]
    written = json.loads(out.read_text())
    keys = zipf(4_000, 500, 1.2, seed=3)
    wanted = simulate(keys, PKG(8, seed=3), window=1_000, slide=500, seed=3).to_dict()
    assert written["results"][0] == json.loads(json.dumps(wanted))
    assert f"{wanted['summary']['max_over_mean']:.3f}" in shown.output


@pytest.mark.parametrize("name", ["clicks.parquet", "clicks.csv"])
def test_the_keys_of_a_file_are_its_rows_in_order(clicks, name):
    out = clicks / "out.json"
    shown = run(
        *(clicks / name, "--key", "user", "--workers", 4, "--window", 500, "--policy", "pkg"),
        *("--json", out),
    )
    assert shown.exit_code == 0, shown.output
    keys = hash64(pq.read_table(clicks / "clicks.parquet")["user"])
    wanted = simulate(keys, PKG(4), window=500).tuples_per_worker.tolist()
    assert json.loads(out.read_text())["results"][0]["tuples_per_worker"] == wanted


def test_with_a_rate_latencies_are_shown_and_in_batches_planners_see_each_batch(clicks):
    shown = run(
        *("uniform:50", "--workers", 4, "--tuples", 2_000, "--window", 1_000, "--batch", 500),
        *("--slide", 500, "--rate", 1_000_000, "--policy", "prompt", "--partitioners", 2),
        *("--local", "--reducers", 2),
    )
    assert shown.exit_code == 0, shown.output
    assert "p99 ms" in shown.output
    assert "process" in shown.output


def test_cooperating_partitioners_are_as_many_as_the_command_says():
    shown = run(
        *("zipf:1.0", "--workers", 4, "--tuples", 2_000, "--window", 500, "--partitioners", 3),
        *("--policy", "cooperative_dalton"),
    )
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (("zpf:1.5",), DataError, "'zpf:1.5' is no file and no generator (did you mean 'zipf'?)."),
        (("zipf:1.5", "--policy", "pgk"), ParameterError, "no policy 'pgk' (did you mean 'pkg'?)."),
        (("zipf:1.5", "--key", "user"), ParameterError, "'zipf:1.5' is a generator; leave it out."),
        (("{}/clicks.csv",), ParameterError, "--key must name the key column of"),
        (("{}/clicks.csv", "--key", "usr"), DataError, "(did you mean 'user'?)"),
        (
            ("uniform", "--json", "/no/folder/x"),
            DataError,
            "must be a file in a folder that exists",
        ),
        (("uniform", "--window", "10", "--slide", "3"), ParameterError, "multiple of slide"),
    ],
)
def test_a_wrong_argument_is_an_error_in_words(clicks, arguments, kind, sentence):
    found = run(*(a.format(clicks) for a in arguments), "--workers", 4)
    assert isinstance(found.exception, kind)
    assert sentence in str(found.exception)
