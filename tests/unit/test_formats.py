"""Loaders of the papers' formats: true lines give their values, quirks are borne, bad lines told."""

from __future__ import annotations

import gzip
import warnings
import zipfile
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewless.datasets import common_log, formats, voters
from skewless.datasets.lines import LineFile
from skewless.datasets.tlc import load_tlc
from skewless.errors import DataError, ParameterError

TRIP = (
    "07290D3599E7A0D62097A346EFCC1FB5,E7750A37CAB07D0DFF0AF7E3573AC141,2013-01-01 00:00:00,"
    "2013-01-01 00:02:00,120,0.44,-73.956528,40.716976,-73.962440,40.715008,CSH,3.50,0.50,0.50,0.00,"
    "0.00,4.50"
)
EVENT = "600026299,,3418309,0,4155527081,1,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,"
EVENT += "0.125,0.07446,0.0004244,0"
SUBMIT = "0,2,3418309,1,,0,70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=,3,9,,,,"
NASA = '199.72.81.55 - - [01/Jul/1995:00:00:01 -0400] "GET /history/apollo/ HTTP/1.0" 200 6245'
VOTER_HEAD = '"county_id"\t"county_desc"\t"last_name"\t"zip_code"\n'

#: loader, a good line, a bad one, and what is said of the bad one
LOADERS = {
    "debs": (formats.load_debs_2015, TRIP, TRIP.replace("120", "x20"), "invalid value 'x20'"),
    "google": (formats.load_google_task_events, EVENT, "1,2,3", "Expected 13 columns, got 3"),
    "snap": (formats.load_snap_edges, "0\t4", "0", "Expected 2 node numbers, got 1 fields"),
    "wiki": (
        formats.load_wikipedia_page_counts,
        "en Main_Page 242332 4737756101",
        "en Main Page 1 2",
        "Expected 4 columns, got 5",
    ),
    "log": (common_log.load_common_log, NASA, "no log at all", "is no line of host ident user"),
}


def load(loader, tmp_path, text, **kind):
    path = tmp_path / "data.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return loader(path, **kind)


def test_a_debs_trip_has_its_17_fields(tmp_path):
    table = load(formats.load_debs_2015, tmp_path, f"{TRIP}\n{TRIP}\n")
    assert (table.num_rows, table.num_columns) == (2, 17)
    row = table.to_pylist()[0]
    assert row["medallion"] == "07290D3599E7A0D62097A346EFCC1FB5"
    assert row["pickup_datetime"] == datetime(2013, 1, 1)  # noqa: DTZ001 # as in the file
    assert row["dropoff_datetime"] == datetime(2013, 1, 1, 0, 2)  # noqa: DTZ001
    assert (row["trip_time_in_secs"], row["trip_distance"]) == (120, 0.44)
    assert (row["pickup_longitude"], row["dropoff_latitude"]) == (-73.956528, 40.715008)
    assert (row["payment_type"], row["fare_amount"], row["total_amount"]) == ("CSH", 3.5, 4.5)


def test_a_google_event_has_its_13_fields_and_what_is_missing_is_null(tmp_path):
    path = tmp_path / "part-00000-of-00500.csv.gz"
    last = EVENT.replace("600026299", str(2**63 - 1))
    path.write_bytes(gzip.compress(f"{SUBMIT}\n{EVENT}\n{last}\n".encode()))
    first, second, third = formats.load_google_task_events(path).to_pylist()
    assert len(first) == 13
    assert (first["time_us"], first["missing_info"], first["machine_id"]) == (0, 2, None)
    assert first["different_machines_restriction"] is None
    assert (second["time_us"], second["missing_info"]) == (600026299, None)
    assert (second["machine_id"], second["event_type"], second["priority"]) == (4155527081, 1, 9)
    assert second["user"].endswith("xgcIo=")
    assert third["time_us"] == 2**63 - 1


def test_snap_edges_bear_comments_blanks_and_further_fields(tmp_path):
    text = "# Directed graph\r\n# FromNodeId\tToNodeId\r\n0\t1\r\n% konect\n2  3\n\n4\t5\t0.5\t12\n"
    table = load(formats.load_snap_edges, tmp_path, text)
    assert table.to_pydict() == {"source": [0, 2, 4], "destination": [1, 3, 5]}


