"""``skewless experiment``: list, run and report, and errors in words."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from skewless.cli import app
from skewless.errors import DataError, ParameterError
from skewless.experiments import ROWS


def run(*arguments):
    return CliRunner().invoke(app, ["experiment", *map(str, arguments)], catch_exceptions=True)


def test_a_run_is_shown_judged_and_kept_and_the_report_made_of_it(tmp_path):
    results, docs = tmp_path / "results", tmp_path / "docs"
    shown = run("run", "prompt.example", "--out", results)
    assert shown.exit_code == 0, shown.output
    assert "Reproduced: blocks of [97, 96, 96, 96] tuples" in shown.output
    assert [path.name for path in results.iterdir()] == ["prompt.example.fast.json"]
    kept = (results / "prompt.example.fast.json").read_text()
    assert run("run", "prompt.example", "--out", results).exit_code == 0
    assert (results / "prompt.example.fast.json").read_text() == kept
    listed = run("list", "--out", results)
    assert "reproduced (fast)" in listed.output
    made = run("report", "--results", results, "--out", docs, "--html", tmp_path / "page.html")
    assert made.exit_code == 0, made.output
    text = (docs / "evidence.md").read_text()
    assert (
        "| [prompt.example](#promptexample) | the example of figure 5 | reproduced | fast |" in text
    )
    assert (docs / "plots" / "evidence" / "prompt.example.svg").exists()
    assert (
        "<h2>prompt.example: the example of figure 5</h2>" in (tmp_path / "page.html").read_text()
    )


def test_the_list_has_every_experiment_and_can_be_cut_to_a_paper(tmp_path):
    output = run("list", "--out", tmp_path).output
    assert all(f" {row.id} " in output for row in ROWS)
    output = run("list", "--paper", "dr", "--out", tmp_path).output
    assert all((f" {row.id} " in output) == (row.paper == "dr") for row in ROWS)


# What is given, the error's type and its words.
WRONG = [
    (["run"], ParameterError, "name at least one id, or a paper"),
    (["run", "pkg.tabel2"], ParameterError, "near are 'pkg.table2'"),
    (["run", "prompt.example", "dr.fig7"], ParameterError, "no experiment 'dr.fig7'"),
    (["run", "--paper", "dalten"], ParameterError, "no paper 'dalten' (did you mean 'dalton'?)"),
    (["list", "--paper", "x"], ParameterError, "no paper 'x'"),
    (["report", "--out", "d", "--results", "nowhere"], DataError, "'nowhere' is no folder"),
    (["report", "--out", "d", "--html", "no/x.html"], DataError, "'no/x.html' must be a file"),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), WRONG, ids=[w[2] for w in WRONG])
def test_what_is_wrong_is_said_before_anything_runs(tmp_path, monkeypatch, arguments, kind, words):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert isinstance(found.exception, kind)
    assert words in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    found = run("run", "prompt.example", "--out", tmp_path / "file")
    assert isinstance(found.exception, DataError)
    assert "is a file; name a folder" in str(found.exception)
