"""prompt.fig12: map and reduce tasks that follow the rate and the number of keys.

A. S. Abdelhamid et al., Prompt, SIGMOD 2020, sections 6 and 7.2, Figure 12.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from skewless.datasets.drawing import names
from skewless.elasticity import Batch, Elasticity
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
)
from skewless.experiments.prompt.setup import COSTS, HOT_KEYS
from skewless.planners import Prompt
from skewless.report.plot import Line, Panel, Plot
from skewless.simulator import simulate

__all__ = ["FIG12"]

INTERVAL_S, PATIENCE, STEP = 3.0, 3, 0.1
#: Map and reduce tasks at first: enough.
START = (8, 7)
#: Tuples and keys of a batch at either end.
LOW, HIGH = (20_000, 4_000), (50_000, 10_000)
PHASES = ("more tuples", "more keys", "fewer tuples", "fewer keys")


def _course(ramp: int) -> list[tuple[str, int, int]]:
    """Return phase, tuples and keys of each batch: each grows alone, then each shrinks alone."""
    ends = [
        (LOW, (HIGH[0], LOW[1])),
        ((HIGH[0], LOW[1]), HIGH),
        (HIGH, (LOW[0], HIGH[1])),
        ((LOW[0], HIGH[1]), LOW),
    ]
    course = []
    for name, (start, end) in zip(PHASES, ends, strict=True):
        for step in range(ramp + ramp // 2):
            part = min(1.0, step / ramp)
            n, k = (round(a + part * (b - a)) for a, b in zip(start, end, strict=True))
            course.append((name, n, k))
    return course


def _run(ramp: int, seed: int) -> list[Row]:
    scaling = Elasticity(*START, step=STEP, patience=PATIENCE)
    course, rows = _course(ramp), []
    mappers, reducers = scaling.n_mappers, scaling.n_reducers
    for phase, n, k in course:
        # Each key equally often, so that their number does not depend on that of the tuples.
        keys = names(np.arange(n) % k, seed)
        panes = simulate(
            keys,
            Prompt(mappers, hot_keys=HOT_KEYS, seed=seed),
            window=n,
            batch=n,
            reducers=reducers,
            costs=COSTS,
            seed=seed,
        ).panes
        seconds = float(panes.combine_s[0] + panes.merge_s[0])
        rows.append(
            {
                "phase": phase,
                "tuples": n,
                "keys": int(panes.keys[0]),
                "mappers": mappers,
                "reducers": reducers,
                "load": seconds / INTERVAL_S,
            }
        )
        plan = scaling.decide(Batch(seconds, INTERVAL_S, n, int(panes.keys[0])))
        mappers, reducers = plan.n_mappers, plan.n_reducers
    return rows


def _cells(setting: Setting) -> list[Cell]:
    ramp = 180 if setting.full else 60
    return [
        Cell(
            f"{len(PHASES)} phases of {ramp + ramp // 2} batches",
            functools.partial(_run, ramp, setting.seed),
        )
    ]


def _changes(result: Result, phase: str) -> tuple[int, int]:
    """Return how mappers and reducers changed in a phase."""
    rows = result.where(phase=phase)
    return (
        int(rows[-1]["mappers"]) - int(rows[0]["mappers"]),
        int(rows[-1]["reducers"]) - int(rows[0]["reducers"]),
    )


def _longest(flags: list[bool]) -> int:
    longest = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        longest = max(longest, run)
    return longest


def _soonest_reversal(result: Result) -> int:
    """Return the fewest batches between a change and the opposite one."""
    tasks = np.array([(r["mappers"], r["reducers"]) for r in result.rows], np.int64).sum(axis=1)
    steps = np.diff(tasks)
    at = np.flatnonzero(steps)
    gaps = [int(b - a) for a, b in itertools.pairwise(at) if steps[a] * steps[b] < 0]
    return min(gaps, default=len(tasks))


def judge(result: Result) -> Verdict:
    """Judge what follows what, how long overload lasts, and whether decisions flap."""
    change = {phase: _changes(result, phase) for phase in PHASES}
    said = {
        phase: f"{phase}: {mappers:+d} mappers, {reducers:+d} reducers"
        for phase, (mappers, reducers) in change.items()
    }
    over = _longest([float(r["load"]) > 0.9 for r in result.rows])
    late = _longest([float(r["load"]) > 1.0 for r in result.rows])
    reversal = _soonest_reversal(result)
    return judged(
        [
            ordering(change["more tuples"][0] > abs(change["more tuples"][1]), said["more tuples"]),
            ordering(change["more keys"][1] > abs(change["more keys"][0]), said["more keys"]),
            ordering(
                -change["fewer tuples"][0] > abs(change["fewer tuples"][1]), said["fewer tuples"]
            ),
            ordering(-change["fewer keys"][1] > abs(change["fewer keys"][0]), said["fewer keys"]),
            number(
                over <= 2 * PATIENCE,
                f"the load is above 0.9 in at most {over} batches in a row, where a decision takes "
                f"{PATIENCE}, and above 1 in {late}",
            ),
            ordering(
                reversal > PATIENCE,
                f"no change is taken back before {reversal} batches (grace period {PATIENCE})",
            ),
        ]
    )


def _tabulate(result: Result) -> Table:
    rows = []
    for phase in PHASES:
        found = result.where(phase=phase)
        first, last = found[0], found[-1]
        rows.append(
            [
                phase,
                *(
                    f"{first[name]:,} to {last[name]:,}"
                    for name in ("tuples", "keys", "mappers", "reducers")
                ),
                f"{max(float(r['load']) for r in found):.2f}",
                f"{float(last['load']):.2f}",
            ]
        )
    heads = ["phase", "tuples", "keys", "map tasks", "reduce tasks", "highest load", "last load"]
    return Table(heads, rows)


def _draw(result: Result) -> Plot:
    x = list(range(len(result.rows)))
    tasks = [Line(name, x, [r[name] for r in result.rows], "-") for name in ("mappers", "reducers")]
    load = Line("processing time / interval", x, [r["load"] for r in result.rows], "-", "#009e73")
    return Plot(
        [
            Panel("tasks", tasks, "batch", from_zero=True),
            Panel("load", [load], "batch", level=0.9, from_zero=True),
        ]
    )


FIG12 = Experiment(
    id="prompt.fig12",
    setup=(
        "Batches of 3 s, from 6 map and 4 reduce tasks on: tuples grow from 20,000 to 50,000 in "
        "120 batches "
        "(fast: 40) and stay for 60 (20), then the different keys from 4,000 to 10,000; then "
        "tuples shrink, "
        "then keys. Prompt plans each batch; load threshold 0.9, step 0.1, d = 3. 520 us a tuple "
        "and 2 ms a "
        "partial result."
    ),
    claim=(
        "Figure 12: map tasks follow the rate and reduce tasks the number of keys, up and down, so that "
        "batches are processed within their interval; during a grace period nothing is reversed."
    ),
    stand_in="All keys are equally frequent. The paper grows both at once, and shrinks each alone.",
    cells=_cells,
    judge=judge,
    tabulate=_tabulate,
    draw=_draw,
)
