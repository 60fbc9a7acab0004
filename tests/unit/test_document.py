"""Files that know what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skewless import document
from skewless.errors import DataError


def content() -> bytes:
    return document.render("demo", 1, {"b": [1, 2], "a": {"x": 1.5}}).encode()


def test_round_trip() -> None:
    assert document.parse(content(), "demo", 1, "f") == {"b": [1, 2], "a": {"x": 1.5}}


@pytest.mark.parametrize("length", range(0, len(content()) - 2, 7))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(DataError, match=r"f (is truncated or no demo file|is no demo file)"):
        document.parse(content()[:length], "demo", 1, "f")


def test_a_changed_value_is_noticed() -> None:
    changed = content().replace(b"1.5", b"2.5")
    with pytest.raises(DataError, match="f was altered or damaged"):
        document.parse(changed, "demo", 1, "f")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{}", b'{"format": "other"}', b"\xff\xfe"])
def test_foreign_files_are_noticed(body: bytes) -> None:
    with pytest.raises(DataError, match="no demo file"):
        document.parse(body, "demo", 1, "f")


def test_another_version_is_named() -> None:
    text = json.dumps({"format": "demo", "version": 2, "sha256": "", "body": {}})
    with pytest.raises(DataError, match="format version 2, this release reads version 1"):
        document.parse(text.encode(), "demo", 1, "f")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    document.write(path, "old")
    with pytest.raises(UnicodeEncodeError):
        document.write(path, "new \ud800")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]
