"""The measures of the papers: arrays in, numbers out.

``workers`` holds one worker id per tuple, ``keys`` one key hash per tuple, ``loads`` and
``cardinalities`` one number per worker; all of one window. PKG is Nasir et al., ICDE 2015; Holistic
is Katsipoulakis et al., PVLDB 10(11), 2017; Prompt is Abdelhamid et al., SIGMOD 2020; Dalton is
Zapridou et al., PVLDB 16(3), 2022.
"""

from __future__ import annotations

from skewless.metrics.balance import (
    cardinalities,
    cardinality_imbalance,
    hybrid_imbalance,
    hybrid_load,
    imbalance,
    loads,
    max_over_mean,
    normalized,
)
from skewless.metrics.batches import partitioning_imbalance, relative_migration
from skewless.metrics.fragmentation import (
    extra_fragments,
    feasible,
    fragment_counts,
    fragments,
    gamma_bounds,
    replication,
)
from skewless.metrics.rewards import aggregation_cost, reward_aggregation, reward_imbalance

__all__ = [
    "aggregation_cost",
    "cardinalities",
    "cardinality_imbalance",
    "extra_fragments",
    "feasible",
    "fragment_counts",
    "fragments",
    "gamma_bounds",
    "hybrid_imbalance",
    "hybrid_load",
    "imbalance",
    "loads",
    "max_over_mean",
    "normalized",
    "partitioning_imbalance",
    "relative_migration",
    "replication",
    "reward_aggregation",
    "reward_imbalance",
]
