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


class Times(NamedTuple):
    end: list[float]
    done: list[float]
    out: list[float]
    lag: list[float]


def tuple_at_a_time(
    tuples: Sequence[Tuple],
    pane_end: Sequence[float | None],
    pane_merge: Sequence[Sequence[float]],
    *,
    partitioners: int,
    workers: int,
    queue: int,
    in_flight: int,
    route: float,
    work: float,
    factor: Callable[[int, float], float] = lambda _worker, _now: 1.0,
) -> Times:
    """Return when each pane ended, was through the combiners, and was out; and its longest lag.

    A pane whose end is None ends when its last tuple is taken (a saturated source).
    """
    panes = len(pane_end)
    source: list[list[Tuple]] = [[t for t in tuples if t.owner == p] for p in range(partitioners)]
    inbox: list[list[Tuple]] = [[] for _ in range(partitioners)]
    busy: list[float | None] = [None] * partitioners
    ready: list[float | None] = [None] * partitioners
    asked: list[tuple[float, int]] = []
    at_combiner: list[list[Tuple]] = [[] for _ in range(workers)]
    serving: list[float | None] = [None] * workers
    jobs: list[list[tuple[int, float]]] = [[] for _ in pane_merge[0]]
    merging: list[float | None] = [None] * len(jobs)
    not_combined = [sum(1 for t in tuples if t.pane == p) for p in range(panes)]
    not_taken = list(not_combined)
    end = [INFINITE if e is None else e for e in pane_end]
    done, out, lag = [INFINITE] * panes, [INFINITE] * panes, [0.0] * panes
    open_jobs = [0] * panes
    handed = 0

    def step(now: float) -> bool:
        nonlocal handed
        changed = False
        for w in range(workers):
            if serving[w] is not None and serving[w] <= now:
                serving[w] = None
                pane = at_combiner[w].pop(0).pane
                not_combined[pane] -= 1
                changed = True
        for r, until in enumerate(merging):
            if until is not None and until <= now:
                merging[r] = None
                open_jobs[jobs[r].pop(0)[0]] -= 1
                changed = True
        while handed < panes and not_combined[handed] == 0 and end[handed] <= now:
            done[handed] = now
            for r, amount in enumerate(pane_merge[handed]):
                if amount > 0:
                    jobs[r].append((handed, amount))
                    open_jobs[handed] += 1
            handed += 1
            changed = True
        for r, waiting in enumerate(jobs):
            if merging[r] is None and waiting:
                merging[r] = now + waiting[0][1]
                changed = True
        for pane in range(handed):
            if out[pane] == INFINITE and open_jobs[pane] == 0:
                if pane and out[pane - 1] == INFINITE:
                    break
                out[pane] = now
                changed = True
        if changed:
            return True
        # Who is through with routing asks for room, in the order of asking.
        for p in range(partitioners):
            if busy[p] is not None and busy[p] <= now and ready[p] is None:
                before = inbox[p][0].pane - in_flight
                if before < 0 or out[before] <= now:
                    ready[p] = now
                    asked.append((now, p))
                    changed = True
        asked.sort()
        for when, p in list(asked):
            head = inbox[p][0]
            ahead = [a for a in asked if a < (when, p) and inbox[a[1]][0].worker == head.worker]
            if not ahead and len(at_combiner[head.worker]) < queue:
                at_combiner[head.worker].append(head)
                inbox[p].pop(0)
                asked.remove((when, p))
                busy[p] = ready[p] = None
                changed = True
                break
        for w in range(workers):
            if serving[w] is None and at_combiner[w]:
                serving[w] = now + work * factor(w, now)
                changed = True
        for p in range(partitioners):
            while source[p] and source[p][0].due <= now and len(inbox[p]) < queue:
                taken = source[p].pop(0)
                inbox[p].append(taken)
                not_taken[taken.pane] -= 1
                if pane_end[taken.pane] is None:
                    if not_taken[taken.pane] == 0:
                        end[taken.pane] = now
                else:
                    lag[taken.pane] = max(lag[taken.pane], now - taken.due)
                changed = True
            if busy[p] is None and inbox[p]:
                busy[p] = now + route
                changed = True
        return changed

    now = min(t.due for t in tuples)
    while True:
        while step(now):
            pass
        later = [
            *(moment for moment in (*busy, *serving, *merging, *end) if moment is not None),
            *(waiting[0].due for waiting in source if waiting),
        ]
        later = [moment for moment in later if now < moment < INFINITE]
        if not later:
            break
        now = min(later)
    assert not any((*source, *inbox, *at_combiner, *jobs)), "a tuple was lost"
    return Times(end, done, out, lag)


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