def test_wikipedia_titles_are_kept_as_they_are(tmp_path):
    text = 'en Main_Page 242332 4737756101\nde.b "Quote 3 20\nfr Caf%C3%A9 1 0\n'.encode("ascii")
    text += b"en Caf\xe9 7 9\nen.m \xc3\x89t\xc3\xa9 1 0\n"
    table = load(formats.load_wikipedia_page_counts, tmp_path, text)
    assert table["title"].to_pylist() == ["Main_Page", '"Quote', "Caf%C3%A9", "Café", "Été"]
    assert table["count"].to_pylist() == [242332, 3, 1, 7, 1]
    assert table["project"].to_pylist()[1] == "de.b"


def test_voters_are_read_without_names_from_the_zip_as_published(tmp_path):
    text = VOTER_HEAD.encode() + '"1"\t"ALAMANCE"\t"NUÑEZ"\t"27215     "\r\n'.encode("latin-1")
    text += b'"60"\t"MECK\x00LENBURG"\t"DOE"\t"     "\r\n'
    path = tmp_path / "ncvoter.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ncvoter_Statewide.txt", text)
    table = voters.load_nc_voters(path)
    assert table.to_pydict() == {"county_id": ["1", "60"], "zip_code": ["27215", None]}
    names = voters.load_nc_voters(path, columns=["last_name", "county_desc"])
    assert names["last_name"].to_pylist() == ["NUÑEZ", "DOE"]
    assert names["county_desc"].to_pylist() == ["ALAMANCE", "MECKLENBURG"]


def test_a_column_of_the_voters_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"column 'zip_cde' is not in 'data.txt' \(did you mean 'zi"
    ):
        load(
            voters.load_nc_voters,
            tmp_path,
            VOTER_HEAD + '"1"\t"A"\t"B"\t"2"\n',
            columns=["zip_cde"],
        )
    with pytest.raises(ParameterError, match="columns must be a list of names, got 'zip_code'"):
        load(voters.load_nc_voters, tmp_path, VOTER_HEAD, columns="zip_code")


def test_log_lines_are_read_with_their_time_in_utc(tmp_path):
    lines = [
        NASA,
        'burger.letters.com - - [01/Jul/1995:00:00:11 +0530] "GET /shuttle/x.html HTTP/1.0" 304 0',
        '10.0.0.1 - ann [29/Feb/2000:23:59:59 +0000] "POST /a b?c=d HTTP/1.1" 404 -',
        'h - - [01/Jan/2020:00:00:00 +0000] "GET /old" 200 5',
        'h - - [01/Jan/2020:00:00:00 +0000] "-" 408 - "-" "-"',
        'h - - [01/Jan/2020:00:00:00 +0000] "GET / HTTP/1.1" 200 3 "http://r/" "Mozilla (X)"',
        'h - - [01/Jan/2020:00:00:00 +0000] "GET /say"hi" HTTP/1.0" 200 3',
    ]
    table = load(common_log.load_common_log, tmp_path, "\n".join(lines) + "\n")
    rows = table.to_pylist()
    utc = timezone.utc
    assert rows[0]["time"] == datetime(1995, 7, 1, 4, 0, 1, tzinfo=utc)
    assert rows[1]["time"] == datetime(1995, 6, 30, 18, 30, 11, tzinfo=utc)
    assert rows[2]["time"] == datetime(2000, 2, 29, 23, 59, 59, tzinfo=utc)
    assert (rows[0]["host"], rows[0]["user"], rows[0]["bytes"]) == ("199.72.81.55", None, 6245)
    assert [row["path"] for row in rows] == [
        "/history/apollo/", "/shuttle/x.html", "/a b?c=d", "/old", None, "/", '/say"hi"',
    ]  # fmt: skip
    assert (rows[2]["method"], rows[2]["user"], rows[2]["bytes"]) == ("POST", "ann", None)
    assert (rows[3]["protocol"], rows[4]["request"]) == (None, "-")
    assert [row["status"] for row in rows] == [200, 304, 404, 200, 408, 200, 200]


