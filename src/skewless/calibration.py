"""Costs fitted to measured jobs, kept in a file, and the costs that are in force.

A job of S stages that gives each of its slots r rows and f fragments is modelled as

    seconds = S * stage_s + r * (update_us + (route_us + ship_us if routed)) + f * merge_us

which is `skewless.costs.predicted_s` for even work. The costs are the non-negative ones with the least
squared relative error.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless import document
from skewless.costs import Costs, calibrate, stages_of
from skewless.errors import DataError, ParameterError

__all__ = ["VARIABLE", "Calibration", "Job", "default_path", "fit", "known_costs", "saved_costs"]

#: Format and version of a file of costs.
KIND = ("skewless.costs", 1)
#: Environment variable that names the file of costs; empty means none.
VARIABLE = "SKEWLESS_COSTS"


class Job(NamedTuple):
    """A job that was run, and what it took."""

    routed: bool
    """Whether its rows were sent to their workers, or combined where they lay."""
    rows: int
    """Rows, in all."""
    fragments: int
    """(Key, task) pairs, in all."""
    seconds: float
    """Median of its runs."""


class Calibration(NamedTuple):
    """Costs of a machine, and how well they tell the jobs that they were fitted to."""

    costs: Costs
    jobs: tuple[Job, ...]
    slots: int
    """Tasks that ran side by side."""
    setting: dict[str, str]
    """What was measured: versions, master, processors."""

    def predicted_s(self, job: Job) -> float:
        """Return the seconds that the model tells for a job."""
        return float(_terms(job, self.slots) @ np.array(_in_terms(self.costs)))

    def errors(self) -> NDArray[np.float64]:
        """Return predicted over measured seconds, less 1, of each job, float64."""
        return np.array([self.predicted_s(job) / job.seconds - 1 for job in self.jobs])

    def save(self, path: str | Path) -> None:
        """Write the costs and the jobs to a JSON file, whole or not at all.

        Raises
        ------
        DataError
            The folder does not exist.
        """
        path = Path(path)
        document.require_place("save:", path)
        body = {
            "costs": self.costs._asdict(),
            "jobs": [list(job) for job in self.jobs],
            "slots": self.slots,
            "setting": self.setting,
        }
        document.write(path, document.render(*KIND, body))

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            The file is missing, damaged, of another format, or holds costs that are none.
        """
        name = str(path)
        try:
            body = document.parse(Path(path).read_bytes(), *KIND, name)
        except OSError as error:
            raise DataError(f"{name} cannot be read ({error}); run skewless calibrate.") from error
        try:
            costs = Costs(**{k: float(v) for k, v in body["costs"].items()})
            jobs = tuple(Job(*job) for job in body["jobs"])
            made = cls(costs, jobs, int(body["slots"]), dict(body["setting"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{name} holds no costs ({error!r}); run skewless calibrate."
            ) from error
        bad = {k: v for k, v in costs._asdict().items() if not (math.isfinite(v) and v >= 0)}
        if bad:
            raise DataError(f"{name}: costs must be finite and at least 0, got {bad}.")
        return made


def fit(jobs: Sequence[Job], slots: int, route_us: float, setting: dict[str, str]) -> Calibration:
    """Return the costs that tell the seconds of some jobs best.

    Parameters
    ----------
    jobs
        Routed ones and others, with different numbers of rows and of fragments.
    slots
        Tasks that ran side by side.
    route_us
        Cost of routing a row, measured apart: every routed row is shipped too, so jobs tell only
        the two together.
    setting
        What was measured; kept with the costs.

    Raises
    ------
    ParameterError
        The jobs are too few or too alike to tell the costs apart.

    Examples
    --------
    >>> true = Costs(0.0, 1.0, 2.0, 10.0, 0.5)
    >>> jobs = [
    ...     Job(routed, rows, keys, 2 * 0.5 + rows * (3e-6 if routed else 2e-6) + keys * 1e-5)
    ...     for routed in (False, True) for rows in (100_000, 400_000) for keys in (100, 50_000)
    ... ]
    >>> found = fit(jobs, slots=1, route_us=0.0, setting={})
    >>> [round(cost, 6) for cost in found.costs] == list(true)  # joining is what an aggregator adds
    True
    """
    terms = np.array([_terms(job, slots) for job in jobs])
    if len(jobs) == 0 or np.linalg.matrix_rank(terms / terms.max(axis=0, initial=1e-300)) < 4:
        raise ParameterError(
            f"fit: {len(jobs)} jobs do not tell the four costs apart; give routed ones and others, with "
            f"different numbers of rows and of fragments."
        )
    seconds = np.array([job.seconds for job in jobs])
    stage_s, update_us, sent_us, merge_us = _non_negative(terms / seconds[:, None])
    costs = Costs(
        min(route_us, sent_us), max(0.0, sent_us - route_us), update_us, merge_us, stage_s
    )
    return Calibration(costs, tuple(jobs), slots, setting)


def _terms(job: Job, slots: int) -> NDArray[np.float64]:
    """Return what a job has of each: stages, then rows, rows sent and fragments of a slot in 1e-6."""
    rows = job.rows / slots / 1e6
    return np.array(
        [stages_of(split=False), rows, rows * job.routed, job.fragments / slots / 1e6], np.float64
    )


def _in_terms(costs: Costs) -> tuple[float, float, float, float]:
    return costs.stage_s, costs.update_us, costs.route_us + costs.ship_us, costs.merge_us


def _non_negative(terms: NDArray[np.float64]) -> list[float]:
    """Return the x >= 0 that bring ``terms @ x`` closest to all ones, by least squares.

    With four unknowns every set of those that are above 0 is tried: a convex problem's best point is
    the plain least-squares solution of one of the sets.
    """
    n = terms.shape[1]
    best, least = [0.0] * n, float(len(terms))
    for size in range(1, n + 1):
        for some in itertools.combinations(range(n), size):
            found = np.linalg.lstsq(terms[:, some], np.ones(len(terms)), rcond=None)[0]
            missed = float(((terms[:, some] @ found - 1) ** 2).sum())
            if (found >= 0).all() and missed < least:
                best, least = [0.0] * n, missed
                for i, value in zip(some, found, strict=True):
                    best[i] = float(value)
    return best


def default_path() -> Path:
    """Return the file that ``skewless calibrate`` writes and all others read."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", home)) / "skewless" / "costs.json"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "skewless" / "costs.json"


def saved_costs() -> Costs | None:
    """Return the costs of the file that is in force; ``None`` if there is none.

    Raises
    ------
    DataError
        The file is damaged, or the one that ``SKEWLESS_COSTS`` names does not exist.

    Notes
    -----
    The environment variable ``SKEWLESS_COSTS`` names the file; empty, it means that none is read. Unset,
    it is `default_path`, if that exists.
    """
    named = os.environ.get(VARIABLE)
    path = default_path() if named is None else Path(named)
    if named == "" or (named is None and not path.exists()):
        return None
    return Calibration.load(path).costs


def known_costs(update_us: float | None = None) -> Costs:
    """Return the costs that are saved (`saved_costs`), or else measured in this process.

    Parameters
    ----------
    update_us
        Cost of your own function per row; the other costs stay what they are.
    """
    costs = saved_costs() or calibrate()
    return costs if update_us is None else costs._replace(update_us=float(update_us))
