"""The evidence as one HTML page, with its plots inside."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from skewless.document import write
from skewless.experiments.evidence import PLOTS, Found, collect
from skewless.experiments.rows import PAPERS
from skewless.experiments.store import Store
from skewless.report.style import STYLE
from skewless.report.text import section, table

__all__ = ["page", "save"]


def save(path: Path, store: Store, folder: Path) -> None:
    """Write the page, with the plots that `evidence.render` drew into a folder."""
    plots = {p.stem: p.read_bytes() for p in (folder / PLOTS).glob("*.svg")}
    write(path, page(collect(store), plots))


def page(found: list[Found], plots: dict[str, bytes]) -> str:
    """Return the page as text; all words are escaped.

    Parameters
    ----------
    found
        The experiments in order.
    plots
        SVG files by experiment.
    """
    parts = []
    for paper, title in PAPERS.items():
        rows = [
            [
                one.row.id,
                one.row.title,
                one.status,
                one.result.setting.profile if one.result else "",
            ]
            for one in found
            if one.row.paper == paper
        ]
        parts.append(section(title, table(["id", "what", "verdict", "profile"], rows, "words")))
    parts.extend(_section(one, plots.get(one.row.id)) for one in found if one.result is not None)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Evidence</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE} img {{ max-width: 100%; background: #fff; }}</style></head><body>"
        "<h1>Evidence</h1><p>What the papers claim, run again on skewless.</p>"
        f"{''.join(parts)}</body></html>\n"
    )


def _section(one: Found, plot: bytes | None) -> str:
    experiment, result, verdict = one.experiment, one.result, one.verdict
    if experiment is None or result is None or verdict is None:
        raise ValueError(f"{one.row.id}: there is no result to show.")
    told = [("The paper", experiment.claim), ("Run", experiment.setup)]
    if experiment.stand_in:
        told.append(("Deviations", experiment.stand_in))
    words = "".join(f"<p><b>{name}.</b> {html.escape(text)}</p>" for name, text in told)
    checks = "".join(f"<li>{html.escape(text)}</li>" for text in verdict.held)
    checks += "".join(
        f"<li><i>not as claimed:</i> {html.escape(text)}</li>" for text in verdict.missed
    )
    image = ""
    if plot is not None:
        data = base64.b64encode(plot).decode()
        image = f'<img alt="{html.escape(one.row.title)}" src="data:image/svg+xml;base64,{data}">'
    found = experiment.tabulate(result)
    return section(
        f"{one.row.id}: {one.row.title}",
        words,
        f"<p><b>{html.escape(verdict.outcome)}</b></p><ul>{checks}</ul>",
        image,
        table(found.headings, found.rows),
    )
