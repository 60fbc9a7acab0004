"""Run the benchmarks: ``python -m benchmarks [names] [--quick]``; results are kept as JSON.

The papers' experiments, and ours, are run by ``skewless experiment``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def _keys(quick: bool) -> Any:
    from benchmarks.kernels import keys

    found = keys.run(200_000 if quick else keys.N_ROWS)
    for kind, rates in found.items():
        print(f"{kind:28} {rates['median']:8.0f} M rows/CPU s (best {rates['best']:.0f})")
    return found


def _policies(quick: bool) -> Any:
    from benchmarks.kernels import policies

    return policies.run(1_000_000 if quick else 10_000_000)


def _planners(quick: bool) -> Any:
    from benchmarks.kernels import planners

    return planners.run(2 if quick else 7)


def _skew(quick: bool) -> Any:
    from benchmarks.kernels import skew

    return skew.run(1, 1) if quick else skew.run()


def _sketches(quick: bool) -> Any:
    from benchmarks.kernels import sketches

    return sketches.run(100_000, 2) if quick else sketches.run()


def _datasets(quick: bool) -> Any:
    from benchmarks.kernels import datasets

    return datasets.run(200_000, 2) if quick else datasets.run()


def _repartition(quick: bool) -> Any:
    from benchmarks.spark import repartition

    return repartition.run(1_000_000 if quick else 10_000_000, 3 if quick else 5)


def _grouping(quick: bool) -> Any:
    from benchmarks.spark import grouping

    return grouping.run(16_000, 100_000, 1, exponents=(0.0, 1.5)) if quick else grouping.run()


def _predicted(quick: bool) -> Any:
    from benchmarks.spark import predicted

    return predicted.run(exponents=(0.0, 1.5), workers=(16,)) if quick else predicted.run()


def _joins(quick: bool) -> Any:
    from benchmarks.spark import joins

    return joins.run(200_000, 50_000, 1) if quick else joins.run()


def _stateful(quick: bool) -> Any:
    from benchmarks.spark import stateful

    return stateful.run(20_000, 3) if quick else stateful.run()


def _streaming(quick: bool) -> Any:
    from benchmarks.spark import streaming

    return streaming.run(200_000, 8_000, rounds=1) if quick else streaming.run()


def _planned(quick: bool) -> Any:
    from benchmarks.spark import planned

    return planned.run(10_000, 4, 4, costs_us=(0.0,)) if quick else planned.run()


BENCHMARKS: dict[str, Callable[[bool], Any]] = {
    "keys": _keys,
    "policies": _policies,
    "planners": _planners,
    "skew": _skew,
    "datasets": _datasets,
    "sketches": _sketches,
    "repartition": _repartition,
    "grouping": _grouping,
    "predicted": _predicted,
    "joins": _joins,
    "stateful": _stateful,
    "streaming": _streaming,
    "planned": _planned,
}


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", help=f"{known}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer rounds")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(
            f"there is no benchmark {unknown[0]!r}; there is {known} (experiments such as ours.limit: "
            f"skewless experiment run)"
        )
    RESULTS.mkdir(exist_ok=True)
    for name in given.names or BENCHMARKS:
        print(f"\n== {name}", flush=True)
        document = {
            "machine": machine(),
            "quick": given.quick,
            "result": BENCHMARKS[name](given.quick),
        }
        path = RESULTS / f"{name}.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"-> {path}")


if __name__ == "__main__":
    main()
