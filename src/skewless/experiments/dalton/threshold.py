"""Dalton with another threshold for hot keys than the paper's 1/n, for its sensitivity studies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.partitioners import Dalton
from skewless.windows.cold_log import index_cold

__all__ = ["Thresholded"]


class Thresholded(Dalton):
    """A `Dalton` for which a key is hot that has ``1 / hot_from`` of the last statistics window.

    `hot_from` is set after it was made; 0 leaves the paper's threshold. With as many as a statistics
    window has tuples, every key is hot.

    Examples
    --------
    >>> policy = Thresholded(4, window=100, slide=10, stats_window=10)
    >>> policy.hot_from = 10
    >>> len(policy.route(Chunk(None, [7] * 100)))
    100
    """

    hot_from: int = 0

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32."""
        if self.hot_from == 0 or self.stats_window is None:
            return super().route(chunk)
        number = chunk.time // self.stats_window
        cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
        parts = []
        for start, stop in zip([0, *cuts], [*cuts, len(chunk)], strict=True):
            # Its first tuple begins the window, which sets the threshold.
            parts.append(super().route(chunk[start : start + 1]))
            total = int(self.state.keys.total[1])
            if total > 0:
                self.state.keys.heavy[0] = -(-total // self.hot_from)
                cold = self.state.cold
                if self.state.keys.heavy[0] == 1 and len(cold.latest) > 0:
                    index_cold(cold.entry, cold.ends, cold.latest, np.uint64(self.seed))
            parts.append(super().route(chunk[start + 1 : stop]))
        return np.concatenate(parts) if parts else np.empty(0, np.int32)
