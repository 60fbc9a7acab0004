"""Older Sparks for tests: which are installed, where, and what is run on them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import older_sparks


@pytest.fixture
def ran(monkeypatch, tmp_path) -> list[SimpleNamespace]:
    calls: list[SimpleNamespace] = []

    def run(command, *, env=None, check, cwd=None):
        calls.append(SimpleNamespace(command=command, env=env))
        if "pip" in command:
            folder = Path(command[command.index("--target") + 1])
            (folder / "pyspark").mkdir(parents=True)
            (folder / "pyspark-3.5.7.dist-info").mkdir()
        failing = "tests/bad.py" in command
        return SimpleNamespace(returncode=int(failing))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(older_sparks, "ROOT", tmp_path)
    return calls


def test_a_version_is_installed_once_and_searched_first(ran, tmp_path, capsys) -> None:
    assert older_sparks.main(["3.5", "--", "tests/x.py"]) == 0
    assert older_sparks.main(["3.5", "--", "tests/x.py"]) == 0
    installs = [call.command for call in ran if "pip" in call.command]
    assert [command[-1] for command in installs] == ["pyspark==3.5.*"]
    tests = [call for call in ran if "pytest" in call.command]
    assert [call.command[-1] for call in tests] == ["tests/x.py"] * 2
    first = tests[0].env["PYTHONPATH"].split(os.pathsep)[0]
    assert first == str(older_sparks.spark_folder(tmp_path, "3.5"))
    assert "Spark 3.5.7: passed" in capsys.readouterr().out


def test_one_version_that_fails_is_told_and_the_others_still_run(ran, capsys) -> None:
    assert older_sparks.main(["3.5", "4.0.1", "--", "tests/bad.py"]) == 1
    assert capsys.readouterr().out.count("FAILED") == 2
    assert [call.command[-1] for call in ran if "pip" in call.command] == [
        "pyspark==3.5.*",
        "pyspark==4.0.1",
    ]


@pytest.mark.parametrize("wrong", [[], ["4"], ["x.y"], ["--help"], ["3.5;rm"]])
def test_what_is_no_version_is_refused_before_anything_runs(ran, wrong, capsys) -> None:
    assert older_sparks.main([*wrong, "--", "tests/x.py"]) == 2
    assert not ran
    assert "give versions such as 3.5" in capsys.readouterr().err
