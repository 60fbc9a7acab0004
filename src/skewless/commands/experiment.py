"""``skewless experiment list``, ``run`` and ``report``: the papers' experiments, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from skewless.commands.progress import bar
from skewless.document import require_place
from skewless.errors import DataError, ParameterError, did_you_mean

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help=__doc__)

Out = Annotated[Path, typer.Option(help="Folder of the results.")]
_HERE = Path("experiments")


@app.command("list")
def list_all(
    paper: Annotated[str | None, typer.Option(help="Only those of this paper.")] = None,
    out: Out = _HERE,
) -> None:
    """Show every experiment: what it is, and whether it was run."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from skewless.experiments import PAPERS, ROWS, Store, find

    _check_paper(paper)
    store = Store(out)
    table = Table()
    for heading in ("id", "what", "runs on", "status"):
        table.add_column(heading)
    for row in ROWS:
        if paper is not None and row.paper != paper:
            continue
        status = row.status
        if row.home:
            experiment = find(row.id)
            kept = store.best(experiment)
            status = "ready"
            if kept is not None:
                status = f"{experiment.judge(kept.result()).outcome} ({kept.setting.profile})"
        engine = {"S": "simulator", "P": "Spark"}.get(row.engine, "simulator, Spark")
        table.add_row(row.id, escape(row.title), engine, status)
    console = Console()
    (console if console.is_terminal else Console(width=140)).print(table)
    typer.echo("papers: " + "; ".join(f"{name}: {title}" for name, title in PAPERS.items()))


@app.command("run")
def run_some(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids, as `list` shows them.")] = None,
    paper: Annotated[
        str | None, typer.Option(help="All of a paper: pkg, holistic, prompt, dr, dalton or ours.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's sizes as far as they go; minutes each.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of streams and policies.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Measure anew what is kept.")] = False,
    out: Out = _HERE,
) -> None:
    """Run experiments and judge them; what was measured before is kept and not measured again."""
    from skewless.experiments import ROWS, Setting, Store, find, run

    _check_paper(paper)
    if not ids and paper is None:
        raise ParameterError(
            "experiment run: name at least one id, or a paper with --paper; "
            "`skewless experiment list` shows them."
        )
    _check_folder("--out", out)
    names = [row.id for row in ROWS if row.paper == paper and row.home] + list(ids or [])
    chosen = [find(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise ParameterError(f"experiment run: nothing of {paper!r} runs without Spark yet.")
    setting, store = Setting(full, seed), Store(out)
    for place, experiment in enumerate(chosen):
        with bar("starting") as shown:

            def progress(part: float, what: str, name: str = experiment.id) -> None:
                shown(part, f"{name}: {what}")

            result = run(experiment, setting, store, force=force, progress=progress)
        verdict = experiment.judge(result)
        table = experiment.tabulate(result)
        _show(experiment.id, table.headings, table.rows)
        typer.echo(f"The paper: {experiment.claim}")
        if experiment.stand_in:
            typer.echo(f"Deviations: {experiment.stand_in}")
        typer.echo(f"{verdict.outcome.capitalize()}: {verdict.reason}.")
        typer.echo(
            f"{result.seconds:.1f} s; kept in {store.path(experiment.id, setting.profile)} "
            f"({place + 1} of {len(chosen)})"
        )


@app.command("report")
def report(
    out: Annotated[Path, typer.Option(help="Folder for evidence.md and its plots.")],
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = _HERE,
    html: Annotated[Path | None, typer.Option(help="The same as one HTML page.")] = None,
) -> None:
    """Write the evidence page from the results that are there."""
    from skewless.experiments import Store
    from skewless.experiments.evidence import render
    from skewless.experiments.page import save

    _check_folder("--out", out)
    if html is not None:
        require_place("experiment report: --html", html)
    if not results.is_dir():
        raise DataError(
            f"experiment report: --results {str(results)!r} is no folder; "
            f"`skewless experiment run` makes one."
        )
    written = render(Store(results), out)
    if html is not None:
        save(html, Store(results), out)
    typer.echo(f"{written[0]}, and {len(written) - 1} plots in {out / 'plots' / 'evidence'}")


def _check_paper(paper: str | None) -> None:
    from skewless.experiments import PAPERS

    if paper is not None and paper not in PAPERS:
        raise ParameterError(f"experiment: no paper {paper!r}{did_you_mean(paper, PAPERS)}.")


def _check_folder(option: str, folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"experiment: {option} {str(folder)!r} is a file; name a folder.")


def _show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="")
    for heading in headings:
        table.add_column(escape(heading))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
