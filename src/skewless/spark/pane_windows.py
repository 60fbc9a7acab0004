"""The windows of one key over panes that keep growing: which are complete, which changed, what is kept.

Batches bring partial results of panes, late ones too. A pane is held as long as a window needs it that
was not emitted yet. Where a pane can be subtracted, the window that slides is a total: panes are added
when it reaches them and subtracted when they leave (inverse reduce); else it is merged from its panes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from skewless.spark.pane_states import PaneStates, State, Total

__all__ = ["Clock", "Held", "PaneWindows", "Spans"]


class Spans(NamedTuple):
    """The shape of windows, microseconds; they start at multiples of the slide."""

    size: int
    slide: int
    pane: int
    """The longest time that fills size and slide."""

    def at_or_after(self, time: int) -> int:
        """Return the first end of a window that is not before `time`.

        Examples
        --------
        >>> Spans(10, 4, 2).at_or_after(11), Spans(10, 4, 2).at_or_after(14)
        (14, 14)
        """
        return time + (self.size - time) % self.slide

    def needed_after(self, watermark: int) -> int:
        """Return the time such that a window that ends behind the watermark needs panes ending later.

        Examples
        --------
        >>> Spans(10, 4, 2).needed_after(10)
        4
        """
        return self.at_or_after(watermark + 1) - self.size


class Clock(NamedTuple):
    """The watermarks of a batch, microseconds."""

    late: int
    """Windows that end here or before were emitted by an earlier batch."""
    now: int
    """Windows that end here or before are complete."""


class Held(NamedTuple):
    """What is kept of one key between two batches."""

    panes: tuple[tuple[int, State], ...] = ()
    """End and state of each pane, ascending."""
    upto: int = 0
    """End of the last pane that is in the total."""
    total: Total | None = None
    """All held panes that end by `upto`, put together; ``None`` if there is none, or no inverse."""


class PaneWindows:
    """The windows of a key.

    Parameters
    ----------
    states
        How the states of panes are put together.
    spans
        Size, slide and pane of the windows.

    Notes
    -----
    A row counts in a window if the window was not emitted before its batch: plain Spark's rule, window
    by window. Cost per window that is emitted: with an inverse one addition and one subtraction for
    each pane that enters or leaves; else one merge for each pane in it.

    Examples
    --------
    >>> from skewless.spark.running_totals import PaneSums
    >>> from pyspark.sql.types import LongType
    >>> sums = PaneStates(PaneSums([("n", LongType())]), ["n"], {"n": "int"})
    >>> windows = PaneWindows(sums, Spans(20, 10, 10))
    >>> done, held = windows.complete(Held(), [(10, (1,)), (20, (2,)), (20, (5,))], Clock(0, 20))
    >>> done, held.panes
    ([(10, (1,)), (20, (8,))], ((20, (7,)),))
    """

    def __init__(self, states: PaneStates, spans: Spans) -> None:
        self.states, self.spans = states, spans

    def complete(
        self, held: Held, fresh: Iterable[tuple[int, State]], clock: Clock
    ) -> tuple[list[tuple[int, State]], Held]:
        """Take a batch's panes; return the windows that are complete now, by end, and what is kept."""
        key = _Key(self, held)
        key.add(fresh)
        found = []
        end = key.next_end(clock.late)
        while end is not None and end <= clock.now:
            found.append((end, key.slide(end)))
            end = key.next_end(end)
        return found, key.evict(clock.now)

    def changed(
        self, held: Held, fresh: Sequence[tuple[int, State]], clock: Clock
    ) -> tuple[list[tuple[int, State]], Held]:
        """Take a batch's panes; return each window that they change, as it is now, and what is kept."""
        key = _Key(self, held)
        key.add(fresh)
        size, slide = self.spans.size, self.spans.slide
        ends = {
            end
            for pane, _ in fresh
            for end in range(self.spans.at_or_after(pane), pane + size, slide)
            if end > clock.late
        }
        return [(end, key.value(end)) for end in sorted(ends)], key.evict(clock.now)

    def due(self, held: Held, clock: Clock) -> int | None:
        """Return the end of the next window that will be complete; ``None`` if no pane is kept."""
        if not held.panes:
            return None
        return self.spans.at_or_after(max(held.panes[0][0], clock.now + 1))


class _Key:
    """The panes of a key while a batch is taken in."""

    def __init__(self, windows: PaneWindows, held: Held) -> None:
        self.states, self.spans = windows.states, windows.spans
        self.panes = dict(held.panes)
        self.ends = list(self.panes)
        """Ends of the panes, ascending."""
        self.total, self.upto = held.total, held.upto

    def add(self, fresh: Iterable[tuple[int, State]]) -> None:
        for end, added in fresh:
            before = self.panes.get(end)
            after = added if before is None else self.states.merged((before, added))
            self.panes[end] = after
            if end <= self.upto and self.states.invertible:
                if self.total is None:
                    self.total = self.states.plus(None, after)
                else:
                    self.total = self.states.grown(self.total, before, added, after)
        self.ends = sorted(self.panes)

    def next_end(self, after: int) -> int | None:
        """Return the first end behind `after` of a window that holds a pane."""
        first = self.spans.at_or_after(after + 1)
        ahead = next((end for end in self.ends if end > first - self.spans.size), None)
        return None if ahead is None else max(first, self.spans.at_or_after(ahead))

    def slide(self, end: int) -> State:
        """Move on to the window with this end, for good, and return its state."""
        self._drop(end - self.spans.size)
        if not self.states.invertible:
            return self.value(end)
        for pane in self.ends:
            if self.upto < pane <= end:
                self.total = self.states.plus(self.total, self.panes[pane])
        self.upto = max(self.upto, end)
        assert self.total is not None  # noqa: S101 - `next_end` names windows with a pane
        return self.states.write(self.total)

    def value(self, end: int) -> State:
        """Return the state of the window with this end, from its panes."""
        inside = [pane for pane in self.ends if end - self.spans.size < pane <= end]
        return self.states.merged([self.panes[pane] for pane in inside])

    def evict(self, now: int) -> Held:
        """Drop the panes that only windows up to the watermark hold; return what is kept."""
        self._drop(self.spans.needed_after(now))
        return Held(tuple((end, self.panes[end]) for end in self.ends), self.upto, self.total)

    def _drop(self, upto: int) -> None:
        kept = [end for end in self.ends if end > upto]
        stays = bool(kept) and kept[0] <= self.upto
        for end in self.ends[: len(self.ends) - len(kept)]:
            state = self.panes.pop(end)
            if self.total is not None and end <= self.upto and stays:
                self.total = self.states.minus(self.total, state)
        if not stays:
            self.total = None
        self.ends = kept
