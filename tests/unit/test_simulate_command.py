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


def test_a_page_tells_all_policies_and_escapes_what_it_was_given(tmp_path) -> None:
    page = tmp_path / "page.html"
    arguments = "zipf:1.5", "--workers", 4, "--tuples", 20_000, "--window", 2_000, "--rate", 1e6
    done = run(*arguments, "--policy", "hash", "--policy", "wrap_around", "--html", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    body = text[text.rindex("</script><style>") if "</script><style>" in text else 0 :]
    for part in ("Side by side", "Latency through time", "Load of each worker", "wrap_around"):
        assert part in body
    assert "the advisor takes" in text
    assert "http://" not in text.split("</head>")[1].replace("http://www.w3.org", "")


def test_where_the_heaviest_keys_went_is_counted_as_they_went(tmp_path) -> None:
    pytest.importorskip("plotly")
    from skewless.report.simulation_page import _hot

    keys = np.repeat(np.array([7, 8, 9], np.uint64), [600, 300, 100])
    found = simulate(keys, PKG(4), window=1_000, keep_workers=True)
    rows = _hot([found], keys)
    assert [row[:2] for row in rows] == [
        ["0x0000000000000007", "60.00%"],
        ["0x0000000000000008", "30.00%"],
        ["0x0000000000000009", "10.00%"],
    ]
    on_each = np.bincount(found.workers[keys == 7])
    assert rows[0][2] == f"{(on_each > 0).sum()} ({on_each.max() / 600:.0%})"


def test_a_page_in_a_folder_that_does_not_exist_is_refused_before_anything_runs(tmp_path) -> None:
    done = run("zipf:1.5", "--workers", 4, "--html", tmp_path / "none" / "page.html")
    assert isinstance(done.exception, DataError)
    assert "--html" in str(done.exception)
