"""dr.fig2: balance of the methods as partitions are added, and what more tracked keys are good for.

Z. Zvara et al., System-aware dynamic partitioning for batch and streaming workloads, 2021, Figure 2.
"""

from __future__ import annotations

import functools
import statistics

import numpy as np

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
from skewless.experiments.dr.methods import METHODS, balance, renamed, shifted_zipf
from skewless.histogram import Histogram
from skewless.planners import KIP
from skewless.report.plot import Line, Panel, Plot

__all__ = ["FIG2"]

N_KEYS, RECORDS = 100_000, 4_000_000
PARTITIONS = (10, 20, 40, 60, 80, 100, 120)
SCALES = (1.0, 2.0, 3.0, 4.0)
SHIFTS = (10.0, 0.0)


def _measure(shift: float, runs: int, seed: int) -> list[Row]:
    p = shifted_zipf(N_KEYS, 1.0, shift)
    found: dict[tuple[int, str], list[float]] = {}
    heaviest = 0.0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        counts = rng.multinomial(RECORDS, p)
        here = counts > 0
        histogram = Histogram(renamed(N_KEYS, rng)[here], counts[here])
        heaviest = max(heaviest, float(counts.max()) / RECORDS)
        for n in PARTITIONS:
            for name, method in METHODS.items():
                plan = method(n, histogram, None)
                found.setdefault((n, name), []).append(balance(plan, histogram))
            for scale in SCALES:
                plan = KIP(n, scale=scale).plan(histogram)
                found.setdefault((n, f"lambda {scale:g}"), []).append(balance(plan, histogram))
    return [
        {
            "shift": shift,
            "partitions": n,
            "method": name,
            "max_over_mean": statistics.fmean(values),
            "worst": max(values),
            "floor": max(1.0, n * heaviest),
            "runs": runs,
        }
        for (n, name), values in found.items()
    ]


def _cells(setting: Setting) -> list[Cell]:
    runs = 100 if setting.full else 5
    return [
        Cell(
            f"shift {shift:g}, {runs} runs", functools.partial(_measure, shift, runs, setting.seed)
        )
        for shift in SHIFTS
    ]


def _judge(result: Result) -> Verdict:
    def at(method: str, n: int, shift: float) -> float:
        return float(result.one("max_over_mean", shift=shift, partitions=n, method=method))

    most, fewest = PARTITIONS[-1], PARTITIONS[0]
    whole = ("hash", "readj", "redist", "scan", "mixed")
    lead = min(min(at(m, n, 0.0) for m in whole) / at("kip", n, 0.0) for n in PARTITIONS)
    lead_10 = min(min(at(m, n, 10.0) for m in whole[:-1]) / at("kip", n, 10.0) for n in PARTITIONS)
    kip = {n: at("kip", n, 10.0) for n in PARTITIONS if n <= 100}
    mixed = {n: at("mixed", n, 10.0) for n in PARTITIONS if n <= 100}
    grows = {m: at(m, most, 0.0) / at(m, fewest, 0.0) for m in ("hash", "readj")}
    scales = [at(f"lambda {scale:g}", 100, 10.0) for scale in SCALES]
    floor = float(result.where(shift=0.0, partitions=100)[0]["floor"])
    spread = [at(m, 100, 10.0) for m in ("readj", "redist", "scan")]
    return judged(
        (
            ordering(
                lead > 1,
                f"plain Zipf 1: the best of the others is always at least {lead:.3f} of KIP's "
                f"max/mean",
            ),
            ordering(
                lead_10 > 0.97,
                f"shifted: the best of Hash, Readj, Redist and Scan is always at least {lead_10:.2f} "
                f"of KIP's",
            ),
            ordering(
                at("mixed", most, 10.0) < 0.8 * at("readj", most, 10.0),
                f"shifted: Mixed grows more slowly, to {at('mixed', most, 10.0):.2f} with {most} "
                f"partitions (Hash {at('hash', most, 10.0):.2f}, Readj {at('readj', most, 10.0):.2f})",
            ),
            number(
                min(grows.values()) > 0.5 * most / fewest,
                f"plain: from {fewest} to {most} partitions Hash grows by {grows['hash']:.1f} and "
                f"Readj by {grows['readj']:.1f}",
            ),
            number(
                max(spread) < 1.1 * min(spread),
                "shifted: Readj, Redist and Scan are alike ("
                + ", ".join(f"{value:.2f}" for value in spread)
                + " with 100 partitions)",
            ),
            number(
                max(kip.values()) < 1.2,
                "shifted: KIP is at " + ", ".join(f"{v:.2f}" for v in kip.values()) + " with "
                f"{', '.join(map(str, kip))} partitions",
            ),
            number(
                all(kip[n] <= mixed[n] for n in kip),
                "shifted: Mixed, with its bound optimised, is at "
                + ", ".join(f"{v:.2f}" for v in mixed.values())
                + " there (the paper has it above KIP)",
            ),
            ordering(
                scales[-1] < scales[0],
                "with lambda 1 to 4 KIP is at " + ", ".join(f"{s:.2f}" for s in scales),
            ),
            ordering(
                at("wrap_around", 100, 10.0) < at("kip", 100, 10.0),
                f"WrapAround, which may cut a key, is at {at('wrap_around', 100, 10.0):.3f} shifted "
                f"and {at('wrap_around', 100, 0.0):.3f} plain, where no method that keeps keys whole "
                f"can be below {floor:.1f} with 100 partitions",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    table = pivot(result.rows, ["shift", "partitions"], "method", "max_over_mean", "{:.2f}".format)
    return Table([*table.headings[:2], *(f"{h}, max/mean" for h in table.headings[2:])], table.rows)


def _draw(result: Result) -> Plot:
    def lines(names: list[str], shift: float) -> list[Line]:
        return [
            Line(
                name,
                PARTITIONS,
                [
                    result.one("max_over_mean", shift=shift, partitions=n, method=name)
                    for n in PARTITIONS
                ],
            )
            for name in names
        ]

    scales = [f"lambda {scale:g}" for scale in SCALES]
    return Plot(
        [
            Panel("Zipf 1, shift 10", lines(list(METHODS), 10.0), "partitions", "max / mean"),
            Panel("KIP by lambda, shift 10", lines(scales, 10.0), "partitions", "max / mean"),
            Panel("Zipf 1, no shift", lines(list(METHODS), 0.0), "partitions", log_y=True),
        ]
    )


FIG2 = Experiment(
    id="dr.fig2",
    setup=(
        "4 M records over 100,000 keys, probability 1 / (rank + 10), with the shift of the "
        "authors' benchmark, and without; 10 to 120 partitions; means of 100 draws with new names "
        "(fast: 5). Each method plans from the whole histogram, starting from hashing, and is "
        "measured on it. All track twice as many keys as partitions; Mixed takes the best of six "
        "bounds."
    ),
    claim=(
        "Figure 2: Hash and Readj grow linearly with the number of partitions, Redist and Scan are "
        "like Readj, Mixed grows much slower, and KIP stays below 1.2; the larger lambda, the "
        "better."
    ),
    stand_in=(
        "Under a plain Zipf law of exponent 1 the first key has 8.3 % of 100,000 keys' records, "
        "and without splitting it nothing can be below 1.2 with more than 14 partitions: the "
        "paper's figure is that of a flatter head. With the shift, what KIP lacks is the luck of "
        "the keys that it does not track: all but 2 a partition are hashed in with their host, and "
        "Algorithm 1 counts hosts as equal."
    ),
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
