"""Dalton's experiments: verdicts on made-up results, the job's costs, and rows from end to end."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.experiments import Result, Setting, find, run
from skewless.experiments.dalton.clustering import comparisons
from skewless.experiments.dalton.setup import Job, measure, route_us, word_count, workers_of
from skewless.experiments.dalton.sources import dealt
from skewless.experiments.dalton.syncs import DELAYS, LATENCY, Delayed
from skewless.experiments.dalton.threshold import Thresholded
from skewless.partitioners import Dalton, Hash, Shuffle

REPRODUCED = "reproduced"
ORDERING_ONLY = "reproduced in ordering only"
NOT_REPRODUCED = "not reproduced"

STREAMS = ("t4sa", "elections", "zipf 1.5")


def verdict(name, rows):
    result = Result(name, Setting(), rows, 1.0, "", {})
    experiment = find(name)
    assert experiment.tabulate(result).rows
    if experiment.draw is not None:
        assert experiment.draw(result).panels
    return experiment.judge(result)


def changed(table, **values):
    """Return the rates of policies with some of them replaced."""
    return {**table, **values}


EVEN = {
    "hash": 100, "cam": 90, "shuffle": 20, "pkg": 30, "cm": 30,
    "da_greedy": 95, "dalton": 98, "wrap_around": 110,
}  # fmt: skip
SKEWED = {
    "hash": 10, "cam": 12, "shuffle": 30, "pkg": 20, "cm": 20,
    "da_greedy": 35, "dalton": 60, "wrap_around": 70,
}  # fmt: skip


def scaling(skewed):
    at_64 = {"t4sa": EVEN, "elections": EVEN, "zipf 1.5": skewed}
    rows = []
    for stream in STREAMS:
        for policy, rate in at_64[stream].items():
            grows = 1.1 if stream == "zipf 1.5" and policy in ("hash", "cam") else 7.0
            rows += [
                {"stream": stream, "tasks": 8, "policy": policy, "throughput": rate / grows},
                {"stream": stream, "tasks": 64, "policy": policy, "throughput": rate},
            ]
    return rows


@pytest.mark.parametrize(
    ("dalton", "outcome"), [(60, REPRODUCED), (36, ORDERING_ONLY), (34, NOT_REPRODUCED)]
)
def test_scaling_is_judged_by_what_dalton_gains_on_skewed_keys(dalton, outcome):
    assert verdict("dalton.fig7", scaling(changed(SKEWED, dalton=dalton))).outcome == outcome


def test_scaling_is_not_reproduced_if_splitting_every_key_wins_on_even_data():
    rows = scaling(SKEWED)
    for row in rows:
        if row["stream"] == "t4sa" and row["policy"] == "pkg":
            row["throughput"] = 200
    assert verdict("dalton.fig7", rows).outcome == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("dalton", "prompt", "outcome"),
    [(20, 18, REPRODUCED), (30, 18, ORDERING_ONLY), (20, 25, NOT_REPRODUCED)],
)
def test_micro_batches_are_judged_against_prompt_too(dalton, prompt, outcome):
    even = {"hash": 15, "cam": 15, "shuffle": 10, "prompt": 14, "dalton": 15, "wrap_around": 15}
    skewed = {
        "hash": 10, "cam": 10, "shuffle": 9, "prompt": prompt, "dalton": dalton, "wrap_around": 40,
    }  # fmt: skip
    rows = [
        {"stream": stream, "tasks": 64, "policy": policy, "throughput": rate}
        for stream in STREAMS
        for policy, rate in (skewed if stream == "zipf 1.5" else even).items()
    ]
    assert verdict("dalton.fig8", rows).outcome == outcome


def turns(skewed, even):
    return [
        {
            "policy": policy,
            "periods": [even[policy], skewed[policy], even[policy]],
            "series": [even[policy], skewed[policy], even[policy]],
            "overall": skewed[policy],
            "period": 1000,
        }
        for policy in skewed
    ]


@pytest.mark.parametrize(
    ("dalton", "outcome"), [(56, REPRODUCED), (38, ORDERING_ONLY), (30, NOT_REPRODUCED)]
)
def test_turning_distributions_are_judged_while_keys_are_skewed(dalton, outcome):
    rows = turns(changed(SKEWED, dalton=dalton), EVEN)
    assert verdict("dalton.fig9a", rows).outcome == outcome


@pytest.mark.parametrize(
    ("dalton", "outcome"), [(55, REPRODUCED), (90, ORDERING_ONLY), (43, NOT_REPRODUCED)]
)
def test_turning_distributions_in_micro_batches(dalton, outcome):
    even = dict.fromkeys(("hash", "cam", "shuffle", "prompt", "dalton", "wrap_around"), 100)
    skewed = changed(even, hash=40, cam=40, shuffle=35, prompt=45, dalton=dalton)
    assert verdict("dalton.fig9b", turns(skewed, even)).outcome == outcome


@pytest.mark.parametrize(
    ("dalton", "outcome"), [(15, REPRODUCED), (30, ORDERING_ONLY), (9, NOT_REPRODUCED)]
)
def test_clustering_is_judged_while_keys_are_skewed(dalton, outcome):
    rates = changed(dict.fromkeys(EVEN, 10), dalton=dalton, wrap_around=30)
    assert verdict("dalton.fig9c", turns(rates, dict.fromkeys(EVEN, 100))).outcome == outcome


def test_comparisons_are_those_of_a_plain_count_over_all_pairs():
    rng = np.random.default_rng(4)
    keys, workers = rng.integers(0, 9, 300), rng.integers(0, 5, 300)
    workers[keys < 3] = keys[keys < 3]  # three keys are whole
    votes, greedy = [0] * 5, {}
    for later in range(300):
        for earlier in range(later):
            if keys[later] == keys[earlier]:
                votes[workers[later]] += workers[later] == workers[earlier]
                greedy[keys[later]] = greedy.get(keys[later], 0) + 1
    given = keys.astype(np.uint64), workers.astype(np.int32), 5, 1
    split = sum(pairs for key, pairs in greedy.items() if key >= 3)
    assert comparisons(*given, True) == (max(votes), split)
    assert comparisons(*given, False) == (max(votes), sum(greedy.values()))


@pytest.mark.parametrize(
    ("dalton", "outcome"), [(120, REPRODUCED), (200, ORDERING_ONLY), (90, NOT_REPRODUCED)]
)
def test_redrawn_exponents_are_judged_over_all_periods(dalton, outcome):
    rates = changed(dict.fromkeys(EVEN, 100), dalton=dalton, wrap_around=250)
    assert verdict("dalton.fig9d", turns(rates, rates)).outcome == outcome


@pytest.mark.parametrize(
    ("exact", "hybrid", "outcome"),
    [
        ([50, 60, 100, 150], [50, 60, 100, 100], REPRODUCED),
        ([50, 60, 100, 150], [50, 60, 150, 150], ORDERING_ONLY),
        ([50, 50, 50, 50], [50, 50, 50, 50], NOT_REPRODUCED),
    ],
)
def test_statistics_are_judged_by_who_grows_dear(exact, hybrid, outcome):
    cost = {
        "uniform": {"exact": exact, "count_min": [100] * 4, "hybrid": hybrid},
        "zipf 1.5": {"exact": [50] * 4, "count_min": [100] * 4, "hybrid": [50] * 4},
    }
    rows = [
        {"stream": stream, "statistics": kind, "stats_window": 10 ** (3 + place), "ns": ns}
        for stream, kinds in cost.items()
        for kind, times in kinds.items()
        for place, ns in enumerate(times)
    ]
    assert verdict("dalton.fig10ab", rows).outcome == outcome


@pytest.mark.parametrize(
    ("hot_keys", "every", "outcome"),
    [(4.0, 150, REPRODUCED), (12.0, 150, ORDERING_ONLY), (4.0, 250, NOT_REPRODUCED)],
)
def test_the_number_of_hot_keys_is_judged_by_the_definition(hot_keys, every, outcome):
    rates = {4: 100, 10: 120, 20: 150, 30: 180, 56: 200, 120: 190, 300: 180, 1_000: every}
    rows = [
        {
            "hot_from": hot_from,
            "hot_keys": hot_keys if hot_from == 56 else 1.0,
            "throughput": rate,
            "max_over_mean": 1.5,
            "merged": 100.0,
            "ns": 300 if hot_from == 1_000 else 100,
        }
        for hot_from, rate in rates.items()
    ]
    assert verdict("dalton.fig10c", rows).outcome == outcome


@pytest.mark.parametrize(
    ("t4sa", "zipf", "outcome"),
    [
        ((10, 12, 36), (10, 12, 12), REPRODUCED),
        ((10, 12, 60), (10, 12, 12), ORDERING_ONLY),
        ((10, 12, 36), (13, 12, 12), NOT_REPRODUCED),
    ],
)
def test_the_ablation_is_judged_part_by_part(t4sa, zipf, outcome):
    rates = {"t4sa": t4sa, "elections": (10, 12, 24), "zipf 1.5": zipf}
    rows = [
        {"stream": stream, "variant": variant, "throughput": rate}
        for stream, three in rates.items()
        for variant, rate in zip(("non-hybrid", "no forwarding", "full"), three, strict=True)
    ]
    assert verdict("dalton.fig11", rows).outcome == outcome


@pytest.mark.parametrize(
    ("lowest", "highest", "outcome"),
    [
        (25_000, 200_000, REPRODUCED),
        (20_000, 200_000, NOT_REPRODUCED),
        (25_000, 790_000, NOT_REPRODUCED),
    ],
)
def test_rates_are_judged_at_both_ends(lowest, highest, outcome):
    rows = [
        {"policy": policy, "rate": rate, "measured": measured}
        for policy in ("hash", "dalton", "wrap_around")
        for rate, measured in ((25_000, lowest), (800_000, highest))
    ]
    assert verdict("dalton.fig12", rows).outcome == outcome


@pytest.mark.parametrize(
    ("dalton", "da_greedy", "outcome"),
    [(180, 100, REPRODUCED), (110, 100, ORDERING_ONLY), (180, 50, NOT_REPRODUCED)],
)
def test_two_sources_are_judged_by_who_profits(dalton, da_greedy, outcome):
    rates = {
        "uniform + zipf": {
            "hash": 100, "cam": 95, "shuffle": 80, "pkg": 80, "cm": 80,
            "da_greedy": 70, "dalton": 200, "wrap_around": 210,
        },
        "zipf + zipf": {
            "hash": 60, "cam": 60, "shuffle": 90, "pkg": 80, "cm": 70,
            "da_greedy": da_greedy, "dalton": dalton, "wrap_around": 200,
        },
    }  # fmt: skip
    rows = [
        {"setup": setup, "policy": policy, "throughput": rate, "max_over_mean": 1.0, "merged": 0.0}
        for setup, table in rates.items()
        for policy, rate in table.items()
    ]
    assert verdict("dalton.fig13", rows).outcome == outcome


@pytest.mark.parametrize(
    ("da_greedy", "turned", "outcome"),
    [(105, 80, REPRODUCED), (200, 80, NOT_REPRODUCED), (105, 20, NOT_REPRODUCED)],
)
def test_a_second_partitioner_is_judged_by_who_gains(da_greedy, turned, outcome):
    two = {"hash": 200, "pkg": 150, "da_greedy": da_greedy, "dalton": 200, "wrap_around": 200}
    after = {"hash": 20, "pkg": 50, "da_greedy": 60, "dalton": turned, "wrap_around": 100}
    rows = [
        {"policy": name, "one": 100, "two": two[name], "turned": after[name], "series": [1, 2, 3]}
        for name in two
    ]
    assert verdict("dalton.fig1", rows).outcome == outcome


@pytest.mark.parametrize(
    ("at_40k", "never", "outcome"),
    [(90, 50, REPRODUCED), (110, 50, ORDERING_ONLY), (90, 200, NOT_REPRODUCED)],
)
def test_syncs_are_judged_by_their_best_interval(at_40k, never, outcome):
    rates = {
        1_000: 80,
        2_000: 85,
        5_000: 90,
        10_000: 100,
        20_000: 95,
        40_000: at_40k,
        0: never,
        -1: 70,
    }
    rows = [
        {"setup": setup, "interval": interval, "throughput": rate}
        for setup in ("different", "the same")
        for interval, rate in rates.items()
    ]
    assert verdict("dalton.fig14a", rows).outcome == outcome


@pytest.mark.parametrize(
    ("intervals", "outcome"),
    [
        ((10_000, 20_000, 40_000, 10_000), REPRODUCED),
        ((5_000, 20_000, 40_000, 5_000), ORDERING_ONLY),
        ((20_000, 20_000, 20_000, 20_000), NOT_REPRODUCED),
    ],
)
def test_the_interval_is_judged_by_where_it_settles_in_each_phase(intervals, outcome):
    # The first third of a phase is still on the way.
    course = [20_000 if place < 8 else one for one in intervals for place in range(25)]
    rows = [
        {"policy": name, "phase": 1000, "intervals": held, "throughput": [10, 10, 10, 10]}
        for name, held in (("adaptive", course), ("every 20000", [20_000] * 100))
    ]
    assert verdict("dalton.fig14b", rows).outcome == outcome


@pytest.mark.parametrize(
    ("at_16", "last_of_16", "outcome"),
    [(45, 0.75, REPRODUCED), (3, 0.75, ORDERING_ONLY), (45, 3.0, NOT_REPRODUCED)],
)
def test_convergence_is_judged_by_its_end_and_its_time(at_16, last_of_16, outcome):
    rows = [
        {
            "partitioners": n,
            "imbalance": [5.0] * slide + [last] * (118 - slide),
            "fragments": [56] * 118,
        }
        for n, slide, last in (
            (1, 3, 0.7), (2, 3, 0.75), (4, 9, 0.75), (8, 21, 0.75), (16, at_16, last_of_16),
        )
    ]  # fmt: skip
    assert verdict("dalton.fig15", rows).outcome == outcome


def test_a_tuple_and_a_fragment_cost_what_they_do_to_the_windows_that_they_are_in():
    assert word_count(Job())[1:4] == (1.0, 69.0, 120.0)
    assert word_count(Job(slide=20_000))[1:4] == (1.0, 12.0, 6.0)
    assert word_count(Job(batch=1_000))[1:4] == (1.0, 10.0, 61.0)


def test_reducers_take_places_of_combiners_unless_no_key_is_split():
    assert [workers_of(name, Job(64)) for name in ("hash", "cam", "pkg", "dalton")] == [
        64,
        64,
        56,
        56,
    ]
    assert workers_of("hash", Job(64, batch=1_000)) == 56
    assert [Job(n).reducers for n in (8, 16, 32, 64)] == [1, 2, 4, 8]


def test_a_partitioner_costs_by_the_workers_that_its_algorithm_looks_at():
    keys = np.array([7] * 75 + list(range(100, 125)), np.uint64)  # three quarters are hot
    assert route_us("hash", 10, keys) == 0.5
    assert route_us("cm", 10, keys) == 0.5 + 0.05 * 20
    assert route_us("da_greedy", 10, keys) == 0.5 + 0.05 * 7.5


def test_a_stream_dealt_evenly_sustains_what_its_slowest_stage_does():
    keys = np.arange(2_000, dtype=np.uint64)
    job = Job(8, size=1_000, slide=1_000)
    found = measure("shuffle", keys, job, policy=Shuffle(7))
    # A combiner has 143 of 1,000 tuples at 11 us, the one reducer 1,000 fragments at 2 us.
    assert found.merge_s.tolist() == pytest.approx([0.002, 0.002])
    assert found.combine_s.tolist() == pytest.approx([143 * 11e-6] * 2)
    assert found.sustained() == pytest.approx(500_000)
    alone = measure("hash", np.full(1_000, 7, np.uint64), job, policy=Hash(8))
    assert alone.sustained() == pytest.approx(1e6 / 11)


def test_the_paper_s_threshold_makes_the_same_routes_as_dalton_itself():
    keys = np.random.default_rng(3).zipf(1.5, 5_000).astype(np.uint64)
    given = {"window": 2_000, "slide": 100, "stats_window": 100, "seed": 5}
    policy = Thresholded(8, **given)
    policy.hot_from = 8
    expected = Dalton(8, **given).route(Chunk(None, keys))
    assert (policy.route(Chunk(None, keys)) == expected).all()


def test_a_lower_threshold_splits_keys_that_the_paper_s_leaves_whole():
    keys = np.arange(20_000, dtype=np.uint64) % np.uint64(50)
    found = {}
    for hot_from in (8, 100):
        policy = Thresholded(8, window=2_000, slide=100, stats_window=100)
        policy.hot_from = hot_from
        found[hot_from] = len(np.unique(policy.route(Chunk(None, keys))[keys == 7]))
    assert found == {8: 1, 100: 8}


def test_the_reducer_s_delay_changes_from_phase_to_phase():
    policy = Delayed(4, sources=2, window=6_000, slide=1_000)
    policy.phase = 1_000
    seen = []
    for at in range(0, 5_000, 1_000):
        policy.route(Chunk(np.arange(at, at + 1_000), np.arange(1_000)))
        seen.append(policy.latency // LATENCY)
    assert seen == [*DELAYS, DELAYS[-1]]


def test_two_streams_are_dealt_in_turn():
    first, second = np.array([1, 2], np.uint64), np.array([8, 9], np.uint64)
    assert dealt(first, second).tolist() == [1, 8, 2, 9]


@pytest.mark.slow
def test_key_forwarding_brings_most_on_nearly_uniform_keys():
    experiment = find("dalton.fig11")
    result = run(experiment)
    assert len(result.rows) == 9
    gain = {
        stream: result.one("throughput", stream=stream, variant="full")
        / result.one("throughput", stream=stream, variant="no forwarding")
        for stream in STREAMS
    }
    assert gain["t4sa"] > 2 > gain["zipf 1.5"] >= 1
    assert experiment.tabulate(result).rows
