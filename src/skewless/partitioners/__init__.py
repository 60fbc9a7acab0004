"""Partitioners: policies that decide tuple by tuple."""

from skewless.partitioners.base import Partitioner
from skewless.partitioners.da_greedy import DAGreedy
from skewless.partitioners.dalton import Dalton
from skewless.partitioners.hash import Hash
from skewless.partitioners.pkg import PKG
from skewless.partitioners.shuffle import Shuffle

__all__ = ["ALL", "PKG", "DAGreedy", "Dalton", "Hash", "Partitioner", "Shuffle"]

#: Every partitioner, in the order of the documentation.
ALL: tuple[type[Partitioner], ...] = (Hash, Shuffle, PKG, DAGreedy, Dalton)
