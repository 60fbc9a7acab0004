"""Checks 9 and 11 to 13: bytes, bad parameters, docstring, inventory; and the tables themselves."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.parameters import specification
from skewless.planners import Replanned
from tests.conformance.skips import SKIPS
from tests.conformance.table import PARAMETERS, POLICIES, partitioner

ROOT = Path(__file__).parents[2]
SMALL = os.environ.get("NUMBA_DISABLE_JIT") == "1"
NAMED = [name for name in POLICIES if POLICIES[name] is not Replanned]


@pytest.mark.jit_modes
@pytest.mark.parametrize("name", POLICIES)
def test_09_the_state_stays_within_the_declared_bytes_as_keys_grow(name):
    for parameters in PARAMETERS[name]:
        for n_keys in (1, 100) if SMALL else (1, 100, 10_000):
            policy = partitioner(name, parameters)
            keys = np.arange(2 * n_keys, dtype=np.uint64) % np.uint64(n_keys)
            # All at one time, so that a window holds all of them; then windows that follow.
            policy.route(Chunk(np.zeros(len(keys), np.int64), keys))
            assert policy.state_bytes <= policy.state_bytes_bound(n_keys)
            policy.route(Chunk(1 + np.arange(len(keys)) * 300 // len(keys), keys))
            assert policy.state_bytes <= policy.state_bytes_bound(n_keys)


def bad_values(kind, optional, bounds):
    yield "many" if kind is not str else 3
    if kind in (int, float):
        yield True
    if kind is int:
        yield 1.5
    if kind is float:
        yield float("nan")
    if not optional:
        yield None
    if bounds is not None and bounds.low is not None:
        yield kind(bounds.low) if bounds.low_open else kind(bounds.low) - 1
    if bounds is not None and bounds.high is not None:
        yield kind(bounds.high) if bounds.high_open else kind(bounds.high) + 1


@pytest.mark.parametrize("name", POLICIES)
def test_11_bad_parameters_raise_the_worded_error(name):
    cls = POLICIES[name]
    declared = specification(cls.__init__)
    assert declared
    for parameter, (kind, optional, bounds) in declared.items():
        for value in bad_values(kind, optional, bounds):
            with pytest.raises(ParameterError) as caught:
                cls(**{**PARAMETERS[name][-1], parameter: value})
            sentence = str(caught.value)
            assert sentence.startswith(f"{cls.__name__}: {parameter} must be a")
            assert sentence.endswith(f", got {value!r}.")


def sections(docstring):
    """Return the sections of a numpydoc docstring by title; the summary is under ''."""
    lines = inspect.cleandoc(docstring).splitlines()
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"}:
            title = line
            found[title] = []
        elif not (line and set(line) == {"-"}):
            found[title].append(line)
    return {name: "\n".join(text).strip() for name, text in found.items()}


@pytest.mark.parametrize("name", POLICIES)
def test_12_the_docstring_matches_the_signature(name):
    cls = POLICIES[name]
    doc = sections(cls.__doc__)
    summary = doc[""].splitlines()
    assert len(summary) > 2
    assert summary[1] == "", "one line says what it decides, then a paragraph when to use it"
    assert re.search(r"\bUse it\b", doc[""])
    assert re.search(r"\bNot\b", doc[""])
    documented = re.findall(r"^(\w+) : (.+)$", doc["Parameters"], re.MULTILINE)
    assert [parameter for parameter, _ in documented] == list(
        inspect.signature(cls.__init__).parameters
    )[1:]
    for parameter, (kind, optional, bounds) in specification(cls.__init__).items():
        words = dict(documented)[parameter]
        expected = bounds.words(kind) if bounds else kind.__name__
        assert words.startswith(re.sub("^an? ", "", expected))
        assert optional == ("None" in words or "optional" in words)
    for word in ("Guarantee", "Cost", "State", "Deviations from the paper"):
        assert word in doc["Notes"]
    assert ">>>" in doc["Examples"]
    assert re.search(r"\bdoi:10\.\d{4,}/", doc["References"])


@pytest.mark.parametrize("name", NAMED)
def test_13_everything_that_belongs_to_a_policy_is_there(name):
    # Not here yet: an id of the command line and an experiment, once the project has either.
    cls = POLICIES[name]
    module = importlib.import_module(cls.__module__)
    assert cls.__module__.rpartition(".")[2] == name
    assert module.__all__ == [cls.__name__]
    assert (ROOT / "tests" / "oracles" / f"{name}.py").is_file()
    page = (ROOT / "docs" / "policies" / f"{name}.md").read_text()
    assert cls.__name__ in page
    assert f"](plots/{name}.svg)" in page
    assert (ROOT / "docs" / "policies" / "plots" / f"{name}.svg").stat().st_size > 1_000
    benchmark = (ROOT / "benchmarks" / "kernels" / "policies.py").read_text()
    assert "partitioners.ALL" in benchmark
    assert "planners.ALL" in benchmark


@pytest.mark.parametrize("name", NAMED)
def test_13_the_oracle_imports_nothing_of_ours(name):
    source = (ROOT / "tests" / "oracles" / f"{name}.py").read_text()
    imported = re.findall(r"^\s*(?:from|import)\s+([\w.]+)", source, re.MULTILINE)
    assert [module for module in imported if module.split(".")[0] == "skewless"] == []


def test_every_policy_has_its_row_and_a_configuration_of_one_worker():
    assert set(PARAMETERS) == set(POLICIES)
    for name, rows in PARAMETERS.items():
        sizes = {partitioner(name, parameters).n_workers for parameters in rows}
        assert 1 in sizes
        assert len(sizes) > 1


def test_skips_name_policies_and_checks_and_give_a_reason():
    for name, check, reason in SKIPS:
        assert name in POLICIES
        assert check in range(1, 14)
        assert len(reason) > 10
