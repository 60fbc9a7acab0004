from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

from skewless.errors import ParameterError, did_you_mean
from skewless.parameters import Count, Positive, Range, Seed, check, specification


def policy(
    n_workers: Count,
    *,
    part: Annotated[float, Range(0, 1, low_open=True, high_open=True)] = 0.5,
    cap: Count | None = None,
    rate: Positive = 1.0,
    seed: Seed = 0,
    exact: bool = True,
    mode: str = "fast",
    anything: object = None,
) -> None:
    """Hold a signature."""


GOOD = [
    ("n_workers", 1),
    ("n_workers", np.int64(8)),
    ("part", 0.999),
    ("part", np.float32(0.5)),
    ("cap", None),
    ("cap", 7),
    ("rate", 1),
    ("rate", float("inf")),
    ("seed", 0),
    ("seed", 2**63 - 1),
    ("exact", False),
    ("mode", "slow"),
    ("anything", object()),
    ("unknown", -1),
]

BAD = [
    ("n_workers", 0, "an int of at least 1, got 0"),
    ("n_workers", 1.0, "an int of at least 1, got 1.0"),
    ("n_workers", True, "an int of at least 1, got True"),
    ("n_workers", None, "an int of at least 1, got None"),
    ("n_workers", "8", "an int of at least 1, got '8'"),
    ("part", 0, "a float in (0, 1), got 0"),
    ("part", 1.0, "a float in (0, 1), got 1.0"),
    ("part", float("nan"), "a float in (0, 1), got nan"),
    ("cap", 0, "an int of at least 1, got 0"),
    ("rate", 0.0, "a float above 0, got 0.0"),
    ("rate", -1, "a float above 0, got -1"),
    ("seed", -1, "an int in [0, 9223372036854775807], got -1"),
    ("seed", 2**63, "an int in [0, 9223372036854775807], got 9223372036854775808"),
    ("exact", 1, "a bool, got 1"),
    ("mode", 3, "a str, got 3"),
]


@pytest.mark.parametrize(
    ("name", "value"), GOOD, ids=[f"{n}={v!r}" for n, v in GOOD[:-2]] + ["any object", "other"]
)
def test_allowed_values_pass(name, value):
    check("Policy", policy, **{name: value})


@pytest.mark.parametrize(("name", "value", "words"), BAD, ids=[f"{n}={v!r}" for n, v, _ in BAD])
def test_other_values_are_refused_in_one_sentence(name, value, words):
    with pytest.raises(ParameterError) as caught:
        check("Policy", policy, **{name: value})
    assert str(caught.value) == f"Policy: {name} must be {words}."


def test_the_first_bad_parameter_of_the_signature_is_named():
    with pytest.raises(ParameterError, match="part"):
        check("Policy", policy, seed=-1, part=2.0)


def test_specification_reads_type_optionality_and_range():
    assert specification(policy) == {
        "n_workers": (int, False, Range(1)),
        "part": (float, False, Range(0, 1, low_open=True, high_open=True)),
        "cap": (int, True, Range(1)),
        "rate": (float, False, Range(0, low_open=True)),
        "seed": (int, False, Range(0, 2**63 - 1)),
        "exact": (bool, False, None),
        "mode": (str, False, None),
    }


def test_did_you_mean_names_the_nearest_or_what_there_is():
    assert did_you_mean("usr", ["user", "ts"]) == " (did you mean 'user'?)"
    assert did_you_mean("USER", ["user"]) == " (did you mean 'user'?)"
    assert did_you_mean("xyz", ["user", "ts"]) == " (there is: user, ts)"
    assert did_you_mean("xyz", []) == ""
