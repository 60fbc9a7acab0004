"""What a simulation found: arrays by pane and by window, and the figures that sum them up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Panes", "Simulation", "Summary", "Windows"]


class Panes(NamedTuple):
    """What happened in each pane (a slide, or a micro-batch); T panes, n combiners, m reducers."""

    number: NDArray[np.int64]
    """int64, (T,): ``time // pane``."""
    loads: NDArray[np.int64]
    """int64, (T, n): tuples of each combiner."""
    routed: NDArray[np.int64]
    """int64, (T, P): tuples of each partitioner."""
    merged: NDArray[np.int64]
    """int64, (T, m): fragments that each reducer merges."""
    keys: NDArray[np.int64]
    """int64, (T,): different keys."""
    split_keys: NDArray[np.int64]
    """int64, (T,): keys on more than one combiner."""
    fragments: NDArray[np.int64]
    """int64, (T,): different pairs of key and combiner: the states at the end of the pane."""
    most_states: NDArray[np.int64]
    """int64, (T,): states of the combiner that has most."""
    end_s: NDArray[np.float64]
    """float64, (T,): when it ended at the sources, in seconds."""
    out_s: NDArray[np.float64]
    """float64, (T,): when its results were out."""
    lag_s: NDArray[np.float64]
    """float64, (T,): longest that backpressure held a tuple back at its source."""
    route_s: NDArray[np.float64]
    """float64, (T,): work of the busiest partitioner."""
    combine_s: NDArray[np.float64]
    """float64, (T,): work of the busiest combiner, slow ones counted as slow as when the pane ended."""
    merge_s: NDArray[np.float64]
    """float64, (T,): work of the busiest reducer."""
    migration: NDArray[np.float64]
    """float64, (T,): part of a planner's last window that changed owner, in [0, 1]; NaN if it did not
    plan."""

    @property
    def tuples(self) -> NDArray[np.int64]:
        """Tuples of each pane, int64, (T,)."""
        return self.loads.sum(axis=1)


class Windows(NamedTuple):
    """What each window held; V windows, each named by the pane that it ends with."""

    last: NDArray[np.int64]
    """int64, (V,): number of its last pane."""
    full: NDArray[np.bool_]
    """bool, (V,): whether it lies within the stream; windows at either end hold fewer tuples."""
    tuples: NDArray[np.int64]
    """int64, (V,): tuples."""
    max_over_mean: NDArray[np.float64]
    """float64, (V,): tuples of the fullest combiner over the mean; 1 without tuples."""
    imbalance: NDArray[np.float64]
    """float64, (V,): tuples of the fullest combiner less the mean."""
    keys: NDArray[np.int64]
    """int64, (V,): different keys."""
    fragments: NDArray[np.int64]
    """int64, (V,): different pairs of key and combiner: Gamma of Holistic, Eq. 2 and 4."""
    merged: NDArray[np.int64]
    """int64, (V,): fragments merged, pane by pane."""
    busiest_merge: NDArray[np.int64]
    """int64, (V,): the same, of the busiest reducer: Gamma of Dalton, Eq. 2."""
    latency_s: NDArray[np.float64]
    """float64, (V,): from the end of the window at the sources until its results were out; NaN if no
    tuple came in its last pane."""
    throughput: NDArray[np.float64]
    """float64, (V,): tuples per second that its slowest stage sustains."""


class Summary(NamedTuple):
    """A simulation in a few figures; means are over full windows, or over all if none is full."""

    policy: str
    model: str
    """``"tuples"`` or ``"batches"``."""
    workers: int
    reducers: int
    partitioners: int
    tuples: int
    windows: int
    throughput: float
    """Tuples per second that the slowest stage sustains."""
    bottleneck: str
    """That stage: ``route``, ``combine``, ``merge``, or ``process`` of a batch."""
    measured: float
    """Tuples over the seconds from the first tuple to the last result."""
    latency_mean_s: float
    latency_p50_s: float
    latency_p99_s: float
    lag_s: float
    """Longest that backpressure held a tuple back at its source."""
    max_over_mean: float
    worst_max_over_mean: float
    imbalance: float
    fragments: float
    """Per window."""
    fragments_per_key: float
    merged: float
    """Fragments merged per window."""
    migration: float
    """Mean over changes of plan; NaN without any."""
    shipped_bytes: int
    """Rows to combiners, and states to reducers."""
    states: int
    """Most states in a pane, all combiners together."""
    states_bytes: int
    policy_bytes: int
    """Most that the policies held."""


