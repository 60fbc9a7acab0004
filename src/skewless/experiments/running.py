"""Run an experiment part by part; parts that are kept already are not run again."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import skewless
from skewless.errors import DataError
from skewless.experiments.description import Experiment, Result, Row, Setting
from skewless.experiments.store import Kept, Store

__all__ = ["machine", "run"]


def run(
    experiment: Experiment,
    setting: Setting = Setting(),  # noqa: B008 # a value that is never changed
    store: Store | None = None,
    *,
    force: bool = False,
    progress: Callable[[float, str], None] = lambda _part, _what: None,
) -> Result:
    """Measure what has not been measured yet, and return the whole result.

    Parameters
    ----------
    experiment
        From `skewless.experiments.find`.
    setting
        Profile and seed.
    store
        Where parts are kept as soon as each is done; left out, nothing is.
    force
        Whether to measure all parts anew.
    progress
        Called with the part that is done, from 0 to 1, and the name of the cell that comes next.

    Raises
    ------
    DataError
        The kept result is unreadable, or has another seed.

    Examples
    --------
    >>> from skewless.experiments import find
    >>> result = run(find("prompt.example"))
    >>> find("prompt.example").judge(result).outcome
    'reproduced'
    """
    cells = experiment.cells(setting)
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError(f"{experiment.id}: two cells have one name.")
    kept = None if store is None or force else store.read(experiment, setting.profile)
    if kept is not None and kept.setting != setting:
        raise DataError(
            f"experiment: {experiment.id} is kept with the seed {kept.setting.seed}, got "
            f"{setting.seed}; run it with --force, or keep it elsewhere with --out."
        )
    done = {} if kept is None else {n: c for n, c in kept.cells.items() if n in set(names)}
    total = sum(cell.weight for cell in cells)
    here = machine()
    spent = sum(cell.weight for cell in cells if cell.name in done)
    for cell in cells:
        if cell.name in done:
            continue
        progress(spent / total, cell.name)
        begun = time.monotonic()
        rows = [_plain_row(row) for row in cell.measure()]
        done[cell.name] = (time.monotonic() - begun, rows)
        spent += cell.weight
        kept = _kept(experiment, setting, here, names, done)
        if store is not None:
            store.write(kept)
    progress(1.0, experiment.id)
    if kept is None or list(kept.cells) != names:
        kept = _kept(experiment, setting, here, names, done)
    return kept.result()


def _kept(
    experiment: Experiment,
    setting: Setting,
    here: dict[str, Any],
    names: list[str],
    done: dict[str, tuple[float, list[Row]]],
) -> Kept:
    cells = {name: done[name] for name in names if name in done}
    return Kept(
        experiment.id,
        setting,
        experiment.revision,
        len(cells) == len(names),
        skewless.__version__,
        here,
        cells,
    )


def machine() -> dict[str, Any]:
    """Return what the figures are measured on: CPU model and count, Python, numpy."""
    model = platform.processor() or "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        model = named[0] if named else model
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _plain_row(row: Row) -> Row:
    return {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Return what JSON can hold, numbers to six digits; None for what is not finite."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
