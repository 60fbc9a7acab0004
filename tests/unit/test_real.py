"""The real streams: every file is what the registry says, and is missed with a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from skewless.datasets.real import REAL, load_real
from skewless.errors import DataError, ParameterError

ROOT = Path(__file__).parents[2]

#: name -> key column -> (distinct keys, share of the most frequent in percent)
KNOWN = {
    "cache2k_orm_busy": {"key": (76_349, 0.54)},
    "fight_hashtags": {"hashtag": (962, 31.69)},
    "google_task_events": {"job": (4_895, 10.23), "user": (519, 26.58), "priority": (7, 38.60)},
    "nasa_http_19950801": {"path": (1_746, 6.91), "client": (2_365, 1.18)},
    "nyc_flights_2013": {"dest": (105, 5.13), "carrier": (16, 17.42)},
    "nyc_green_taxi": {"PULocationID": (253, 16.17), "DOLocationID": (259, 4.83)},
    "stock_tweets_cashtags": {"cashtag": (7_459, 8.64)},
    "stock_tweets_hashtags": {"hashtag": (8_328, 8.39)},
    "wikipedia_edits_20150912": {"channel": (51, 29.43), "user": (10_531, 8.63)},
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_stream_has_its_rows_columns_keys_and_skew(name, monkeypatch):
    monkeypatch.delenv("SKEWLESS_DATA", raising=False)
    one = REAL[name]
    table = load_real(name)
    assert table.num_rows == one.rows
    assert set(one.keys) <= set(table.column_names)
    assert one.time is None or one.time in table.column_names
    assert KNOWN[name].keys() <= set(one.keys)
    for key, (distinct, percent) in KNOWN[name].items():
        counts = table[key].combine_chunks().value_counts().field("counts").to_numpy()
        assert len(counts) == distinct
        assert 100 * counts.max() / one.rows == pytest.approx(percent, abs=0.006)


def test_streams_are_in_the_order_of_their_time():
    for name, one in REAL.items():
        if one.time is not None and name != "nyc_flights_2013":
            times = load_real(name)[one.time].to_numpy()
            assert (np.diff(times).astype("int64") >= 0).all(), name


def test_the_folder_holds_these_files_and_the_licence_of_each():
    files = {path.name for path in (ROOT / "data").iterdir()}
    assert files == {one.file for one in REAL.values()} | {"LICENSES.md"}
    licences = (ROOT / "data" / "LICENSES.md").read_text(encoding="utf-8")
    headings = " ".join(re.findall(r"^## (.*)$", licences, re.MULTILINE))
    assert sorted(re.findall(r"\w+\.parquet", headings)) == sorted(o.file for o in REAL.values())
    assert sum((ROOT / "data" / name).stat().st_size for name in files) < 16 << 20


def test_the_package_does_not_carry_the_data():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["src/skewless"]' in text
    listed = re.search(r"sdist\]\ninclude = \[(.*?)\]", text, re.DOTALL)
    assert listed is not None
    assert '"data"' not in listed.group(1)


def test_another_folder_can_be_named(tmp_path, monkeypatch):
    one = REAL["fight_hashtags"]
    (tmp_path / one.file).write_bytes((ROOT / "data" / one.file).read_bytes())
    monkeypatch.setenv("SKEWLESS_DATA", str(tmp_path))
    assert load_real("fight_hashtags").num_rows == one.rows
    with pytest.raises(
        DataError, match=r"is not in .*copy that folder and name it in SKEWLESS_DATA"
    ):
        load_real("nyc_green_taxi")
    assert load_real("nasa_http_19950801", folder=ROOT / "data").num_rows == 30_969


def test_a_changed_file_is_refused(tmp_path):
    one = REAL["fight_hashtags"]
    content = bytearray((ROOT / "data" / one.file).read_bytes())
    content[100] ^= 1
    (tmp_path / one.file).write_bytes(content)
    with pytest.raises(DataError, match=r"is not the file that was published .*904b8d27d8dc"):
        load_real("fight_hashtags", folder=tmp_path)


def test_a_file_that_cannot_be_read_is_an_error_in_words(tmp_path):
    (tmp_path / "fight_hashtags.parquet").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        load_real("fight_hashtags", folder=tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ParameterError, match=r"named 'nyc_taxi' \(did you mean 'nyc_green_taxi'"):
        load_real("nyc_taxi")
