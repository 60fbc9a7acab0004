"""The registry of experiments, kept results, judges and the evidence page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from skewless.errors import DataError, ParameterError
from skewless.experiments import ROWS, Cell, Experiment, Setting, Store, Table, find, listed, run
from skewless.experiments.description import (
    NOT_REPRODUCED,
    ORDERING_ONLY,
    REPRODUCED,
    Result,
    judged,
    number,
    ordering,
)
from skewless.experiments.evidence import collect, markdown, render
from skewless.experiments.ours.drift import recoveries
from skewless.experiments.ours.limit import forced_fragments
from skewless.experiments.page import page
from skewless.experiments.rows import Listed
from skewless.experiments.through_time import imbalance_through_time
from skewless.report.plot import Line, Panel, Plot, save_svg

ROOT = Path(__file__).parents[2]

#: The permanent ids.
IDS = [
    "pkg.table2",
    "pkg.lognormal",
    "pkg.fig2",
    "pkg.fig3",
    "pkg.fig4",
    "pkg.fig5a",
    "pkg.fig5b",
    "pkg.apps",
    "pkg.greedyd",
    "holistic.q1",
    "holistic.q3",
    "holistic.debs1",
    "holistic.debs2",
    "holistic.gcm1",
    "holistic.gcm2",
    "holistic.latency",
    "holistic.memory",
    "holistic.rule",
    "prompt.fig10",
    "prompt.example",
    "prompt.fig11rate",
    "prompt.fig11skew",
    "prompt.fig12",
    "prompt.fig13",
    "prompt.fig14",
    "dr.fig2",
    "dr.fig3",
    "dr.fig4",
    "dr.fig5",
    "dr.fig6",
    "dr.crawl",
    "dr.ner",
    "dalton.fig1",
    "dalton.fig7",
    "dalton.fig8",
    "dalton.fig9a",
    "dalton.fig9b",
    "dalton.fig9c",
    "dalton.fig9d",
    "dalton.fig10ab",
    "dalton.fig10c",
    "dalton.fig11",
    "dalton.fig12",
    "dalton.fig13",
    "dalton.fig14a",
    "dalton.fig14b",
    "dalton.fig15",
    "ours.limit",
    "ours.scale",
    "ours.spark",
    "ours.drift",
]
READY = [row.id for row in ROWS if row.home]


def made_up(cells=None, revision=1, judge=None):
    """Return an experiment that counts how often each of its cells is measured."""
    counts = {}

    def measure(name):
        counts[name] = counts.get(name, 0) + 1
        return [{"cell": name, "value": np.float64(counts[name]), "nothing": float("nan")}]

    names = cells or ["a", "b"]
    experiment = Experiment(
        id="pkg.lognormal",
        setup="Two cells.",
        claim="a | b, <b>bold</b>",
        cells=lambda _: [Cell(name, lambda name=name: measure(name)) for name in names],
        judge=judge or (lambda _: judged([number(True, "1 < 2 | 3")])),
        tabulate=lambda r: Table(["cell"], [[row["cell"]] for row in r.rows]),
        revision=revision,
    )
    return experiment, counts


def test_the_registry_lists_every_permanent_id_once_and_in_order():
    assert [row.id for row in ROWS] == IDS


@pytest.mark.parametrize("name", READY)
def test_a_ready_row_leads_to_an_experiment_of_its_own_name_with_words_and_cells(name):
    experiment = find(name)
    assert experiment.id == name
    assert experiment.setup.endswith(".")
    assert experiment.claim.endswith(".")
    for full in (False, True):
        cells = experiment.cells(Setting(full))
        names = [cell.name for cell in cells]
        assert names
        assert len(set(names)) == len(names)
        assert all(cell.weight > 0 for cell in cells)


def test_an_unknown_id_is_told_with_the_ids_that_are_near():
    with pytest.raises(ParameterError, match=r"'pkg.tabel2'; near are 'pkg.table2'"):
        listed("pkg.tabel2")
    with pytest.raises(ParameterError, match=r"no experiment 'zzz'; `skewless experiment list`"):
        find("zzz")


def test_a_row_that_needs_spark_or_is_not_written_is_told_as_such(monkeypatch):
    from skewless.experiments import rows

    monkeypatch.setitem(rows._BY_ID, "pkg.real", Listed("pkg.real", "P", "nobody wrote it"))
    with pytest.raises(ParameterError, match=r"'pkg\.real' needs Spark, and nobody has written it"):
        find("pkg.real")
    monkeypatch.setitem(rows._BY_ID, "pkg.new", Listed("pkg.new", "S", "nobody wrote it"))
    with pytest.raises(ParameterError, match=r"'pkg\.new' is not implemented yet"):
        find("pkg.new")


# Checks in, outcome.
JUDGED = [
    ("all held", [ordering(True, "x"), number(True, "y")], REPRODUCED),
    ("numbers alone, held", [number(True, "y")], REPRODUCED),
    ("a number missed", [ordering(True, "x"), number(False, "y")], ORDERING_ONLY),
    ("an ordering missed", [ordering(False, "x"), number(True, "y")], NOT_REPRODUCED),
    ("one of two orderings missed", [ordering(True, "x"), ordering(False, "z")], NOT_REPRODUCED),
    ("a number missed and no ordering", [number(True, "x"), number(False, "y")], NOT_REPRODUCED),
]


@pytest.mark.parametrize(
    ("checks", "outcome"), [row[1:] for row in JUDGED], ids=[r[0] for r in JUDGED]
)
def test_a_verdict_is_what_its_checks_amount_to(checks, outcome):
    verdict = judged(checks)
    assert verdict.outcome == outcome
    assert verdict.held == tuple(check.words for check in checks if check.held)
    assert verdict.missed == tuple(check.words for check in checks if not check.held)
    assert all(check.words in verdict.reason for check in checks)


def test_a_verdict_needs_a_check():
    with pytest.raises(ValueError, match="at least one check"):
        judged([])


def test_what_is_kept_is_not_measured_again_and_reads_back_the_same(tmp_path):
    experiment, counts = made_up()
    store = Store(tmp_path / "new" / "folder")
    first = run(experiment, store=store)
    again = run(experiment, store=store)
    assert counts == {"a": 1, "b": 1}
    assert (
        again.rows
        == first.rows
        == [
            {"cell": "a", "value": 1.0, "nothing": None},
            {"cell": "b", "value": 1.0, "nothing": None},
        ]
    )
    assert store.best(experiment).result().rows == first.rows
    assert again.machine["cpus"] >= 1


def test_force_measures_anew(tmp_path):
    experiment, counts = made_up()
    run(experiment, store=Store(tmp_path))
    run(experiment, store=Store(tmp_path), force=True)
    assert counts == {"a": 2, "b": 2}


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    experiment, counts = made_up()
    store = Store(tmp_path)

    def interrupt(_part, what):
        if what == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment, store=store, progress=interrupt)
    assert counts == {"a": 1}
    assert store.best(experiment) is None
    told = []
    result = run(experiment, store=store, progress=lambda part, what: told.append((part, what)))
    assert counts == {"a": 1, "b": 1}
    assert [row["cell"] for row in result.rows] == ["a", "b"]
    assert told == [(0.5, "b"), (1.0, "pkg.lognormal")]


def test_a_cell_that_is_no_more_is_forgotten_and_a_new_one_is_measured(tmp_path):
    store = Store(tmp_path)
    run(made_up(["a", "b"])[0], store=store)
    experiment, counts = made_up(["c", "b"])
    result = run(experiment, store=store)
    assert counts == {"c": 1}
    assert [row["cell"] for row in result.rows] == ["c", "b"]


def test_results_of_an_earlier_revision_are_not_used(tmp_path):
    store = Store(tmp_path)
    run(made_up()[0], store=store)
    experiment, counts = made_up(revision=2)
    assert store.best(experiment) is None
    run(experiment, store=store)
    assert counts == {"a": 1, "b": 1}


def test_profiles_are_kept_apart_and_the_full_one_is_shown(tmp_path):
    experiment, counts = made_up()
    store = Store(tmp_path)
    run(experiment, Setting(full=True), store)
    run(experiment, Setting(full=False), store)
    assert counts == {"a": 2, "b": 2}
    assert store.best(experiment).setting.profile == "full"


def test_another_seed_does_not_replace_what_is_kept(tmp_path):
    experiment, counts = made_up()
    run(experiment, Setting(seed=1), Store(tmp_path))
    with pytest.raises(DataError, match="seed 1, got 2; run it with --force"):
        run(experiment, Setting(seed=2), Store(tmp_path))
    assert counts == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[: len(text) // 2], "is no JSON"),
        (lambda text: text.replace("skewless.experiment", "other"), "holds no result"),
        (lambda text: text.replace('"version": 1', '"version": 9'), "is of version 9"),
        (lambda text: text.replace('"seed": 0', '"seed": "x"'), "missing or wrong"),
        (lambda text: text.replace('"rows"', '"lines"'), "missing or wrong"),
        (lambda text: text.replace('"id": "pkg.lognormal"', '"id": "pkg.fig2"'), "holds pkg.fig2"),
        (lambda _: "[1, 2]", "holds no result"),
        (lambda _: "", "is no JSON"),
    ],
)
def test_a_file_that_is_not_a_result_is_an_error_in_words(tmp_path, change, words):
    experiment, _ = made_up()
    store = Store(tmp_path)
    run(experiment, store=store)
    path = store.path(experiment.id, "fast")
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=words):
        run(experiment, store=store)


def test_two_cells_of_one_name_are_refused():
    experiment, _ = made_up(["a", "a"])
    with pytest.raises(ValueError, match="two cells have one name"):
        run(experiment)


def test_the_evidence_page_is_what_the_committed_results_make_it():
    found = collect(Store(ROOT / "benchmarks" / "results" / "experiments"))
    assert markdown(found) == (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    for one in found:
        if one.result is not None and one.experiment.draw is not None:
            assert (ROOT / "docs" / "plots" / "evidence" / f"{one.row.id}.svg").stat().st_size > 0


def test_the_evidence_page_tells_what_was_not_run_and_what_needs_spark(tmp_path):
    render(Store(tmp_path / "none"), tmp_path)
    text = (tmp_path / "evidence.md").read_text()
    for row in ROWS:
        status = "not run yet" if row.home else row.status
        assert f"| {row.id} | " in text
        assert f" | {status} |" in next(x for x in text.splitlines() if f"| {row.id} |" in x)


def test_words_of_a_result_are_no_markup_on_the_evidence_page(tmp_path, monkeypatch):
    experiment, _ = made_up(["<script>x</script>|y\n# z"])
    store = Store(tmp_path)
    run(experiment, store=store)
    from skewless.experiments import evidence

    monkeypatch.setattr(evidence, "find", lambda _: experiment)
    monkeypatch.setattr(evidence, "ROWS", (Listed("pkg.lognormal", "S", "t_i*t*le", "x:Y"),))
    text = markdown(collect(store))
    assert "<script>" not in text
    assert "\\<script\\>x\\</script\\>\\|y \\# z" in text
    assert "a \\| b, \\<b\\>bold\\</b\\>" in text
    assert "T\\_i\\*t\\*le." in text
    shown = page(collect(store), {"pkg.lognormal": b"<svg/>"})
    assert "<script>" not in shown
    assert "&lt;script&gt;x" in shown
    assert "a | b, &lt;b&gt;bold&lt;/b&gt;" in shown
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in shown


def test_a_plot_is_drawn_the_same_twice_and_its_words_are_escaped(tmp_path):
    lines = [Line("<pkg> & co", [1, 10], [1e-3, 2e-1]), Line("hash", [1, 10], [1.0, 2.0])]
    bars = Panel("bars", [Line("a", [], [1.0, 2.0])], "x", categories=["p", "q"])
    plot = Plot([Panel("t", lines, "x", "y", log_x=True, log_y=True, level=1.0), bars])
    save_svg(plot, tmp_path / "one.svg")
    save_svg(plot, tmp_path / "two.svg")
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert "&lt;pkg&gt; &amp; co" in text
    assert text.startswith("<?xml")


def test_imbalance_through_time_is_max_less_mean_of_all_loads_so_far():
    rng = np.random.default_rng(5)
    workers = rng.integers(0, 7, 1_003).astype(np.int32)
    found = imbalance_through_time(workers, 7, 10)
    for i, value in enumerate(found):
        loads = [0] * 7
        for worker in workers.tolist()[: int(1_003 * (i + 1) / 10)]:
            loads[worker] += 1
        assert value == pytest.approx(max(loads) - sum(loads) / 7)
    assert len(found) == 10


@pytest.mark.parametrize(
    ("counts", "n_workers", "forced"),
    [
        ([1, 1, 1, 1], 4, 0),
        ([6, 1, 1], 4, 2),
        ([8], 4, 3),
        ([5, 5], 2, 0),
        ([9, 1], 2, 1),
        ([9, 1], 3, 2),
        ([3, 3, 3], 1, 0),
    ],
)
def test_a_key_needs_as_many_workers_as_it_has_fair_shares(counts, n_workers, forced):
    keys = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    assert forced_fragments(keys, n_workers) == forced


def test_a_policy_has_recovered_in_the_first_window_that_is_balanced_as_before():
    settled = [1.0] * 5
    balance = np.array([*settled, *settled, 4.0, 1.2, 1.1, 1.0, 1.0, 1.05, 1.0, 1.0, 1.0, 1.0])
    assert recoveries(balance, 5) == [2, 0]


def test_a_policy_that_does_not_recover_before_the_next_change_took_all_the_time_there_was():
    balance = np.array([1.0] * 10 + [3.0] * 5)
    assert recoveries(balance, 5) == [5]


def test_a_result_answers_by_value_and_refuses_what_is_not_one_row():
    rows = [{"p": "a", "n": 1, "x": 3}, {"p": "a", "n": 2, "x": 4}, {"p": "b", "n": 1, "x": 5}]
    result = Result("pkg.fig2", Setting(), rows, 0.0, "", {})
    assert result.one("x", p="a", n=2) == 4
    assert result.values("p") == ["a", "b"]
    for values in ({"p": "a"}, {"p": "c"}):
        with pytest.raises(LookupError, match=r"pkg\.fig2"):
            result.one("x", **values)


def test_kept_files_are_json_that_any_reader_takes(tmp_path):
    experiment, _ = made_up()
    store = Store(tmp_path)
    run(experiment, store=store)
    body = json.loads(store.path(experiment.id, "fast").read_text())
    assert (body["format"], body["version"], body["complete"]) == ("skewless.experiment", 1, True)
    assert list(body["cells"]) == ["a", "b"]
