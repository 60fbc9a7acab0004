"""A keyed state over micro-batches in plain Python: one dict, one key after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Update = Callable[[Any, list[Row], dict[str, Any] | None], tuple[dict[str, Any] | None, list[Row]]]


def run(
    batches: Iterable[Sequence[Row]],
    update: Update,
    *,
    delay: int | None = None,
    timeout: int | None = None,
    timer: str | None = None,
) -> tuple[dict[Any, dict[str, Any]], list[list[Row]], list[int]]:
    """Return the last states, the output rows of each batch, and the late rows of each batch.

    Rows are dicts with the key ``k`` and the event time ``ts``, an int of microseconds. A row at the
    watermark or before is late. A key whose timer is at the watermark or before, and that has no row in
    the batch, is called without rows.
    """
    states: dict[Any, dict[str, Any]] = {}
    timers: dict[Any, int] = {}
    outputs: list[list[Row]] = []
    lates: list[int] = []
    watermark: int | None = None
    for batch in batches:
        in_time = [row for row in batch if watermark is None or row["ts"] > watermark]
        lates.append(len(batch) - len(in_time))
        groups: dict[Any, list[Row]] = {}
        for row in in_time:
            groups.setdefault(row["k"], []).append(row)
        due = [
            key
            for key, at in timers.items()
            if watermark is not None and at <= watermark and key not in groups
        ]
        out: list[Row] = []
        for key, rows in [*groups.items(), *((key, []) for key in due)]:
            state, made = update(key, rows, states.get(key))
            out += made
            held = timers.pop(key, None) if rows else (timers.pop(key, None), None)[1]
            states.pop(key, None)
            if state is None:
                continue
            states[key] = state
            if timer is not None:
                if state[timer] is not None:
                    timers[key] = state[timer]
            elif timeout is not None:
                fresh = [row["ts"] + timeout for row in rows] + ([] if held is None else [held])
                if fresh:
                    timers[key] = max(fresh)
        outputs.append(out)
        if delay is not None and in_time:
            reached = max(row["ts"] for row in in_time) - delay
            watermark = reached if watermark is None else max(watermark, reached)
    return states, outputs, lates
