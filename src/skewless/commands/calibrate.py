"""``skewless calibrate``: what rows, fragments and stages cost on your own Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skewless.commands.progress import bar
from skewless.document import require_place
from skewless.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    from skewless.calibration import Calibration

__all__ = ["calibrate"]


def calibrate(
    master: Annotated[
        str | None,
        typer.Option(help="Spark master, such as local[8]; what Spark is set up for, if left out."),
    ] = None,
    remote: Annotated[
        str | None, typer.Option(help="Spark Connect server, such as sc://host; needs --slots.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="Spark setting name=value; again for the next.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of the smaller jobs.")] = 400_000,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each job; the median counts.")] = 3,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Tasks that run side by side; else asked of Spark.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file to write; else the one all others read.")
    ] = None,
) -> None:
    """Run small jobs on a Spark, fit the cost model to them, and save the costs for all to use."""
    from skewless.calibration import default_path

    settings = _settings(conf or [])
    if master and remote:
        raise ParameterError("calibrate: --master and --remote exclude each other; give one.")
    if remote and slots is None:
        raise ParameterError("calibrate: --remote needs --slots: a server does not say how many.")
    path = out or default_path()
    if out is not None or path.is_dir():
        require_place("calibrate: --out", path)
    try:
        from skewless.spark.calibration import calibrate as measure
        from skewless.spark.calibration import open_session
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pyspark":
            raise
        raise MissingExtra("skewless calibrate", "spark", str(error.name)) from error
    spark = open_session(master, remote, settings)
    try:
        with bar() as progress:
            found = measure(spark, rows=rows, rounds=rounds, slots=slots, progress=progress)
    finally:
        spark.stop()
    path.parent.mkdir(parents=True, exist_ok=True)
    found.save(path)
    typer.echo("\n".join(_lines(found)))
    typer.echo(f"-> {path}")


def _settings(conf: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in conf]
    for one, (name, sign, _) in zip(conf, pairs, strict=True):
        if not name or not sign:
            raise ParameterError(f"calibrate: --conf must be name=value, got {one!r}.")
    return {name: value for name, _, value in pairs}


def _lines(found: Calibration) -> list[str]:
    """Say the costs, and what the model tells of each job."""
    costs, errors = found.costs, found.errors()
    setting = ", ".join(f"{name} {value}" for name, value in found.setting.items())
    lines = [
        f"{setting}; {found.slots} tasks side by side",
        f"  route  {costs.route_us:8.3f} us a row      ship   {costs.ship_us:8.3f} us a row",
        f"  update {costs.update_us:8.3f} us a row      merge  {costs.merge_us:8.3f} us a fragment",
        f"  stage  {costs.stage_s * 1e3:8.0f} ms",
        f"{'job':20}{'rows':>12}{'fragments':>12}{'measured s':>12}{'model s':>10}{'error':>8}",
    ]
    for job, error in zip(found.jobs, errors, strict=True):
        how = "sent to workers" if job.routed else "combined in place"
        lines.append(
            f"{how:20}{job.rows:12,}{job.fragments:12,}{job.seconds:12.3f}"
            f"{found.predicted_s(job):10.3f}{100 * error:+7.0f}%"
        )
    worst = 100 * float(abs(errors).max())
    lines.append(
        f"error of the fit: {100 * float(abs(errors).mean()):.0f} % mean, {worst:.0f} % worst"
    )
    return lines
