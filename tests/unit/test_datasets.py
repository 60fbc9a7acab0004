"""The package of data sets: every name leads somewhere, and none costs anything before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skewless import datasets
from skewless.datasets import state_of_the_union

SRC = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize("name", datasets.__all__)
def test_every_public_name_is_a_documented_function(name):
    found = getattr(datasets, name)
    assert callable(found)
    assert found.__name__ == name
    assert "Examples\n" in found.__doc__
    assert name in dir(datasets)


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'zpf'"):
        datasets.zpf  # noqa: B018
    assert callable(state_of_the_union)


def test_importing_it_brings_neither_numba_nor_spark_nor_pandas():
    code = (
        "import sys, skewless.datasets; from skewless.datasets import zipf; zipf(5, 5, 1.0); "
        "print([m for m in ('numba', 'pyspark', 'pandas', 'plotly') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SRC)},
        check=True,
    )
    assert done.stdout.strip() == "[]"
