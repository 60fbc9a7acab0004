"""Programs that a test starts, so that they can be killed: each a Python of its own, with our sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments to its end, and return what it wrote."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    changed = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **changed},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
