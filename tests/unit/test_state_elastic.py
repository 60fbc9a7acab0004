"""An elastic stateful stream: workers come and go, states and outputs stay those of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skewless.active_workers import ActiveWorkers, Elastic
from skewless.partitioners import Hash
from skewless.planners import KIP
from skewless.policy import Policy
from skewless.spark.elastic import StatefulScaling
from skewless.state_store import read_state
from skewless.state_store.job import batches, run_batch
from tests.unit.state_runs import by_key, here, job, output, stream


class Clock:
    """A clock that a test winds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def elastic(low: int, high: int, cls: type[Policy] = KIP, **options: Any) -> Elastic:
    return Elastic(cls(high), ActiveWorkers(low, high, patience=1, **options))  # type: ignore[call-arg]


def run(folder: Path, scaling: StatefulScaling, clock: Clock, took: list[float]) -> list[Any]:
    """Run a batch for each of the times, one every ten seconds; return the outputs."""
    rows = stream(3, n_batches=len(took))
    work = job(folder, policy=scaling.policy.base)
    outputs = []
    for batch, seconds in enumerate(took):
        chosen = scaling.begin(work)
        manifest = run_batch(chosen, "q", batch, here(rows[batch]))
        clock.now += seconds
        outputs.append(output(work.store, manifest))
        scaling.finish(manifest)
        clock.now += 10.0 - seconds
    return outputs


#: Long batches, then short ones, then long ones; the number of workers follows a batch later.
TOOK = [9.5, 1.0, 1.0, 1.0, 1.0, 9.5, 9.5, 9.5]


def test_states_move_to_the_workers_that_are_there(tmp_path: Path) -> None:
    clock = Clock()
    outputs = run(tmp_path / "ours", StatefulScaling(elastic(2, 4), clock), clock, TOOK)
    store = job(tmp_path / "ours").store
    done = batches(store)
    # The most at first; a long batch can add nothing to that, and the opposite change waits.
    assert [len(one.loads) for one in done] == [4, 4, 3, 2, 2, 2, 3, 4]
    assert done[2].reason == "4 workers became 3"
    assert done[2].moved_keys > 0
    assert done[6].reason == "2 workers became 3"
    still = Clock()
    fixed = StatefulScaling(elastic(4, 4, Hash), still)
    expected = run(tmp_path / "plain", fixed, still, [1.0] * len(TOOK))
    assert {len(one.loads) for one in batches(job(tmp_path / "plain").store)} == {4}
    assert [by_key(rows) for rows in outputs] == [by_key(rows) for rows in expected]
    ours, plain = (
        read_state(str(tmp_path / name)).drop_columns("_worker").to_pylist()
        for name in ("ours", "plain")
    )
    assert by_key(ours) == by_key(plain)


def test_a_restart_goes_on_with_the_workers_of_the_newest_batch(tmp_path: Path) -> None:
    clock = Clock()
    run(tmp_path, StatefulScaling(elastic(2, 4), clock), clock, TOOK[:4])
    again = StatefulScaling(elastic(2, 6), Clock())
    assert again.begin(job(tmp_path)).policy.n_workers == 2
    narrower = StatefulScaling(elastic(3, 6), Clock())
    assert narrower.begin(job(tmp_path)).policy.n_workers == 3
    assert (
        StatefulScaling(elastic(3, 6), Clock()).begin(job(tmp_path / "new")).policy.n_workers == 6
    )


def test_a_batch_that_failed_decides_nothing(tmp_path: Path) -> None:
    clock = Clock()
    scaling = StatefulScaling(elastic(2, 4, interval_s=10), clock)
    for _ in range(3):  # begun, and never finished
        assert scaling.begin(job(tmp_path)).policy.n_workers == 4
        clock.now += 1.0


def test_the_user_s_own_objects_are_left_alone(tmp_path: Path) -> None:
    clock, policy = Clock(), elastic(2, 4)
    run(tmp_path, StatefulScaling(policy, clock), clock, TOOK[:4])
    assert policy.workers.active == policy.current.n_workers == 4
