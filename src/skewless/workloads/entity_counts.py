"""EntityCounts: the names that the pages of a host mention most, found by a heavy function.

Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur: System-aware dynamic partitioning for batch and
streaming workloads, 2021.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa

from skewless.errors import ParameterError
from skewless.parameters import Count, Range, check
from skewless.spark.aggregators.counting import count_rows, parts_of
from skewless.spark.aggregators.ddl import typed_values
from skewless.spark.aggregators.segments import Starts, group_of
from skewless.workloads.base import Workload

__all__ = ["EntityCounts", "capitalised"]

_NAME = re.compile(r"\b[A-Z]\w*(?: [A-Z]\w*)*")


def capitalised(text: str) -> list[str]:
    """Return the runs of capitalised words: a stand-in for a model that recognises names.

    Examples
    --------
    >>> capitalised("We met Ada Lovelace in London.")
    ['We', 'Ada Lovelace', 'London']
    """
    return _NAME.findall(text)


class EntityCounts(Workload):
    """Count the entities in the texts of each host and list the `k` most frequent.

    Use it where the time goes into the update and grows with the text, not with the rows. Not to
    recognise names in earnest, unless with a function of your own.

    Parameters
    ----------
    k : int of at least 1
        How many entities to list.
    column : str
        The column of the texts, strings; in a `Partial` its values. The key is the host.
    us_per_char : float of at least 0
        Emulated cost: microseconds to sleep per character. 0 sleeps never; sleeping tasks overlap, so
        few cores can stand for many.
    recognise : function
        From a text to its entities, strings.

    Notes
    -----
    Result: ``n`` texts, and ``entities``, an array of ``struct<entity, n>``, highest `n` first, of equal
    ones the lower name first. Null texts are left out.

    Guarantee: exact, however rows are split, if the function looks at nothing but its text.

    Cost: the function's. State: each different entity of the host and 8 bytes.

    Deviations from the paper: its model adapts to the host, which needs all texts of a host in one
    place; a function of one text is what can be split.

    Examples
    --------
    >>> names = EntityCounts(1)
    >>> texts = pa.table({"text": ["near Paris", "from Paris to Rome", None]})
    >>> names.finish(names.update(names.create(), texts))
    {'n': 2, 'entities': [{'entity': 'Paris', 'n': 2}]}

    References
    ----------
    System-aware dynamic partitioning, section 6, doi:10.48550/arXiv.2105.15023.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}

    def __init__(
        self,
        k: Count = 10,
        column: str = "text",
        us_per_char: Annotated[float, Range(0)] = 0.0,
        recognise: Callable[[str], Iterable[str]] = capitalised,
    ) -> None:
        check("EntityCounts", EntityCounts.__init__, k=k, column=column, us_per_char=us_per_char)
        if not callable(recognise):
            raise ParameterError(
                f"EntityCounts: recognise must be a function of one text, got {recognise!r}."
            )
        self.k, self.column, self.us_per_char = int(k), column, float(us_per_char)
        self.recognise = recognise
        entry = "array<struct<entity: string, n: bigint>>"
        self._declare(
            inputs=[column],
            state=f"n bigint, counted {entry}",
            result=f"n bigint, entities {entry}",
        )

    def create(self) -> dict[str, Any]:
        """Return the counts of no texts."""
        return {"n": 0, "counted": []}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the counts of each group."""
        texts = typed_values("EntityCounts", rows, self.column, "string").to_pylist()
        group = group_of(starts)
        found: list[str] = []
        sizes = np.zeros(len(texts), np.int64)
        for i, text in enumerate(texts):
            if text is not None:
                entities = list(self.recognise(text))
                sizes[i] = len(entities)
                found += entities
        if self.us_per_char:
            time.sleep(self.us_per_char * 1e-6 * sum(len(text or "") for text in texts))
        counts = count_rows(
            np.repeat(group, sizes), len(starts) - 1, [pa.array(found, pa.string())]
        )
        known = [text is not None for text in texts]
        n = np.bincount(group[known], minlength=len(starts) - 1)
        return pa.table({"n": n, "counted": counts.all(["entity"])})

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Add up the counts of all parts of each key."""
        group, entities, n = parts_of(states["counted"], starts)
        counts = count_rows(group, len(starts) - 1, entities, n)
        return pa.table({"counted": counts.all(["entity"])})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the most frequent entities of each state."""
        group, entities, n = parts_of(states["counted"], np.arange(states.num_rows + 1))
        counts = count_rows(group, states.num_rows, entities, n)
        starts, best = counts.top(self.k)
        top = counts.lists(["entity"], starts, best, counts.n[best])
        return pa.table({"n": states["n"], "entities": top})
