"""The set-up of the repository: what it does, what it does not do again, what it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from skewless.kernel import kernel, mix, spread
from tools import check_docs, setup
from tools.numba_cache import cache_folder

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the two files that the set-up reads."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "setup.py").write_text("# set-up\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def environment(root: Path, pip: str = "exit 0", java: str = "exit 9") -> Path:
    """Make a .venv whose Python logs what it is asked, and answers as told."""
    log = root / "asked"
    script(
        root / ".venv" / "bin" / "python",
        f"""case "$*" in
*"import sys, pip"*) exit 0 ;;
*"pip install"*) echo pip "$*" >> '{log}'; {pip} ;;
*java_home*) echo java >> '{log}'; {java} ;;
esac""",
    )
    return log


def run(root: Path) -> int:
    return setup.main(["--root", str(root)])


def test_a_second_run_does_nothing_and_says_nothing(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = script(root / "jdk" / "bin" / "java", "exit 0").parents[1]
    log = environment(root, java=f"echo '{home}'")
    assert run(root) == 0
    assert log.read_text().split("\n")[0].endswith(f"--editable {root}[spark,connect,report,dev]")
    capfd.readouterr()
    log.unlink()
    assert run(root) == 0
    assert not log.exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("changed", ["pyproject.toml", "tools/setup.py"])
def test_a_change_of_what_it_was_made_from_brings_it_up_to_date(root: Path, changed: str) -> None:
    home = script(root / "jdk" / "bin" / "java", "exit 0").parents[1]
    log = environment(root, java=f"echo '{home}'")
    run(root)
    log.unlink()
    (root / changed).write_text("# changed\n")
    assert run(root) == 0
    assert "pip install" in log.read_text()


def test_a_java_that_went_away_is_looked_for_again_without_installing(root: Path) -> None:
    java = script(root / "jdk" / "bin" / "java", "exit 0")
    log = environment(root, java=f"echo '{java.parents[1]}'")
    run(root)
    log.unlink()
    java.unlink()
    assert run(root) == 0
    assert log.read_text() == "java\n"


def test_without_a_java_one_is_installed_with_the_extra(root: Path) -> None:
    home = script(root / "jdk" / "bin" / "java", "exit 0").parents[1]
    log = environment(
        root,
        pip=f"""case "$*" in *,java*) : > '{root}/installed' ;; esac""",
        java=f"[ -f '{root}/installed' ] && echo '{home}' || exit 3",
    )
    assert run(root) == 0
    asked = log.read_text().splitlines()
    assert [line.split("[")[-1] for line in asked] == [
        "spark,connect,report,dev]",
        "java",
        "spark,connect,report,dev,java]",
        "java",
    ]
    assert (root / ".venv" / ".skewless-java-home").read_text() == str(home)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("NewConnectionError: [Errno 101]", "check the network"),
        ("ERROR: No matching distribution found for numba", "try another Python"),
        (
            "NameResolutionError\nERROR: No matching distribution found for hatchling",
            "check the network",
        ),
        ("hatchling (from versions: none)\nERROR: No matching distribution", "check the network"),
        (
            "different python version\n(from versions: none)\nNo matching distribution found",
            "try another Python",
        ),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("something else", "see the last lines above"),
    ],
)
def test_a_failed_install_says_what_to_do_and_is_tried_again(
    root: Path, capfd: pytest.CaptureFixture[str], said: str, advice: str
) -> None:
    log = environment(root, pip=f"printf '%s\\n' '{said}'; exit 1")
    assert run(root) == 1
    message = capfd.readouterr().err
    assert said in message
    assert advice in message
    log.unlink()
    assert run(root) == 1
    assert "pip install" in log.read_text()


def test_too_old_a_python_is_named_before_anything_is_done(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    assert run(root) == 1
    assert "needs Python 3.10 or newer" in capfd.readouterr().err
    assert not (root / ".venv").exists()


def test_a_python_that_cannot_make_environments_is_explained(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = script(root / "python3", "echo ensurepip is not available; exit 1")
    monkeypatch.setattr(sys, "executable", str(broken))
    assert run(root) == 1
    assert "apt-get install python3-venv" in capfd.readouterr().err


def test_numba_s_cache_is_a_new_folder_when_a_source_changes(tmp_path: Path) -> None:
    source = tmp_path / "src" / "skewless" / "kernel.py"
    source.parent.mkdir(parents=True)
    source.write_text("one = 1\n")
    before = cache_folder(tmp_path)
    assert cache_folder(tmp_path) == before
    checked = cache_folder(tmp_path, "boundscheck")
    assert before != checked
    assert before.is_dir()
    source.write_text("one = 2\n")
    after = cache_folder(tmp_path)
    assert after.is_dir()
    assert not before.exists()
    assert not checked.exists()


@kernel
def _past_the_end(array: NDArray[np.int64], index: int) -> int:
    return int(array[index])


@pytest.mark.jit_modes
def test_kernels_run_in_the_mode_that_was_asked_for() -> None:
    mode = os.environ.get("SKEWLESS_JIT", "on")
    assert hasattr(mix, "py_func") == (mode != "off")
    if mode != "on":
        # Compiled without checks, this would read whatever lies there.
        with pytest.raises(IndexError):
            _past_the_end(np.zeros(3, np.int64), 3)


@pytest.mark.jit_modes
def test_the_mixer_gives_the_same_bits_in_every_mode() -> None:
    mixed = mix(np.uint64(7), np.uint64(0))
    assert int(mixed) == 15791704497567287882
    assert int(spread(mixed, np.uint64(1000))) == int(mixed) * 1000 >> 64


def test_links_and_blocks_of_the_docs_are_checked(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One, two\n")
    (tmp_path / "README.md").write_text(
        "# Top\n[a](docs/a.md#one-two) [b](docs/b.md) [c](docs/a.md#three) [d](#top) [e](../x)\n"
        "[web](https://example.org)\n```python\nx = (\n```\n```sh\n[z](nowhere)\n```\n"
    )
    found = list(check_docs.problems(tmp_path))
    assert [problem.split(": ", 1)[1] for problem in found[:3]] == [
        "the link docs/b.md leads to nothing.",
        "the link docs/a.md#three names a heading that is not there.",
        "the link ../x leads to nothing.",
    ]
    assert "does not parse" in found[3]
    assert len(found) == 4


def test_our_own_docs_have_no_dead_links() -> None:
    assert list(check_docs.problems(REPOSITORY)) == []
