"""``inspect(left, right, on=)``: what a join will put out, key by key, before anything of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skewless.spark.join import Join

__all__ = ["HotPair", "JoinInspection", "inspect_join"]

#: A result of more rows than this many times those that go in is called an explosion.
EXPLOSION = 10.0


class HotPair(NamedTuple):
    """A key of a join, with its rows on both sides."""

    value: tuple[Any, ...]
    """Values of the key columns."""
    left: int
    right: int
    output: float
    """Rows of the result that have the key, if there is no condition but the equalities."""


class JoinInspection:
    """What a join will do; prints as a table, and shows itself in a notebook.

    Attributes
    ----------
    how, workers
        Type of the join, and the number of tasks that it is looked at for.
    rows, null_rows
        Rows of both sides, and those whose null key matches nothing.
    output
        Rows of the result; an upper bound if the condition asks for more than equalities. With `sample`
        all these are estimates of the whole.
    top
        `HotPair` of the keys with the most work, most output first.
    explodes
        Whether the result has more than ten times the rows that go in.
    decision
        What `skewless.join` would do, and why.
    """

    def __init__(self, decided: Join, values: dict[int, tuple[Any, ...]]) -> None:
        self.how, self.workers = decided.how, decided.workers
        self.decision = decided.explain()
        self.bound = decided.keys.residual
        self.why_not = decided.keys.why_not
        self.rows, self.null_rows, self.output = (0, 0), (0, 0), 0.0
        self.top: list[HotPair] = []
        if self.why_not:
            return
        found = decided.count()
        self.rows, self.null_rows, self.output = found.rows, found.null_rows, found.output
        counts = found.counts
        for key, left, right in zip(
            counts.keys.tolist(), counts.left.tolist(), counts.right.tolist(), strict=True
        ):
            pairs = float(left) * right if counts.pairs else float(left)
            self.top.append(HotPair(values.get(key, ("?",)), left, right, pairs))
        self.top.sort(key=lambda pair: -pair.output)

    @property
    def explodes(self) -> bool:
        """Say whether far more rows come out than go in."""
        return self.output > EXPLOSION * max(1, sum(self.rows))

    def sentences(self) -> list[str]:
        """Return what was found, in words."""
        decided = [line.strip() for line in self.decision.splitlines()]
        if self.why_not:
            return [f"Nothing can be predicted: {self.why_not}.", *decided]
        most = "at most " if self.bound else ""
        says = [
            (
                f"{self.rows[0]:,} left and {self.rows[1]:,} right rows give {most}{self.output:,.0f}; "
                f"{self.null_rows[0]:,} and {self.null_rows[1]:,} have a null key, which matches nothing."
            )
        ]
        if self.explodes:
            worst = self.top[0]
            says.append(
                f"Warning: the result has {self.output / max(1, sum(self.rows)):,.0f} times the rows "
                f"that go in; {_text(worst.value)} alone gives {worst.output:,.0f}. A grid shares it "
                "out, but does not make it less: aggregate or filter a side first if you can."
            )
        return [*says, *decided]

    def cells(self, limit: int = 20) -> list[list[str]]:
        """Return the heaviest keys as table cells: key, left rows, right rows, rows of the result."""
        return [
            [_text(p.value), f"{p.left:,}", f"{p.right:,}", f"{p.output:,.0f}"]
            for p in self.top[:limit]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "how": self.how,
            "workers": self.workers,
            "rows": list(self.rows),
            "null_rows": list(self.null_rows),
            "output": self.output,
            "explodes": self.explodes,
            "top": [pair._asdict() for pair in self.top],
            "decision": self.decision,
        }

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page and return its path."""
        from skewless.report import inspection_page

        inspection_page.write_join(Path(path), self.sentences(), self.cells())
        return Path(path)

    def _repr_html_(self) -> str:
        from skewless.report.text import JOIN_HEADINGS, paragraphs, table

        return paragraphs(self.sentences()) + table(JOIN_HEADINGS, self.cells())

    def __repr__(self) -> str:
        from skewless.report.text import JOIN_HEADINGS, aligned

        lines = [f"inspect, join ({self.how}), {self.workers} workers", ""]
        if self.top:
            lines += [*aligned(JOIN_HEADINGS, self.cells(10)), ""]
        return "\n".join([*lines, *(f"* {sentence}" for sentence in self.sentences())])


def _text(value: tuple[Any, ...]) -> str:
    return ", ".join("null" if v is None else str(v) for v in value)


def inspect_join(
    left: Any,
    right: Any,
    on: Any,
    how: str,
    *,
    workers: int | None,
    sample: float | None,
) -> JoinInspection:
    """Count both sides of a join and predict its result; see `skewless.inspect`."""
    from skewless.spark.join import Join
    from skewless.spark.join_counts import key_values

    decided = Join(left, right, on, how, workers=workers, sample=1.0 if sample is None else sample)
    if decided.keys.why_not:
        return JoinInspection(decided, {})
    hashes = decided.count().counts.keys.tolist()
    return JoinInspection(decided, key_values(left, right, decided.keys, hashes))
