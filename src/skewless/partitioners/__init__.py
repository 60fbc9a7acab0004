"""Partitioners: policies that decide tuple by tuple."""

from skewless.partitioners.base import Partitioner
from skewless.partitioners.cooperative_dalton import CooperativeDalton
from skewless.partitioners.d_choices import DChoices
from skewless.partitioners.da_greedy import DAGreedy
from skewless.partitioners.dalton import Dalton
from skewless.partitioners.hash import Hash
from skewless.partitioners.pkg import PKG
from skewless.partitioners.shuffle import Shuffle
from skewless.partitioners.w_choices import WChoices

__all__ = [
    "ALL",
    "PKG",
    "CooperativeDalton",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Hash",
    "Partitioner",
    "Shuffle",
    "WChoices",
]

#: Every partitioner, in the order of the documentation.
ALL: tuple[type[Partitioner], ...] = (
    Hash,
    Shuffle,
    PKG,
    DChoices,
    WChoices,
    DAGreedy,
    Dalton,
    CooperativeDalton,
)
