"""ours.scale: nanoseconds a tuple and quality as workers and keys grow.

CPU time of the routing step alone, the median over chunks of 65,536 tuples after a warm-up of a
quarter of the stream. Planners plan at the end of each window; their median chunk has no plan in it, so
the slowest chunk is given beside it.
"""

from __future__ import annotations

import functools
import statistics
import time

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.experiments.contestants import contestants
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
)
from skewless.partitioners import Partitioner
from skewless.planners import Planner, Replanned
from skewless.policy import Policy
from skewless.report.plot import Line, Panel, Plot
from skewless.simulator import simulate

__all__ = ["SCALE"]

NAMES = ("hash", "shuffle", "pkg", "d_choices", "w_choices", "dalton", "kip", "wrap_around")
CHUNK = 65_536
WARM_UP = 2
KEYS, WORKERS = 100_000, 64


def _measure(n: int, n_keys: int, n_tuples: int, seed: int) -> list[Row]:
    keys = zipf(n_tuples, n_keys, 1.0, seed=seed)
    window = n_tuples // 8
    rows: list[Row] = []
    for name, policy in contestants(n, window, window // 10, NAMES).items():
        found = simulate(keys, policy, window=window, reducers=max(1, n // 16))
        seen = found.windows
        median, slowest = _time(policy, keys, window)
        rows.append(
            {
                "policy": name,
                "workers": n,
                "keys": n_keys,
                "ns_per_tuple": median,
                "slowest_chunk_ms": slowest,
                "max_over_mean": float(seen.max_over_mean[WARM_UP:].mean()),
                "fragments_per_key": float((seen.fragments / seen.keys)[WARM_UP:].mean()),
                "policy_bytes": found.summary().policy_bytes,
            }
        )
    return rows


def _time(policy: Policy, keys: NDArray[np.uint64], window: int) -> tuple[float, float]:
    partitioner = Replanned(policy, every=window) if isinstance(policy, Planner) else policy
    if not isinstance(partitioner, Partitioner):
        raise TypeError(f"ours.scale: {policy!r} is no partitioner.")
    spent = []
    for start in range(0, len(keys), CHUNK):
        chunk = Chunk(np.arange(start, min(start + CHUNK, len(keys))), keys[start : start + CHUNK])
        begun = time.thread_time_ns()
        partitioner.route(chunk)
        if start >= len(keys) // 4:
            spent.append((time.thread_time_ns() - begun) / len(chunk))
    return statistics.median(spent), max(spent) * CHUNK / 1e6


def _cells(setting: Setting) -> list[Cell]:
    n_tuples = 20_000_000 if setting.full else 1_000_000
    grid = [(n, KEYS) for n in ((8, 64, 512, 2_048, 10_000) if setting.full else (8, 64, 2_048))]
    grid += [(WORKERS, k) for k in ((1_000, 10**6, 10**8) if setting.full else (1_000, 10**6))]
    return [
        Cell(
            f"n = {n}, {n_keys} keys, {n_tuples} tuples",
            functools.partial(_measure, n, n_keys, n_tuples, setting.seed + 1),
        )
        for n, n_keys in grid
    ]


def _judge(result: Result) -> Verdict:
    checks = []
    for name in ("hash", "pkg", "wrap_around"):
        line = sorted(result.where(policy=name, keys=KEYS), key=lambda row: row["workers"])
        low, high = line[0], max(line, key=lambda row: row["ns_per_tuple"])
        checks.append(
            number(
                high["ns_per_tuple"] <= 2 * low["ns_per_tuple"] + 5,
                f"{name}: {low['ns_per_tuple']:.0f} ns a tuple at n = {low['workers']}, at most "
                f"{high['ns_per_tuple']:.0f} (n = {high['workers']})",
            )
        )
    return judged(checks)


def _tabulate(result: Result) -> Table:
    return Table(
        [
            "policy",
            "workers",
            "keys",
            "ns a tuple",
            "slowest chunk, ms",
            "max/mean",
            "states a key",
        ],
        [
            [
                row["policy"],
                f"{row['workers']:,}",
                f"{row['keys']:,}",
                f"{row['ns_per_tuple']:.1f}",
                f"{row['slowest_chunk_ms']:.1f}",
                f"{row['max_over_mean']:.3f}",
                f"{row['fragments_per_key']:.3f}",
            ]
            for row in result.rows
        ],
    )


def _draw(result: Result) -> Plot:
    panels = []
    for along, held, value in (("workers", "keys", KEYS), ("keys", "workers", WORKERS)):
        lines = []
        for name in NAMES:
            line = sorted(
                result.where(policy=name, **{held: value}), key=lambda row: float(row[along])
            )
            lines.append(Line(name, [r[along] for r in line], [r["ns_per_tuple"] for r in line]))
        title = f"{KEYS:,} keys" if along == "workers" else f"{WORKERS} workers"
        panels.append(Panel(title, lines, along, "ns a tuple", log_x=True, from_zero=True))
    return Plot(panels)


SCALE = Experiment(
    id="ours.scale",
    setup=(
        "Zipf 1.0, 20 M tuples (fast: 1 M): 8 to 10,000 workers at 100,000 keys, and a thousand to "
        "a hundred million keys at 64 workers (fast: to 2,048 and to a million). CPU time of the "
        "routing step, on a machine with other work running; balance in tumbling windows of an "
        "eighth of the stream, the first two left out."
    ),
    claim="Our goal: the routing step takes the same time however many workers there are.",
    stand_in="Flat is read as: at most twice the time with 8 workers, and 5 ns.",
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
