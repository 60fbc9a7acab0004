"""Key streams to try policies on: real ones, seeded generators, and readers of files."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skewless.datasets.state_of_the_union import state_of_the_union

if TYPE_CHECKING:
    from skewless.datasets.arrivals import sinusoidal, stepped
    from skewless.datasets.changing import alternating, redrawn, renamed
    from skewless.datasets.common_log import load_common_log
    from skewless.datasets.files import read_keys
    from skewless.datasets.formats import (
        load_debs_2015,
        load_google_task_events,
        load_snap_edges,
        load_wikipedia_page_counts,
    )
    from skewless.datasets.generators import drifting, uniform, zipf
    from skewless.datasets.graphs import host_crawl, power_law_edges
    from skewless.datasets.look_alikes import look_alike
    from skewless.datasets.real import load_real
    from skewless.datasets.skewed import log_normal, zipf_by_share, zipf_exponent
    from skewless.datasets.specs import from_spec
    from skewless.datasets.tlc import load_tlc
    from skewless.datasets.tpch import tpch_tables
    from skewless.datasets.voters import load_nc_voters

__all__ = [
    "alternating",
    "drifting",
    "from_spec",
    "host_crawl",
    "load_common_log",
    "load_debs_2015",
    "load_google_task_events",
    "load_nc_voters",
    "load_real",
    "load_snap_edges",
    "load_tlc",
    "load_wikipedia_page_counts",
    "log_normal",
    "look_alike",
    "power_law_edges",
    "read_keys",
    "redrawn",
    "renamed",
    "sinusoidal",
    "state_of_the_union",
    "stepped",
    "tpch_tables",
    "uniform",
    "zipf",
    "zipf_by_share",
    "zipf_exponent",
]

#: Where each public name lives; nothing is imported before it is asked for.
_HOME = {
    "alternating": "changing",
    "drifting": "generators",
    "from_spec": "specs",
    "host_crawl": "graphs",
    "load_common_log": "common_log",
    "load_debs_2015": "formats",
    "load_google_task_events": "formats",
    "load_nc_voters": "voters",
    "load_real": "real",
    "load_snap_edges": "formats",
    "load_tlc": "tlc",
    "load_wikipedia_page_counts": "formats",
    "log_normal": "skewed",
    "look_alike": "look_alikes",
    "power_law_edges": "graphs",
    "read_keys": "files",
    "redrawn": "changing",
    "renamed": "changing",
    "sinusoidal": "arrivals",
    "stepped": "arrivals",
    "tpch_tables": "tpch",
    "uniform": "generators",
    "zipf": "generators",
    "zipf_by_share": "skewed",
    "zipf_exponent": "skewed",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"skewless.datasets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'skewless.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