@pytest.mark.parametrize("name", LOADERS)
def test_bad_lines_are_left_out_counted_and_told(tmp_path, name):
    loader, good, bad, reason = LOADERS[name]
    lines = [good] * 1_000
    lines[10] = lines[500] = bad
    text = "\n".join(lines) + "\n"
    owner = loader.__name__
    told = rf"{owner}: 2 lines of 'data.txt' are bad and were left out; the first is line 11: "
    with pytest.warns(UserWarning, match=told) as caught:
        table = load(loader, tmp_path, text)
    assert reason in str(caught[0].message)
    assert caught[0].filename == __file__
    assert table.num_rows == 998
    assert table.schema.metadata[b"skewless.bad_lines"] == b"2"
    assert table.schema.metadata[b"skewless.first_bad"].startswith(b"line 11: ")
    with pytest.raises(
        DataError, match=rf"{owner}: 'data.txt', line 11: .*; mend it, or leave bad"
    ):
        load(loader, tmp_path, text, bad_lines="error")


@pytest.mark.parametrize("name", LOADERS)
def test_a_file_of_another_format_is_refused(tmp_path, name):
    loader, good, bad, reason = LOADERS[name]
    words = (
        r"is not of this format, it seems: 60 of its first 100 records are bad; the first is line"
    )
    with pytest.raises(DataError, match=words) as caught:
        load(loader, tmp_path, (f"{bad}\n" * 60 + f"{good}\n" * 400))
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", LOADERS)
def test_empty_lines_and_a_missing_last_line_end_are_no_trouble(tmp_path, name):
    loader, good, _, _ = LOADERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = load(loader, tmp_path, f"\n{good}\r\n\n  \n{good}")
    assert table.num_rows == 2
    assert table.schema.metadata == {b"skewless.bad_lines": b"0"}
    assert load(loader, tmp_path, f"{good}\n" * 9, limit=4).num_rows == 4


@pytest.mark.parametrize("name", LOADERS)
def test_files_that_are_no_files_are_named(tmp_path, name):
    loader = LOADERS[name][0]
    owner = loader.__name__
    with pytest.raises(DataError, match=rf"{owner}: there is no file .*nowhere'; check the path"):
        loader(tmp_path / "nowhere")
    with pytest.raises(
        DataError, match=r"'data.txt' holds no record; check that it is the right fil"
    ):
        load(loader, tmp_path, "\n\n")
    with pytest.raises(DataError, match=r"data.txt' cannot be read .*; is it whole"):
        load(loader, tmp_path, gzip.compress(b"1 2 3" * 1_000)[:-10])
    with pytest.raises(ParameterError, match=f"{owner}: limit must be an int of at least 1, got 0"):
        load(loader, tmp_path, "1", limit=0)
    with pytest.raises(ParameterError, match="bad_lines must be 'skip' or 'error', got 'x'"):
        load(loader, tmp_path, "1", bad_lines="x")


def test_a_large_file_is_read_in_blocks_and_bad_lines_keep_their_numbers(tmp_path):
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 10**9, (250_000, 2))
    lines = [f"{a}\t{b}" for a, b in ends.tolist()]
    bad = sorted(rng.choice(np.arange(100, 250_000), 12, replace=False).tolist())
    for place in bad:
        lines[place] = "x y"
    path = tmp_path / "edges.txt"
    path.write_text("# nodes\n" + "\n".join(lines) + "\n")
    file = LineFile(path, formats.SNAP_EDGES)
    batches = list(file)
    assert len(batches) > 1
    found = pa.Table.from_batches(batches)
    kept = np.delete(ends, bad, axis=0)
    assert (found["source"].to_numpy() == kept[:, 0]).all()
    assert (found["destination"].to_numpy() == kept[:, 1]).all()
    assert (file.bad, file.first_bad[0]) == (12, bad[0] + 2)
    assert sum(batch.num_rows for batch in file) == len(kept)  # from the start again
    assert file.bad == 12


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["1 2", "3\t4", "x 1", "7", "", "# note"]), max_size=250))
def test_good_lines_come_through_in_order_wherever_bad_ones_are(tmp_path, lines):
    path = tmp_path / "edges.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    records = [(n, line) for n, line in enumerate(lines, 1) if line and line[0] != "#"]
    bad = [n for n, line in records if line in ("x 1", "7")]
    good = [tuple(map(int, line.split())) for n, line in records if n not in bad]
    file = LineFile(path, formats.SNAP_EDGES)
    head = [n for n, _ in records[:100]]
    if not good or 2 * len(set(bad) & set(head)) > len(head):
        with pytest.raises(DataError, match=r"is not of this format|holds no record"):
            list(file)
        return
    rows = [tuple(row.values()) for batch in file for row in batch.to_pylist()]
    assert rows == good
    assert file.bad == len(bad)
    assert (file.first_bad or (None,))[0] == (bad[0] if bad else None)


