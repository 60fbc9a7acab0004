"""The shape of a planner, and the wrapper that drives one as a partitioner."""

from __future__ import annotations

import abc

from skewless.histogram import Histogram
from skewless.policy import Policy
from skewless.routing import Routing

__all__ = ["Planner"]


class Planner(Policy):
    """Decides once per window, from a histogram; remembers nothing."""

    splits_keys = True
    moves_keys = True

    @abc.abstractmethod
    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the last window.
        previous
            The routing in force: what need not move stays. ``None`` at the start.
        """

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return `plan` of the same arguments: the way both kinds of policy are driven on Spark."""
        return self.plan(histogram, previous)
