"""Files of tuples: every format gives the same keys, and every fault a sentence."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from skewless.datasets.files import TupleFile, read_keys
from skewless.errors import DataError, ParameterError
from skewless.keys import hash64

USERS = ["ann", "bob", None, "Zoë", "a,b", 'say "x"', "NA", "ann"]
TABLE = pa.table({"user": USERS, "n": pa.array(range(8), pa.int64()), "x": [0.5] * 8})


def written(folder, kind):
    path = folder / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(TABLE, path, row_group_size=3)
    elif kind in ("csv", "tsv"):
        csv.write_csv(TABLE, path, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
    elif kind == "csv.gz":
        csv.write_csv(TABLE, folder / "plain")
        path.write_bytes(gzip.compress((folder / "plain").read_bytes()))
    elif kind in ("jsonl", "ndjson.gz"):
        text = "".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()).encode()
        path.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    elif kind == "arrow":
        with pa.ipc.new_file(path, TABLE.schema) as sink:
            sink.write_table(TABLE, max_chunksize=3)
    else:
        with pa.ipc.new_stream(path, TABLE.schema) as sink:
            sink.write_table(TABLE, max_chunksize=3)
    return path


KINDS = ["parquet", "csv", "tsv", "csv.gz", "jsonl", "ndjson.gz", "arrow", "arrows"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_hashes_of_its_columns(tmp_path, kind):
    path = written(tmp_path, kind)
    user, n = TABLE["user"], TABLE["n"]
    assert read_keys(path, "user").tolist() == hash64(user).tolist()
    assert read_keys(path, ["n", "user"]).tolist() == hash64(n, user).tolist()
    assert read_keys(path, "user", limit=5).tolist() == hash64(user)[:5].tolist()
    assert len(read_keys(path, "user", limit=0)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_progress_goes_up_to_the_end(tmp_path, kind):
    seen = []
    read_keys(written(tmp_path, kind), "user", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] > 0.95 or kind == "arrows"  # a stream ends in a mark that is no batch
    assert all(0 <= part <= 1 for part in seen)


def test_a_folder_is_read_in_the_order_of_names_without_what_spark_hides(tmp_path):
    for i, name in enumerate(["part-1.parquet", "part-0.parquet"]):
        pq.write_table(pa.table({"k": [i, i + 10]}), tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"crc")
    (tmp_path / "README.txt").write_text("no data")
    found = TupleFile(tmp_path, ["k"])
    assert [v for batch in found for v in batch.column("k").to_pylist()] == [1, 11, 0, 10]
    assert found.progress == 1.0


def test_large_text_is_read_in_batches_and_equals_the_whole(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"k": rng.integers(0, 10**12, 600_000), "t": ["x" * 8] * 600_000})
    csv.write_csv(table, tmp_path / "a.csv")
    found = TupleFile(tmp_path / "a.csv", ["k"])
    batches = list(found)
    assert len(batches) > 2
    assert max(batch.nbytes for batch in batches) < 8 << 20
    assert pa.Table.from_batches(batches)["k"].to_pylist() == table["k"].to_pylist()


def test_a_field_that_json_lines_leave_out_is_null_and_may_come_late(tmp_path):
    path = tmp_path / "a.jsonl"
    filler = '{"pad": "' + "x" * 1000 + '", "k": null}\n'
    path.write_text(filler * 5000 + '{"k": "late"}\n\n{"pad": "y"}\n')
    keys = read_keys(path, "k")
    assert keys[-2] == hash64(pa.array(["late"]))[0]
    assert set(keys.tolist()) == {42, int(keys[-2])}
    assert len(keys) == 5002


def test_numbers_are_read_as_text_if_asked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("zip,n\n02134,1\n2134,2\n")
    assert len(set(read_keys(path, "zip").tolist())) == 1
    text = hash64(pa.array(["02134", "2134"])).tolist()
    assert read_keys(path, "zip", as_text=True).tolist() == text


def test_bad_lines_are_counted_when_they_are_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("k,n\na,1\nb\nc,3\nd,4,5\n")
    found = TupleFile(path, bad_lines="skip")
    assert [row["k"] for batch in found for row in batch.to_pylist()] == ["a", "c"]
    assert found.skipped == 2
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"k": 1}\n{"k": \n[3]\n{"k": 4}\n')
    found = TupleFile(lines, bad_lines="skip")
    assert [row["k"] for batch in found for row in batch.to_pylist()] == [1, 4]
    assert found.skipped == 2


@pytest.mark.parametrize(
    ("name", "content", "column", "words"),
    [
        ("a.csv", "k,n\na,1\nb\n", "k", r"'a.csv', line 3 has 1 fields instead of 2; mend"),
        ("a.csv", "", "k", r"a.csv' is empty \(0 bytes\); give a file with rows"),
        ("a.csv", "user,n\na,1\n", "usr", r"column 'usr' is not in 'a.csv' \(did you mean 'user'"),
        ("a.csv", "k,k\n1,2\n", "k", "two columns named 'k'; rename one"),
        ("a.xlsx", "x", "k", "format of 'a.xlsx' is not supported; give a file that ends in .parq"),
        ("a.parquet.gz", "x", "k", "format of 'a.parquet.gz' is not supported"),
        ("a.parquet", "no parquet", "k", r"a.parquet' cannot be read \(.*\); check its format"),
        ("a.arrow", "no arrow at all", "k", "a.arrow' cannot be read"),
        ("a.jsonl", '{"k": 1}\n{"k":\n', "k", "'a.jsonl', line 2 is no JSON object; write one"),
        ("a.json", '[{"k": 1}]\n', "k", r"line 1 is no JSON object \(the file is one JSON array"),
        ("a.jsonl", '{"k": 1}\n{"k": "x"}\n', "k", "lines 1 to 2: .*; give every line values"),
        ("a.jsonl", '{"k": {"a": 1}}\n', "k", r"key column 'k' of 'a.jsonl' is nested \(struct<"),
        ("a.jsonl", '{"k": {"a": 1}}\n', "k.a", r"'k.a' is not in .* \('k' is nested: write its"),
        ("a.jsonl", '{"k": [1]}\n', "k", "is nested"),
    ],
)
def test_a_fault_of_the_file_is_a_sentence(tmp_path, name, content, column, words):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        read_keys(path, column)


def test_a_value_that_does_not_fit_later_names_the_remedy(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("k,n\n" + "1,2\n" * 1_100_000 + "x,2\n")
    with pytest.raises(DataError, match=r"'a.csv': .*'x'; mend the file, or read the column as te"):
        read_keys(path, "k")
    assert len(read_keys(path, "k", as_text=True)) == 1_100_001


def test_what_was_asked_wrongly_is_named(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(DataError, match=r"there is no file .*a\.csv'; check the path"):
        read_keys(path, "k")
    path.write_text("k\n1\n")
    with pytest.raises(DataError, match="columns names no column"):
        read_keys(path, [])
    with pytest.raises(ParameterError, match="limit must be an int of at least 0, got -1"):
        read_keys(path, "k", limit=-1)
    with pytest.raises(ParameterError, match=r"no format 'cvs' \(did you mean 'csv'"):
        read_keys(path, "k", format="cvs")
    with pytest.raises(ParameterError, match="bad_lines must be 'error' or 'skip', got 'drop'"):
        read_keys(path, "k", bad_lines="drop")
    (tmp_path / "d").mkdir()
    with pytest.raises(DataError, match="holds no file that can be read"):
        read_keys(tmp_path / "d", "k")
