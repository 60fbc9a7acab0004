"""Every experiment by its permanent name: what it is, what it needs, and where it is written."""

from __future__ import annotations

import difflib
import importlib
from typing import NamedTuple

from skewless.errors import ParameterError
from skewless.experiments.description import Experiment

__all__ = ["PAPERS", "ROWS", "Listed", "find", "listed"]

#: Titles of the papers, by the first part of an id.
PAPERS = {
    "pkg": "The Power of Both Choices (PKG, ICDE 2015)",
    "holistic": "A Holistic View of Stream Partitioning Costs (PVLDB 2017)",
    "prompt": "Prompt (SIGMOD 2020)",
    "dr": "Dynamic repartitioning of long-running stream jobs (2021)",
    "dalton": "Dalton (PVLDB 2022)",
    "ours": "Ours",
}


class Listed(NamedTuple):
    """A line of the table."""

    id: str
    engine: str
    """``"S"``: the simulator, or policies driven directly; ``"P"``: PySpark; ``"S, P"``: either."""
    title: str
    home: str = ""
    """``"module:NAME"`` below this package; empty as long as nobody has written it."""

    @property
    def paper(self) -> str:
        """Return the part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def status(self) -> str:
        """Return ``"ready"``, ``"needs Spark"`` or ``"not implemented"``."""
        if self.home:
            return "ready"
        return "needs Spark" if self.engine == "P" else "not implemented"


#: All of them, in the order of the papers.
ROWS = (
    Listed(
        "pkg.table2", "S", "average imbalance on skewed words and pages", "pkg.imbalance:TABLE2"
    ),
    Listed("pkg.lognormal", "S", "average imbalance on log-normal keys", "pkg.imbalance:LOGNORMAL"),
    Listed("pkg.fig2", "S", "local and global load estimates", "pkg.estimates:FIG2"),
    Listed("pkg.fig3", "S", "imbalance through time, probing and drift", "pkg.estimates:FIG3"),
    Listed("pkg.fig4", "S", "skewed sources: edges of a graph", "pkg.sources:FIG4"),
    Listed("pkg.fig5a", "S, P", "throughput against work a message", "pkg.throughput:FIG5A"),
    Listed(
        "pkg.fig5b", "S", "throughput against memory, by aggregation period", "pkg.throughput:FIG5B"
    ),
    Listed(
        "pkg.apps", "S, P", "naive Bayes, decision tree and heavy hitters on PKG", "pkg.apps:APPS"
    ),
    Listed("pkg.greedyd", "S", "imbalance growth with d choices", "pkg.growth:GREEDYD"),
    Listed("holistic.q1", "S", "TPC-H Q1: 4 groups", "holistic.tpch:Q1"),
    Listed("holistic.q3", "S", "TPC-H Q3: many groups", "holistic.tpch:Q3"),
    Listed("holistic.debs1", "S", "DEBS 2015 query 1: window latency", "holistic.latency:DEBS1"),
    Listed("holistic.debs2", "S", "DEBS 2015 query 2: window latency", "holistic.latency:DEBS2"),
    Listed(
        "holistic.gcm1",
        "S",
        "cluster monitoring query 1: latency as workers grow",
        "holistic.latency:GCM1",
    ),
    Listed(
        "holistic.gcm2",
        "S",
        "cluster monitoring query 2: latency as workers grow",
        "holistic.latency:GCM2",
    ),
    Listed("holistic.latency", "S", "time to partition a window", "holistic.overhead:LATENCY"),
    Listed(
        "holistic.memory", "S", "memory of the cardinality structures", "holistic.memory:MEMORY"
    ),
    Listed(
        "holistic.rule", "S", "the selection rule against the measured best", "holistic.rule:RULE"
    ),
    Listed("prompt.fig10", "S", "block sizes and cardinalities", "prompt.blocks:FIG10"),
    Listed("prompt.example", "S", "the example of figure 5", "prompt.example:EXAMPLE"),
    Listed(
        "prompt.fig11rate",
        "S, P",
        "highest stable rate under a changing rate",
        "prompt.rates:FIG11RATE",
    ),
    Listed(
        "prompt.fig11skew", "S, P", "highest stable rate against skew", "prompt.rates:FIG11SKEW"
    ),
    Listed("prompt.fig12", "S, P", "elasticity", "prompt.elastic:FIG12"),
    Listed("prompt.fig13", "P", "times of the reduce tasks", "prompt.reduce_tasks:FIG13"),
    Listed("prompt.fig14", "S", "overhead of planning", "prompt.overhead:FIG14"),
    Listed("dr.fig2", "S", "balance against the number of partitions", "dr.balance:FIG2"),
    Listed("dr.fig3", "S", "balance and migration over batches", "dr.updates:FIG3"),
    Listed("dr.fig4", "P", "balance and time against skew, batch", "dr.batch:FIG4"),
    Listed("dr.fig5", "P", "time against the number of partitions", "dr.batch:FIG5"),
    Listed("dr.fig6", "S, P", "streaming throughput against skew", "dr.streaming:FIG6"),
    Listed("dr.crawl", "S, P", "fetch lists of a crawl, by host", "dr.crawl:CRAWL"),
    Listed("dr.ner", "P", "a heavy function by host, in windows", "dr.ner:NER"),
    Listed(
        "dalton.fig1",
        "S",
        "throughput through time as partitioners are added",
        "dalton.sources:FIG1",
    ),
    Listed("dalton.fig7", "S", "word count as workers grow", "dalton.scaling:FIG7"),
    Listed("dalton.fig8", "S", "word count in micro-batches", "dalton.scaling:FIG8"),
    Listed("dalton.fig9a", "S", "word count, uniform and Zipf in turn", "dalton.shifts:FIG9A"),
    Listed("dalton.fig9b", "S", "the same in micro-batches", "dalton.shifts:FIG9B"),
    Listed(
        "dalton.fig9c",
        "S",
        "correlation clustering, uniform and Zipf in turn",
        "dalton.clustering:FIG9C",
    ),
    Listed("dalton.fig9d", "S", "word count, a new exponent each period", "dalton.shifts:FIG9D"),
    Listed("dalton.fig10ab", "S", "cost of frequency statistics", "dalton.knobs:FIG10AB"),
    Listed("dalton.fig10c", "S", "latency against the number of hot keys", "dalton.knobs:FIG10C"),
    Listed(
        "dalton.fig11",
        "S",
        "ablation: hybrid statistics and key forwarding",
        "dalton.parts:FIG11",
    ),
    Listed("dalton.fig12", "S", "throughput against the input rate", "dalton.parts:FIG12"),
    Listed("dalton.fig13", "S", "two partitioners with different streams", "dalton.sources:FIG13"),
    Listed(
        "dalton.fig14a", "S", "throughput against the interval between syncs", "dalton.syncs:FIG14A"
    ),
    Listed("dalton.fig14b", "S", "the interval adapts to slow reducers", "dalton.syncs:FIG14B"),
    Listed(
        "dalton.fig15", "S", "convergence with 1 to 16 partitioners", "dalton.convergence:FIG15"
    ),
    Listed("ours.limit", "S", "every policy against what no policy can beat", "ours.limit:LIMIT"),
    Listed(
        "ours.scale", "S", "routing time and quality as workers and keys grow", "ours.scale:SCALE"
    ),
    Listed("ours.spark", "P", "group-by on Spark, with and without skewless", "ours.spark:SPARK"),
    Listed("ours.drift", "S", "recovery after the hot keys are replaced", "ours.drift:DRIFT"),
)

_BY_ID = {row.id: row for row in ROWS}


def listed(name: str) -> Listed:
    """Return the line of an experiment.

    Raises
    ------
    ParameterError
        There is none by this name.

    Examples
    --------
    >>> listed("pkg.tabel2")
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: experiment: no experiment 'pkg.tabel2'; near are 'pkg.table2', ...
    """
    if name in _BY_ID:
        return _BY_ID[name]
    near = difflib.get_close_matches(name.lower(), _BY_ID, n=3, cutoff=0.55)
    hint = (
        f"near are {', '.join(map(repr, near))}"
        if near
        else f"`skewless experiment list` shows all {len(ROWS)}"
    )
    raise ParameterError(f"experiment: no experiment {name!r}; {hint}.")


def find(name: str) -> Experiment:
    """Return an experiment by name.

    Raises
    ------
    ParameterError
        There is none by this name, or nobody has written it yet.

    Examples
    --------
    >>> find("pkg.lognormal").paper
    'pkg'
    """
    row = listed(name)
    if row.status == "needs Spark":
        raise ParameterError(
            f"experiment: {name!r} needs Spark, and nobody has written it yet; "
            f"`skewless experiment list` shows what there is."
        )
    if not row.home:
        raise ParameterError(
            f"experiment: {name!r} is not implemented yet; `skewless experiment list` shows what is."
        )
    module, _, attribute = row.home.partition(":")
    found: Experiment = getattr(
        importlib.import_module(f"skewless.experiments.{module}"), attribute
    )
    return found
