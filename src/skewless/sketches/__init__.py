"""Sketches: summaries of a stream of keys in bounded memory, with stated errors."""

from skewless.sketches.base import Sketch
from skewless.sketches.count_min import CountMin
from skewless.sketches.drift_respecting import DriftRespecting
from skewless.sketches.hyper_log_log import HyperLogLog
from skewless.sketches.lossy_counting import LossyCounting
from skewless.sketches.space_saving import SpaceSaving

__all__ = [
    "ALL",
    "CountMin",
    "DriftRespecting",
    "HyperLogLog",
    "LossyCounting",
    "Sketch",
    "SpaceSaving",
]

#: Every sketch, in the order of the documentation.
ALL: tuple[type[Sketch], ...] = (SpaceSaving, CountMin, HyperLogLog, LossyCounting, DriftRespecting)
