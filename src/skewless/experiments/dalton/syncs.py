"""dalton.fig14a and fig14b: how often partitioners tell each other what they learned.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton, PVLDB 16(3), 2022, section 5.4, Figure 14.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.datasets import uniform, zipf
from skewless.experiments.dalton.setup import (
    SIZE,
    SLIDE,
    Measured,
    k_per_s,
    measure,
    workers_of,
)
from skewless.experiments.dalton.sources import JOB, N_KEYS, cooperative, dealt
from skewless.experiments.dalton.threshold import Thresholded
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
from skewless.partitioners import CooperativeDalton
from skewless.report.plot import Line, Panel, Plot
from skewless.simulator import Source

__all__ = ["FIG14A", "FIG14B", "mixed"]

EXPONENT = 1.5
#: Intervals in tuples; 0: never; -1: never, but with the threshold of all tuples, as a sync would set it.
INTERVALS = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 0, -1)
SETUPS = ("different", "the same")
#: What a partitioner takes to send its table and to read the reply.
SYNC_US = 300.0
#: What the reducer takes at first, in tuples of time: between a half and the whole of the 10 s that the
#: paper's interval settles at, as 20 s would be halved otherwise, or 10 s doubled.
LATENCY = 7_000
DELAYS = (1, 2, 4, 1)
EXPECTED = (10_000, 20_000, 40_000, 10_000)


def mixed(n: int, seed: int) -> NDArray[np.uint64]:
    """Return uniform and Zipf keys in turn: every second source, or every second tuple of one."""
    return dealt(uniform(n // 2, N_KEYS, seed=seed), zipf(n // 2, N_KEYS, EXPONENT, seed=seed))


def _synced(setup: str, interval: int, windows: int, seed: int) -> list[Row]:
    keys = mixed(windows * SIZE, seed)
    if setup == "the same":
        # Each source has uniform and Zipf keys in turn.
        keys = keys.reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1)
    n = workers_of("dalton", JOB)
    if interval > 0:
        policy = cooperative(interval, seed, adaptive=False)
    else:
        alone = Thresholded(n, window=SIZE, slide=JOB.slide, stats_window=JOB.slide, seed=seed)
        alone.hot_from = n // 2 if interval else 0
        policy = alone
    found = measure(
        "dalton",
        keys,
        JOB,
        policy=policy,
        sources=[Source(keys[::2]), Source(keys[1::2])],
        partitioners=2,
        local=interval <= 0,
        seed=seed,
    )
    if interval > 0:
        found = found._replace(route_s=found.route_s + SIZE / interval * SYNC_US / 1e6)
    return [{"setup": setup, "interval": interval, **found.figures(windows // 2)}]


def _cells_14a(setting: Setting) -> list[Cell]:
    windows = 60 if setting.full else 10
    return [
        Cell(
            f"{setup}, every {interval}, {windows} windows",
            functools.partial(_synced, setup, interval, windows, setting.seed),
        )
        for setup in SETUPS
        for interval in INTERVALS
    ]


def judge_fig14a(result: Result) -> Verdict:
    """Judge whether there is a best interval, and whether never is worst."""
    checks = []
    for setup in SETUPS:
        rates = {int(r["interval"]): float(r["throughput"]) for r in result.where(setup=setup)}
        twice = rates.pop(-1)
        best = max(rates, key=lambda interval: rates[interval])
        checks += [
            ordering(
                rates[0] == min(rates.values()),
                f"{setup}: never {k_per_s(rates[0])} k/s (with twice the threshold, that of all tuples, "
                f"{k_per_s(twice)}), the lowest of the others "
                f"{k_per_s(min(rate for one, rate in rates.items() if one))}",
            ),
            ordering(
                rates[INTERVALS[0]] < rates[best],
                f"{setup}: every 1,000 tuples {k_per_s(rates[INTERVALS[0]])} k/s",
            ),
            number(
                5_000 <= best <= 20_000,
                f"best is {f'every {best:,} tuples' if best else 'never'}, with {k_per_s(rates[best])} "
                "k/s (paper: about every 10,000)",
            ),
        ]
    return judged(checks)


def _named(interval: int) -> str:
    if interval > 0:
        return f"{interval:,}"
    return "never, twice the threshold" if interval else "never"


def _table_14a(result: Result) -> Table:
    table = pivot(result.rows, ["interval"], "setup", "throughput", k_per_s)
    rows = [[_named(int(one)), *rest] for one, *rest in table.rows]
    return Table(["sync every, tuples", *(f"{setup}, k/s" for setup in SETUPS)], rows)


def _draw_14a(result: Result) -> Plot:
    names = [
        _named(one).replace(",000", "k").replace(" twice the threshold", "\n2x")
        for one in INTERVALS
    ]
    lines = [
        Line(setup, [], [float(r["throughput"]) / 1e3 for r in result.where(setup=setup)])
        for setup in SETUPS
    ]
    label = "thousand tuples per second"
    return Plot([Panel("", lines, "sync every so many tuples", label, categories=names)])


class Delayed(CooperativeDalton):
    """Cooperating Daltons whose reducer becomes slower, and fast again: `DELAYS`, each for `phase`."""

    phase: int = 0

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        number = np.minimum(chunk.time // self.phase, len(DELAYS) - 1)
        cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
        out = np.empty(len(chunk), np.int32)
        for start, stop in zip([0, *cuts], [*cuts, len(chunk)], strict=True):
            if start < stop:
                self.latency = LATENCY * DELAYS[int(number[start])]
                out[start:stop] = super().route(chunk[start:stop])
        return out


def _delayed(phase: int, interval: int, adaptive: bool, seed: int) -> Delayed:
    policy = Delayed(
        workers_of("dalton", JOB),
        sources=2,
        window=SIZE,
        slide=JOB.slide,
        sync=interval,
        adaptive=adaptive,
        shortest=SLIDE,
        seed=seed,
    )
    policy.phase = phase
    return policy


def _adapting(phase: int, interval: int, adaptive: bool, seed: int) -> list[Row]:
    keys = mixed(len(DELAYS) * phase, seed)
    policy, intervals = _delayed(phase, interval, adaptive, seed), []
    step = phase // 25
    for at in range(0, len(keys), step):
        policy.route(Chunk(np.arange(at, at + step), keys[at : at + step]))
        intervals.append(policy.interval)
    found: Measured = measure(
        "dalton",
        keys,
        JOB,
        policy=_delayed(phase, interval, adaptive, seed),
        sources=[Source(keys[::2]), Source(keys[1::2])],
        partitioners=2,
        seed=seed,
    )
    per = phase // SIZE
    return [
        {
            "policy": "adaptive" if adaptive else f"every {interval}",
            "phase": phase,
            "intervals": intervals,
            "throughput": [
                found.sustained(at, at + per) for at in range(0, len(DELAYS) * per, per)
            ],
        }
    ]


def _cells_14b(setting: Setting) -> list[Cell]:
    phase = 5_040_000 if setting.full else 600_000
    return [
        Cell(
            f"{interval}, {'adaptive' if adaptive else 'fixed'}, {len(DELAYS)} x {phase}",
            functools.partial(_adapting, phase, interval, adaptive, setting.seed),
        )
        for interval, adaptive in ((20_000, True), (10_000, False), (20_000, False))
    ]


def _settled(row: Row) -> list[int]:
    """Return the interval that held at most of the times of the second half of each phase."""
    intervals = np.array(row["intervals"])
    phases = np.split(intervals, len(DELAYS))
    found = []
    for phase in phases:
        values, counts = np.unique(phase[len(phase) // 2 :], return_counts=True)
        found.append(int(values[counts.argmax()]))
    return found


def judge_fig14b(result: Result) -> Verdict:
    """Judge the intervals that the protocol settles at."""
    row = result.where(policy="adaptive")[0]
    settled = _settled(row)
    fixed = {r["policy"]: float(np.mean(r["throughput"])) for r in result.rows}
    others = max(rate for name, rate in fixed.items() if name != "adaptive")
    return judged(
        [
            ordering(
                settled[0] < settled[1] < settled[2] > settled[3],
                f"while the reducer takes 1, 2, 4 and again 1 times {LATENCY:,} tuples of time, the "
                f"interval settles at {', '.join(f'{one:,}' for one in settled)} tuples",
            ),
            number(
                settled == list(EXPECTED),
                "the paper's are 10, 20, 40 and 10 seconds of 1,000 tuples",
            ),
            ordering(
                fixed["adaptive"] >= 0.95 * others,
                "throughput: "
                + ", ".join(f"{name} {k_per_s(by)} k/s" for name, by in fixed.items()),
            ),
        ]
    )


def _table_14b(result: Result) -> Table:
    heads = [f"reducer x{by}, k/s" for by in DELAYS]
    return Table(
        ["interval", "settled at, tuples", *heads],
        [
            [
                r["policy"],
                ", ".join(f"{one:,}" for one in _settled(r)),
                *(k_per_s(rate) for rate in r["throughput"]),
            ]
            for r in result.rows
        ],
    )


def _draw_14b(result: Result) -> Plot:
    lines = []
    for row in result.rows:
        n = len(row["intervals"])
        step = len(DELAYS) * row["phase"] / n / 1e3
        y = [one / 1e3 for one in row["intervals"]]
        lines.append(Line(row["policy"], [step * (i + 1) for i in range(n)], y, "-"))
    label = "sync every, thousand tuples"
    return Plot([Panel("", lines, "thousand tuples so far", label, from_zero=True)])


FIG14A = Experiment(
    id="dalton.fig14a",
    setup=(
        "Word count on 64 tasks, two saturated sources with a partitioner each; a sync every 1,000 to "
        "40,000 tuples, or never. Different: one source uniform, one Zipf 1.5. The same: both have "
        "uniform "
        "and Zipf tuples in turn. 60 windows (fast: 10), the second half measured; costs as in "
        "dalton.fig13, and 300 us for a sync at each partitioner."
    ),
    claim=(
        "Figure 14a: without syncs throughput is low, as each partitioner knows its own loads alone; the "
        "best is a sync every 10 s or so, as more cost more."
    ),
    stand_in=(
        "A message has no loads in it, in the paper neither, so that a sync tells nobody the real "
        "loads; what "
        "it changes is the threshold, to 1/56 of all tuples. With different streams a key then "
        "needs twice "
        "the share of its source to be split; with that threshold never is no better than the others."
    ),
    cells=_cells_14a,
    judge=judge_fig14a,
    tabulate=_table_14a,
    draw=_draw_14a,
)

FIG14B = Experiment(
    id="dalton.fig14b",
    setup=(
        "The different streams of dalton.fig14a, an interval of 20,000 tuples at first; the "
        "Q-table reducer "
        "takes the time of 7,000 tuples for a round, then 2 and 4 times that, then again once, each for "
        "5,040,000 tuples (fast: 600,000)."
    ),
    claim=(
        "Figure 14b: the interval settles at 10 s, doubles with the reducer's time to 20 s, goes "
        "to 40 s at "
        "four times, and comes back to 10 s."
    ),
    stand_in=(
        "The paper does not say what the reducer takes. Any time above 5 s and up to 10 s gives its "
        "intervals under its rules: the interval halves while the reducer idles longer than it "
        "works, and "
        "doubles when a reply takes longer than it."
    ),
    cells=_cells_14b,
    judge=judge_fig14b,
    tabulate=_table_14b,
    draw=_draw_14b,
)
