"""Keyed state in a folder: versions, owners, exactly once by batch id. Knows nothing of Spark.

A batch reads the states of the keys that it touches, lets the update change them, writes what changed
beside what there is, and commits all of it by one manifest.
"""

from __future__ import annotations

from skewless.state_store.reader import describe, read_state, verify
from skewless.state_store.repartitioning import Repartitioning
from skewless.state_store.store import StateStore

__all__ = ["Repartitioning", "StateStore", "describe", "read_state", "verify"]
