"""``skewless watch``: a running or finished query in the terminal, or as a page on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skewless.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from skewless.operations import BatchMetrics, Tail
    from skewless.operations.loopback import LoopbackServer

__all__ = ["watch"]

#: Batches and workers that fit a terminal.
_BATCHES, _WORKERS = 12, 32
#: How often a page of a query that has ended is loaded again, seconds.
_SLOW_S = 30


def watch(
    path: Annotated[str, typer.Argument(help="Folder that the query names as state=.")],
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show what there is, and end.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Serve a page instead, until Ctrl-C.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page on 127.0.0.1; 0 for a free one.")
    ] = 0,
) -> None:
    """Show a query's balance, times and hot keys while it runs, or after it has ended.

    Follows the metrics file in the folder, from any process that can read it. Ends with the query, or
    with Ctrl-C. The page also answers at /metrics, for Prometheus.
    """
    if not Path(path).is_dir():
        raise DataError(
            f"watch: {path!r} is no folder; give the one that the query names as state=."
        )
    from skewless.operations import MetricsFile, Tail

    tail = Tail(MetricsFile(path))
    try:
        if web:
            _serve(tail, every, port)
        else:
            _follow(tail, every, once=once)
    except KeyboardInterrupt:
        return


def _follow(tail: Tail, every: float, *, once: bool) -> None:
    """Show the query until it has ended: a live picture on a terminal, else a line per batch."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal:
        _print_lines(tail, every, once=once)
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            tail.update()
            live.update(picture(tail, time.time()), refresh=True)
            if once or tail.ended is not None:
                return
            time.sleep(every)


def _print_lines(tail: Tail, every: float, *, once: bool) -> None:
    from skewless.report.watch_text import BATCH_HEADINGS, batch_cells, lead

    widths = [max(len(heading), 9) for heading in BATCH_HEADINGS]
    rows = [list(BATCH_HEADINGS)]
    while True:
        rows += [batch_cells(one) for one in tail.update()]
        for row in rows:
            cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            typer.echo("  ".join(cells))
        rows = []
        if once or tail.ended is not None:
            typer.echo(lead(tail, time.time()))
            return
        time.sleep(every)


def picture(tail: Tail, now_s: float) -> RenderableType:
    """Return what a terminal shows.

    Parameters
    ----------
    tail
        The metrics file, read up to now.
    now_s
        The time now, seconds since 1970.
    """
    from rich.console import Group
    from rich.text import Text

    from skewless.report.watch_text import (
        BATCH_HEADINGS,
        HOT_HEADINGS,
        batch_cells,
        hot_cells,
        lead,
        title,
    )

    # Names come from data: Text takes them as they are, a string would be read as markup.
    parts: list[RenderableType] = [Text(title(tail), style="bold"), Text(lead(tail, now_s))]
    batches = list(tail.batches)[-_BATCHES:]
    if batches:
        last = batches[-1]
        parts += [
            _table(BATCH_HEADINGS, [batch_cells(one) for one in batches]),
            _bars(last),
            _table(HOT_HEADINGS, hot_cells(last)),
        ]
    return Group(*parts)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _bars(last: BatchMetrics) -> RenderableType:
    """Return a bar per worker, as long as its load over the mean; the fullest ones if many."""
    from rich.text import Text

    mean = last.rows / (last.active or last.workers)
    workers = sorted(range(last.workers), key=lambda worker: -last.loads[worker])[:_WORKERS]
    lines = [f"rows of the workers in batch {last.batch}, the fullest first"]
    for worker in workers:
        ratio = last.loads[worker] / mean if mean else 0.0
        length = min(60, round(20 * ratio))
        lines.append(f"{worker:6d} {ratio:6.2f} {'#' * length}")
    if len(workers) < last.workers:
        lines.append(f"   ... and {last.workers - len(workers)} more")
    return Text("\n".join(lines))


def _serve(tail: Tail, every: float, port: int) -> None:
    with page_server(tail, every, port) as server:
        typer.echo(
            f"{server.url} shows the query, {server.url}metrics tells Prometheus; Ctrl-C ends it"
        )
        while True:
            time.sleep(3600)


def page_server(tail: Tail, every: float, port: int) -> LoopbackServer:
    """Return a running server of the page, the plotting library, and the metrics.

    Parameters
    ----------
    tail
        The metrics file; read on when a page is asked for.
    every
        Seconds between two looks of a browser.
    port
        0 for a free one.
    """
    from skewless.operations.loopback import Answer, LoopbackServer
    from skewless.operations.prometheus import answer
    from skewless.report.page import library
    from skewless.report.watch_page import SCRIPT, page

    def show() -> Answer:
        tail.update()
        refresh_s = max(1, round(every)) if tail.ended is None else _SLOW_S
        return Answer("text/html; charset=utf-8", page(tail, time.time(), refresh_s).encode())

    script = Answer("text/javascript; charset=utf-8", library(), max_age_s=86_400)
    pages = {"/": show, SCRIPT: lambda: script, "/metrics": lambda: answer(tail)}
    return LoopbackServer(pages, port=port)
