"""Results kept as JSON, a file for each experiment and profile, its parts written as they are done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from skewless.document import write
from skewless.errors import DataError
from skewless.experiments.description import Experiment, Result, Row, Setting

__all__ = ["Kept", "Store"]

_FORMAT, _VERSION = "skewless.experiment", 1


class Kept(NamedTuple):
    """The content of a file."""

    id: str
    setting: Setting
    revision: int
    complete: bool
    """Whether all cells are there."""
    package: str
    machine: dict[str, Any]
    cells: dict[str, tuple[float, list[Row]]]
    """Seconds taken and rows, by the cell's name."""

    def result(self) -> Result:
        """Return the rows of all cells as one result."""
        rows = [row for _, found in self.cells.values() for row in found]
        seconds = sum(seconds for seconds, _ in self.cells.values())
        return Result(self.id, self.setting, rows, seconds, self.package, self.machine)


class Store:
    """A folder of results.

    Parameters
    ----------
    folder
        Made when the first result is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, name: str, profile: str) -> Path:
        """Return the file of an experiment."""
        return self.folder / f"{name}.{profile}.json"

    def read(self, experiment: Experiment, profile: str) -> Kept | None:
        """Return what is kept; ``None`` if nothing is, or only what an earlier revision measured.

        Raises
        ------
        DataError
            The file is truncated, not ours, of a later version, or of another experiment.
        """
        path = self.path(experiment.id, profile)
        if not path.exists():
            return None
        kept = _parsed(path)
        if (kept.id, kept.setting.profile) != (experiment.id, profile):
            raise DataError(
                f"{path}: holds {kept.id} in the profile {kept.setting.profile}, not {experiment.id} "
                f"in {profile}; give the file its own name back."
            )
        return kept if kept.revision == experiment.revision else None

    def best(self, experiment: Experiment) -> Kept | None:
        """Return the complete result of the full profile, else that of the fast one, else ``None``."""
        for profile in ("full", "fast"):
            kept = self.read(experiment, profile)
            if kept is not None and kept.complete:
                return kept
        return None

    def write(self, kept: Kept) -> Path:
        """Write all of a file or nothing, a row a line, and return its path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        head = {
            "format": _FORMAT,
            "version": _VERSION,
            "id": kept.id,
            "profile": kept.setting.profile,
            "seed": kept.setting.seed,
            "revision": kept.revision,
            "complete": kept.complete,
            "package": kept.package,
            "machine": kept.machine,
        }
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        cells = []
        for name, (seconds, rows) in kept.cells.items():
            listed = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
            cells.append(
                f'{json.dumps(name)}: {{"seconds": {seconds:.3f}, "rows": [\n{listed}\n]}}'
            )
        lines.append('"cells": {\n' + ",\n".join(cells) + "\n}")
        path = self.path(kept.id, kept.setting.profile)
        write(path, "{\n" + ",\n".join(lines) + "\n}\n")
        return path


def _parsed(path: Path) -> Kept:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: is no JSON ({error}); delete it, or run the experiment with --force."
        ) from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise DataError(f"{path}: holds no result of an experiment; delete it, or use --out.")
    if body.get("version") != _VERSION:
        raise DataError(
            f"{path}: is of version {body.get('version')!r} and this skewless reads {_VERSION}; "
            f"update skewless, or run the experiment with --force."
        )
    try:
        cells = {
            str(name): (float(cell["seconds"]), [dict(row) for row in cell["rows"]])
            for name, cell in body["cells"].items()
        }
        return Kept(
            str(body["id"]),
            Setting(body["profile"] == "full", int(body["seed"])),
            int(body["revision"]),
            bool(body["complete"]),
            str(body["package"]),
            dict(body["machine"]),
            cells,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: a part of the result is missing or wrong ({error!r}); delete it, or run the "
            f"experiment with --force."
        ) from error
