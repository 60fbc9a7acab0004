"""Stand-ins for the taxi trips and cluster events of the holistic paper, with windows of its sizes."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.datasets import load_real
from skewless.keys import hash64

__all__ = ["STREAMS", "Windowed", "keys_of"]


class Windowed(NamedTuple):
    """A stream, and what a window of it is."""

    file: str
    columns: tuple[str, ...]
    window: int
    """Tuples in a window."""


STREAMS = {
    # New York's taxis made some 14.4 M trips a month: 10,000 in half an hour, 15,000 in 45 minutes.
    "debs1": Windowed("nyc_green_taxi", ("PULocationID", "DOLocationID"), 10_000),
    "debs2": Windowed("nyc_flights_2013", ("tailnum",), 15_000),
    # The paper's mean windows.
    "gcm1": Windowed("google_task_events", ("scheduling_class",), 42),
    "gcm2": Windowed("google_task_events", ("job",), 181),
}


@functools.lru_cache(maxsize=4)
def keys_of(name: str, limit: int) -> NDArray[np.uint64]:
    """Return the first keys of a stream; of the cluster's, those after the state that it begins with."""
    one = STREAMS[name]
    table = load_real(one.file)
    if "time_us" in table.column_names:
        table = table.filter(pc.greater(table["time_us"], 0))
    return hash64(*(table[column] for column in one.columns))[:limit]
