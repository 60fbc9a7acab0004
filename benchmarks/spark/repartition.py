"""What routing costs: ``skewless.repartition`` against ``df.repartition`` in the same run.

Three costs are kept apart, because they are paid for different things:

* *the expression*: routings that put the heaviest keys exactly where Spark's hash puts them, so
  both shuffles write the same skewed partitions and differ by the routing expression alone;
* *the spread*: WrapAround's even partitions. Runs of a hot key compress well, so spreading them
  makes the same rows dearer to write and read, whoever spreads them;
* *the plan*: counting the keys and planning, once per call.

Every round runs all variants once, in an order that moves on by one each round, after a round of
warm-up. The overhead is the median over the rounds of the ratio to Spark's variant of that round.
CPU seconds are those of this process and its children (the JVM), so they bear other load on the
machine better than wall seconds do.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import skewless
from benchmarks.spark.session import local_session
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.batch import plan
from skewless.spark.keys import resolve_keys

__all__ = ["run"]

N_RANKS = 1_000_000
EXPONENT = 1.5
N_FILES = 8
N_HOT = 100
BASELINE = "spark"
KEYS = {"long": "k", "string": "s"}


def run(
    rows: int = 10_000_000, repetitions: int = 5, workers: int = 16, seed: int = 7
) -> dict[str, Any]:
    """Measure all variants, print a table, and return everything measured."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as folder:
        data = Path(folder) / "rows"
        _write(data, rows, seed)
        spark = local_session(Path(folder), 2, 16, "4g")
        try:
            frame = spark.read.parquet(str(data))
            found = {kind: _measure(frame, key, workers, repetitions) for kind, key in KEYS.items()}
        finally:
            spark.stop()
    result = {
        "benchmark": "spark/repartition",
        "rows": rows,
        "workers": workers,
        "repetitions": repetitions,
        "hot_keys": N_HOT,
        "zipf": EXPONENT,
        "ranks": N_RANKS,
        "keys": found,
    }
    _print(result)
    return result


