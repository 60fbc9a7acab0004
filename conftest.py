"""What must be set before numba is imported, for the tests and for the doctests alike.

``SKEWLESS_JIT=off`` runs the kernels as plain Python, ``SKEWLESS_JIT=boundscheck`` compiles them
with bounds checks; unset, they are compiled as users run them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.numba_cache import MODES, cache_folder

MODE = os.environ.get("SKEWLESS_JIT", "on")


def _prepare_numba() -> None:
    if MODE not in MODES:
        raise pytest.UsageError(f"SKEWLESS_JIT must be one of {', '.join(MODES)}, got {MODE!r}.")
    if "numba" in sys.modules:
        raise pytest.UsageError("numba was imported before conftest.py could choose its cache.")
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder(Path(__file__).parent, MODE))
    os.environ["NUMBA_DISABLE_JIT"] = str(int(MODE == "off"))
    os.environ["NUMBA_BOUNDSCHECK"] = str(int(MODE == "boundscheck"))


_prepare_numba()
# No costs that the person at this machine once had measured.
os.environ["SKEWLESS_COSTS"] = ""


def pytest_report_header() -> str:
    """Say in the first lines how kernels run."""
    return f"skewless: SKEWLESS_JIT={MODE}, numba cache {os.environ['NUMBA_CACHE_DIR']}"


def pytest_configure(config: pytest.Config) -> None:
    """Let hashes wrap: as plain Python, numpy warns of what is uint64 arithmetic by design."""
    if MODE == "off":
        config.addinivalue_line(
            "filterwarnings", "ignore:overflow encountered in scalar:RuntimeWarning"
        )
