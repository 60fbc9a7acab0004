"""The policy log: versions, and what is passed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import DataError
from skewless.routing import Routing
from skewless.spark import policy_reader
from skewless.spark.policy_log import PolicyLog


def routing(worker: int = 1) -> Routing:
    return Routing(4, {2**63 + 5: {worker: 0.25, 3: 0.75}}, seed=9)


def test_versions_count_up_and_carry_facts(tmp_path: Path) -> None:
    log = PolicyLog(tmp_path / "log")
    log.prepare()
    assert log.newest(4, 9) is None
    assert [log.write(routing(0), batch=7), log.write(routing(1))] == [1, 2]
    newest = log.newest(4, 9)
    assert newest is not None
    assert (newest.version, newest.routing, newest.facts) == (2, routing(1), {})
    assert log.read(1).facts == {"batch": 7}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:50]), "truncated"),
        (lambda path: path.write_bytes(b""), "truncated"),
        (lambda path: path.write_text('{"format": "x"}'), "no skewless.routing file"),
        (lambda path: path.write_text(path.read_text().replace('"seed":9', '"seed":8')), "altered"),
    ],
)
def test_a_damaged_version_is_passed_over_with_a_warning(tmp_path, damage, reason) -> None:
    log = PolicyLog(tmp_path)
    log.write(routing(0))
    log.write(routing(1))
    damage(log.path(2))
    with pytest.warns(UserWarning, match=f"version 2 passed over.*{reason}"):
        newest = log.newest(4, 9)
    assert newest is not None
    assert newest.version == 1


def test_a_version_for_other_workers_or_another_seed_is_passed_over(tmp_path: Path) -> None:
    log = PolicyLog(tmp_path)
    log.write(routing())
    with pytest.warns(UserWarning, match="it is for 4 workers and seed 9"):
        assert log.newest(5, 9) is None
    with pytest.warns(UserWarning, match="it is for 4 workers and seed 9"):
        assert log.newest(4, 8) is None


def test_old_versions_are_removed(tmp_path: Path) -> None:
    log = PolicyLog(tmp_path)
    for _ in range(205):
        log.write(Routing(2, buckets=[0, 1]))
    assert log.versions() == list(range(6, 206))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"state=.*cannot be written"):
        PolicyLog(tmp_path / "file").prepare()


def test_the_reader_yields_the_tables_of_the_newest_version(tmp_path: Path) -> None:
    PolicyLog(tmp_path).write(routing())
    [row] = _read(tmp_path)
    tables = routing().tables
    assert row["version"] == 1
    assert row["key"] == tables.key.view(np.int64).tolist()
    for name in ("displacement", "base", "count", "slot", "bucket"):
        assert row[name] == getattr(tables, name).tolist()


def test_without_a_file_the_reader_yields_plain_hashing(tmp_path: Path) -> None:
    [row] = _read(tmp_path / "nowhere")
    plain = Routing.hashing(4, seed=9)
    keys = np.arange(1000, dtype=np.uint64)
    told = Routing(4, buckets=row["bucket"], seed=9)
    assert row["version"] == 0
    assert (told.route(keys) == plain.route(keys)).all()
    assert row["base"] == [-1]


def _read(folder: Path) -> list[dict[str, object]]:
    batches = policy_reader.reader(str(folder), 4, 9, 2048)(iter([]))
    return pa.Table.from_batches(list(batches)).to_pylist()
