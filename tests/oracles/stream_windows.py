"""Windows and sessions of a stream, batch by batch, as Spark's watermark has it: plain Python.

A batch runs under the watermark that the batches before it left; rows are late by the watermark of the
batch before that, which is what was already emitted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

Row = tuple[int | None, Hashable, object]
"""Time in microseconds, key, value."""


class Clock(NamedTuple):
    """The watermarks of a batch, microseconds."""

    late: int
    """What ends here or before is late."""
    now: int
    """What ends here or before is complete."""


def clocks(batches: list[list[Row]], delay_us: int) -> Iterator[tuple[list[Row], Clock]]:
    """Yield each batch with its watermarks, and the empty batch that Spark runs at the end."""
    late = now = 0
    for rows in [*batches, []]:
        yield [row for row in rows if row[0] is not None], Clock(late, now)
        late = now
        for time, _, _ in rows:
            if time is not None:
                now = max(now, (time - delay_us) // 1000 * 1000)


def ends(time: int, size: int, slide: int) -> list[int]:
    """Return the ends of the windows that hold a time."""
    last = time // slide * slide + size
    return [end for end in range(last, time, -slide) if end - size <= time]


Windows = dict[tuple[int, Hashable], list[object]]


def windows(
    batches: list[list[Row]], size: int, slide: int, delay_us: int, pane: int | None = None
) -> Iterator[tuple[Windows, Windows]]:
    """Yield per batch the windows (end, key) that it completes and those that it changes: their values.

    With `pane`, a row is late when its pane is, not when its window is.
    """
    held: Windows = {}
    for rows, clock in clocks(batches, delay_us):
        changed = set()
        for time, key, value in rows:
            assert time is not None
            if pane is not None and time // pane * pane + pane <= clock.late:
                continue
            for end in ends(time, size, slide):
                if end > clock.late:
                    held.setdefault((end, key), []).append(value)
                    changed.add((end, key))
        updated = {at: list(held[at]) for at in changed}
        complete = {at: held.pop(at) for at in list(held) if at[0] <= clock.now}
        yield complete, updated


def sessions(
    batches: list[list[Row]], gap: int, delay_us: int
) -> dict[tuple[int, int, Hashable], list[object]]:
    """Return the sessions (start, end, key) that were emitted, and their values."""
    held: list[tuple[int, int, Hashable, list[object]]] = []
    done: dict[tuple[int, int, Hashable], list[object]] = {}
    for rows, clock in clocks(batches, delay_us):
        fresh = [(t, t + gap, k, [v]) for t, k, v in rows if t is not None and t + gap > clock.late]
        held = joined([*held, *fresh])
        done.update({(s, e, k): values for s, e, k, values in held if e <= clock.now})
        held = [each for each in held if each[1] > clock.now]
    return done


def joined(
    runs: list[tuple[int, int, Hashable, list[object]]],
) -> list[tuple[int, int, Hashable, list[object]]]:
    """Join what touches."""
    found: list[tuple[int, int, Hashable, list[object]]] = []
    for start, end, key, values in sorted(runs, key=lambda run: (repr(run[2]), run[0], run[1])):
        if found and found[-1][2] == key and start <= found[-1][1]:
            before = found.pop()
            found.append((before[0], max(end, before[1]), key, before[3] + values))
        else:
            found.append((start, end, key, list(values)))
    return found
