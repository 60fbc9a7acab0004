"""A state survives the death of its writer at any moment, and a damaged file is found and named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skewless.errors import DataError
from skewless.partitioners import Hash
from skewless.state_store import Repartitioning, StateStore, fragments, read_state, verify
from skewless.state_store.job import run_batch
from skewless.state_store.manifest import DataFile, Manifest, name_of
from tests.faults import state_lives
from tests.oracles import stateful as oracle
from tests.unit.state_runs import Restless, by_key, fold, here, job, output, run, stream

ROOT = Path(__file__).parents[2]


def states(folder: Path) -> dict[object, dict[str, int]]:
    rows = read_state(folder).to_pylist()
    assert len({row["k"] for row in rows}) == len(rows)
    return {row["k"]: {"n": row["n"], "fold": row["fold"]} for row in rows}


@pytest.mark.parametrize(("seed", "kills"), [(1, 6), pytest.param(2, 50, marks=pytest.mark.slow)])
def test_nothing_is_lost_or_doubled_when_the_writer_is_killed_at_random_points(
    seed: int, kills: int, tmp_path: Path
) -> None:
    lives = "tests.faults.state_lives"
    program = [sys.executable, "-m", lives, str(tmp_path), str(seed), str(kills)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    endings = Counter(json.loads(done.stdout)["endings"])
    assert set(endings) <= {"killed", "ended 0"}
    assert endings["killed"] == kills
    expected, outputs, _ = oracle.run(state_lives.batches(), fold)
    assert states(tmp_path / "state") == expected
    written = sorted(tmp_path.glob("out-*.json"))
    assert [by_key(json.loads(path.read_text())) for path in written] == [
        by_key(rows) for rows in outputs
    ]
    assert verify(tmp_path / "state") == []
    store = StateStore(tmp_path / "state")
    store.collect(1)
    held = {
        str(p.relative_to(tmp_path / "state")) for p in tmp_path.glob("state/data/**/*.parquet")
    }
    assert held == store.of_batch().files()
    assert [p.name for p in tmp_path.glob("state/manifests/*")] == [
        f"{store.versions()[-1]:012d}.json"
    ]


POINTS = [
    "before write",
    "after write",
    "before commit",
    "between write and commit",
    "after commit",
    "before collection",
    "in collection",
]


class Died(BaseException):
    """What a hook raises in place of a kill."""


@pytest.mark.parametrize("point", POINTS)
def test_a_batch_that_dies_at_a_point_is_there_whole_or_not_at_all(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = stream(12, n_batches=6, n_rows=50)
    work = job(tmp_path, policy=Restless(3), rule=Repartitioning.always(), keep=2)
    run(work, batches[:4])
    before = states(tmp_path)

    def die(reached: str) -> None:
        if reached == point:
            raise Died

    monkeypatch.setattr("skewless.state_store.faults.hook", die)
    with pytest.raises(Died):
        run_batch(work, "q", 4, here(batches[4]))
    monkeypatch.setattr("skewless.state_store.faults.hook", None)
    committed = point in POINTS[4:]
    after = oracle.run(batches[:5], fold)[0]
    assert states(tmp_path) == (after if committed else before)
    found = run(work, batches[4:], first=4)
    expected, outputs, _ = oracle.run(batches, fold)
    assert states(tmp_path) == expected
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in outputs[4:]]


# -- damage ------------------------------------------------------------------------------------------


def damage(folder: Path, name: str) -> None:
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def forget() -> None:
    """Empty the cache of merged fragments, as a new process has it."""
    fragments._cache = fragments._Cache(2**20)


def files(manifest: Manifest, kind: str) -> list[DataFile]:
    held = [file for fragment in manifest.fragments for file in fragment.files]
    return [file for file in held if file.kind == kind and file.version == manifest.version]


def test_a_damaged_change_is_found_and_named(tmp_path: Path) -> None:
    work = job(tmp_path, policy=Hash(2))
    run(work, stream(1, n_batches=3))
    name = files(work.store.of_batch(), "delta")[0].name
    damage(tmp_path, name)
    forget()
    with pytest.raises(DataError, match=f"{name} of version 3 is damaged.*Restore the file"):
        read_state(tmp_path)
    (sentence,) = verify(tmp_path)
    assert name in sentence
    assert len(read_state(tmp_path, batch=1)) > 0
    with pytest.raises(DataError, match=name):
        run(work, [stream(1, n_batches=1)[0]], first=3)
    assert work.store.of_batch().batch == 2


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    work = job(tmp_path, policy=Hash(2))
    run(work, stream(1, n_batches=2))
    name = files(work.store.of_batch(), "delta")[0].name
    (tmp_path / name).unlink()
    forget()
    with pytest.raises(DataError, match=f"{name} of version 2 is lost"):
        read_state(tmp_path)


def test_a_damaged_base_is_put_together_again_from_the_version_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batches = stream(2, n_batches=6)
    work = job(tmp_path, policy=Restless(3), rule=Repartitioning.always())
    run(work, batches[:5])
    bases = files(work.store.of_batch(), "base")
    assert len(bases) >= 3
    for base in bases:
        damage(tmp_path, base.name)
    forget()
    assert states(tmp_path) == oracle.run(batches[:5], fold)[0]
    assert f"{bases[0].name} of version 5 is damaged" in caplog.text
    assert "recovered from version 4" in caplog.text
    run(work, batches[5:], first=5)
    assert states(tmp_path) == oracle.run(batches, fold)[0]


def test_a_damaged_batch_that_is_asked_for_again_runs_again(tmp_path: Path) -> None:
    batches = stream(3, n_batches=4)
    work = job(tmp_path, policy=Hash(2))
    run(work, batches[:3])
    manifest = work.store.of_batch()
    damage(tmp_path, files(manifest, "delta")[0].name)
    damage(tmp_path, manifest.output[0].name)
    forget()
    again = run_batch(work, "q", 2, here(batches[2]))
    expected, outputs, _ = oracle.run(batches[:3], fold)
    assert by_key(output(work.store, again)) == by_key(outputs[2])
    assert (again.version, again.parent) == (4, 2)
    assert states(tmp_path) == expected
    run(work, batches[3:], first=3)
    assert states(tmp_path) == oracle.run(batches, fold)[0]


def test_a_first_batch_of_a_query_that_adopted_a_state_runs_again_from_that_state(
    tmp_path: Path,
) -> None:
    batches = stream(5, n_batches=4)
    run(job(tmp_path, policy=Hash(2)), batches[:2], query="one")
    work = job(tmp_path, policy=Hash(2), adopt=True)
    run(work, batches[2:3], query="two")
    damage(tmp_path, work.store.of_batch().output[0].name)
    run(work, batches[2:], query="two")
    assert states(tmp_path) == oracle.run(batches, fold)[0]


def test_a_damaged_manifest_is_passed_over_and_its_batch_runs_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batches = stream(4, n_batches=4)
    work = job(tmp_path, policy=Hash(2))
    run(work, batches[:3])
    damage(tmp_path, name_of(3))
    assert states(tmp_path) == oracle.run(batches[:2], fold)[0]
    assert "state version 3 is passed over" in caplog.text
    with pytest.raises(
        DataError, match=r"checkpoint is at batch 3, but folder .* is only at batch 1"
    ):
        run(work, batches[3:], first=3)
    run(work, batches[2:], first=2)
    assert states(tmp_path) == oracle.run(batches, fold)[0]
