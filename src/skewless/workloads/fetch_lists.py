"""FetchLists: the pages that a crawler fetches next, by host.

Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur: System-aware dynamic partitioning for batch and
streaming workloads, 2021; politeness as in C. Olston, M. Najork: Web Crawling, 2010.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.parameters import Count, Range, check
from skewless.spark.aggregators.counting import known_rows, ranked, whole_numbers
from skewless.spark.aggregators.ddl import typed_values
from skewless.spark.aggregators.segments import Starts, as_lists, group_of, lists_of
from skewless.workloads.base import Workload

__all__ = ["FetchLists"]

Ints = NDArray[np.int64]
_PAGE = ("url", "depth", "links")


class FetchLists(Workload):
    """List the pages to fetch from each host in this round, each once, the most linked ones first.

    Use it for a key whose state is large and whose distribution has a heavy tail: the links that a
    round of a crawl found. Not for a crawl: nothing is fetched.

    Parameters
    ----------
    limit : int of at least 1
        Pages of a host in one round, at most.
    delay_ms : int of at least 0
        Milliseconds from one fetch of a host to the next.
    url, depth : str
        Columns: the page, and its distance from where the crawl began.

    Notes
    -----
    The key is the host. Result: ``n``, the host's different pages; ``pages``, those to fetch, the least
    depth first, then the most links, then the lower address; ``took_ms``, the round's least duration for
    this host. Rows with a null are left out.

    Guarantee: exact, however rows are split. A page has the least depth that it was found at.

    Cost: a sort of each batch. State: each different page and 16 bytes.

    Deviations from the paper: it says that lists are partitioned by host, and not how they are ordered
    or limited.

    Examples
    --------
    >>> lists = FetchLists(2, delay_ms=500)
    >>> found = pa.table({"url": ["/b", "/a", "/c", "/a"], "depth": [1, 1, 0, 1]})
    >>> lists.finish(lists.update(lists.create(), found))
    {'n': 3, 'pages': ['/c', '/a'], 'took_ms': 1000}

    References
    ----------
    System-aware dynamic partitioning, section 6, doi:10.48550/arXiv.2105.15023. Web Crawling, FnTIR 4(3),
    doi:10.1561/1500000017.
    """

    def __init__(
        self,
        limit: Count = 100,
        delay_ms: Annotated[int, Range(0)] = 1000,
        url: str = "url",
        depth: str = "depth",
    ) -> None:
        check(
            "FetchLists", FetchLists.__init__, limit=limit, delay_ms=delay_ms, url=url, depth=depth
        )
        self.limit, self.delay_ms, self.url, self.depth = int(limit), int(delay_ms), url, depth
        self._declare(
            inputs=[url, depth],
            state="found array<struct<url: string, depth: bigint, links: bigint>>",
            result="n bigint, pages array<string>, took_ms bigint",
        )

    def create(self) -> dict[str, Any]:
        """Return no pages."""
        return {"found": []}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the pages of each group."""
        urls = typed_values("FetchLists", rows, self.url, "string")
        depths = whole_numbers("FetchLists", rows, self.depth)
        group, (urls, depths) = known_rows([urls, depths], starts)
        return _pages(group, len(starts) - 1, urls, depths.to_numpy(), np.ones(len(urls), np.int64))

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Join the pages of all parts of each key."""
        inner, elements = lists_of(states["found"])
        group = np.repeat(group_of(starts), np.diff(inner))
        urls, depth, links = elements.flatten()
        return _pages(group, len(starts) - 1, urls, depth.to_numpy(), links.to_numpy())

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return what is fetched first of each host."""
        starts, elements = lists_of(states["found"])
        urls, depth, links = elements.flatten()
        code, _ = ranked([urls])
        group, n = group_of(starts), np.diff(starts)
        order = np.lexsort((code, -links.to_numpy(), depth.to_numpy(), group))
        place = np.arange(len(order)) - np.repeat(starts[:-1], n)
        taken = np.minimum(n, self.limit)
        pages = urls.take(pa.array(order[place < self.limit]))
        edges = np.concatenate([[0], np.cumsum(taken)])
        return pa.table({"n": n, "pages": as_lists(edges, pages), "took_ms": taken * self.delay_ms})


def _pages(group: Ints, n_groups: int, urls: pa.Array, depth: Ints, links: Ints) -> pa.Table:
    """Return each different page of a group once, by ascending address."""
    code, (names,) = ranked([urls])
    width = max(1, len(names))
    found, place = np.unique(group * width + code, return_inverse=True)
    least = np.full(len(found), np.iinfo(np.int64).max)
    total = np.zeros(len(found), np.int64)
    np.minimum.at(least, place, depth)
    np.add.at(total, place, links)
    columns = [names.take(pa.array(found % width)), pa.array(least), pa.array(total)]
    edges = np.searchsorted(found, np.arange(n_groups + 1) * width)
    return pa.table({"found": as_lists(edges, pa.StructArray.from_arrays(columns, list(_PAGE)))})
