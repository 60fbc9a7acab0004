"""Stateful batches in processes that die: ``python -m tests.faults.state_lives FOLDER SEED KILLS``.

Each life is a fork of this program that goes on where the last one died. Half of them kill themselves
at a fault point of the store, chosen by lot; the others are killed from outside at a random moment.
The last life runs to the end. The program prints how each life ended.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from skewless.planners import KIP
from skewless.state_store import Repartitioning, faults
from skewless.state_store.job import run_batch
from tests.unit.state_runs import Restless, here, job, output, run, stream

N_BATCHES = 40
#: Points around the commit, which are few among those of all files.
RARE = ("commit", "before collection", "sink", "checkpoint")


def batches() -> list[list[dict[str, object]]]:
    return stream(11, n_batches=N_BATCHES, n_rows=40)


def live(folder: Path, seed: int, die_at: int, rare: bool) -> None:
    """Go on after the checkpoint; die at the fault point, or the rare one, of that number."""
    passed = 0

    def hook(point: str) -> None:
        nonlocal passed
        passed += not rare or point.endswith(RARE)
        if passed == die_at:
            (folder / "points").open("a").write(point + "\n")
            os.kill(os.getpid(), signal.SIGKILL)

    faults.hook = hook
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    policy = Restless(n, seed=int(rng.integers(2))) if rng.random() < 0.7 else KIP(n)
    work = job(folder / "state", policy=policy, rule=Repartitioning.always(), compact_after=2)
    done = folder / "checkpoint"
    while (batch := int(done.read_text()) if done.exists() else 0) < N_BATCHES:
        manifest = run_batch(work, "q", batch, here(batches()[batch]))
        hook("before sink")
        write(folder / f"out-{batch:03d}.json", json.dumps(output(work.store, manifest)))
        hook("before checkpoint")
        write(done, str(batch + 1))


def write(path: Path, text: str) -> None:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.replace(path)


def main(folder: Path, seed: int, kills: int) -> None:
    with tempfile.TemporaryDirectory() as other:  # imports and compiles what every life needs
        run(job(other, policy=KIP(2), rule=Repartitioning.always()), batches()[:3])
    rng = random.Random(seed)  # noqa: S311 - chooses deaths
    endings: list[str] = []
    while True:
        last = endings.count("killed") >= kills
        inside = rng.random() < 0.5
        rare = rng.random() < 0.5
        die_at = -1 if last or not inside else rng.randint(1, 12 if rare else 100)
        child = os.fork()
        if child == 0:
            live(folder, rng.randrange(10**6) + len(endings), die_at, rare)
            os._exit(0)
        if not last and not inside:
            time.sleep(rng.uniform(0.0, 0.6))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        endings.append("killed" if killed else f"ended {status}")
        finished = (folder / "checkpoint").exists() and int(
            (folder / "checkpoint").read_text()
        ) == N_BATCHES
        if not killed and (status != 0 or finished):
            break
    print(json.dumps({"endings": endings}))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
