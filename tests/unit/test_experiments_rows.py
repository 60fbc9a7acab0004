"""The measures and judges of the experiments: against plain Python, and on made-up results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.experiments import Setting, Store, find, run
from skewless.experiments.description import (
    NOT_REPRODUCED,
    ORDERING_ONLY,
    REPRODUCED,
    Result,
)
from skewless.experiments.dr.methods import METHODS, balance, renamed, shifted_zipf
from skewless.experiments.dr.updates import updates
from skewless.experiments.holistic.windows import (
    ONE_CHOICE,
    PARTITIONERS,
    latencies_us,
    measure,
)
from skewless.experiments.pkg.apps import split_up
from skewless.experiments.pkg.sources import by_sources
from skewless.experiments.pkg.throughput import DELAYS_MS
from skewless.histogram import Histogram
from skewless.partitioners import PKG
from skewless.routing import Routing
from skewless.workloads import WordCount

RESULTS = Store(Path(__file__).parents[2] / "benchmarks" / "results" / "experiments")
KEPT = sorted(path.name.rsplit(".", 2)[0] for path in RESULTS.folder.glob("*.json"))


@pytest.mark.parametrize("name", sorted(set(KEPT)))
def test_a_committed_result_can_be_drawn_and_its_rows_fit_their_headings(name):
    experiment = find(name)
    result = RESULTS.best(experiment).result()
    table = experiment.tabulate(result)
    assert table.rows
    assert all(len(row) == len(table.headings) for row in table.rows)
    if experiment.draw is not None:
        for panel in experiment.draw(result).panels:
            assert panel.lines
            for line in panel.lines:
                assert len(line.y) == (len(panel.categories) or len(line.x)) > 0
                assert all(np.isfinite(value) for value in line.y)


@pytest.mark.parametrize("name", ["pkg.greedyd", "pkg.fig4"])
def test_a_cell_measures_the_same_again(name):
    cell = find(name).cells(Setting())[0]
    assert repr(cell.measure()) == repr(cell.measure())


def test_a_small_row_end_to_end_gives_what_is_committed(tmp_path):
    experiment = find("dr.crawl")
    fresh = run(experiment, store=Store(tmp_path))
    assert fresh.rows == RESULTS.read(experiment, "fast").result().rows


@pytest.mark.parametrize("name", ["SH", "PK-2", "cAM-5"])
def test_windows_hold_what_a_count_by_hand_says(name):
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 40, 530).astype(np.uint64)
    row = measure(name, keys, 100, 4, range(7, 9))
    most, partial = [], []
    for seed in (7, 8):
        workers = PARTITIONERS[name](4, 100, seed).route(Chunk(None, keys)).tolist()
        for start in range(0, 500, 100):  # the last window is not full, and left out
            part = list(zip(keys.tolist(), workers, strict=True))[start : start + 100]
            most.append(max(Counter(worker for _, worker in part).values()))
            partial.append(len(set(part)))
    assert row["most"].tolist() == most
    assert row["partial"].tolist() == partial
    assert row["window"] == 100


def test_one_window_that_is_not_full_counts():
    row = measure("FLD", np.arange(30, dtype=np.uint64), 100, 2, range(1))
    assert row["window"] == 30
    assert sum(row["partial"]) == 30


@pytest.mark.parametrize("name", ONE_CHOICE)
def test_one_choice_partitioners_leave_nothing_to_aggregate(name):
    keys = np.random.default_rng(1).integers(0, 50, 1_000).astype(np.uint64)
    row = measure(name, keys, 250, 8, range(1))
    for at, partial in enumerate(row["partial"].tolist()):
        assert partial == len(np.unique(keys[250 * at : 250 * at + 250]))
    assert latencies_us(row).tolist() == row["most"].tolist()


def test_migration_is_the_state_of_the_keys_that_change_their_worker():
    rng = np.random.default_rng(2)
    names = renamed(60, rng)
    batches = [rng.multinomial(3_000, shifted_zipf(60, 1.2, 0.0)) for _ in range(7)]
    found = updates("kip", batches, names, 6)
    routing = Routing.hashing(6)
    for i, counts in enumerate(batches):
        here = counts > 0
        histogram = Histogram(names[here], counts[here])
        before = dict(zip(names.tolist(), routing.route(names).tolist(), strict=True))
        loads = Counter()
        for key, count in zip(names.tolist(), counts.tolist(), strict=True):
            loads[before[key]] += count
        routing = METHODS["kip"](6, histogram, routing)
        after = dict(zip(names.tolist(), routing.route(names).tolist(), strict=True))
        state = Counter()
        for batch in batches[max(0, i - 4) : i + 1]:
            state.update(dict(zip(names.tolist(), batch.tolist(), strict=True)))
        moved = sum(n for key, n in state.items() if before[key] != after[key])
        assert found[i][0] == pytest.approx(max(loads.values()) / (3_000 / 6))
        assert found[i][1] == pytest.approx(moved / sum(state.values()))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_places_all_that_there_is(name):
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 100, 300)
    histogram = Histogram(renamed(300, rng), counts)
    routing = METHODS[name](8, histogram, None)
    assert routing.loads(histogram).sum() == pytest.approx(counts.sum())
    assert balance(routing, histogram) >= 1


def test_new_names_are_all_different_and_in_no_order():
    names = renamed(1_000, np.random.default_rng(0))
    assert len(set(names.tolist())) == 1_000
    assert names.tolist() != sorted(names.tolist())


def test_each_source_has_a_partitioner_of_its_own():
    rng = np.random.default_rng(6)
    keys = rng.integers(0, 20, 400).astype(np.uint64)
    owner = rng.integers(0, 3, 400).astype(np.int32)
    workers = by_sources(keys, owner, 5, seed=9)
    for source in range(3):
        mine = owner == source
        alone = PKG(5, seed=9).route(Chunk(None, keys[mine]))
        assert workers[mine].tolist() == alone.tolist()


def test_an_answer_from_many_workers_is_put_together():
    keys = np.random.default_rng(8).integers(0, 9, 200).astype(np.uint64)
    workers = (np.arange(200) % 4).astype(np.int32)
    answer = split_up(WordCount(), Chunk(None, keys), workers).to_pylist()
    assert {row["key"]: row["n"] for row in answer} == Counter(keys.tolist())


def throughputs(**at):
    """Return a made-up result of figure 5a, from the rates at the least and the most delay."""
    rows = [
        {"policy": policy, "delay_ms": delay, "throughput": np.interp(delay, [0.1, 1.0], ends)}
        for policy, ends in at.items()
        for delay in DELAYS_MS
    ]
    return Result("pkg.fig5a", Setting(), rows, 1.0, "0", {})


# Rates at 0.1 and 1 ms of hashing, PKG and shuffling, and the verdict.
FIGURE_5A = [
    ("as in the paper", (13_000, 5_300), (14_300, 9_000), (14_300, 9_000), REPRODUCED),
    ("PKG ahead, by too little", (13_000, 8_000), (14_300, 9_000), (14_300, 9_000), ORDERING_ONLY),
    ("PKG behind", (13_000, 9_500), (12_000, 7_000), (14_300, 9_000), NOT_REPRODUCED),
]


@pytest.mark.parametrize(
    ("hashing", "pkg", "shuffle", "outcome"),
    [row[1:] for row in FIGURE_5A],
    ids=[row[0] for row in FIGURE_5A],
)
def test_figure_5a_is_judged_by_what_the_rates_are(hashing, pkg, shuffle, outcome):
    result = throughputs(hash=hashing, pkg=pkg, shuffle=shuffle)
    verdict = find("pkg.fig5a").judge(result)
    assert verdict.outcome == outcome, verdict.reason


def test_the_example_is_not_reproduced_by_uneven_blocks_or_more_split_keys():
    result = RESULTS.best(find("prompt.example")).result()
    judge = find("prompt.example").judge
    assert judge(result).outcome == REPRODUCED
    uneven = [{**row, "tuples": row["tuples"] + 5 * (row["block"] == 0)} for row in result.rows]
    assert judge(result._replace(rows=uneven)).outcome == NOT_REPRODUCED
    split = [{**row, "split_keys": 3} for row in result.rows]
    assert "3 of 8 keys are split" in judge(result._replace(rows=split)).missed
