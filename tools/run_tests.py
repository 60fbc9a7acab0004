"""Run all tests in two lanes side by side: those that need Spark, and all others.

The second lane then runs the kernels' tests again, as plain Python and with bounds checks. Each line of
output begins with its lane. Arguments are handed to pytest; if there are any, there is one lane, as
they choose what is run.

Usage: ``python tools/run_tests.py [--all] [pytest arguments]``
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

__all__ = ["commands", "main"]

ROOT = Path(__file__).resolve().parents[1]
LANES = {
    "spark": ["tests/spark", "tests/faults"],
    "other": ["tests/unit", "tests/conformance", "src", "docs", "README.md", "CONTRIBUTING.md"],
}
_KERNELS = ["tests/unit", "tests/conformance"]
#: Exit code of pytest.
_NOTHING_CHOSEN = 5
_PRINTING = threading.Lock()


def commands(arguments: list[str], *, slow: bool) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the runs of each lane in order: how kernels run, and what pytest is given.

    Examples
    --------
    >>> commands(["tests/unit"], slow=True)["other"][0]
    ('on', ['tests/unit'])
    >>> [mode for mode, _ in commands([], slow=False)["other"]]
    ['on', 'off', 'boundscheck']
    """
    quick = [] if slow else ["-m", "not slow"]
    again = ["-m", "jit_modes" if slow else "jit_modes and not slow", *(arguments or _KERNELS)]
    modes = [(mode, again) for mode in ("off", "boundscheck")]
    if arguments:
        return {"other": [("on", [*quick, *arguments]), *modes]}
    lanes = {name: [("on", [*quick, *paths])] for name, paths in LANES.items()}
    lanes["other"] += modes
    return lanes


def main(arguments: list[str]) -> int:
    """Run the lanes; return 0 if every run passed."""
    slow = "--all" in arguments
    lanes = commands([one for one in arguments if one != "--all"], slow=slow)
    failed: list[str] = []
    passed: list[str] = []
    threads = [
        threading.Thread(target=_lane, args=(name, lanes[name], passed, failed)) for name in lanes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not passed and not failed:
        failed.append(f"no test was chosen by {' '.join(arguments)!r}.")
    for line in failed:
        print(f"tests: {line}", flush=True)
    return 1 if failed else 0


def _lane(
    name: str, runs: list[tuple[str, list[str]]], passed: list[str], failed: list[str]
) -> None:
    for mode, arguments in runs:
        begun = time.monotonic()
        label = name if mode == "on" else f"{name}, {mode}"
        code = _pytest(label, mode, arguments)
        spent = time.monotonic() - begun
        if code == _NOTHING_CHOSEN:  # which may well be in one of several runs
            continue
        if code:
            failed.append(f"{label} failed with code {code} after {spent:.0f} s.")
        else:
            passed.append(label)
            _say(f"{label} | passed in {spent:.0f} s.\n")


def _pytest(label: str, mode: str, arguments: list[str]) -> int:
    environment = os.environ | ({} if mode == "on" else {"SKEWLESS_JIT": mode})
    command = [sys.executable, "-m", "pytest", "--durations=15", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pytest:
        for line in pytest.stdout or ():
            _say(f"{label} | {line}")
    return pytest.returncode


def _say(line: str) -> None:
    with _PRINTING:
        print(line, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
