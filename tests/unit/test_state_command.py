"""``skewless state inspect`` says what a state folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from skewless import cli
from skewless.partitioners import Hash
from skewless.state_store import describe, fragments
from tests.unit.state_runs import job, run, stream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = job(tmp_path / "s", policy=Hash(3))
    run(work, stream(1, n_batches=3))
    return tmp_path / "s"


def test_inspect_prints_versions_owners_and_batches(folder: Path) -> None:
    done = CliRunner().invoke(cli.app, ["state", "inspect", str(folder), "--rows", "2", "--check"])
    assert done.exit_code == 0, done.output
    found = describe(folder)
    assert f"{found['keys']} keys" in done.output
    assert "query     q, after batch 2" in done.output
    assert "versions  1, 2, 3; shown: 3" in done.output
    assert "columns   k string, n int64, fold int64" in done.output
    assert done.output.count("fold=") == 2
    assert "files: all whole" in done.output
    assert sum(held["keys"] for held in found["workers"].values()) == found["keys"]
    older = CliRunner().invoke(cli.app, ["state", "inspect", str(folder), "--batch", "0"])
    assert "after batch 0" in older.output


def test_inspect_names_a_damaged_file_and_ends_with_a_status(folder: Path) -> None:
    victim = min(folder.glob("data/*3/*delta*"))
    victim.write_bytes(victim.read_bytes()[:-9])
    fragments._cache = fragments._Cache(2**20)
    done = CliRunner().invoke(cli.app, ["state", "inspect", str(folder), "--check"])
    assert done.exit_code == 1
    assert victim.name in done.output
    assert "files: 1 damaged" in done.output


def test_a_folder_without_state_ends_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["skewless", "state", "inspect", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: state: folder")
