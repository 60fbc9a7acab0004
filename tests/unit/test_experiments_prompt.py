"""Prompt's experiments: verdicts on made-up results, stable rates, and rows from end to end."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.experiments import Result, Setting, find, run
from skewless.experiments.prompt.setup import BLOCKS, COSTS, batch_s, best_cam, stable_rate

REPRODUCED = "reproduced"
ORDERING_ONLY = "reproduced in ordering only"
NOT_REPRODUCED = "not reproduced"


def verdict(name, rows):
    result = Result(name, Setting(), rows, 1.0, "", {})
    experiment = find(name)
    assert experiment.tabulate(result).rows
    assert experiment.draw(result).panels
    return experiment.judge(result)


@pytest.mark.parametrize(
    ("size", "keys", "outcome"),
    [(0.0, 0.1, REPRODUCED), (0.2, 0.1, ORDERING_ONLY), (0.0, 0.5, NOT_REPRODUCED)],
)
def test_blocks_are_judged_by_both_imbalances(size, keys, outcome):
    relative = {
        "time_based": (0.0, 1.0, 50), "shuffle": (0.0, 1.0, 50), "hash": (1.0, 0.3, 5),
        "pk2": (0.3, 0.8, 30), "pk5": (0.3, 0.8, 30), "cam": (0.3, 0.8, 30),
        "prompt": (size, keys, 5), "wrap_around": (0.0, 0.3, 5),
    }  # fmt: skip
    rows = [
        {
            "stream": stream, "policy": policy, "bsi": bsi, "bci": bci, "ksr": 1.0,
            "bsi_relative": bsi, "bci_relative": bci, "excess": excess,
        }
        for stream in ("tweets", "tpch")
        for policy, (bsi, bci, excess) in relative.items()
    ]  # fmt: skip
    assert verdict("prompt.fig10", rows).outcome == outcome


@pytest.mark.parametrize(
    ("prompt", "hashed", "outcome"),
    [
        ([100, 100, 100, 100, 100], 20, REPRODUCED),
        ([100, 100, 100, 100, 100], 10, ORDERING_ONLY),
        ([100, 100, 100, 80, 60], 20, NOT_REPRODUCED),
    ],
)
def test_rates_under_skew_are_judged_at_the_highest_exponent(prompt, hashed, outcome):
    last = {"time_based": 50, "shuffle": 50, "hash": hashed, "pk2": 40, "pk5": 45, "cam": 30}
    rates = {name: [90, 80, 60, 55, rate] for name, rate in last.items()}
    rates |= {"prompt": prompt, "wrap_around": [100] * 5}
    rows = [
        {"policy": name, "exponent": exponent, "rate": rate}
        for name, found in rates.items()
        for exponent, rate in zip((0.1, 0.6, 1.0, 1.4, 2.0), found, strict=True)
    ]
    assert verdict("prompt.fig11skew", rows).outcome == outcome


@pytest.mark.parametrize(
    ("time_based", "cam", "outcome"),
    [(30, 45, REPRODUCED), (60, 70, ORDERING_ONLY), (60, 45, NOT_REPRODUCED)],
)
def test_a_swinging_rate_is_judged_by_who_suffers_most(time_based, cam, outcome):
    rates = {
        "time_based": time_based, "shuffle": 75, "hash": 75, "pk2": 75, "pk5": 75, "cam": cam,
        "prompt": 100, "wrap_around": 100,
    }  # fmt: skip
    rows = [
        {"policy": name, "interval": interval, "rate": rate * (0.8 + 0.1 * interval)}
        for name, rate in rates.items()
        for interval in (1, 2, 3)
    ]
    assert verdict("prompt.fig11rate", rows).outcome == outcome


def course(overloaded=0, flaps=False):
    rows, tasks = [], [8, 7]
    for phase, which, step in (
        ("more tuples", 0, 1), ("more keys", 1, 1), ("fewer tuples", 0, -1), ("fewer keys", 1, -1),
    ):  # fmt: skip
        for place in range(20):
            load = 0.95 if phase == "more tuples" and place < overloaded else 0.85
            rows.append(
                {
                    "phase": phase, "tuples": 100, "keys": 10, "mappers": tasks[0],
                    "reducers": tasks[1], "load": load,
                }
            )  # fmt: skip
            if place in (5, 10):
                tasks[which] += step
            if flaps and phase == "more tuples" and place in (14, 16):
                tasks[0] += 1 if place == 14 else -1
    return rows


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        (course(), REPRODUCED),
        (course(overloaded=10), ORDERING_ONLY),
        (course(flaps=True), NOT_REPRODUCED),
    ],
)
def test_elasticity_is_judged_by_what_follows_what(rows, outcome):
    assert verdict("prompt.fig12", rows).outcome == outcome


@pytest.mark.parametrize(
    ("finish", "sort", "buffer", "outcome"),
    [
        (0.05, 0.2, 1.0, REPRODUCED),
        (0.05, 0.2, 5.0, ORDERING_ONLY),
        (0.3, 0.2, 1.0, NOT_REPRODUCED),
    ],
)
def test_planning_is_judged_by_its_part_of_the_interval(finish, sort, buffer, outcome):
    rows = [
        {
            "exponent": exponent, "tuples": 1_000_000, "keys": 100, "buffer_s": buffer,
            "finish_s": finish, "sort_s": sort, "plan_s": 0.01,
        }
        for exponent in (0.1, 2.0)
    ]  # fmt: skip
    assert verdict("prompt.fig14", rows).outcome == outcome


def test_a_batch_takes_its_slowest_map_task_and_then_its_slowest_reduce_task():
    keys = np.full(3_200, 7, np.uint64)
    tuple_s, part_s = (COSTS.ship_us + COSTS.update_us) / 1e6, COSTS.merge_us / 1e6
    # One key: hashing puts all on one task, shuffling a part on each, for one reducer.
    assert batch_s("hash", keys, 0) == pytest.approx(3_200 * tuple_s + part_s)
    assert batch_s("shuffle", keys, 0) == pytest.approx(100 * tuple_s + BLOCKS * part_s)
    assert batch_s("time_based", keys, 0) == pytest.approx(batch_s("shuffle", keys, 0))
    assert batch_s("prompt", keys, 0) == pytest.approx(100 * tuple_s + BLOCKS * part_s)


def test_the_stable_rate_is_that_of_a_batch_which_takes_its_interval():
    rate = stable_rate(lambda n: 0.5 + n / 1_000, 3.0, rounds=20)
    assert rate == pytest.approx(2_500 / 3, rel=1e-3)


def test_cam_is_shown_at_its_best():
    assert best_cam(lambda d: float(d % 7), (2, 5, 10)) == 5.0


@pytest.mark.slow
def test_tasks_follow_rate_and_keys_from_end_to_end():
    experiment = find("prompt.fig12")
    result = run(experiment)
    assert experiment.judge(result).outcome == REPRODUCED
    assert max(row["load"] for row in result.rows) < 1.0