def test_late_bad_lines_do_not_make_it_another_format(tmp_path):
    with pytest.warns(UserWarning, match="300 lines"):
        table = load(formats.load_snap_edges, tmp_path, "1 2\n" * 150 + "x\n" * 300)
    assert table.num_rows == 150


def tlc(tmp_path, **columns):
    path = tmp_path / "trips.parquet"
    pq.write_table(pa.table(columns), path)
    return path


TIMES = pa.array([0, 10**9, None], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("pickup", "dropoff", "zone"),
    [
        ("tpep_pickup_datetime", "tpep_dropoff_datetime", "PULocationID"),
        ("lpep_pickup_datetime", "lpep_dropoff_datetime", "PULocationID"),
        ("pickup_datetime", "dropOff_datetime", "PUlocationID"),
        ("pickup_datetime", "dropoff_datetime", "PULocationID"),
    ],
)
def test_trips_of_all_kinds_of_taxi_come_under_the_same_columns(tmp_path, pickup, dropoff, zone):
    columns = {
        pickup: TIMES,
        dropoff: TIMES,
        zone: pa.array([1.0, 2.0, 3.0]),  # numbers of zones are floats where some are missing
        zone.replace("PU", "DO"): pa.array([4, 5, 6], pa.int64()),
        "Airport_fee": [0.0] * 3,
    }
    with pytest.warns(
        UserWarning, match=r"load_tlc: 1 trips of 'trips.parquet' have no time or no"
    ):
        table = load_tlc(tlc(tmp_path, **columns))
    assert table.column_names == [
        "pickup", "dropoff", "PULocationID", "DOLocationID", "trip_distance", "total_amount",
    ]  # fmt: skip
    assert table["PULocationID"].to_pylist() == [1, 2]
    assert table["total_amount"].to_pylist() == [None, None]
    assert table.schema.metadata == {b"skewless.bad_rows": b"1"}


def test_trips_keep_distance_and_amount_and_may_be_limited(tmp_path):
    columns = {
        "lpep_pickup_datetime": TIMES[:2].cast(pa.timestamp("ns")),
        "lpep_dropoff_datetime": TIMES[:2],
        "PULocationID": [1, 2],
        "DOLocationID": [3, 4],
        "trip_distance": [1.5, 2.5],
        "total_amount": [7.0, 8.0],
    }
    path = tlc(tmp_path, **columns)
    assert load_tlc(path).to_pylist()[1]["total_amount"] == 8.0
    assert load_tlc(path, limit=1)["trip_distance"].to_pylist() == [1.5]


def test_trips_without_zones_and_other_files_are_named(tmp_path):
    old = {
        "tpep_pickup_datetime": TIMES,
        "tpep_dropoff_datetime": TIMES,
        "pickup_latitude": [0.0] * 3,
    }
    with pytest.raises(DataError, match=r"'trips.parquet' has no column pulocationid.*taxi zones"):
        load_tlc(tlc(tmp_path, **old))
    wrong = {"pickup_datetime": ["a"], "dropoff_datetime": TIMES[:1]}
    wrong |= {"PULocationID": [1], "DOLocationID": [1]}
    with pytest.raises(
        DataError, match=r"column 'pickup_datetime' of 'trips.parquet' is string and"
    ):
        load_tlc(tlc(tmp_path, **wrong))
    none = {"pickup_datetime": TIMES[2:], "dropoff_datetime": TIMES[2:]}
    none |= {"PULocationID": [1], "DOLocationID": [1]}
    with pytest.raises(DataError, match=r"holds no trip with times and zones \(1 without\)"):
        load_tlc(tlc(tmp_path, **none))
    with pytest.raises(DataError, match="load_tlc: there is no file"):
        load_tlc(tmp_path / "x.parquet")
    with pytest.raises(ParameterError, match="load_tlc: limit must be an int of at least 1, got 0"):
        load_tlc(tmp_path / "x.parquet", limit=0)
