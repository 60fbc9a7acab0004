"""The simulator event by event: queues that are lists, and a clock that goes to the next event.

Nothing here looks ahead. At each moment, in this order: combiners and reducers finish, results go out,
partitioners finish, hand over (ties to the lower one) and begin, sources fill what room there is; and
again, until nothing changes at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.oracles.hashing import mix, spread

INFINITE = float("inf")


class Tuple(NamedTuple):
    due: float
    pane: int
    worker: int
    owner: int


class Setting(NamedTuple):
    partitioners: int
    workers: int
    queue: int
    in_flight: int
    route: float
    work: float
    factor: Callable[[int, float], float] = lambda _worker, _now: 1.0


class Plant:
    """Sources, partitioners, combiners and reducers at one moment."""

    def __init__(
        self,
        tuples: Sequence[Tuple],
        pane_end: Sequence[float | None],
        pane_merge: Sequence[Sequence[float]],
        setting: Setting,
    ) -> None:
        self.set, self.pane_end, self.pane_merge = setting, pane_end, pane_merge
        partitioners, panes, reducers = setting.partitioners, len(pane_end), len(pane_merge[0])
        self.source = [[t for t in tuples if t.owner == p] for p in range(partitioners)]
        self.inbox: list[list[Tuple]] = [[] for _ in range(partitioners)]
        self.routing: list[float] = [INFINITE] * partitioners
        self.asked: list[tuple[float, int]] = []
        self.at_combiner: list[list[Tuple]] = [[] for _ in range(setting.workers)]
        self.serving = [INFINITE] * setting.workers
        self.jobs: list[list[int]] = [[] for _ in range(reducers)]
        self.merging = [INFINITE] * reducers
        self.not_combined = [sum(t.pane == p for t in tuples) for p in range(panes)]
        self.not_taken = list(self.not_combined)
        self.end = [INFINITE if e is None else e for e in pane_end]
        self.done, self.out = [INFINITE] * panes, [INFINITE] * panes
        self.lag = [0.0] * panes
        self.now = min(t.due for t in tuples)

    def run(self) -> None:
        while True:
            while self.finish_work() or self.let_out() or self.hand_over() or self.begin_work():
                pass
            events = [*self.routing, *self.serving, *self.merging, *self.end]
            events += [waiting[0].due for waiting in self.source if waiting]
            later = [moment for moment in events if self.now < moment < INFINITE]
            if not later:
                break
            self.now = min(later)
        left = (*self.source, *self.inbox, *self.at_combiner, *self.jobs)
        assert not any(left), "a tuple was lost"

    def finish_work(self) -> bool:
        """Combiners and reducers are through with what they had in hand."""
        changed = False
        for w, until in enumerate(self.serving):
            if until <= self.now:
                self.serving[w] = INFINITE
                self.not_combined[self.at_combiner[w].pop(0).pane] -= 1
                changed = True
        for r, until in enumerate(self.merging):
            if until <= self.now:
                self.merging[r] = INFINITE
                self.jobs[r].pop(0)
                changed = True
        return changed

    def let_out(self) -> bool:
        """Panes go to the reducers, and out, in their order."""
        for pane in range(len(self.end)):
            if self.done[pane] == INFINITE:
                if self.not_combined[pane] > 0 or self.end[pane] > self.now:
                    return False
                self.done[pane] = self.now
                for r, amount in enumerate(self.pane_merge[pane]):
                    if amount > 0:
                        self.jobs[r].append(pane)
                return True
            if self.out[pane] == INFINITE and not any(pane in waiting for waiting in self.jobs):
                if pane and self.out[pane - 1] == INFINITE:
                    continue
                self.out[pane] = self.now
                return True
        return False

    def hand_over(self) -> bool:
        """Who is through with routing asks for room; the first to ask is the first to get it."""
        for p, until in enumerate(self.routing):
            if until <= self.now and all(p != asking for _, asking in self.asked):
                before = self.inbox[p][0].pane - self.set.in_flight
                if before < 0 or self.out[before] <= self.now:
                    self.asked.append((self.now, p))
        self.asked.sort()
        full = {w for w, inside in enumerate(self.at_combiner) if len(inside) >= self.set.queue}
        for asking in self.asked:
            head = self.inbox[asking[1]][0]
            if head.worker not in full:
                self.at_combiner[head.worker].append(self.inbox[asking[1]].pop(0))
                self.asked.remove(asking)
                self.routing[asking[1]] = INFINITE
                return True
        return False

    def begin_work(self) -> bool:
        """Whoever is idle begins what waits; sources fill the room that there is."""
        changed = False
        for r, waiting in enumerate(self.jobs):
            if self.merging[r] == INFINITE and waiting:
                self.merging[r] = self.now + self.pane_merge[waiting[0]][r]
                changed = True
        for w, inside in enumerate(self.at_combiner):
            if self.serving[w] == INFINITE and inside:
                self.serving[w] = self.now + self.set.work * self.set.factor(w, self.now)
                changed = True
        for p in range(self.set.partitioners):
            while self.source[p] and self.source[p][0].due <= self.now:
                if len(self.inbox[p]) == self.set.queue:
                    break
                self.take(self.source[p].pop(0))
                changed = True
            if self.routing[p] == INFINITE and self.inbox[p]:
                self.routing[p] = self.now + self.set.route
                changed = True
        return changed

    def take(self, taken: Tuple) -> None:
        self.inbox[taken.owner].append(taken)
        self.not_taken[taken.pane] -= 1
        if self.pane_end[taken.pane] is not None:
            self.lag[taken.pane] = max(self.lag[taken.pane], self.now - taken.due)
        elif self.not_taken[taken.pane] == 0:
            self.end[taken.pane] = self.now


def tuple_at_a_time(
    tuples: Sequence[Tuple],
    pane_end: Sequence[float | None],
    pane_merge: Sequence[Sequence[float]],
    **setting: Any,
) -> Plant:
    """Return when each pane ended, was through the combiners, and was out; and its longest lag.

    A pane whose end is None ends when its last tuple is taken (a saturated source).
    """
    plant = Plant(tuples, pane_end, pane_merge, Setting(**setting))
    plant.run()
    return plant


class Counted(NamedTuple):
    loads: list[int]
    keys: int
    split_keys: int
    fragments: int
    merged: list[int]


def count(
    pairs: Sequence[tuple[int, int]], workers: int, reducers: int, forwarding: bool, seed: int
) -> Counted:
    """Count the (key, worker) of the tuples of a pane or window."""
    loads = [0] * workers
    at: dict[int, set[int]] = {}
    for key, worker in pairs:
        loads[worker] += 1
        at.setdefault(key, set()).add(worker)
    merged = [0] * reducers
    for key, where in at.items():
        if len(where) > 1 or not forwarding:
            merged[spread(mix(key, seed), reducers)] += len(where)
    return Counted(
        loads,
        len(at),
        sum(len(where) > 1 for where in at.values()),
        sum(len(where) for where in at.values()),
        merged,
    )


def windows_of(stream: Sequence[tuple[int, Any]], window: int, slide: int) -> dict[int, list[Any]]:
    """Return what lies in ``[end - window, end)``, for each multiple of `slide` that holds anything."""
    found: dict[int, list[Any]] = {}
    for time, thing in stream:
        end = (time // slide + 1) * slide
        while end - window <= time < end:
            found.setdefault(end, []).append(thing)
            end += slide
    return found


def batch_at_a_time(
    batches: Sequence[Sequence[Tuple]],
    batch_end: Sequence[float],
    batch_merge: Sequence[Sequence[float]],
    *,
    partitioners: int,
    workers: int,
    in_flight: int,
    route: float,
    work: float,
) -> list[float]:
    """Return when each batch was out: collected and routed, then mapped, then reduced."""
    out: list[float] = []
    free = [0.0] * partitioners
    for number, batch in enumerate(batches):
        gate = out[number - in_flight] if number >= in_flight else 0.0
        begin = max([batch_end[number], *out[-1:]])
        loads = [0] * workers
        for one in batch:
            free[one.owner] = max(free[one.owner], one.due, gate) + route
            begin = max(begin, free[one.owner])
            loads[one.worker] += 1
        out.append(begin + max(loads) * work + max(batch_merge[number]))
    return out
