"""The demo's Python aggregator: for every word, the words that follow it most."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.spark import Aggregator

__all__ = ["FollowedBy"]


class FollowedBy(Aggregator):
    """Count the words that follow each word; finish with the most frequent ones.

    Parameters
    ----------
    cost_us
        Emulated service time per row, microseconds: slept, as a look-up in a remote store would be
        waited for, so that many tasks can wait at once on few cores.
    n_top
        Followers to report.
    notes
        Folder where every call notes its task, rows, states and seconds.
    """

    inputs: ClassVar[Sequence[str]] = ("next_word",)
    state: ClassVar[str] = "spoken_n bigint, followers array<struct<word: string, n: bigint>>"
    result: ClassVar[str] = "times bigint, most array<struct<word: string, n: bigint>>"
    merges: ClassVar[Mapping[str, str]] = {"spoken_n": "sum", "followers": "concat"}

    def __init__(self, cost_us: float, n_top: int, notes: str) -> None:
        self.cost_us, self.n_top, self.notes = cost_us, n_top, notes

    def create(self) -> dict[str, Any]:
        """Return the state of a word that was never spoken."""
        return {"spoken_n": 0, "followers": []}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Count the followers in `rows`."""
        counts = {f["word"]: f["n"] for f in state["followers"]}
        for word in rows["next_word"].to_pylist():
            if word is not None:
                counts[word] = counts.get(word, 0) + 1
        followers = [{"word": w, "n": n} for w, n in sorted(counts.items())]
        return {"spoken_n": state["spoken_n"] + rows.num_rows, "followers": followers}

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Add up the followers of all fragments and keep the most frequent."""
        counts: dict[str, int] = {}
        for follower in state["followers"]:
            counts[follower["word"]] = counts.get(follower["word"], 0) + follower["n"]
        order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: self.n_top]
        return {"times": state["spoken_n"], "most": [{"word": w, "n": n} for w, n in order]}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Count the followers of all words at once, and wait for the emulated service."""
        started = time.perf_counter()
        codes = rows["next_word"].combine_chunks().dictionary_encode()
        group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        known = codes.indices.is_valid().to_numpy(zero_copy_only=False)
        follower = pc.fill_null(codes.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        n_codes = max(1, len(codes.dictionary))
        pairs, counts = np.unique(group[known] * n_codes + follower[known], return_counts=True)
        entries = pa.StructArray.from_arrays(
            [codes.dictionary.take(pa.array(pairs % n_codes)), pa.array(counts, pa.int64())],
            ["word", "n"],
        )
        offsets = np.searchsorted(pairs, np.arange(len(starts)) * n_codes).astype(np.int32)
        followers = pa.ListArray.from_arrays(pa.array(offsets), entries)
        states = pa.table(
            [pa.array(np.diff(starts)), followers.cast(self.state_schema.field(1).type)],
            schema=self.state_schema,
        )
        time.sleep(rows.num_rows * self.cost_us / 1e6)
        self._note(rows.num_rows, len(starts) - 1, time.perf_counter() - started)
        return states

    def _note(self, rows: int, states: int, seconds: float) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return
        note = {
            "batch": int(context.getLocalProperty("streaming.sql.batchId") or 0),
            "task": context.partitionId(),
            "rows": rows,
            "states": states,
            "seconds": seconds,
        }
        Path(self.notes, f"{uuid.uuid4()}.json").write_text(json.dumps(note), encoding="utf-8")
