"""pkg.fig2, pkg.fig3: what a source has to know about the loads.

M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section V, Q2 and Q3, Figures 2 and 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewless.experiments.description import (
    Cell,
    Check,
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
from skewless.experiments.pkg.streams import cashtag_minutes, cashtags, drawn
from skewless.experiments.through_time import destinations, imbalance_through_time
from skewless.partitioners import PKG, Hash, Partitioner
from skewless.report.plot import Line, Panel, Plot

__all__ = ["FIG2", "FIG3"]

SOURCES = (5, 10, 15, 20)
Stream = Callable[[], NDArray[np.uint64]]


def _fig2_policies(n: int, seed: int) -> dict[str, Partitioner]:
    local: dict[str, Partitioner] = {f"L{s}": PKG(n, sources=s, seed=seed) for s in SOURCES}
    return {"G": PKG(n, estimates="global", seed=seed), **local, "H": Hash(n, seed=seed)}


def _fig2_rows(name: str, stream: Stream, n: int, seed: int) -> list[Row]:
    keys = stream()
    p1 = float(np.unique(keys, return_counts=True)[1].max()) / len(keys)
    return [
        {
            "stream": name,
            "workers": n,
            "technique": technique,
            "fraction": float(
                imbalance_through_time(destinations(policy, keys), n).mean() / len(keys)
            ),
            "p1": p1,
            "messages": len(keys),
        }
        for technique, policy in _fig2_policies(n, seed).items()
    ]


def _fig2_cells(setting: Setting) -> list[Cell]:
    n = 10_000_000 if setting.full else 1_000_000
    part = 0.5 if setting.full else 0.05
    seed = setting.seed
    streams: dict[str, Stream] = {
        "wikipedia": functools.partial(drawn, "wikipedia", n, part, seed),
        "twitter": functools.partial(drawn, "twitter", n, part / 5, seed),
        "cashtags": cashtags,
        "ln1": functools.partial(drawn, "ln1", n, 1.0, seed),
        "ln2": functools.partial(drawn, "ln2", n, 1.0, seed),
        "livejournal": functools.partial(drawn, "livejournal", n, part, seed),
    }
    return [
        Cell(f"{name}, W = {w}, {n} messages", functools.partial(_fig2_rows, name, stream, w, seed))
        for name, stream in streams.items()
        for w in WORKERS
    ]


def _judge_fig2(result: Result) -> Verdict:
    checks: list[Check] = []
    spread = 0.0
    ratio: dict[str, float] = {}
    for stream in result.values("stream"):

        def at(technique: str, n: int, stream: str = stream) -> float:
            return float(result.one("fraction", stream=stream, workers=n, technique=technique))

        p1 = float(result.where(stream=stream)[0]["p1"])
        reach = [n for n in WORKERS if n <= 1 / p1]
        under = min(at("H", n) / max(at(f"L{s}", n) for s in SOURCES) for n in reach)
        checks.append(
            ordering(
                under > 10,
                f"{stream}: with up to {reach[-1]} workers L is at least {under:,.0f} times below H",
            )
        )
        for n in WORKERS:
            local = [at(f"L{s}", n) for s in SOURCES]
            messages = float(result.where(stream=stream)[0]["messages"])
            where = (
                f"{stream}, W = {n}: {max(local) * messages:.0f} messages against "
                f"{at('G', n) * messages:.0f}"
            )
            ratio[where] = max(local) / at("G", n)
            spread = max(spread, max(local) / min(local))
    farthest = max(ratio, key=lambda where: ratio[where])
    checks.append(
        number(
            ratio[farthest] < 10,
            f"L is at most {ratio[farthest]:.1f} times G's imbalance ({farthest}), and in "
            f"{sum(r < 10 for r in ratio.values())} of {len(ratio)} cases less than ten times",
        )
    )
    checks.append(
        number(spread < 10, f"from 5 to 20 sources L changes by a factor of {spread:.1f} at most")
    )
    return judged(checks)


def _tabulate_fig2(result: Result) -> Table:
    table = pivot(result.rows, ["stream", "workers"], "technique", "fraction", "{:.1e}".format)
    heads = [f"{head}, fraction of messages" for head in table.headings[2:]]
    return Table([*table.headings[:2], *heads], table.rows)


_COLOURS = {"G": "#000000", "H": "#999999", "L5": "#0072b2", "L5P1": "#d55e00"}


def _draw_fig2(result: Result) -> Plot:
    panels: list[Panel] = []
    for stream in result.values("stream"):
        lines = [
            Line(
                technique,
                list(WORKERS),
                [
                    result.one("fraction", stream=stream, workers=n, technique=technique)
                    for n in WORKERS
                ],
                colour=_COLOURS.get(technique, ""),
            )
            for technique in ("H", "G", *(f"L{s}" for s in SOURCES))
        ]
        label = "" if panels else "average imbalance over messages"
        panels.append(Panel(stream, lines, "workers", label, log_x=True, log_y=True))
    return Plot(panels, share_y=True)


FIG2 = Experiment(
    id="pkg.fig2",
    setup=(
        "PKG with global estimates (G), local estimates of 5 to 20 sources that take turns (L5 to "
        "L20), and hashing (H), on look-alikes of Wikipedia, Twitter and LiveJournal, log-normal "
        "keys and real cashtags; 10 M messages (fast: 1 M), 5 to 100 workers. Average of max - "
        "mean over messages."
    ),
    claim=(
        "Figure 2: local estimation is always within an order of magnitude of global, both are far "
        "below hashing, and the number of sources makes little difference."
    ),
    stand_in=(
        "Zipf streams with p1 and, in proportion, the number of keys of the originals, but for the "
        "log-normal ones, which are the paper's, and the cashtags."
    ),
    cells=_fig2_cells,
    judge=_judge_fig2,
    tabulate=_tabulate_fig2,
    draw=_draw_fig2,
)

FIG3_WORKERS = (10, 50)


def _fig3_rows(name: str, n_messages: int, n: int, seed: int) -> list[Row]:
    if name == "cashtags":
        keys, times, period = cashtags(), cashtag_minutes(), 1
    else:
        # A day of 1,440 minutes.
        keys, times = drawn("wikipedia", n_messages, 0.05, seed), np.arange(n_messages)
        period = max(1, n_messages // 1440)
    policies: dict[str, Partitioner] = {
        "G": PKG(n, estimates="global", seed=seed),
        "L5": PKG(n, sources=5, seed=seed),
        "L5P1": PKG(n, sources=5, estimates="probed", period=period, seed=seed),
        "H": Hash(n, seed=seed),
    }
    went = {which: destinations(policy, keys, times) for which, policy in policies.items()}
    rows: list[Row] = []
    for which, workers in went.items():
        imbalance = imbalance_through_time(workers, n, 60) / len(keys)
        same = float((workers == went["G"]).mean())
        rows.append(
            {
                "stream": name,
                "workers": n,
                "technique": which,
                "series": imbalance,
                "fraction": imbalance_through_time(workers, n).mean() / len(keys),
                "same_as_G": same,
                "jaccard_with_G": same / (2 - same),
                "p1": float(np.unique(keys, return_counts=True)[1].max()) / len(keys),
            }
        )
    return rows


def _fig3_cells(setting: Setting) -> list[Cell]:
    n_messages = 10_000_000 if setting.full else 1_000_000
    return [
        Cell(
            f"{name}, W = {n}, {n_messages} messages",
            functools.partial(_fig3_rows, name, n_messages, n, setting.seed),
        )
        for name in ("wikipedia", "cashtags")
        for n in FIG3_WORKERS
    ]


def _judge_fig3(result: Result) -> Verdict:
    checks = []
    for stream in result.values("stream"):

        def at(technique: str, n: int, column: str = "fraction", stream: str = stream) -> float:
            return float(result.one(column, stream=stream, workers=n, technique=technique))

        checks.append(
            ordering(
                at("L5", 10) < at("H", 10) / 10,
                f"{stream}, W = 10: L5 {at('L5', 10):.1e}, G {at('G', 10):.1e}, H {at('H', 10):.1e}",
            )
        )
        checks.append(
            ordering(
                at("L5P1", 10) > at("L5", 10) / 2,
                f"{stream}: probing once a minute gives {at('L5P1', 10):.1e} with 10 workers and "
                f"{at('L5P1', 50):.1e} with 50, L5 {at('L5', 10):.1e} and {at('L5', 50):.1e}",
            )
        )
        checks.append(
            ordering(
                at("G", 50) > 100 * at("G", 10) and at("H", 50) < 10 * at("L5", 50),
                f"{stream}, W = 50: all are high, G {at('G', 50):.1e}, L5 {at('L5', 50):.1e}, H "
                f"{at('H', 50):.1e}",
            )
        )
        overlap = at("L5", 10, "jaccard_with_G")
        checks.append(
            number(
                0.37 <= overlap <= 0.57,
                f"{stream}, W = 10: destinations under L5 and G overlap by {overlap:.0%} (Jaccard; "
                f"{at('L5', 10, 'same_as_G'):.0%} of messages go the same way)",
            )
        )
    return judged(checks)


def _tabulate_fig3(result: Result) -> Table:
    return Table(
        ["stream", "workers", "technique", "average imbalance, fraction", "Jaccard with G"],
        [
            [
                row["stream"],
                str(row["workers"]),
                row["technique"],
                f"{row['fraction']:.2e}",
                f"{row['jaccard_with_G']:.2f}",
            ]
            for row in result.rows
        ],
    )


def _draw_fig3(result: Result) -> Plot:
    panels: list[Panel] = []
    for stream in result.values("stream"):
        for n in FIG3_WORKERS:
            lines = [
                Line(
                    row["technique"],
                    [(i + 1) / len(row["series"]) for i in range(len(row["series"]))],
                    [max(float(value), 1e-7) for value in row["series"]],
                    "-",
                    _COLOURS[row["technique"]],
                )
                for row in result.where(stream=stream, workers=n)
            ]
            label = "" if panels else "imbalance over all messages"
            panels.append(
                Panel(f"{stream}, W = {n}", lines, "part of the stream", label, log_y=True)
            )
    return Plot(panels, share_y=True)


FIG3 = Experiment(
    id="pkg.fig3",
    setup=(
        "Five sources, 10 and 50 workers: global estimates (G), local ones (L5), local ones that "
        "are set to the true loads every minute (L5P1), hashing (H), on a look-alike of Wikipedia "
        "(10 M messages a day, fast: 1 M) and on real cashtags, whose popularity drifts, by their "
        "own minutes."
    ),
    claim=(
        "Figure 3: G and L5 are balanced throughout with 10 workers, although only 47 % of their "
        "destinations are the same (Jaccard); probing does not help; drift brings spikes only; "
        "with 50 workers, beyond the limit, all are bad."
    ),
    stand_in=(
        "The look-alike has the same p1 and does not change through the day. The cashtags are of "
        "other weeks than the paper's, with a first key of 8.6 % where it had 3.3 %."
    ),
    cells=_fig3_cells,
    judge=_judge_fig3,
    tabulate=_tabulate_fig3,
    draw=_draw_fig3,
)
