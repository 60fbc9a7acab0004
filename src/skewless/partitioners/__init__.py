"""Partitioners: policies that decide tuple by tuple."""

from skewless.partitioners.am import AM
from skewless.partitioners.base import Partitioner
from skewless.partitioners.cam import CAM
from skewless.partitioners.cm import CM
from skewless.partitioners.cooperative_dalton import CooperativeDalton
from skewless.partitioners.d_choices import DChoices
from skewless.partitioners.da_greedy import DAGreedy
from skewless.partitioners.dalton import Dalton
from skewless.partitioners.hash import Hash
from skewless.partitioners.lm import LM
from skewless.partitioners.on_greedy import OnGreedy
from skewless.partitioners.pkg import PKG
from skewless.partitioners.potc import PoTC
from skewless.partitioners.shuffle import Shuffle
from skewless.partitioners.time_based import TimeBased
from skewless.partitioners.w_choices import WChoices

__all__ = [
    "ALL",
    "AM",
    "CAM",
    "CM",
    "LM",
    "PKG",
    "CooperativeDalton",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Hash",
    "OnGreedy",
    "Partitioner",
    "PoTC",
    "Shuffle",
    "TimeBased",
    "WChoices",
]

#: Every partitioner, in the order of the documentation.
ALL: tuple[type[Partitioner], ...] = (
    Hash,
    Shuffle,
    TimeBased,
    PKG,
    PoTC,
    OnGreedy,
    DChoices,
    WChoices,
    CM,
    AM,
    CAM,
    LM,
    DAGreedy,
    Dalton,
    CooperativeDalton,
)
