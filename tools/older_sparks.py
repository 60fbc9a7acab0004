"""Run tests on older Sparks: ``python tools/older_sparks.py 3.5 4.0 -- [pytest arguments]``.

Each is put, with the py4j that it wants, into a folder of ``.venv`` that is searched before the newest
one; all else of the environment stays. What an older PySpark warns of is not our concern, so warnings are
no errors there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main", "pytest_command", "spark_folder"]

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    """Install what is missing and run the tests on each version; return 0 if all passed."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    versions, tests = arguments[:at], arguments[at + 1 :]
    if not versions or not all(_is_version(one) for one in versions):
        print(f"older_sparks: give versions such as 3.5 or 4.1.4, got {versions}.", file=sys.stderr)
        return 2
    failed = []
    for version in versions:
        begun = time.monotonic()
        folder = spark_folder(ROOT, version)
        if not (folder / "pyspark").is_dir():
            print(f"Spark {version}: installing", flush=True)
            subprocess.run(_install_command(version, folder), check=True)
        found = _version_there(folder)
        print(f"Spark {found}: running {len(tests)} files or options", flush=True)
        code = subprocess.run(
            pytest_command(tests), env=_environment(folder), cwd=ROOT, check=False
        ).returncode
        spent = time.monotonic() - begun
        print(f"Spark {found}: {'passed' if code == 0 else 'FAILED'} in {spent:.0f} s", flush=True)
        failed += [found] if code else []
    return 1 if failed else 0


def spark_folder(root: Path, version: str) -> Path:
    """Return where a version lies.

    Examples
    --------
    >>> spark_folder(Path("/repository"), "3.5").as_posix()
    '/repository/.venv/older-sparks/3.5'
    """
    return root / ".venv" / "older-sparks" / version


def pytest_command(tests: list[str]) -> list[str]:
    """Return the command that runs the tests.

    Examples
    --------
    >>> pytest_command(["tests/spark/test_join.py"])[1:]
    ['-m', 'pytest', '-W', 'ignore', '-m', 'not slow', 'tests/spark/test_join.py']
    """
    return [sys.executable, "-m", "pytest", "-W", "ignore", "-m", "not slow", *tests]


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) in (2, 3) and all(part.isdigit() for part in parts)


def _install_command(version: str, folder: Path) -> list[str]:
    wanted = f"pyspark=={version}" + (".*" if version.count(".") == 1 else "")
    return [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), wanted]


def _version_there(folder: Path) -> str:
    found = sorted(folder.glob("pyspark-*.dist-info"))
    return found[0].name.removeprefix("pyspark-").removesuffix(".dist-info") if found else "?"


def _environment(folder: Path) -> dict[str, str]:
    path = [str(folder), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    changed = {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return kept | changed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
