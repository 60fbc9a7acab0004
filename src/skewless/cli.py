"""The command line: ``skewless demo``, ``advise``, ``simulate``, ``watch``, ``policy`` and the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skewless.commands import experiment, policy, state
from skewless.commands.advise import advise
from skewless.commands.calibrate import calibrate
from skewless.commands.simulate import simulate
from skewless.commands.watch import watch
from skewless.errors import DataError, MissingExtra, ParameterError

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

app.add_typer(state.app, name="state")
app.add_typer(policy.app, name="policy")
app.add_typer(experiment.app, name="experiment")


@app.callback()
def _root() -> None:
    """Keyed work on Spark that stays balanced when a few keys carry most of the data."""


@app.command()
def demo(
    until: Annotated[
        int, typer.Option(min=1790, max=2021, help="Last year of the addresses in act one.")
    ] = 1810,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers and task slots.")] = 16,
    cost_us: Annotated[
        float, typer.Option(min=0, max=10_000, help="Emulated cost per row in act two, us.")
    ] = 200.0,
    page: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("demo.html"),
) -> None:
    """Count and link the words of the State of the Union addresses while the policy learns."""
    try:
        from skewless.demo.story import tell_story
    except ModuleNotFoundError as error:
        extra = {"pyspark": "spark", "plotly": "report"}.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        raise MissingExtra("skewless demo", extra, str(error.name)) from error
    if not tell_story(until=until, workers=workers, cost_us=cost_us, page=page):
        raise SystemExit(1)


app.command()(advise)
app.command()(calibrate)
app.command()(simulate)
app.command()(watch)


def main() -> None:
    """Run the command line; our own errors end it with one sentence and status 2."""
    try:
        app()
    except (DataError, MissingExtra, ParameterError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
