"""``skewless calibrate``: what it prints, and what it refuses before a Spark is started."""

from __future__ import annotations

import pytest

from skewless.calibration import Calibration, Job
from skewless.commands import calibrate as module
from skewless.commands.calibrate import calibrate
from skewless.costs import Costs
from skewless.errors import DataError, ParameterError

GIVEN = {"master": None, "remote": None, "conf": None, "rows": 1_000, "rounds": 1, "slots": None}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"master": "local[2]", "remote": "sc://localhost", "slots": 2}, "exclude each other"),
        ({"remote": "sc://localhost"}, "--remote needs --slots"),
        ({"conf": ["spark.x"]}, r"--conf must be name=value, got 'spark\.x'"),
        ({"conf": ["=3"]}, "--conf must be name=value"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, wrong, told) -> None:
    with pytest.raises(ParameterError, match=told):
        calibrate(**(GIVEN | {"out": tmp_path / "costs.json"} | wrong))


@pytest.mark.parametrize("out", [".", "none/costs.json"])
def test_a_file_that_cannot_be_written_is_refused(tmp_path, out) -> None:
    with pytest.raises(DataError, match="must be a file in a folder that exists"):
        calibrate(**(GIVEN | {"out": tmp_path / out}))


def test_the_table_sets_measured_and_model_side_by_side() -> None:
    jobs = (Job(True, 1_000_000, 100, 2.0), Job(False, 1_000_000, 200, 1.0))
    found = Calibration(Costs(0.0, 1.0, 1.0, 0.0, 0.0), jobs, 1, {"spark": "4"})
    text = "\n".join(module._lines(found))
    for part in ("sent to workers", "combined in place", "+0%", "spark 4; 1 tasks side by side"):
        assert part in text
    assert "error of the fit: 0 % mean, 0 % worst" in text