def _write(folder: Path, rows: int, seed: int) -> None:
    """Write Zipf keys as a long and as a string, an event time and a value."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    name_of_rank = random.permutation(N_RANKS)
    cumulated = np.cumsum(np.arange(1, N_RANKS + 1, dtype=np.float64) ** -EXPONENT)
    cumulated /= cumulated[-1]
    for file, start in enumerate(range(0, rows, -(-rows // N_FILES))):
        n = min(-(-rows // N_FILES), rows - start)
        rank = np.minimum(np.searchsorted(cumulated, random.random(n)), N_RANKS - 1)
        key = name_of_rank[rank]
        texts = np.char.add("user-", np.char.zfill(key.astype(str), 7))
        table = pa.table(
            {
                "k": pa.array(key),
                "s": pa.array(texts),
                "ts": pa.array(np.arange(start, start + n) * 60, pa.timestamp("us", "UTC")),
                "v": pa.array(random.integers(0, 1_000, n)),
            }
        )
        pq.write_table(table, folder / f"part-{file:02d}.parquet")


def _measure(frame: DataFrame, key: str, workers: int, repetitions: int) -> dict[str, Any]:
    plans = []
    for _ in range(repetitions + 1):
        cpu, wall = _cpu_s(), time.perf_counter()
        found = plan(frame, resolve_keys("benchmark", frame, [key]), WrapAround(workers))
        plans.append((time.perf_counter() - wall, _cpu_s() - cpu, found.gather_s, found.learn_s))
    variants = _variants(frame, key, workers, found.routing)
    balance = {name: _balance(make(), workers) for name, make in variants.items() if name != "scan"}
    timed: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    names = list(variants)
    for turn in range(repetitions + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            cpu, wall = _cpu_s(), time.perf_counter()
            variants[name]().write.format("noop").mode("overwrite").save()
            if turn > 0:
                timed[name].append((time.perf_counter() - wall, _cpu_s() - cpu))
    base = timed[BASELINE]
    return {
        "variants": {
            name: {
                "wall_s": _spread([w for w, _ in runs]),
                "cpu_s": _spread([c for _, c in runs]),
                "wall_over_spark": _spread(
                    [w / b for (w, _), (b, _) in zip(runs, base, strict=True)]
                ),
                "cpu_over_spark": _spread(
                    [c / b for (_, c), (_, b) in zip(runs, base, strict=True)]
                ),
                "max_over_mean": balance.get(name),
            }
            for name, runs in timed.items()
        },
        "plan": {
            "wall_s": _spread([p[0] for p in plans[1:]]),
            "cpu_s": _spread([p[1] for p in plans[1:]]),
            "count_wall_s": _spread([p[2] for p in plans[1:]]),
            "learn_wall_s": _spread([p[3] for p in plans[1:]]),
            "extra_fragments": found.routing.extra_fragments,
        },
    }


def _variants(
    frame: DataFrame, key: str, workers: int, spread: Routing
) -> dict[str, Callable[[], DataFrame]]:
    heaviest = (
        frame.groupBy(key)
        .count()
        .orderBy(F.desc("count"), key)
        .limit(N_HOT)
        .select(F.xxhash64(key), F.pmod(F.hash(key), F.lit(workers)))
        .collect()
    )
    whole = {row[0] % 2**64: {row[1]: 1.0} for row in heaviest}
    # The least share of a second worker makes the table deal by salt and moves 1/128 of one key.
    dealt = dict(whole)
    last, owner = heaviest[-1][0] % 2**64, heaviest[-1][1]
    dealt[last] = {owner: 1.0, (owner + 1) % workers: 1e-9}

    def routed(routing: Routing) -> Callable[[], DataFrame]:
        return lambda: skewless.repartition(frame, key, policy=routing)

    return {
        "scan": lambda: frame,
        BASELINE: lambda: frame.repartition(workers, key),
        "hashing": routed(Routing.hashing(workers)),
        f"{N_HOT} hot keys, as Spark places them": routed(Routing(workers, whole)),
        f"{N_HOT} hot keys, as Spark, with salt": routed(Routing(workers, dealt)),
        "wrap_around (spread evenly)": routed(spread),
    }


def _balance(frame: DataFrame, workers: int) -> float:
    sizes = [row[1] for row in frame.groupBy(F.spark_partition_id()).count().collect()]
    return float(max(sizes) * workers / sum(sizes))


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _cpu_s() -> float:
    """Return the CPU seconds that this process and all its descendants have used."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        used[pid] = int(fields[11]) + int(fields[12])
    family, grown = {os.getpid()}, True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in family} - family
        family |= children
        grown = bool(children)
    return sum(used.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def _print(result: dict[str, Any]) -> None:
    rows = result["rows"]
    for kind, found in result["keys"].items():
        print(f"\n{rows:,} rows, {kind} key, {result['workers']} partitions")
        print(
            f"{'':42}{'wall s':>8}{'(min-max)':>14}{'cpu s':>8}{'(min-max)':>14}"
            f"{'Mrow/s':>8}{'cpu/Spark':>11}{'wall/Spark':>12}{'max/mean':>10}"
        )
        for name, row in found["variants"].items():
            wall, cpu = row["wall_s"], row["cpu_s"]
            even = row["max_over_mean"]
            print(
                f"{name:42}{wall['median']:8.2f}{_range(wall):>14}{cpu['median']:8.2f}"
                f"{_range(cpu):>14}{rows / wall['median'] / 1e6:8.2f}"
                f"{row['cpu_over_spark']['median'] - 1:+11.0%}"
                f"{row['wall_over_spark']['median'] - 1:+12.0%}"
                f"{'' if even is None else f'{even:.2f}':>10}"
            )
        plan_s, cpu = found["plan"]["wall_s"], found["plan"]["cpu_s"]
        print(
            f"{'the plan (count keys, WrapAround)':42}{plan_s['median']:8.2f}{_range(plan_s):>14}"
            f"{cpu['median']:8.2f}{_range(cpu):>14}   "
            f"{found['plan']['extra_fragments']} extra fragments"
        )


def _range(values: dict[str, float]) -> str:
    return f"({values['min']:.2f}-{values['max']:.2f})"


if __name__ == "__main__":
    run()
