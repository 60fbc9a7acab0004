"""Seeded graphs as streams: edges between nodes of skewed degrees, and the rounds of a web crawl."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.datasets.drawing import by_weight, names, shuffled, units
from skewless.errors import ParameterError
from skewless.parameters import Count, Positive, Range, Seed, check

__all__ = ["Edges", "host_crawl", "power_law_edges"]

Length = Annotated[int, Range(0)]
Exponent = Annotated[float, Range(0, 20)]

_TO, _ORDER, _SIZES = 1, 2, 3


class Edges(NamedTuple):
    """A stream of directed edges."""

    source: NDArray[np.uint64]
    """Node that the edge leaves, as a key hash."""
    destination: NDArray[np.uint64]
    """Node that the edge enters, as a key hash."""


def power_law_edges(
    n_edges: Length,
    n_nodes: Annotated[int, Range(2)],
    *,
    out_exponent: Exponent = 0.6,
    in_exponent: Exponent = 0.6,
    seed: Seed = 0,
) -> Edges:
    """Draw edges whose ends are Zipf distributed, each with an order of the nodes of its own.

    Use it for streams that are skewed at the sources as well: key the source by `source`, the worker
    by `destination`.

    Parameters
    ----------
    n_edges : int of at least 0
        Number of edges; the same edge may come again.
    n_nodes : int of at least 2
        Number of nodes.
    out_exponent, in_exponent : float in [0, 20]
        Exponents of the law of out-degrees and in-degrees over their ranks. Rank exponent s is a
        power law of degrees with exponent ``1 + 1/s``: 0.6 gives the 2.67 that is usual in social
        graphs.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the nodes' names.

    Returns
    -------
    Edges
        Source and destination of each edge. No edge leads from a node to itself.

    Notes
    -----
    The fitness model: both ends are drawn independently, each with the chance of its rank. An edge
    that would be a loop enters the node of the next in-rank instead, so with a steep law the second
    node gets a little more than its share. Of `n_nodes`, those of low rank may have no edge.

    References
    ----------
    F. Chung, L. Lu, Connected components in random graphs with given expected degree sequences,
    Annals of Combinatorics 6, 2002, section 1, doi:10.1007/PL00012580. The use of graphs: M. A.
    Uddin Nasir et al., The Power of Both Choices, ICDE 2015, doi:10.1109/ICDE.2015.7113279,
    section V.

    Examples
    --------
    >>> edges = power_law_edges(50_000, 1_000, out_exponent=1.0, in_exponent=0.0, seed=1)
    >>> for ends in edges:
    ...     print(np.unique(ends, return_counts=True)[1].max() // 1000)
    6
    0
    """
    check(
        "power_law_edges",
        power_law_edges,
        n_edges=n_edges,
        n_nodes=n_nodes,
        out_exponent=out_exponent,
        in_exponent=in_exponent,
        seed=seed,
    )
    leaving = by_weight(units(n_edges, seed), _weights(n_nodes, out_exponent))
    rank = by_weight(units(n_edges, seed, _TO), _weights(n_nodes, in_exponent))
    order = shuffled(n_nodes, seed, _ORDER)
    entering = order[rank]
    entering = np.where(entering == leaving, order[(rank + 1) % n_nodes], entering)
    return Edges(names(leaving, seed), names(entering, seed))


def host_crawl(
    n_seeds: Count = 64,
    n_hosts: Count = 20_000,
    n_rounds: Count = 7,
    *,
    first_pages: Count = 1_000,
    growth: Annotated[float, Range(1, 10)] = 1.8,
    exponent: Exponent = 1.1,
    tail: Positive = 1.3,
    seed: Seed = 0,
) -> pa.Table:
    """Draw the fetch lists of a crawl: the pages of each round, with host and size, heavy of tail.

    Use it where whole hosts must go to one worker and neither the number of a host's pages nor what
    they cost is known before.

    Parameters
    ----------
    n_seeds : int of at least 1
        Hosts that the crawl starts from: all pages of the first round are theirs.
    n_hosts : int of at least 1
        Hosts that can be found in all; at least `n_seeds`.
    n_rounds : int of at least 1
        Rounds of fetching.
    first_pages : int of at least 1
        Pages of the first round.
    growth : float in [1, 10]
        How many times as many pages each round has as the one before.
    exponent : float in [0, 20]
        Zipf exponent of pages over hosts.
    tail : float above 0
        Exponent of the Pareto law of page sizes: at 2 or less their variance has no bound.
    seed : int in [0, 9223372036854775807]
        Seed of all draws.

    Returns
    -------
    pyarrow.Table
        One row per page, in the order of fetching: ``round`` (int32, from 1), ``host`` (uint64, a key
        hash), ``page`` (int64, number of the page) and ``bytes`` (int64, at least 2,000 and at most
        50 million).

    Raises
    ------
    ParameterError
        `n_hosts` is less than `n_seeds`, or another parameter is out of its range.

    Notes
    -----
    A crawl of news sites, 64 of them, found more hosts with every round. Here the hosts known in
    round r grow from `n_seeds` to `n_hosts` by equal factors; seeds are among the heaviest, as sites
    that are chosen to start from are. This is a made-up law in the shape of the paper's, not a fit:
    the paper gives no distribution.

    References
    ----------
    Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur, System-aware dynamic partitioning for batch
    and streaming workloads, 2021, doi:10.48550/arXiv.2105.15023, section 6.

    Examples
    --------
    >>> crawl = host_crawl(n_rounds=2, seed=1)
    >>> rounds = crawl["round"].to_numpy()
    >>> np.bincount(rounds).tolist()
    [0, 1000, 1800]
    """
    check(
        "host_crawl",
        host_crawl,
        n_seeds=n_seeds,
        n_hosts=n_hosts,
        n_rounds=n_rounds,
        first_pages=first_pages,
        growth=growth,
        exponent=exponent,
        tail=tail,
        seed=seed,
    )
    if n_hosts < n_seeds:
        raise ParameterError(
            f"host_crawl: n_hosts must be at least n_seeds, got {n_hosts} hosts and {n_seeds} seeds."
        )
    pages = [round(first_pages * growth**i) for i in range(n_rounds)]
    total = sum(pages)
    unit = units(total, seed)
    weights = _weights(n_hosts, exponent)
    hosts = np.empty(total, np.int64)
    start = 0
    for i, count in enumerate(pages):
        part = i / max(1, n_rounds - 1)
        known = round(n_seeds * (n_hosts / n_seeds) ** part)
        hosts[start : start + count] = by_weight(unit[start : start + count], weights[:known])
        start += count
    size = 2_000.0 * (1.0 - units(total, seed, _SIZES)) ** (-1.0 / tail)
    return pa.table(
        {
            "round": np.repeat(np.arange(1, n_rounds + 1, dtype=np.int32), pages),
            "host": names(hosts, seed),
            "page": np.arange(total, dtype=np.int64),
            "bytes": np.minimum(size, 50e6).astype(np.int64),
        }
    )


def _weights(n: int, exponent: float) -> NDArray[np.float64]:
    return np.arange(1, n + 1, dtype=np.float64) ** -exponent
