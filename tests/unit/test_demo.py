"""The demo's parts that need no Spark: the stream of words, the aggregator, the page."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.demo.adapting import drift, elasticity, reaction
from skewless.demo.follow import FollowedBy
from skewless.demo.words import write_stream
from skewless.report import demo_page, text

STATE = pa.schema(
    [
        ("spoken_n", pa.int64()),
        ("followers", pa.list_(pa.struct([("word", pa.string()), ("n", pa.int64())]))),
    ]
)


def test_the_stream_holds_every_word_in_speaking_order_and_one_late_row(tmp_path: Path) -> None:
    words = write_stream(tmp_path / "in", since=2015, n_batches=3, files_per_batch=2)
    files = sorted((tmp_path / "in").iterdir())
    assert len(files) == 7
    assert [f.stat().st_mtime for f in files] == sorted({f.stat().st_mtime for f in files})
    table = pa.concat_tables([pq.read_table(f) for f in files[:-1]])
    assert table.num_rows == words.n_rows > 30_000
    text, after = table["word"].to_pylist(), table["next_word"].to_pylist()
    assert all(b in (None, c) for b, c in zip(after, text[1:], strict=False))
    assert after.count(None) == 7  # one for each address
    days = table["spoken"].to_numpy()
    assert (np.diff(days) >= np.timedelta64(0)).all()
    assert pq.read_table(files[-1])["word"].to_pylist() == [None]


def test_followers_by_groups_equal_the_plain_way() -> None:
    rng = np.random.default_rng(3)
    sizes = [1, 7, 1, 40]
    spoken = [rng.choice(["a", "b", "c", None], size).tolist() for size in sizes]
    rows = pa.table({"next_word": pa.array([w for s in spoken for w in s], pa.string())})
    followed = FollowedBy(0.0, 2, "nowhere")
    followed.state_schema = STATE
    states = followed.update_groups(rows, np.cumsum([0, *sizes])).to_pylist()
    for state, words in zip(states, spoken, strict=True):
        plain = followed.update(
            followed.create(), pa.table({"next_word": pa.array(words, pa.string())})
        )
        assert state["spoken_n"] == plain["spoken_n"] == len(words)
        ours = {f["word"]: f["n"] for f in state["followers"]}
        assert ours == {f["word"]: f["n"] for f in plain["followers"]}
        assert ours == dict(Counter(w for w in words if w is not None))


def test_finish_adds_the_fragments_up_and_keeps_the_most_frequent() -> None:
    followers = [
        {"word": "b", "n": 2},
        {"word": "a", "n": 1},
        {"word": "a", "n": 3},
        {"word": "c", "n": 2},
    ]
    found = FollowedBy(0.0, 2, "").finish({"spoken_n": 9, "followers": followers})
    assert found == {"times": 9, "most": [{"word": "a", "n": 4}, {"word": "b", "n": 2}]}


class Told:
    """A run of a policy with a hostile name."""

    policy = "<script>alert(1)</script>"

    def cells(self) -> list[str]:
        return [self.policy, "1.0"]

    def loads(self) -> np.ndarray:
        return np.array([[0.5, 1.5], [1.0, 1.0]])


def test_the_page_is_one_file_and_escapes_what_comes_from_data(tmp_path: Path) -> None:
    path = tmp_path / "demo.html"
    acts: list[demo_page.Act] = [("<i>act</i>", "a & b", ["policy", "x"], [Told()], [[]])]
    demo_page.write(path, "lead <b>", acts, {"dalton": [("</td><b>word", {0: 0.75, 3: 0.25})]})
    text = path.read_text()
    body = text[text.index("<body>") :]
    assert "<script>alert" not in body
    assert "&lt;i&gt;act&lt;/i&gt;" in body
    assert "&lt;/td&gt;&lt;b&gt;word" in body
    assert "0: 75%, 3: 25%" in body
    demo_page.write(path, "lead", acts, {"dalton": []})
    assert "every word is at the worker of its hash, whole" in path.read_text()
    assert 'src="http' not in text


@pytest.mark.parametrize("kind", ["", "words"])
def test_a_table_scrolls_and_keeps_its_cells(kind: str) -> None:
    html = text.table(["a", "b"], [["1", "2"]], kind)
    assert html.count("<td>") == 2
    assert 'class="scroll"' in html


def test_a_hot_key_is_cut_within_two_batches_and_whole_within_five(tmp_path: Path) -> None:
    steps = drift(tmp_path, 4)
    up, down = reaction(steps)
    assert up is not None
    assert down is not None
    assert (up <= 2, down <= 5) == (True, True)
    cut = [step for step in steps if step.workers_of_hot > 1]
    assert max(step.max_over_mean for step in cut[:4]) < 1.25
    assert max(step.hashed for step in steps) > 2


def test_a_day_s_rate_takes_as_many_workers_as_it_needs(tmp_path: Path) -> None:
    steps = elasticity(tmp_path, 4)
    active = [step.active for step in steps]
    assert min(active) < 3
    assert max(active) == 4
    assert sum(step.load > 1.1 for step in steps) <= 3
    changes = [b - a for a, b in pairwise(active) if a != b]
    assert all(abs(change) == 1 for change in changes)


def test_the_curves_of_a_changing_stream_are_on_the_page(tmp_path: Path) -> None:
    story = ("<b>drift</b>", "a & b", [("axis", [("<i>one</i>", [1.0, 2.0])])])
    demo_page.write(tmp_path / "page.html", "lead", [], {}, [story])
    content = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;drift&lt;/b&gt;" in content
    assert "a &amp; b" in content
    assert "<b>drift" not in content
    assert "<i>one" not in content
