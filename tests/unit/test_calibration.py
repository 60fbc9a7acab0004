"""Costs fitted to jobs, kept in a file, and found again."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from skewless import calibration, document
from skewless.calibration import Calibration, Job, fit, known_costs, saved_costs
from skewless.costs import Costs, predicted_s
from skewless.errors import DataError, ParameterError

TRUE = Costs(0.1, 0.9, 0.4, 3.0, 0.25)
SETTING = {"spark": "0"}


def jobs(costs: Costs = TRUE, slots: int = 4, noise=lambda i: 1.0) -> list[Job]:
    """Jobs that take what a formula of this test's own says."""
    made = []
    grid = itertools.product((False, True), (100_000, 400_000), (256, 50_000))
    for i, (routed, rows, fragments) in enumerate(grid):
        a_row = costs.update_us + (costs.route_us + costs.ship_us) * routed
        work = (rows * a_row + fragments * costs.merge_us) / slots / 1e6
        seconds = 2 * costs.stage_s + work
        made.append(Job(routed, rows, fragments, seconds * noise(i)))
    return made


def test_jobs_that_follow_the_model_give_its_costs_back() -> None:
    found = fit(jobs(), 4, 0.1, SETTING)
    assert found.costs == pytest.approx(TRUE, rel=1e-6)
    assert np.abs(found.errors()).max() < 1e-9


def test_the_model_of_a_job_is_that_of_even_work() -> None:
    found = fit(jobs(), 4, 0.1, SETTING)
    for job in found.jobs:
        even = predicted_s(
            [job.rows / 4] * 4, [job.fragments / 4] * 4, found.costs, routed=job.routed
        )
        assert found.predicted_s(job) == pytest.approx(even)


def test_costs_are_never_negative_and_the_rest_still_fits() -> None:
    # States that cost nothing, and noise that would make them cost less than nothing.
    free = TRUE._replace(merge_us=0.0)
    found = fit(jobs(free, noise=lambda i: 0.9 if i % 2 else 1.0), 4, 0.1, SETTING)
    assert found.costs.merge_us == 0
    assert all(cost >= 0 for cost in found.costs)
    assert np.abs(found.errors()).max() < 0.11


def test_noise_comes_back_as_error() -> None:
    rng = np.random.default_rng(3)
    found = fit(jobs(noise=lambda _: float(rng.uniform(0.8, 1.25))), 4, 0.1, SETTING)
    assert 0.01 < np.abs(found.errors()).max() < 0.4


def test_a_route_dearer_than_route_and_ship_is_cut_down_to_them() -> None:
    found = fit(jobs(), 4, 50.0, SETTING).costs
    assert (found.route_us, found.ship_us) == (pytest.approx(1.0), 0)


@pytest.mark.parametrize("some", [[], jobs()[:4], jobs()[:1] * 8])
def test_jobs_that_are_alike_are_refused(some) -> None:
    with pytest.raises(ParameterError, match="do not tell the four costs apart"):
        fit(some, 4, 0.1, SETTING)


def test_a_file_gives_back_what_was_saved(tmp_path, monkeypatch) -> None:
    found = fit(jobs(), 4, 0.1, SETTING)
    path = tmp_path / "costs.json"
    found.save(path)
    assert Calibration.load(path) == found
    monkeypatch.setenv("SKEWLESS_COSTS", str(path))
    assert saved_costs() == known_costs() == found.costs
    assert known_costs(20.0) == found.costs._replace(update_us=20.0)


def test_the_default_file_is_read_if_it_is_there(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("SKEWLESS_COSTS", raising=False)
    monkeypatch.setattr(calibration, "default_path", lambda: tmp_path / "costs.json")
    assert saved_costs() is None
    fit(jobs(), 4, 0.1, SETTING).save(tmp_path / "costs.json")
    assert saved_costs() == pytest.approx(TRUE, rel=1e-6)
    monkeypatch.setenv("SKEWLESS_COSTS", "")
    assert saved_costs() is None


def test_a_named_file_that_is_missing_is_an_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SKEWLESS_COSTS", str(tmp_path / "none.json"))
    with pytest.raises(DataError, match=r"none\.json cannot be read .* run skewless calibrate"):
        known_costs()


def body(**changed) -> dict:
    made = {"costs": TRUE._asdict(), "jobs": [list(jobs()[0])], "slots": 4, "setting": {}}
    return made | changed


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (body(costs={"route_us": 1.0, "speed": 2.0}), "holds no costs"),
        (body(costs=TRUE._asdict() | {"merge_us": -1.0}), "costs must be finite and at least 0"),
        (body(costs=TRUE._asdict() | {"ship_us": "much"}), "holds no costs"),
        (body(jobs=[[1]]), "holds no costs"),
        (body(costs=None), "holds no costs"),
    ],
)
def test_a_file_that_holds_no_costs_is_refused(tmp_path, wrong, told) -> None:
    path = tmp_path / "costs.json"
    path.write_text(document.render(*calibration.KIND, wrong))
    with pytest.raises(DataError, match=told):
        Calibration.load(path)


def test_an_altered_file_is_refused(tmp_path) -> None:
    path = tmp_path / "costs.json"
    fit(jobs(), 4, 0.1, SETTING).save(path)
    altered = json.loads(path.read_text())
    altered["body"]["slots"] = 8
    path.write_text(json.dumps(altered))
    with pytest.raises(DataError, match="altered or damaged"):
        Calibration.load(path)


def test_a_folder_that_does_not_exist_is_refused_before_anything_is_written(tmp_path) -> None:
    with pytest.raises(DataError, match="must be a file in a folder that exists"):
        fit(jobs(), 4, 0.1, SETTING).save(tmp_path / "none" / "costs.json")
