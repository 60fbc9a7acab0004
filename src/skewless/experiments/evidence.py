"""The evidence page: a verdict for every experiment, then each with our table, plot and its claim."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skewless.document import write
from skewless.experiments.description import Experiment, Result, Table, Verdict
from skewless.experiments.rows import PAPERS, ROWS, Listed, find
from skewless.experiments.store import Store
from skewless.report.plot import save_svg

__all__ = ["NOT_RUN", "PLOTS", "Found", "collect", "markdown", "render"]

#: Where the plots are, below the page's folder.
PLOTS = Path("plots") / "evidence"
NOT_RUN = "not run yet"
_LEAD = """# Evidence

The experiments of the five papers, and ours, run again on skewless: what a paper claims, what came out
here, and whether that is the same. This page is made from the results in
[benchmarks/results/experiments](../benchmarks/results/experiments) by

```sh
skewless experiment report --results benchmarks/results/experiments --out docs
```

and a result by, for instance, `skewless experiment run pkg.lognormal` (`--full` for the paper's sizes as
far as a laptop goes; `skewless experiment list` shows all). *Reproduced*: the paper's ordering, and its
numbers within the band that is named. *Reproduced in ordering only*: who is better than whom, but by
another factor. *Not reproduced*: something else came out. Where data cannot be had, the stand-in is
named.

Policies decide tuple by tuple or window by window as they do on Spark; throughput and latency are the
simulator's, from the costs that a row names; seconds of a row that runs on a real Spark are wall time,
with work that sleeps where the row says so. Of our own experiments, *reproduced* says that the goal is
met.

"""


class Found(NamedTuple):
    """A line of the page."""

    row: Listed
    experiment: Experiment | None
    result: Result | None
    verdict: Verdict | None

    @property
    def status(self) -> str:
        """Return the outcome, or why there is none."""
        if self.verdict is not None:
            return self.verdict.outcome
        return self.row.status if self.experiment is None else NOT_RUN


def collect(store: Store) -> list[Found]:
    """Return what there is of every experiment, in the order of the table; full results before fast."""
    found = []
    for row in ROWS:
        if not row.home:
            found.append(Found(row, None, None, None))
            continue
        experiment = find(row.id)
        kept = store.best(experiment)
        if kept is None:
            found.append(Found(row, experiment, None, None))
        else:
            result = kept.result()
            found.append(Found(row, experiment, result, experiment.judge(result)))
    return found


def render(store: Store, folder: Path) -> list[Path]:
    """Write ``evidence.md`` and the plots into a folder; return the files.

    Raises
    ------
    DataError
        A result is unreadable.
    MissingExtra
        There is a plot to draw and matplotlib is not installed.
    """
    found = collect(store)
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    written = [folder / "evidence.md"]
    for one in found:
        if (
            one.experiment is not None
            and one.result is not None
            and one.experiment.draw is not None
        ):
            path = folder / PLOTS / f"{one.row.id}.svg"
            save_svg(one.experiment.draw(one.result), path)
            written.append(path)
    write(written[0], markdown(found))
    return written


def markdown(found: list[Found]) -> str:
    """Return the page as text; the same results give the same page."""
    parts = [_LEAD]
    tally: dict[str, int] = {}
    for one in found:
        tally[one.status] = tally.get(one.status, 0) + 1
    parts.append(", ".join(f"{n} {status}" for status, n in tally.items()) + ".\n")
    for paper, title in PAPERS.items():
        rows = []
        for one in (each for each in found if each.row.paper == paper):
            name = f"[{one.row.id}](#{_anchor(one.row.id)})" if one.result else one.row.id
            profile = one.result.setting.profile if one.result else ""
            rows.append([name, _text(one.row.title), one.status, profile])
        parts.append(f"\n**{_text(title)}**\n\n")
        parts.append(_table(["id", "what", "verdict", "profile"], rows, escaped=True))
    parts.extend(_section(one) for one in found if one.result is not None)
    return "".join(parts)


def _section(one: Found) -> str:
    experiment, result, verdict = one.experiment, one.result, one.verdict
    if experiment is None or result is None or verdict is None:
        raise ValueError(f"{one.row.id}: there is no result to show.")
    machine = result.machine
    table: Table = experiment.tabulate(result)
    lines = [
        f"\n## {one.row.id}\n",
        f"{_sentence(one.row.title)}.\n",
        f"**The paper.** {_text(experiment.claim)}\n",
        f"**Run.** {_text(experiment.setup)}\n",
    ]
    if experiment.stand_in:
        lines.append(f"**Deviations.** {_text(experiment.stand_in)}\n")
    lines.append(f"**{_sentence(verdict.outcome)}.**\n")
    told = [f"* {_text(words)}" for words in verdict.held]
    told += [f"* *not as claimed:* {_text(words)}" for words in verdict.missed]
    lines.append("\n".join(told) + "\n")
    if experiment.draw is not None:
        lines.append(f"![{_text(one.row.title)}]({(PLOTS / one.row.id).as_posix()}.svg)\n")
    lines.append(_table(table.headings, table.rows))
    lines.append(
        f"Profile {result.setting.profile}, seed {result.setting.seed}, {result.seconds:.0f} s on "
        f"{_text(str(machine.get('cpu', 'unknown')))} ({machine.get('cpus', '?')} CPUs), skewless "
        f"{_text(result.package)}.\n"
    )
    return "\n".join(lines)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, escaped: bool = False) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c if escaped else _text(c) for c in cells) + " |\n"

    return line(headings) + "|" + "---|" * len(headings) + "\n" + "".join(map(line, rows))


def _text(text: str) -> str:
    """Return words that are no mark-up: what comes from files and machines is not trusted."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", flat)


def _sentence(text: str) -> str:
    shown = _text(text)
    return shown[:1].upper() + shown[1:]


def _anchor(name: str) -> str:
    return name.replace(".", "")
