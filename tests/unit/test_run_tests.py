"""What ``make test`` runs: every test once, in one lane or the other."""

from __future__ import annotations

from pathlib import Path

from tools import run_tests

ROOT = Path(__file__).parents[2]


def test_every_folder_of_tests_is_in_one_lane() -> None:
    listed = [path for paths in run_tests.LANES.values() for path in paths]
    assert len(set(listed)) == len(listed)
    folders = {f"tests/{p.parent.name}" for p in (ROOT / "tests").glob("*/test_*.py")}
    assert folders <= set(listed)
    assert all((ROOT / path).exists() for path in listed)


def test_what_is_asked_for_runs_in_one_lane_and_slow_tests_only_where_wanted() -> None:
    assert list(run_tests.commands(["tests/unit"], slow=False)) == ["other"]
    (_, arguments), *again = run_tests.commands([], slow=False)["other"]
    assert arguments[:2] == ["-m", "not slow"]
    assert [mode for mode, _ in again] == ["off", "boundscheck"]
    assert all("not slow" in each[1] for _, each in again)
    assert not any("not slow" in " ".join(a) for _, a in run_tests.commands([], slow=True)["other"])


def test_a_failure_is_told_and_so_is_a_choice_of_nothing(tmp_path, capfd) -> None:
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_bad():\n    assert 1 == 2\n")
    assert run_tests.main([str(bad), "-p", "no:cacheprovider"]) == 1
    told = capfd.readouterr().out
    assert "other | " in told
    assert "tests: other failed with code 1" in told
    bad.write_text("")
    assert run_tests.main([str(bad), "-p", "no:cacheprovider"]) == 1
    assert "no test was chosen" in capfd.readouterr().out
