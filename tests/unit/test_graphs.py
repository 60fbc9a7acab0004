"""Graph streams: degrees follow their law, and a crawl grows as it says."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.datasets.graphs import host_crawl, power_law_edges
from skewless.errors import ParameterError
from tests.oracles import datasets as oracle


def degrees(ends):
    return np.sort(np.unique(ends, return_counts=True)[1])[::-1]


@pytest.mark.parametrize("seed", [0, 9])
def test_edges_equal_the_oracle(seed):
    n, nodes = 200, 12
    out = [oracle.inverse(u, oracle.zipf_weights(nodes, 0.8)) for u in oracle.units(n, seed)]
    into = [oracle.inverse(u, oracle.zipf_weights(nodes, 1.1)) for u in oracle.units(n, seed, 1)]
    order = sorted(range(nodes), key=oracle.units(nodes, seed, 2).__getitem__)
    expected = [
        (a, order[r] if order[r] != a else order[(r + 1) % nodes])
        for a, r in zip(out, into, strict=True)
    ]
    edges = power_law_edges(n, nodes, out_exponent=0.8, in_exponent=1.1, seed=seed)
    assert edges.source.tolist() == [oracle.name(a, seed) for a, _ in expected]
    assert edges.destination.tolist() == [oracle.name(b, seed) for _, b in expected]


def test_both_degrees_follow_their_own_law_and_no_edge_is_a_loop():
    n, nodes = 400_000, 2_000
    edges = power_law_edges(n, nodes, out_exponent=1.0, in_exponent=0.6, seed=1)
    for ends, exponent in ((edges.source, 1.0), (edges.destination, 0.6)):
        law = np.arange(1, nodes + 1) ** -exponent
        head = degrees(ends)[:10] / n
        # Loops are led past: at most a share of p_out p_in moves.
        assert np.abs(head - (law / law.sum())[:10]).max() < 0.004
    assert not (edges.source == edges.destination).any()


def test_the_busiest_source_is_not_the_busiest_destination():
    edges = power_law_edges(50_000, 1_000, out_exponent=1.2, in_exponent=1.2, seed=3)
    busiest = [np.unique(ends, return_counts=True) for ends in edges]
    assert len({int(keys[counts.argmax()]) for keys, counts in busiest}) == 2


def test_two_nodes_point_at_each_other():
    edges = power_law_edges(100, 2, seed=1)
    assert not (edges.source == edges.destination).any()
    assert len(power_law_edges(0, 2).source) == 0


def test_a_crawl_starts_at_its_seeds_and_finds_more_hosts_each_round():
    crawl = host_crawl(64, 20_000, 7, seed=2)
    rounds, hosts = crawl["round"].to_numpy(), crawl["host"].to_numpy()
    assert np.bincount(rounds)[1:].tolist() == [round(1_000 * 1.8**i) for i in range(7)]
    first = set(hosts[rounds == 1].tolist())
    assert first <= {oracle.name(rank, 2) for rank in range(64)}
    found = [len(np.unique(hosts[rounds == i])) for i in range(1, 8)]
    assert found == sorted(found)
    assert found[-1] > 20 * found[0]
    assert crawl["page"].to_pylist() == list(range(crawl.num_rows))


def test_pages_of_a_crawl_follow_zipf_and_their_sizes_pareto():
    crawl = host_crawl(100, 100, 1, first_pages=200_000, exponent=1.1, tail=1.3, seed=3)
    expected = 1 / sum(oracle.zipf_weights(100, 1.1))
    assert degrees(crawl["host"].to_numpy())[0] / 200_000 == pytest.approx(expected, abs=0.005)
    size = crawl["bytes"].to_numpy()
    assert size.min() >= 2_000
    assert size.max() <= 50_000_000
    for times in (2, 10, 100):  # P(size > 2000 x) = x ** -tail
        assert (size >= 2_000 * times).mean() == pytest.approx(times**-1.3, rel=0.1)


def test_bad_parameters_are_named():
    with pytest.raises(ParameterError, match="n_nodes must be an int of at least 2, got 1"):
        power_law_edges(5, 1)
    with pytest.raises(
        ParameterError, match="n_hosts must be at least n_seeds, got 5 hosts and 64"
    ):
        host_crawl(64, 5)
    with pytest.raises(ParameterError, match=r"tail must be a float above 0, got 0.0"):
        host_crawl(tail=0.0)
