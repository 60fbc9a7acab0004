"""The history of a policy log: what each version changed, and what is left of removed ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from skewless import cli
from skewless.errors import DataError
from skewless.routing import Routing
from skewless.spark.policy_history import Changes, changes, compact, history, load
from skewless.spark.policy_log import PolicyLog

#: Name, the hot keys before and after, what changed.
CHANGES = {
    "nothing": ({7: {0: 1.0}}, {7: {0: 1.0}}, Changes()),
    "a key more": ({}, {7: {0: 1.0}}, Changes(added=1)),
    "a key fewer": ({7: {0: 1.0}}, {}, Changes(removed=1)),
    "a key on another worker": ({7: {0: 1.0}}, {7: {1: 1.0}}, Changes(resplit=1)),
    "a key on one worker more": ({7: {0: 1.0}}, {7: {0: 0.5, 1: 0.5}}, Changes(resplit=1)),
    "other shares": ({7: {0: 0.4, 1: 0.6}}, {7: {0: 0.5, 1: 0.5}}, Changes(reweighted=1)),
    "all at once": (
        {1: {0: 1.0}, 2: {0: 1.0}, 3: {0: 1.0, 1: 1.0}, 4: {2: 1.0}},
        {9: {0: 1.0}, 2: {1: 1.0}, 3: {0: 1.0, 1: 3.0}, 4: {2: 1.0}},
        Changes(1, 1, 1, 1),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_two_routings_are_compared_key_by_key(name: str) -> None:
    before, after, expected = CHANGES[name]
    assert changes(Routing(4, after), Routing(4, before)) == expected


def test_buckets_and_workers_are_compared_too() -> None:
    owners = np.arange(2048) * 4 // 2048
    other = owners.copy()
    other[:5] = 3
    assert changes(Routing(4, buckets=other), Routing(4, buckets=owners)).buckets == 5
    fewer = changes(Routing.hashing(3), Routing.hashing(4))
    assert fewer.workers_before == 4
    assert 1_000 < fewer.buckets < 1_400  # half of the keys change their worker, or a bit more
    assert str(fewer).startswith("had 4 workers, ")
    assert str(Changes()) == "nothing"


def routing(number: int) -> Routing:
    """A routing that adds a key each time, and splits the hot one over more workers."""
    hot = {2**63 + 5: dict.fromkeys(range(1 + number % 3), 1.0)}
    return Routing(4, hot | {100 + k: {k % 4: 1.0} for k in range(number)})


@pytest.fixture
def log(tmp_path: Path) -> PolicyLog:
    made = PolicyLog(tmp_path)
    for number in range(12):
        made.write(
            routing(number), policy="WrapAround(4)", batch=number, rows=10, max_over_mean=1.5
        )
    return made


def test_the_history_tells_every_version(log: PolicyLog) -> None:
    found = history(log.folder)
    assert found.damaged == []
    assert [one.version for one in found.versions] == list(range(1, 13))
    first, second, third = found.versions[:3]
    assert first.changes is None
    assert second.changes == Changes(added=1, resplit=1)
    assert (third.hot_keys, third.split_keys, third.extra_fragments) == (3, 1, 2)
    assert (third.batch, third.policy, third.max_over_mean) == (2, "WrapAround(4)", 1.5)
    assert load(log.folder, 3)[0] == routing(2)


@pytest.mark.parametrize("steps", [[5], [11, 7, 3], [2, 2], [9, 5, 5, 4, 2]])
def test_what_is_summed_up_is_told_as_before(log: PolicyLog, steps: list[int]) -> None:
    before = history(log.folder).versions
    for keep in steps:
        compact(log.folder, keep)
    assert log.versions() == list(range(13 - steps[-1], 13))
    found = history(log.folder)
    assert found.damaged == []
    assert [one._replace(on_disk=True) for one in found.versions] == before
    assert [one.version for one in found.versions if one.on_disk] == log.versions()
    assert compact(log.folder, steps[-1]) == 0
    newest = log.newest(4)
    assert newest is not None
    assert newest.version == 12


def test_the_two_newest_versions_always_stay(log: PolicyLog) -> None:
    assert compact(log.folder, 0) == 10
    assert log.versions() == [11, 12]


def test_a_crash_while_summing_up_loses_nothing(
    log: PolicyLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = history(log.folder).versions

    def lost(*_: object, **__: object) -> None:
        raise OSError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lost)
        with pytest.raises(OSError, match="lost"):
            compact(log.folder, 4)
    assert compact(log.folder, 4) == 8
    assert [one._replace(on_disk=True) for one in history(log.folder).versions] == before


def test_versions_that_a_query_drops_are_summed_up(tmp_path: Path) -> None:
    log = PolicyLog(tmp_path)
    for number in range(203):
        log.write(Routing(2, {number + 1: {0: 1.0}}, [0, 1]), batch=number)
    assert log.versions() == list(range(4, 204))
    found = history(tmp_path).versions
    assert [one.version for one in found] == list(range(1, 204))
    assert [one.batch for one in found] == list(range(203))
    assert {one.changes for one in found[1:]} == {Changes(added=1, removed=1)}


def test_a_file_left_by_a_killed_writer_is_removed(tmp_path: Path) -> None:
    log = PolicyLog(tmp_path)
    (tmp_path / ".policy-000000001.json.x1y2").write_text("{")
    (tmp_path / ".other").touch()
    log.write(Routing.hashing(2))
    log.write(Routing.hashing(2))
    assert {path.name for path in tmp_path.iterdir()} == {
        ".other",
        "policy-000000001.json",
        "policy-000000002.json",
    }


def test_damaged_versions_and_lines_are_named(log: PolicyLog) -> None:
    compact(log.folder, 8)
    log.path(7).write_text("{")
    with (log.folder / "history.jsonl").open("ab") as file:
        file.write(b'{"version": 1}\n\xff\n[]\n')
    found = history(log.folder)
    names = {Path(one.file).name: one.reason for one in found.damaged}
    assert set(names) == {"policy-000000007.json", "history.jsonl"}
    assert names["history.jsonl"] == "3 of its lines cannot be read"
    assert "truncated" in names["policy-000000007.json"]
    by_number = {one.version: one for one in found.versions}
    assert 7 not in by_number
    assert by_number[8].changes is None
    assert by_number[5].changes == Changes(added=1, resplit=1)
    assert by_number[2].changes == Changes(added=1, resplit=1)
    assert compact(log.folder, 3) == 5
    assert [one.version for one in history(log.folder).versions] == [
        1,
        2,
        3,
        4,
        5,
        6,
        *range(8, 13),
    ]


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["policy", *arguments])
    return done.exit_code, done.output


def test_show_prints_the_versions_and_the_newest_one_s_keys(log: PolicyLog) -> None:
    compact(log.folder, 6)
    status, text = run("show", str(log.folder), "--last", "7")
    assert status == 0
    assert "versions    12, 6 of them summed up only, 0 files damaged" in text
    rows = [line for line in text.splitlines() if "WrapAround(4)  +" in line]
    assert len(rows) == 7
    assert rows[0].split()[0] == "6*"
    assert rows[-1].split()[0] == "12"
    assert "version 12" in text
    assert f"{5 - 2**63}        3  0: 33.3%, 1: 33.3%, 2: 33.3%" in text
    assert "... and 2 more: --version 12" in text


def test_show_tells_all_of_one_version(log: PolicyLog) -> None:
    status, text = run("show", str(log.folder), "--version", "12")
    assert status == 0
    assert "what changed" not in text
    assert "changed: +1 hot, 1 moved" in text
    assert "4 of 4 workers active, 2048 buckets, seed 0, 12 hot keys in 14 fragments" in text
    assert sum(": 100.0%" in line for line in text.splitlines()) == 11


def test_show_as_json_holds_the_same(log: PolicyLog) -> None:
    compact(log.folder, 6)
    status, text = run("show", str(log.folder), "--json", "--version", "9")
    assert status == 0
    found = json.loads(text)
    assert [one["version"] for one in found["versions"]] == list(range(1, 13))
    assert found["versions"][1]["changes"]["added"] == 1
    assert found["versions"][1]["on_disk"] is False
    assert found["shown"]["version"] == 9
    assert found["shown"]["hot"][0] == {
        "key": 5 - 2**63,
        "shares": {"0": pytest.approx(1 / 3), "1": pytest.approx(1 / 3), "2": pytest.approx(1 / 3)},
    }
    assert found["damaged"] == []


def test_show_names_damaged_files_and_ends_with_a_status(log: PolicyLog) -> None:
    log.path(12).write_bytes(log.path(12).read_bytes()[:100])
    status, text = run("show", str(log.folder))
    assert status == 1
    assert f"damaged     {log.path(12)}" in text
    assert "version 11" in text
    status, text = run("show", str(log.folder), "--json")
    assert status == 1
    assert [one["file"] for one in json.loads(text)["damaged"]] == [str(log.path(12))]


def test_compact_says_how_many_it_removed(log: PolicyLog) -> None:
    assert run("compact", str(log.folder), "--keep", "11")[1].startswith("removed 1 version; ")
    assert run("compact", str(log.folder), "--keep", "3")[1].startswith("removed 8 versions; ")
    assert run("compact", str(log.folder), "--keep", "1")[0] == 2


def test_a_folder_or_version_that_is_not_there_is_one_sentence(
    log: PolicyLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(DataError, match=r"^policy: folder .* holds no policy log; give the folder"):
        history(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^policy: version 99 is not in folder .*versions 1 to 12"):
        load(log.folder, 99)
    monkeypatch.setattr("sys.argv", ["skewless", "policy", "compact", str(tmp_path / "no")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: policy: folder")
