"""Partitioners: policies that decide tuple by tuple."""

from skewless.partitioners.am import AM
from skewless.partitioners.base import Partitioner
from skewless.partitioners.cam import CAM
from skewless.partitioners.cm import CM
from skewless.partitioners.d_choices import DChoices
from skewless.partitioners.da_greedy import DAGreedy
from skewless.partitioners.dalton import Dalton
from skewless.partitioners.hash import Hash
from skewless.partitioners.lm import LM
from skewless.partitioners.pkg import PKG
from skewless.partitioners.shuffle import Shuffle
from skewless.partitioners.w_choices import WChoices

__all__ = [
    "ALL",
    "AM",
    "CAM",
    "CM",
    "LM",
    "PKG",
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
    CM,
    AM,
    CAM,
    LM,
    DAGreedy,
    Dalton,
)
