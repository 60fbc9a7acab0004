"""The rows of dynamic repartitioning that run on Spark: their streams and judges, without a Spark."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from skewless.experiments import Setting, find
from skewless.experiments.description import NOT_REPRODUCED, ORDERING_ONLY, REPRODUCED, Result
from skewless.experiments.dr import batch, ner

EXPONENTS = batch.EXPONENTS


def figure_4(
    hashed, dr, hash_balance=(1.1, 1.5, 2.2, 2.8, 3.4), dr_balance=(1.1, 1.1, 1.6, 2.4, 3.1)
):
    rows = [
        {
            "exponent": s,
            "way": way,
            "partitions": 35,
            "seconds": seconds[i],
            "counting_s": 0.0,
            "max_over_mean": balance[i],
            "least": 1.0,
        }
        for way, seconds, balance in (("hash", hashed, hash_balance), ("dr", dr, dr_balance))
        for i, s in enumerate(EXPONENTS)
    ]
    return Result("dr.fig4", Setting(), rows, 1.0, "0", {})


# Seconds hashed and repartitioned by exponent, and the verdict.
FIGURE_4 = [
    ("as in the paper", (4.0, 6.0, 9.0, 10.0, 11.0), (4.1, 4.5, 5.2, 8.0, 10.0), REPRODUCED),
    ("too small a gain", (4.0, 5.0, 6.0, 7.0, 8.0), (4.0, 4.2, 5.0, 6.5, 7.8), ORDERING_ONLY),
    ("a gain at 1 as well", (6.0, 6.0, 9.0, 10.0, 11.0), (4.0, 4.5, 5.2, 8.0, 10.0), ORDERING_ONLY),
    ("most at 2", (4.0, 5.0, 6.0, 7.0, 20.0), (4.0, 4.2, 5.0, 6.5, 7.8), NOT_REPRODUCED),
    ("a loss", (4.0, 5.0, 6.0, 7.0, 8.0), (5.0, 6.0, 7.0, 8.0, 9.0), NOT_REPRODUCED),
]


@pytest.mark.parametrize(
    ("hashed", "dr", "outcome"), [row[1:] for row in FIGURE_4], ids=[row[0] for row in FIGURE_4]
)
def test_figure_4_is_judged_by_where_the_gain_is(hashed, dr, outcome):
    verdict = find("dr.fig4").judge(figure_4(hashed, dr))
    assert verdict.outcome == outcome, verdict.reason


def test_figure_4_is_not_reproduced_by_loads_that_are_less_even():
    _, hashed, dr, _ = FIGURE_4[0]
    worse = figure_4(hashed, dr, dr_balance=(1.1, 1.6, 1.6, 2.4, 3.1))
    assert find("dr.fig4").judge(worse).outcome == NOT_REPRODUCED


def figure_5(hashed, dr):
    rows = [
        {
            "partitions": over * batch.SLOTS,
            "way": way,
            "seconds": seconds[i],
            "counting_s": 0.0,
            "max_over_mean": 1.0,
            "least": 1.0,
        }
        for way, seconds in (("hash", hashed), ("dr", dr))
        for i, over in enumerate(batch.OVER)
    ]
    return Result("dr.fig5", Setting(), rows, 1.0, "0", {})


# Seconds by 1, 2, 3, 4, 6 and 8 partitions a slot, and the verdict.
FIGURE_5 = [
    ("as in the paper", (9, 8, 7, 7, 6, 6), (6, 4, 5, 5, 6, 7), REPRODUCED),
    ("best without over-partitioning", (9, 8, 7, 7, 6, 6), (4, 5, 5, 5, 6, 7), ORDERING_ONLY),
    ("over-partitioning catches up", (9, 8, 7, 7, 6, 3), (6, 4, 5, 5, 6, 7), NOT_REPRODUCED),
    ("over-partitioning does not help", (5, 8, 7, 7, 6, 6), (6, 4, 5, 5, 6, 7), NOT_REPRODUCED),
]


@pytest.mark.parametrize(
    ("hashed", "dr", "outcome"), [row[1:] for row in FIGURE_5], ids=[row[0] for row in FIGURE_5]
)
def test_figure_5_is_judged_by_the_best_of_each(hashed, dr, outcome):
    verdict = find("dr.fig5").judge(figure_5(hashed, dr))
    assert verdict.outcome == outcome, verdict.reason


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [((6, 5.5), REPRODUCED), ((1.2, 1.4), ORDERING_ONLY), ((6, 0.9), NOT_REPRODUCED)],
)
def test_the_entities_are_judged_by_every_number_of_partitions(gains, outcome):
    rows = [
        {"partitions": over * ner.SLOTS, "way": way, "seconds": seconds}
        for over, gain in zip(ner.OVER, gains, strict=True)
        for way, seconds in (("hash", float(gain)), ("kip", 1.0))
    ]
    verdict = find("dr.ner").judge(Result("dr.ner", Setting(), rows, 1.0, "0", {}))
    assert verdict.outcome == outcome, verdict.reason


@pytest.mark.parametrize("name", ["dr.fig4", "dr.fig5", "dr.ner"])
@pytest.mark.parametrize("full", [False, True])
def test_the_cells_have_names_of_their_own(name, full):
    names = [cell.name for cell in find(name).cells(Setting(full, seed=3))]
    assert len(names) == len(set(names))
    assert all("seed 3" in one for one in names)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_events_are_drawn_by_the_law_without_its_first_ten_ranks(exponent):
    rows = batch.events(40_000, exponent, 1)
    counts = np.sort(np.unique(rows["k"].to_numpy(), return_counts=True)[1])[::-1]
    law = (np.arange(1, batch.N_KEYS + 1) + 10.0) ** -exponent
    expected = 40_000 * law[:3] / law.sum()
    assert counts[:3] == pytest.approx(expected, rel=0.15)
    assert batch.events(100, exponent, 1).equals(batch.events(100, exponent, 1))
    assert not batch.events(100, exponent, 1).equals(batch.events(100, exponent, 2))


def test_the_model_counts_what_it_found_of_each_host_in_its_hour():
    update = ner._model(0.0)
    rows = {"size": [400, 1_000, 200, 900], "second": [3_600, 3_700, 3_601, 7_300]}
    slots = np.array([0, 1, 0, 2])
    states = pa.table({"host": [7, 8, 9], "hour": [1, 0, None], "mentions": [5, 5, None]})
    made, output = update(pa.table(rows), slots, states)
    # The second host's five are of the hour before, and the third is new.
    assert made.to_pylist() == [
        {"host": 7, "hour": 1, "mentions": 5 + 2 + 1},
        {"host": 8, "hour": 1, "mentions": 5},
        {"host": 9, "hour": 2, "mentions": 4},
    ]
    assert output.equals(made)


def test_pages_come_in_the_order_of_time_and_no_model_reads_more_than_fifty_thousand_bytes():
    rows = ner.pages(ner.Load(2_000, 4, 1.0), 0)
    second = rows["second"].to_pylist()
    assert second == sorted(second)
    assert max(second) < 2 * ner.HOUR_S
    assert max(rows["size"].to_pylist()) <= 50_000
    heaviest = Counter(rows["host"].to_pylist()).most_common(1)[0][1]
    assert 0.05 < heaviest / 2_000 < 0.13