class Simulation:
    """What `skewless.simulator.simulate` returns.

    Attributes
    ----------
    panes, windows
        Arrays through time.
    tuples_per_worker
        Tuples of each combiner, int64, (n,).
    workers
        Combiner of each tuple, int32, if it was asked for; else ``None``.
    """

    def __init__(
        self,
        panes: Panes,
        windows: Windows,
        *,
        facts: dict[str, Any],
        row_bytes: int,
        state_bytes: int,
        policy_bytes: int,
        workers: NDArray[np.int32] | None,
    ) -> None:
        self.panes, self.windows, self.workers = panes, windows, workers
        self._facts = facts
        self._row_bytes, self._state_bytes, self._policy_bytes = (
            row_bytes,
            state_bytes,
            policy_bytes,
        )

    @property
    def tuples_per_worker(self) -> NDArray[np.int64]:
        """Tuples of each combiner, int64, (n,)."""
        return self.panes.loads.sum(axis=0)

    def stages(self) -> dict[str, float]:
        """Return the seconds that each stage needs for the stream, if nothing else held it up.

        Pane by pane the busiest of a stage counts. In micro-batches combiners and reducers take turns
        and are one stage, ``process``.
        """
        panes = self.panes
        combine, merge = panes.combine_s.sum(), panes.merge_s.sum()
        if self._facts["model"] == "batches":
            return {"route": float(panes.route_s.sum()), "process": float(combine + merge)}
        return {
            "route": float(panes.route_s.sum()),
            "combine": float(combine),
            "merge": float(merge),
        }

    def summary(self) -> Summary:
        """Return the figures that sum the simulation up."""
        panes, windows = self.panes, self.windows
        n = int(panes.loads.sum())
        stages = self.stages()
        slowest = max(stages, key=lambda name: stages[name])
        seen = windows.full if windows.full.any() else windows.tuples > 0
        late = windows.latency_s[~np.isnan(windows.latency_s)]
        planned = panes.migration[~np.isnan(panes.migration)]
        merged = int(panes.merged.sum())
        makespan = float(panes.out_s[-1]) if len(panes.out_s) else 0.0
        states = int(panes.fragments.max(initial=0))
        return Summary(
            **self._facts,
            tuples=n,
            windows=int(seen.sum()),
            throughput=_per_s(n, stages[slowest]),
            bottleneck=slowest,
            measured=_per_s(n, makespan),
            latency_mean_s=_mean(late),
            latency_p50_s=float(np.percentile(late, 50)) if len(late) else np.nan,
            latency_p99_s=float(np.percentile(late, 99)) if len(late) else np.nan,
            lag_s=float(panes.lag_s.max(initial=0.0)),
            max_over_mean=_mean(windows.max_over_mean[seen]),
            worst_max_over_mean=float(windows.max_over_mean[seen].max(initial=1.0)),
            imbalance=_mean(windows.imbalance[seen]),
            fragments=_mean(windows.fragments[seen]),
            fragments_per_key=_mean(windows.fragments[seen] / np.maximum(windows.keys[seen], 1)),
            merged=_mean(windows.merged[seen]),
            migration=_mean(planned),
            shipped_bytes=n * self._row_bytes + merged * self._state_bytes,
            states=states,
            states_bytes=states * self._state_bytes,
            policy_bytes=self._policy_bytes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return summary, panes and windows as numbers and lists, ready for JSON; NaN becomes None."""
        return {
            "summary": {name: _plain(value) for name, value in self.summary()._asdict().items()},
            "panes": {name: _plain(value) for name, value in self.panes._asdict().items()},
            "windows": {name: _plain(value) for name, value in self.windows._asdict().items()},
            "tuples_per_worker": self.tuples_per_worker.tolist(),
        }

    def __repr__(self) -> str:
        one = self.summary()
        return (
            f"Simulation({one.policy}: {one.tuples} tuples, {one.workers} workers, max/mean "
            f"{one.max_over_mean:.3f}, {one.throughput:.0f} tuples/s, bound by {one.bottleneck})"
        )


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _per_s(n: int, seconds: float) -> float:
    return n / seconds if seconds > 0 else float("inf") if n else 0.0


def _plain(value: Any) -> Any:
    """Return what JSON can hold: lists, and None for what is not finite."""
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
