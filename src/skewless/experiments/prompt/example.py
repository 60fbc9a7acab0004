"""prompt.example: a batch of 385 tuples and 8 keys dealt to four blocks.

A. S. Abdelhamid et al., Prompt, SIGMOD 2020, Figures 5 and 6.
"""

from __future__ import annotations

import numpy as np

from skewless.experiments.description import (
    Cell,
    Experiment,
    Result,
    Row,
    Table,
    Verdict,
    judged,
    number,
)
from skewless.histogram import Histogram
from skewless.metrics import fragment_counts
from skewless.planners import Prompt
from skewless.report.plot import Line, Panel, Plot

__all__ = ["EXAMPLE"]

#: Their sum, number, and how many exceed the cut-off of 385 / 8 are the paper's.
COUNTS = (150, 85, 40, 35, 30, 20, 15, 10)
BLOCKS = 4


def _measure() -> list[Row]:
    keys = np.repeat(np.arange(1, len(COUNTS) + 1, dtype=np.uint64), COUNTS)
    workers = Prompt(BLOCKS).plan(Histogram.of(keys)).route(keys)
    split = fragment_counts(keys, workers)[1]
    return [
        {
            "block": block,
            "tuples": int((workers == block).sum()),
            "keys": len(np.unique(keys[workers == block])),
            "split_keys": int((split > 1).sum()),
            "fragments": int(split.sum()),
        }
        for block in range(BLOCKS)
    ]


def _judge(result: Result) -> Verdict:
    sizes = [int(row["tuples"]) for row in result.rows]
    keys = [int(row["keys"]) for row in result.rows]
    split = int(result.rows[0]["split_keys"])
    return judged(
        (
            number(max(sizes) - min(sizes) <= 1, f"blocks of {sizes} tuples"),
            number(max(keys) - min(keys) <= 2, f"with {keys} keys"),
            number(split == 2, f"{split} of 8 keys are split"),
        )
    )


def _tabulate(result: Result) -> Table:
    rows = [[str(row[name]) for name in ("block", "tuples", "keys")] for row in result.rows]
    return Table(["block", "tuples", "keys"], rows)


def _draw(result: Result) -> Plot:
    blocks = [f"block {row['block']}" for row in result.rows]
    return Plot(
        [
            Panel(name, [Line(name, [], [row[name] for row in result.rows])], "", categories=blocks)
            for name in ("tuples", "keys")
        ]
    )


EXAMPLE = Experiment(
    id="prompt.example",
    setup="385 tuples of 8 keys, two of them above the cut-off of 385 / 8, planned for 4 blocks.",
    claim=(
        "Figures 5 and 6: blocks of equal size, nearly equal numbers of keys, and only the two "
        "heavy keys in fragments."
    ),
    stand_in="The figure's counts are not in its text; ours have the same sum, number and heavy keys.",
    cells=lambda _setting: [Cell("385 tuples, 4 blocks", _measure)],
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
