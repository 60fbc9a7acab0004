"""dalton.fig11 and fig12: what Dalton's parts bring, and who keeps up with which rate.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton, PVLDB 16(3), 2022, section 5.3, Figures 11 and 12.
"""

from __future__ import annotations

import functools

import numpy as np

from skewless.experiments.dalton.knobs import thresholded
from skewless.experiments.dalton.scaling import STREAMS, stream
from skewless.experiments.dalton.setup import (
    COSTS_IN_WORDS,
    SIZE,
    SLIDE,
    Job,
    k_per_s,
    measure,
    policy_of,
)
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
from skewless.report.plot import Line, Panel, Plot
from skewless.simulator import Source

__all__ = ["FIG11", "FIG12"]

JOB = Job()
RATES = (25_000, 50_000, 100_000, 200_000, 400_000, 800_000)
VARIANTS = ("non-hybrid", "no forwarding", "full")


def _ablation(data: str, windows: int, seed: int) -> list[Row]:
    keys = stream(data, windows * SIZE, seed)
    rows = []
    for variant in VARIANTS:
        policy = thresholded(SLIDE if variant == "non-hybrid" else 0, seed)
        found = measure("dalton", keys, JOB, policy=policy, forwarding=variant == "full", seed=seed)
        rows.append({"stream": data, "variant": variant, **found.figures(1)})
    return rows


def _cells_11(setting: Setting) -> list[Cell]:
    windows = 40 if setting.full else 6
    return [
        Cell(
            f"{data}, {windows} windows", functools.partial(_ablation, data, windows, setting.seed)
        )
        for data in STREAMS
    ]


def judge_fig11(result: Result) -> Verdict:
    """Judge what tracking hot keys and forwarding bring."""
    tracking, forwarding = {}, {}
    for data in STREAMS:
        none, half, full = (
            float(result.one("throughput", stream=data, variant=v)) for v in VARIANTS
        )
        tracking[data], forwarding[data] = half / none, full / half
    mean = float(np.exp(np.mean(np.log(list(tracking.values())))))
    return judged(
        [
            ordering(
                min(tracking.values()) > 1,
                "tracking hot keys brings "
                + ", ".join(f"{by:.2f} times ({data})" for data, by in tracking.items()),
            ),
            number(1.1 <= mean <= 1.4, f"in the mean {mean:.2f} (paper 1.2)"),
            ordering(
                forwarding["t4sa"] == max(forwarding.values()) > 1.5,
                "forwarding then brings "
                + ", ".join(f"{by:.2f} times ({data})" for data, by in forwarding.items()),
            ),
            number(
                2.4 <= max(forwarding.values()) <= 3.6,
                f"at most {max(forwarding.values()):.2f} (paper 3)",
            ),
        ]
    )


def _table_11(result: Result) -> Table:
    table = pivot(result.rows, ["stream"], "variant", "throughput", k_per_s)
    return Table(["stream", *(f"{variant}, k/s" for variant in VARIANTS)], table.rows)


def _draw_11(result: Result) -> Plot:
    lines = [
        Line(v, [], [float(r["throughput"]) / 1e3 for r in result.where(variant=v)])
        for v in VARIANTS
    ]
    label = "thousand tuples per second"
    return Plot([Panel("", lines, "", label, categories=list(STREAMS))])


def _at_rate(name: str, rate: int, windows: int, seed: int) -> Row:
    keys = stream("elections", windows * SIZE, seed)
    policy = policy_of(name, JOB, seed)
    found = measure(name, keys, JOB, policy=policy, sources=Source(keys, rate), seed=seed).found
    out, tuples = found.panes.out_s, found.panes.tuples
    return {
        "policy": name,
        "rate": rate,
        "measured": float(tuples[1:].sum()) / float(out[-1] - out[0]),
    }


def _rates(name: str, windows: int, seed: int) -> list[Row]:
    return [_at_rate(name, rate, windows, seed) for rate in RATES]


def _cells_12(setting: Setting) -> list[Cell]:
    windows = 20 if setting.full else 4
    names = ("hash", "shuffle", "pkg", "da_greedy", "dalton", "wrap_around")
    return [
        Cell(f"{name}, {windows} windows", functools.partial(_rates, name, windows, setting.seed))
        for name in names
    ]


def judge_fig12(result: Result) -> Verdict:
    """Judge that all keep up at a low rate, and none at the highest."""
    low = [float(r["measured"]) / RATES[0] for r in result.where(rate=RATES[0])]
    high = {r["policy"]: float(r["measured"]) for r in result.where(rate=RATES[-1])}
    papers = {name: rate for name, rate in high.items() if name != "wrap_around"}
    return judged(
        [
            ordering(
                min(low) > 0.97,
                f"at {RATES[0] / 1e3:.0f} k/s all reach {min(low):.2f} to {max(low):.2f} of the rate",
            ),
            ordering(
                max(papers.values()) < 0.9 * RATES[-1],
                f"at {RATES[-1] / 1e3:.0f} k/s they peak: "
                + ", ".join(f"{name} {k_per_s(rate)}" for name, rate in high.items()),
            ),
        ]
    )


def _table_12(result: Result) -> Table:
    table = pivot(result.rows, ["rate"], "policy", "measured", k_per_s)
    rows = [[k_per_s(float(rate)), *rest] for rate, *rest in table.rows]
    return Table(["input, k/s", *(f"{h}, k/s" for h in table.headings[1:])], rows)


def _draw_12(result: Result) -> Plot:
    lines = []
    for name in result.values("policy"):
        rows = result.where(policy=name)
        y = [float(r["measured"]) / 1e3 for r in rows]
        lines.append(Line(name, [r["rate"] / 1e3 for r in rows], y))
    panel = Panel(
        "", lines, "input, thousand tuples per second", "output, thousand", log_x=True, log_y=True
    )
    return Plot([panel])


FIG11 = Experiment(
    id="dalton.fig11",
    setup=(
        "Word count on 64 tasks, the streams of dalton.fig7. Non-hybrid: every key is hot, and all is "
        "merged. Then hot keys alone go through the bandit; then what is whole is forwarded. 40 windows "
        f"(fast: 6), the first left out. Costs: {COSTS_IN_WORDS}."
    ),
    claim=(
        "Figure 11: tracking hot keys brings 1.2 times in the mean, forwarding up to 3 times on the near "
        "uniform T4SA."
    ),
    stand_in=(
        "The data as in dalton.fig7. What tracking saves is the partitioner's time and fragments; the "
        "first counts for nothing where combiners are the bottleneck, as on Zipf here."
    ),
    cells=_cells_11,
    judge=judge_fig11,
    tabulate=_table_11,
    draw=_draw_11,
)

FIG12 = Experiment(
    id="dalton.fig12",
    setup=(
        "Word count on 64 tasks, the elections stream, coming in at 25 to 800 thousand tuples per "
        "second; "
        "what comes out, with bounded queues. 20 windows (fast: 4), the first left out."
    ),
    claim=(
        "Figure 12: at low rates all are alike; at the highest none keeps up, and each is at its peak."
    ),
    stand_in=(
        "The data as in dalton.fig7, its costs, but 0.5 us a tuple for every partitioner. The paper's "
        "highest rate is 40 thousand a second."
    ),
    cells=_cells_12,
    judge=judge_fig12,
    tabulate=_table_12,
    draw=_draw_12,
)
