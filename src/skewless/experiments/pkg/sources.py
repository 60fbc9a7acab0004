"""pkg.fig4: sources that get uneven parts of the stream.

M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section V, Q3, Figure 4.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.datasets.graphs import Edges, power_law_edges
from skewless.experiments.description import (
    Cell,
    Experiment,
    Result,
    Row,
    Setting,
    Table,
    Verdict,
    judged,
    number,
    ordering,
    pivot,
)
from skewless.experiments.pkg.imbalance import WORKERS
from skewless.experiments.through_time import destinations, imbalance_through_time
from skewless.partitioners import PKG, Hash
from skewless.report.plot import Line, Panel, Plot

__all__ = ["FIG4", "by_sources"]

SOURCES = (5, 10, 15, 20)


def by_sources(
    keys: NDArray[np.uint64], owner: NDArray[np.int32], n_workers: int, seed: int
) -> NDArray[np.int32]:
    """Route each source's tuples by a PKG of its own, all with the same hash functions."""
    workers = np.empty(len(keys), np.int32)
    for source in np.unique(owner).tolist():
        mine = owner == source
        workers[mine] = PKG(n_workers, seed=seed).route(Chunk(None, keys[mine]))
    return workers


def _measure(n_edges: int, n_workers: int, seed: int) -> list[Row]:
    edges = _edges(n_edges, seed)
    hashed = Hash(n_workers, seed=seed)
    rows: list[Row] = [_row("hashing", 1, n_workers, destinations(hashed, edges.destination), 1.0)]
    for s in SOURCES:
        skewed = Hash(s, seed=seed + 1).route(Chunk(None, edges.source))
        uniform = (np.arange(n_edges) % s).astype(np.int32)
        for split, owner in (("uniform", uniform), ("skewed", skewed)):
            workers = by_sources(edges.destination, owner, n_workers, seed)
            part = float(np.bincount(owner, minlength=s).max()) * s / n_edges
            rows.append(_row(split, s, n_workers, workers, part))
    return rows


@functools.lru_cache(maxsize=1)
def _edges(n_edges: int, seed: int) -> Edges:
    return power_law_edges(n_edges, n_edges // 14, seed=seed)


def _row(split: str, s: int, n: int, workers: NDArray[np.int32], part: float) -> Row:
    fraction = float(imbalance_through_time(workers, n).mean() / len(workers))
    return {"split": split, "sources": s, "workers": n, "fraction": fraction, "fullest": part}


def _cells(setting: Setting) -> list[Cell]:
    n = 10_000_000 if setting.full else 1_000_000
    return [
        Cell(f"{n} edges, W = {w}", functools.partial(_measure, n, w, setting.seed))
        for w in WORKERS
    ]


def _judge(result: Result) -> Verdict:
    def at(split: str, s: int, n: int) -> float:
        return float(result.one("fraction", split=split, sources=s, workers=n))

    ratio = {(s, n): at("skewed", s, n) / at("uniform", s, n) for s in SOURCES for n in WORKERS}
    (s, n), worst = max(ratio.items(), key=lambda item: item[1])
    fullest = max(row["fullest"] for row in result.where(split="skewed"))
    highest = max(at("skewed", s, n) for s in SOURCES for n in WORKERS)
    hashing = min(at("hashing", 1, n) for n in WORKERS)
    return judged(
        (
            ordering(
                highest < hashing / 10,
                f"PKG stays below {highest:.1e} of the edges, hashing is never below {hashing:.1e}",
            ),
            number(
                worst <= 3,
                f"sources that get uneven parts (the fullest {fullest:.2f} times its share) have at "
                f"most {worst:.2f} times the imbalance of even ones ({s} sources, {n} workers), "
                f"{np.mean(list(ratio.values())):.2f} times in the mean",
            ),
            number(
                at("skewed", 20, 100) > at("skewed", 5, 5),
                f"it grows with sources and workers, from {at('skewed', 5, 5):.1e} (5, 5) to "
                f"{at('skewed', 20, 100):.1e} (20, 100)",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    rows = [{**row, "which": f"{row['split']}, S = {row['sources']}"} for row in result.rows]
    table = pivot(rows, ["workers"], "which", "fraction", "{:.1e}".format)
    return Table([table.headings[0], *(f"{h}, fraction" for h in table.headings[1:])], table.rows)


def _draw(result: Result) -> Plot:
    panels: list[Panel] = []
    for s in SOURCES:
        lines = [
            Line(
                split,
                list(WORKERS),
                [result.one("fraction", split=split, sources=s, workers=n) for n in WORKERS],
            )
            for split in ("uniform", "skewed")
        ]
        label = "" if panels else "average imbalance over edges"
        panels.append(Panel(f"{s} sources", lines, "workers", label, log_x=True, log_y=True))
    return Plot(panels, share_y=True)


FIG4 = Experiment(
    id="pkg.fig4",
    setup=(
        "10 M edges (fast: 1 M), 14 a node as in LiveJournal; an edge goes to a source by the hash "
        "of its start, or in turn, and by its end to one of 5 to 100 workers. Each of 5 to 20 "
        "sources has a PKG of its own."
    ),
    claim=(
        "Figure 4: a skewed split over the sources costs about as little balance as an even one, "
        "and imbalance grows slightly with sources and workers."
    ),
    stand_in="Generated edges with power laws of in- and out-degrees, not LiveJournal's.",
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
