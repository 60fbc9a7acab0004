"""Stateful batches without Spark: workers one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.histogram import Histogram
from skewless.keys import hash64
from skewless.planners import KIP
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.state_store import StateStore
from skewless.state_store.fragments import read_file
from skewless.state_store.job import Job, run_batch
from skewless.state_store.manifest import Manifest
from skewless.state_store.step import Receipt, Task, run_step
from skewless.state_store.update import read_update

KEYS = pa.schema([("k", pa.string())])
ROWS = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
STATES = pa.schema([("n", pa.int64()), ("fold", pa.int64())])
OUTPUT = pa.schema([("k", pa.string()), ("n", pa.int64()), ("fold", pa.int64())])

Row = dict[str, Any]


class Restless(Policy):
    """Gives every key and bucket to a worker drawn anew for every batch."""

    splits_keys = False
    moves_keys = True

    def __init__(self, n_workers: int, *, seed: int = 0) -> None:
        self._take(n_workers=n_workers, seed=seed)
        self.turn = 0

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        self.turn += 1
        rng = np.random.default_rng((self.seed, self.turn))
        hot = {int(key): {int(rng.integers(self.n_workers)): 1.0} for key in histogram.keys[:6]}
        buckets = rng.integers(0, self.n_workers, len(Routing.hashing(self.n_workers).buckets))
        return Routing(self.n_workers, hot, buckets, seed=self.seed)


def fold(key: Any, rows: list[Row], state: Row | None) -> tuple[Row | None, list[Row]]:
    """A fold that depends on the order of the rows; without rows, or at 40 of them, the key goes."""
    name = key[0] if isinstance(key, tuple) else key
    now = dict(state) if state else {"n": 0, "fold": 7}
    for row in rows:
        now = {"n": now["n"] + 1, "fold": (now["fold"] * 31 + row["v"]) % 1_000_003}
    out = [{"k": name, "n": now["n"], "fold": now["fold"]}]
    return (None if not rows or now["n"] >= 40 else now), out


def fold_arrow(key: tuple[Any, ...], rows: pa.Table, state: Row | None) -> Any:
    return fold(key, rows.to_pylist(), state)


def stream(seed: int, n_batches: int = 8, n_rows: int = 120, n_keys: int = 25) -> list[list[Row]]:
    """Batches of rows, the hot key another in each third of the stream; null is a key."""
    rng = np.random.default_rng(seed)
    batches = []
    for i in range(n_batches):
        hot = i * 3 // n_batches
        numbers = np.where(rng.random(n_rows) < 0.4, hot, rng.integers(0, n_keys, n_rows))
        times = 1_000_000 * i + rng.integers(-1_500_000, 1_000_000, n_rows)
        names = [None if number == 5 else f"w{number}" for number in numbers.tolist()]
        batches.append(
            [
                {"k": k, "ts": t, "v": v}
                for k, t, v in zip(
                    names, times.tolist(), rng.integers(0, 99, n_rows).tolist(), strict=True
                )
            ]
        )
    return batches


def job(folder: Any, **options: Any) -> Job:
    update = options.pop("update", fold_arrow)
    form = options.pop("form", "per_key")
    states = options.pop("states", STATES)
    outputs = options.pop("outputs", OUTPUT)
    chosen = {"policy": KIP(4), "buckets": 8, "keep": 3, "compact_after": 3, **options}
    return Job(StateStore(folder), KEYS, ROWS, read_update(update, form, states, outputs), **chosen)


def here(rows: Sequence[Row]) -> Callable[[Task], Iterable[Receipt]]:
    """Run the workers of a batch one after the other; receipts and task go through their text."""

    def execute(task: Task) -> Iterable[Receipt]:
        table = pa.Table.from_pylist(list(rows), schema=ROWS)
        hashes = hash64(table.column("k"))
        owner = task.routing.route(hashes)
        for worker in range(task.routing.n_workers):
            mine = owner == worker
            receipt = run_step(task, worker, table.filter(pa.array(mine)), hashes[mine])
            yield Receipt.parse(receipt.to_json())

    return execute


def output(store: StateStore, manifest: Manifest) -> list[Row]:
    return [row for file in manifest.output for row in read_file(store.storage, file).to_pylist()]


def run(work: Job, batches: Sequence[Sequence[Row]], query: str = "q", first: int = 0) -> list[Any]:
    """Run batches in order; return the output rows of each."""
    outputs = []
    for batch, rows in enumerate(batches, start=first):
        manifest = run_batch(work, query, batch, here(rows))
        outputs.append(output(work.store, manifest))
    return outputs


def by_key(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["k"] is None, row["k"], row["n"]))
