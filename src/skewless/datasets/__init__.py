"""Key streams to try policies on: real ones, seeded generators, and readers of files."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skewless.datasets.state_of_the_union import state_of_the_union

if TYPE_CHECKING:
    from skewless.datasets.arrivals import sinusoidal, stepped
    from skewless.datasets.changing import alternating, redrawn, renamed
    from skewless.datasets.files import read_keys
    from skewless.datasets.generators import drifting, uniform, zipf
    from skewless.datasets.graphs import host_crawl, power_law_edges
    from skewless.datasets.look_alikes import look_alike
    from skewless.datasets.real import load_real
    from skewless.datasets.skewed import log_normal, zipf_by_share, zipf_exponent
    from skewless.datasets.specs import from_spec

__all__ = [
    "alternating",
    "drifting",
    "from_spec",
    "host_crawl",
    "load_real",
    "log_normal",
    "look_alike",
    "power_law_edges",
    "read_keys",
    "redrawn",
    "renamed",
    "sinusoidal",
    "state_of_the_union",
    "stepped",
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
    "load_real": "real",
    "log_normal": "skewed",
    "look_alike": "look_alikes",
    "power_law_edges": "graphs",
    "read_keys": "files",
    "redrawn": "changing",
    "renamed": "changing",
    "sinusoidal": "arrivals",
    "stepped": "arrivals",
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
