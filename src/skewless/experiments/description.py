"""What an experiment is: cells that measure, a judge, a table, a plot; and what a run of it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from skewless.report.plot import Plot

__all__ = [
    "NOT_REPRODUCED",
    "ORDERING_ONLY",
    "REPRODUCED",
    "Cell",
    "Check",
    "Experiment",
    "Result",
    "Row",
    "Setting",
    "Table",
    "Verdict",
    "judged",
    "number",
    "ordering",
    "pivot",
]

REPRODUCED = "reproduced"
ORDERING_ONLY = "reproduced in ordering only"
NOT_REPRODUCED = "not reproduced"

#: One thing that was measured: names to numbers, words, or lists of numbers.
Row = dict[str, Any]


class Setting(NamedTuple):
    """How much is run."""

    full: bool = False
    """As in the paper as far as a laptop goes; else the fast profile, seconds on one core."""
    seed: int = 0
    """Seed of the streams and of the policies."""

    @property
    def profile(self) -> str:
        """Return ``"full"`` or ``"fast"``."""
        return "full" if self.full else "fast"


class Cell(NamedTuple):
    """A part of an experiment that is measured, and kept, by itself."""

    name: str
    """Says what is measured, settings and all: it is what a kept result goes by."""
    measure: Callable[[], list[Row]]
    weight: float = 1.0
    """Expected time, in any unit; for the progress bar alone."""


class Verdict(NamedTuple):
    """Whether the paper's claim came out."""

    outcome: str
    """One of `REPRODUCED`, `ORDERING_ONLY` and `NOT_REPRODUCED`."""
    held: tuple[str, ...]
    """What is as claimed, with the numbers."""
    missed: tuple[str, ...] = ()
    """What is not."""

    @property
    def reason(self) -> str:
        """Return the numbers in words."""
        parts = list(self.held)
        if self.missed:
            parts.append("but: " + "; ".join(self.missed))
        return "; ".join(parts)


class Check(NamedTuple):
    """One statement that a claim comes down to."""

    kind: str
    """``"ordering"`` (who is better than whom) or ``"number"`` (by how much)."""
    held: bool
    words: str
    """What was found, with its numbers, true whether or not the statement held."""


class Table(NamedTuple):
    """Text cells, the headings with their units."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


class Result(NamedTuple):
    """What a run returned, or what was kept of it."""

    id: str
    setting: Setting
    rows: list[Row]
    """Of all cells, in the order of the cells."""
    seconds: float
    """Wall time of the cells, added up."""
    package: str
    """Version of skewless."""
    machine: dict[str, Any]
    """CPU model, count, Python, numpy."""

    def where(self, **values: Any) -> list[Row]:
        """Return the rows that have these values.

        Examples
        --------
        >>> rows = [{"policy": "pkg", "W": 5}, {"policy": "hash", "W": 5}]
        >>> Result("demo", Setting(), rows, 0.0, "", {}).where(policy="hash")
        [{'policy': 'hash', 'W': 5}]
        """
        return [r for r in self.rows if all(r.get(k) == v for k, v in values.items())]

    def one(self, column: str, **values: Any) -> Any:
        """Return the value in `column` of the one row that has these values.

        Raises
        ------
        LookupError
            There is none, or there are several.
        """
        found = self.where(**values)
        if len(found) != 1:
            raise LookupError(f"{self.id}: {len(found)} rows have {values}, wanted one.")
        return found[0][column]

    def values(self, column: str) -> list[Any]:
        """Return the different values in `column`, in the order in which they occur."""
        return list(dict.fromkeys(r[column] for r in self.rows if column in r))


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper, described once.

    Parameters
    ----------
    id
        Its permanent name, ``paper.what``; the table in `skewless.experiments.rows` has the title.
    setup
        What is run, in a sentence or two, with the numbers of both profiles.
    claim
        What the paper reports, in our words, with its figure or table.
    stand_in
        What takes the place of data that cannot be had, and other deviations; empty if exact.
    cells
        From a setting to the parts to measure.
    judge
        From a result to a verdict.
    tabulate
        From a result to the table of the evidence page.
    draw
        From a result to the paper's figure again; ``None`` where a table says it all.
    revision
        Raised when what is measured changes: results of an earlier one are not used.
    """

    id: str
    setup: str
    claim: str
    cells: Callable[[Setting], list[Cell]]
    judge: Callable[[Result], Verdict]
    tabulate: Callable[[Result], Table]
    draw: Callable[[Result], Plot] | None = None
    stand_in: str = ""
    revision: int = 1

    @property
    def paper(self) -> str:
        """Return the part of the id before the dot."""
        return self.id.partition(".")[0]


def ordering(held: bool, words: str) -> Check:
    """Return a check of who is better than whom."""
    return Check("ordering", bool(held), words)


def number(held: bool, words: str) -> Check:
    """Return a check of how large something is."""
    return Check("number", bool(held), words)


def judged(checks: Iterable[Check]) -> Verdict:
    """Return the verdict that the checks amount to.

    All held: reproduced. All orderings held, and there is one: reproduced in ordering only. Else: not.

    Examples
    --------
    >>> verdict = judged([ordering(True, "a is under b"), number(False, "by 3 %, not 30 %")])
    >>> verdict.outcome, verdict.reason
    ('reproduced in ordering only', 'a is under b; but: by 3 %, not 30 %')
    """
    found = list(checks)
    if not found:
        raise ValueError("judged: checks must hold at least one check, got none.")
    held = tuple(check.words for check in found if check.held)
    missed = tuple(check.words for check in found if not check.held)
    orderings = [check.held for check in found if check.kind == "ordering"]
    if not missed:
        outcome = REPRODUCED
    elif orderings and all(orderings):
        outcome = ORDERING_ONLY
    else:
        outcome = NOT_REPRODUCED
    return Verdict(outcome, held, missed)


def pivot(
    rows: Sequence[Row], index: Sequence[str], column: str, value: str, form: Callable[[Any], str]
) -> Table:
    """Lay rows out: one line for each combination in `index`, one column for each of `column`.

    Examples
    --------
    >>> rows = [{"W": 5, "policy": "pkg", "x": 0.5}, {"W": 5, "policy": "hash", "x": 2.0}]
    >>> pivot(rows, ["W"], "policy", "x", "{:.1f}".format)
    Table(headings=['W', 'pkg', 'hash'], rows=[['5', '0.5', '2.0']])
    """
    across = list(dict.fromkeys(row[column] for row in rows))
    lines: dict[tuple[Any, ...], dict[Any, str]] = {}
    for row in rows:
        line = lines.setdefault(tuple(row[name] for name in index), {})
        line[row[column]] = form(row[value])
    return Table(
        [*index, *map(str, across)],
        [[*map(str, head), *(line.get(one, "") for one in across)] for head, line in lines.items()],
    )
