"""``skewless advise``: counts as they are, advice as ``inspect`` gives it, and errors in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from skewless.advisor import advise, holistic_rule, outcomes
from skewless.cli import app
from skewless.commands.file_inspection import advise_file, plain
from skewless.costs import Costs
from skewless.datasets import zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.keys import hash64

COSTS = Costs(0.05, 0.5, 5.0, 20.0)
CHEAP = ("hash", "shuffle", "off_greedy", "wrap_around")
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """90 % of the rows on a key that is HTML, 5 % null; a weight that turns the order round."""
    users = [EVIL] * 9_000 + [None] * 500 + [f"u{i % 50}" for i in range(500)]
    table = pa.table({"user": users, "n": range(10_000), "w": [1] * 9_500 + [1_000] * 500})
    path = tmp_path_factory.mktemp("clicks") / "clicks.parquet"
    order = np.random.default_rng(0).permutation(10_000)
    pq.write_table(table.take(pa.array(order)), path)
    return path


@pytest.fixture(scope="module")
def found(clicks):
    return advise_file(clicks, "user", workers=8, costs=COSTS, policies=CHEAP)


def test_rows_keys_nulls_and_shares_are_exact(found):
    assert (found.rows, found.distinct, found.null_share) == (10_000, 52, 0.05)
    assert (found.top[0].value, found.top[0].share) == ((EVIL,), 0.9)
    assert (found.top[1].value, found.top[1].share) == ((None,), 0.05)
    assert found.top[0].low == found.top[0].high == 0.9


def test_outcomes_are_those_of_the_advisor_on_the_counts(found, clicks):
    histogram = Histogram.of(hash64(pq.read_table(clicks)["user"])).top(100, bucket_count(8))
    expected = outcomes(histogram, 8, COSTS, distinct=52, policies=CHEAP)
    assert found.outcomes == expected
    assert found.advice == advise(expected, 0.9, 8)


def test_the_text_has_the_tables_of_inspect_and_the_rule_beside_them(found):
    text = repr(found)
    assert text.startswith("advise(user): 10,000 rows, 52 distinct keys, 5.0 % null")
    assert "key                        share of rows" in text
    assert "policy       max/mean  split keys  extra fragments  predicted s" in text
    assert "7.2 fair shares" in text
    assert "holistic paper, which weighs neither single keys nor costs, takes shuffle" in text
    assert "52 groups against 1,250 tuples of a worker in a window" in text
    assert "Null keys: 5.0 % of the rows" in text


def test_a_weight_is_balanced_instead_of_rows(clicks):
    by_weight = advise_file(clicks, "user", workers=8, weight="w", costs=COSTS, policies=CHEAP)
    assert by_weight.top[0].value[0].startswith("u")
    assert by_weight.top[0].share == pytest.approx(10_000 / 509_500)
    assert "share of weight" in repr(by_weight)


def test_fractions_weigh_as_their_sums(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("k,w\na,0.5\nb,0.25\na,\nb,0.25\nc,1.0\n")
    one = advise_file(path, "k", workers=2, weight="w", costs=COSTS, policies=CHEAP)
    assert {key.value[0]: round(key.share, 9) for key in one.top} == {
        "a": 0.25,
        "b": 0.25,
        "c": 0.5,
    }


def test_two_columns_form_one_key(tmp_path):
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.integers(0, 5, 5_000), "b": rng.integers(0, 7, 5_000)})
    csv.write_csv(table, tmp_path / "a.csv")
    one = advise_file(tmp_path / "a.csv", "a", "b", workers=4, costs=COSTS, policies=CHEAP)
    pairs = Counter(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    assert one.distinct == len(pairs) == 35
    assert {key.value: round(key.share * 5_000) for key in one.top} == dict(pairs)


def test_values_of_heavy_keys_are_found_that_were_heavy_in_no_batch(tmp_path):
    # 300 keys in turn, all as heavy: a batch's heaviest 64 are not the file's first 100.
    keys = np.tile(np.arange(300), 1_000)
    pq.write_table(pa.table({"k": keys}), tmp_path / "a.parquet")
    one = advise_file(tmp_path / "a.parquet", "k", workers=2, costs=COSTS, policies=CHEAP)
    assert len(one.top) == 100
    assert len({key.value for key in one.top}) == 100
    assert all(key.share == pytest.approx(1 / 300) for key in one.top)


def test_too_many_keys_for_memory_are_said_to_be_estimated(tmp_path):
    keys = zipf(400_000, 10**6, 1.0, seed=2)
    pq.write_table(pa.table({"k": keys.view(np.int64)}), tmp_path / "a.parquet")
    one = advise_file(
        tmp_path / "a.parquet", "k", workers=4, costs=COSTS, policies=CHEAP, max_keys=1_000
    )
    real = np.unique(keys, return_counts=True)[1]
    assert one.count_error > 0
    assert "too many keys to count each" in repr(one)
    assert one.top[0].share == pytest.approx(real.max() / len(keys), abs=one.count_error / 4e5)
    assert one.distinct == pytest.approx(len(real), rel=0.06)


def test_growing_keys_turn_the_rule_from_shuffle_to_cam(tmp_path):
    pq.write_table(pa.table({"k": np.arange(200_000) // 100}), tmp_path / "grows.parquet")
    pq.write_table(pa.table({"k": np.arange(200_000) % 2_000}), tmp_path / "stays.parquet")
    kind = {"workers": 2, "costs": COSTS, "policies": CHEAP}
    grows = advise_file(tmp_path / "grows.parquet", "k", **kind)
    stays = advise_file(tmp_path / "stays.parquet", "k", **kind)
    assert (grows.rule.policy, stays.rule.policy) == ("cam", "shuffle")
    assert "their number grows" in grows.rule.reason
    small = advise_file(tmp_path / "stays.parquet", "k", window_rows=1_000, **kind)
    assert small.rule.policy == "cam"


@pytest.mark.parametrize(
    ("case", "groups", "tuples", "workers", "constant", "policy"),
    [
        ("TPC-H Query 1, the only one where shuffle was best", 4, 59e6, 8, True, "shuffle"),
        ("TPC-H Query 1, 32 workers", 4, 59e6, 32, True, "shuffle"),
        ("TPC-H Query 3, groups grow with the scale", 110_000, 3e6, 8, False, "cam"),
        ("cluster Query 1, windows of 42 tuples", 4, 42, 8, True, "cam"),
        ("cluster Query 2, windows of 181 tuples", 600, 181, 8, False, "cam"),
        ("taxi Query 1, up to 8.1 million groups", 8_100_000, 8.1e6, 8, False, "cam"),
        ("a tenth is the edge", 100, 8_000, 8, True, "shuffle"),
        ("just above it", 101, 8_000, 8, True, "cam"),
        ("few groups, but growing", 4, 59e6, 8, False, "cam"),
    ],
)
def test_the_holistic_rule_decides_its_papers_cases_as_measured(
    case, groups, tuples, workers, constant, policy
):
    assert holistic_rule(groups, tuples, workers, constant=constant).policy == policy, case


def test_the_holistic_rule_names_bad_numbers():
    with pytest.raises(
        ParameterError, match="holistic_rule: n_groups must be an int of at least 1"
    ):
        holistic_rule(0, 10, 2)
    with pytest.raises(ParameterError, match="window_tuples must be a float above 0, got 0"):
        holistic_rule(4, 0, 2)
    with pytest.raises(ParameterError, match=r"much_less must be a float in \(0, 1\], got 2"):
        holistic_rule(4, 10, 2, much_less=2)


def test_the_page_escapes_what_the_data_hold(found, tmp_path):
    page = found.to_html(tmp_path / "keys.html").read_text(encoding="utf-8")
    body = page[page.index("<body>") :]
    assert EVIL not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "holistic paper" in body
    assert "What Spark does by itself" not in body
    assert EVIL not in found._repr_html_()


def run(*args):
    return CliRunner().invoke(app, ["advise", *map(str, args)])


def test_the_command_prints_and_writes_json_and_html(clicks, tmp_path):
    out, page = tmp_path / "o.json", tmp_path / "o.html"
    done = run(
        clicks, "--key", "user", "--workers", 4, "--update-us", 3, "--json", out, "--html", page
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("advise(user): 10,000 rows")
    told = json.loads(out.read_text())
    assert (told["rows"], told["workers"], told["costs"]["update_us"]) == (10_000, 4, 3.0)
    assert told["top"][0]["value"] == [EVIL]
    assert told["rule"]["policy"] == "shuffle"
    assert page.stat().st_size > 1_000


def test_json_holds_values_of_every_type(tmp_path):
    table = pa.table(
        {
            "d": pa.array([0, 1, 1], pa.date32()),
            "b": pa.array([b"\xff", b"a", b"a"]),
            "f": [float("nan"), float("inf"), float("inf")],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    kind = {"workers": 2, "costs": COSTS, "policies": CHEAP}
    one = advise_file(tmp_path / "a.parquet", "d", "b", "f", **kind)
    text = json.dumps(plain(one.to_dict()), allow_nan=False)
    assert '"1970-01-02", "b\'a\'", "inf"' in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.csv", "--key", "k"], "advise: there is no file 'nowhere.csv'; check the path"),
        (["a.csv", "--key", "usr"], "column 'usr' is not in 'a.csv' (did you mean 'user'?)"),
        (["a.csv", "--key", "user", "--weight", "user"], "weight column 'user' of 'a.csv' must be"),
        (["a.csv", "--key", "user", "--weight", "m"], "must hold numbers of at least 0, got -1"),
        (["a.xls", "--key", "user"], "format of 'a.xls' is not supported"),
        (["empty.csv", "--key", "user"], "'empty.csv' is empty (0 bytes)"),
        (["head.csv", "--key", "user"], "'head.csv' has no rows; there is nothing to advise on"),
        (["nested.jsonl", "--key", "user"], "key column 'user' of 'nested.jsonl' is nested"),
        (["nested.jsonl", "--key", "user.id"], "('user' is nested: write its field"),
        (["bad.csv", "--key", "user"], "'bad.csv', line 3 has 1 fields instead of 2"),
        (["a.csv", "--key", "user", "--format", "cvs"], "no format 'cvs' (did you mean 'csv'?)"),
        (["a.csv", "--key", "user", "--html", "no/such/o.html"], "must be a file in a folder that"),
    ],
)
def test_bad_input_ends_in_one_sentence(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("user,n,m\nann,1,2\nbob,2,-1\n")
    Path("a.xls").write_text("x")
    Path("empty.csv").touch()
    Path("head.csv").write_text("user,n\n")
    Path("nested.jsonl").write_text('{"user": {"id": 1}}\n')
    Path("bad.csv").write_text("user,n\nann,1\nbob\n")
    done = run(*args, "--workers", 4)
    assert isinstance(done.exception, DataError | ParameterError)
    assert words in str(done.exception)


def test_bad_lines_are_skipped_and_told_if_asked(tmp_path):
    (tmp_path / "a.csv").write_text("user,n\nann,1\nbob\nann,3\n")
    done = run(tmp_path / "a.csv", "--key", "user", "--workers", 2, "--skip-bad-lines")
    assert "2 rows" in done.stdout
    assert "1 bad lines were left out" in done.stdout


def test_the_program_ends_with_status_2_and_one_line(tmp_path):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from skewless.cli import main; main()", "advise"),
            *(str(tmp_path / "x.csv"), "--key", "k", "--workers", "2"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: advise: there is no file")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_the_command_asks_for_a_key_and_for_workers(tmp_path):
    assert run(tmp_path, "--workers", 2).exit_code == 2
    assert run(tmp_path, "--key", "k").exit_code == 2
    assert run(tmp_path, "--key", "k", "--workers", 0).exit_code == 2
    with pytest.raises(DataError, match="name at least one key column"):
        advise_file(tmp_path, workers=2)
    with pytest.raises(ParameterError, match="advise: workers must be an int of at least 1, got 0"):
        advise_file(tmp_path, "k", workers=0)
