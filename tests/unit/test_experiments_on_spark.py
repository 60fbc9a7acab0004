"""prompt.fig13 and ours.spark without a Spark: what goes to which task, and their judges."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from skewless.experiments import Setting, find
from skewless.experiments.description import NOT_REPRODUCED, ORDERING_ONLY, REPRODUCED, Result
from skewless.experiments.ours import spark as ours
from skewless.experiments.prompt import reduce_tasks
from skewless.histogram import bucket_of

TASKS = reduce_tasks.TASKS


def words(n=3_000, seed=4):
    return np.random.default_rng(seed).zipf(1.3, n).astype(np.uint64) % np.uint64(900)


def test_cut_by_time_each_block_sends_a_partial_result_of_each_of_its_keys_to_the_key_s_task():
    keys = words()
    found = reduce_tasks.partial_results("time_based", keys, 0)
    expected = Counter()
    n = len(keys)
    for block in range(TASKS):
        mine = [key for i, key in enumerate(keys.tolist()) if i * TASKS // n == block]
        for key in set(mine):
            # Plain hashing: a run of buckets for each task.
            n_buckets = TASKS * 128
            expected[int(bucket_of([key], n_buckets)[0]) * TASKS // n_buckets] += 1
    assert Counter(found.tolist()) == expected


def test_prompt_sends_every_key_somewhere_and_few_keys_twice():
    keys = words()
    found = reduce_tasks.partial_results("prompt", keys, 0)
    distinct = len(np.unique(keys))
    assert distinct <= len(found) < distinct + 3 * TASKS
    loads = np.bincount(found, minlength=TASKS)
    by_time = np.bincount(reduce_tasks.partial_results("time_based", keys, 0), minlength=TASKS)
    assert loads.std() / loads.mean() < by_time.std() / by_time.mean()


def figure_13(by_time, prompt):
    rows = [
        {
            "way": way,
            "batch": batch,
            "mean_s": 1.0,
            "least_s": 1 - deviation,
            "most_s": 1 + most,
            "deviation_s": deviation,
            "partial_results": 9,
        }
        for way, (deviation, most) in (("time_based", by_time), ("prompt", prompt))
        for batch in range(3)
    ]
    return Result("prompt.fig13", Setting(), rows, 1.0, "0", {})


# Deviation and how far the slowest is above the mean, by time and with Prompt, and the verdict.
FIGURE_13 = [
    ((0.2, 0.5), (0.05, 0.1), REPRODUCED),
    ((0.2, 0.5), (0.15, 0.3), ORDERING_ONLY),
    ((0.2, 0.5), (0.05, 0.6), NOT_REPRODUCED),
    ((0.2, 0.5), (0.3, 0.4), NOT_REPRODUCED),
]


@pytest.mark.parametrize(("by_time", "prompt", "outcome"), FIGURE_13)
def test_figure_13_is_judged_by_the_width_of_the_band(by_time, prompt, outcome):
    verdict = find("prompt.fig13").judge(figure_13(by_time, prompt))
    assert verdict.outcome == outcome, verdict.reason


def ours_result(plain, skewless, even):
    rows = [
        {"machine": machine, "exponent": s, "way": way, "seconds": float(seconds[i])}
        for machine in ours.MACHINES
        for i, s in enumerate(ours.EXPONENTS)
        for way, seconds in (("spark", plain), ("skewless", skewless), ("even", even))
    ]
    return Result("ours.spark", Setting(), rows, 1.0, "0", {})


# Seconds by exponent of Spark, of ours, and on even keys, and the verdict.
OURS = [
    ((4, 9, 16, 24), (4.1, 4.2, 4.3, 4.4), (4, 4, 4, 4), REPRODUCED),
    ((4, 9, 16, 24), (4.3, 4.2, 4.3, 4.4), (4, 4, 4, 4), ORDERING_ONLY),
    ((4, 9, 16, 24), (4, 6, 7, 8), (4, 4, 4, 4), ORDERING_ONLY),
    ((4, 9, 16, 24), (4, 10, 7, 8), (4, 4, 4, 4), NOT_REPRODUCED),
]


@pytest.mark.parametrize(("plain", "skewless", "even", "outcome"), OURS)
def test_our_goal_is_judged_on_uniform_and_on_skewed_keys(plain, skewless, even, outcome):
    verdict = find("ours.spark").judge(ours_result(plain, skewless, even))
    assert verdict.outcome == outcome, verdict.reason


@pytest.mark.parametrize("name", ["prompt.fig13", "ours.spark"])
@pytest.mark.parametrize("full", [False, True])
def test_the_cells_have_names_of_their_own(name, full):
    names = [cell.name for cell in find(name).cells(Setting(full, seed=3))]
    assert len(names) == len(set(names))
    assert all("seed 3" in one for one in names)
