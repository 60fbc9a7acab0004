"""``simulate``: sources, partitioners, combiners and reducers, from the first tuple to the last result.

The roles, windows and key forwarding are those of E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton:
Learned Partitioning for Distributed Data Streams, PVLDB 16(3), 2022, sections 2, 3 and 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.costs import Costs
from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, Seed, check
from skewless.policy import Policy
from skewless.simulator.batches import BatchQueues
from skewless.simulator.counting import PaneCounts
from skewless.simulator.ledger import Ledger
from skewless.simulator.queues import TupleQueues
from skewless.simulator.result import Simulation
from skewless.simulator.routers import Router
from skewless.simulator.sources import CLOCKS, Block, as_sources, interleaved
from skewless.simulator.stragglers import Straggler, spans_of

__all__ = ["simulate"]


def simulate(
    sources: Any,
    policy: Policy | Sequence[Policy],
    *,
    window: Count = 100_000,
    slide: Count | None = None,
    batch: Count | None = None,
    clock: str = "count",
    partitioners: Count = 1,
    local: bool = False,
    reducers: Count = 1,
    forwarding: bool | None = None,
    costs: Costs = Costs(),  # noqa: B008 # a value that is never changed
    stragglers: Sequence[Straggler] = (),
    queue: Count = 1_000,
    in_flight: Count = 2,
    row_bytes: Count = 100,
    state_bytes: Count = 100,
    keep_workers: bool = False,
    seed: Seed = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Run a policy on a stream, and return what every worker did and when.

    Parameters
    ----------
    sources : Source, list of Source, or what `Source` takes
        The stream. Bare keys are one saturated source.
    policy : Policy, or one for each partitioner
        Partitioner or planner; its workers are the combiners. It is copied, and not changed.
    window : int of at least 1
        Length of a window, in units of `clock`.
    slide : int of at least 1, optional
        Step of the window, which is a multiple of it; left out, windows tumble.
    batch : int of at least 1, optional
        Interval of a micro-batch, of which `slide` is a multiple; left out, tuples flow one at a time.
    clock : "count", "arrival" or "data"
        What time is, for windows and policies: the number of the tuple; the milliseconds at which it is
        due; or the time of the chunks.
    partitioners : int of at least 1
        How many route in parallel. As many as sources: each has a source of its own, unless the policy
        deals tuples itself (`CooperativeDalton`). Else they take tuples in turn.
    local : bool
        Whether each has a policy of its own, which sees the tuples that it routes and no others.
    reducers : int of at least 1
        How many merge; a key's hash says which.
    forwarding : bool, optional
        Whether the result of a key that is on one combiner throughout a pane goes straight out. Left
        out: in the tuple-at-a-time model it does, in micro-batches it does not.
    costs : Costs
        Microseconds: a partitioner takes ``route_us`` a tuple, a combiner ``ship_us + update_us`` a
        tuple, a reducer ``merge_us`` a fragment.
    stragglers : sequence of Straggler
        Combiners that are slow for a while.
    queue : int of at least 1
        Tuples that fit into the queue of a partitioner or combiner, the one in service included; 8
        bytes a place. Batches have no such queues.
    in_flight : int of at least 1
        Panes that may be under way: a pane's tuples wait until the results of the one so many before
        are out.
    row_bytes, state_bytes : int of at least 1
        Size of a row and of a key's state.
    keep_workers : bool
        Whether the combiner of each tuple is kept, 4 bytes a tuple.
    seed : int in [0, 9223372036854775807]
        Seed of the hash that gives a key its reducer.
    progress
        Called with the number of tuples of each piece that is done.

    Returns
    -------
    Simulation
        By pane and by window, with ``.summary()`` and ``.to_dict()``.

    Raises
    ------
    ParameterError
        A parameter is out of its range, or does not go with another.
    DataError
        The stream is empty or its times run backwards.

    Notes
    -----
    A pane is a micro-batch or, without them, a slide. Combiners keep a state for each of their keys and
    hand it over when the pane ends; the reducers merge what is split within the pane. Panes are added
    up to windows at no cost. Forwarding goes by what happened: a key that was whole in its pane is
    forwarded, whether or not the policy could know (`Dalton.forwards` is what it knows).

    A window's latency runs from its end at the sources (its last tuple was due, or by the clock
    ``"arrival"`` its time was over; of a saturated source: its last tuple was taken) until all results
    of its last pane are out. Throughput is that of the slowest stage, pane by pane the busiest worker
    of each stage; with saturated sources ``measured`` is what the queues let through.

    A planner is driven window by window (`Replanned`, ``every=slide``); in micro-batches it sees each
    batch before it is routed. Speed: the policy's own, and 100 to 150 ns a tuple.

    Examples
    --------
    A key that is half of the stream, on four workers:

    >>> from skewless.partitioners import PKG, Hash
    >>> keys = np.where(np.arange(40_000) % 2 == 0, 7, np.arange(40_000))
    >>> for policy in (Hash(4), PKG(4)):
    ...     found = simulate(keys, policy, window=10_000, costs=Costs(0.0, 0.0, 1.0, 5.0)).summary()
    ...     print(found.policy, round(found.max_over_mean, 2), round(found.throughput))
    hash 2.49 1605716
    pkg 1.17 3426124

    References
    ----------
    Dalton, PVLDB 16(3), 2022, section 2 (roles, Eq. 2) and 4.2 (key forwarding),
    doi:10.14778/3570690.3570699. Prompt, SIGMOD 2020, Eq. 1 (micro-batches), doi:10.1145/3318464.3389713.
    """
    check(
        "simulate", simulate, **{name: value for name, value in locals().items() if name != "costs"}
    )
    slide = window if slide is None else slide
    pane = slide if batch is None else batch
    _check_lengths(window, slide, pane)
    _check_costs(costs)
    costs = Costs(*map(float, costs))
    if clock not in CLOCKS:
        raise ParameterError(f"simulate: clock must be one of {', '.join(CLOCKS)}, got {clock!r}.")
    found = as_sources(sources)
    saturated = found[0].rate is None
    if clock == "arrival" and saturated:
        raise ParameterError(
            "simulate: clock='arrival' needs sources with a rate; a saturated source gives its tuples "
            "whenever the system takes them."
        )
    router = Router(policy, partitioners, local=local, every=slide, batches=batch is not None)
    n = router.n_workers
    spans = spans_of(stragglers, n)
    work_us = costs.ship_us + costs.update_us
    queues: TupleQueues | BatchQueues
    if batch is None:
        queues = TupleQueues(
            n,
            reducers,
            partitioners,
            queue=queue,
            in_flight=in_flight,
            route_us=costs.route_us,
            work_us=work_us,
            spans=spans,
            saturated=saturated,
        )
    else:
        queues = BatchQueues(
            reducers,
            partitioners,
            in_flight=in_flight,
            route_us=costs.route_us,
            work_us=work_us,
            spans=spans,
            saturated=saturated,
        )
    forwards = batch is None if forwarding is None else forwarding
    counts = PaneCounts(n, reducers, partitioners, window // pane, forwarding=forwards, seed=seed)
    ledger = Ledger(window // pane, slide // pane)
    run = _Run(counts, ledger, queues, pane, costs.merge_us, by_arrival=clock == "arrival")
    blocks = interleaved(found, partitioners, clock=clock, in_turn=router.in_turn)
    kept: list[NDArray[np.int32]] = []
    held = 0
    for block in blocks if batch is None else _whole_panes(blocks, pane):
        workers, moves = router.route(block)
        ordinals = run.count(block, workers)
        for move in moves:
            ledger.note_move(int(ordinals[move.row]), move.moved, move.total)
        queues.feed(block.due_us, workers, ordinals, block.owner)
        held = max(held, router.state_bytes)
        if keep_workers:
            kept.append(workers)
        progress(len(workers))
    run.finish()
    panes = ledger.panes(queues.times, costs, stragglers)
    return Simulation(
        panes,
        ledger.windows(panes, batches=batch is not None, size=window if clock == "count" else None),
        facts={
            "policy": router.name,
            "model": "tuples" if batch is None else "batches",
            "workers": n,
            "reducers": reducers,
            "partitioners": partitioners,
        },
        row_bytes=row_bytes,
        state_bytes=state_bytes,
        policy_bytes=held,
        workers=np.concatenate(kept) if kept else None,
    )


class _Run:
    """Cut the stream into panes; each is counted, recorded, and handed to the queues."""

    def __init__(
        self,
        counts: PaneCounts,
        ledger: Ledger,
        queues: TupleQueues | BatchQueues,
        pane: int,
        merge_us: float,
        *,
        by_arrival: bool,
    ) -> None:
        self.counts, self.ledger, self.queues = counts, ledger, queues
        self.pane, self.merge_us, self.by_arrival = pane, merge_us, by_arrival
        self.number: int | None = None
        self.last_due_us = 0.0

    def count(self, block: Block, workers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count the tuples of a block; return the pane of each, numbered from 0 without gaps."""
        numbers = block.time // self.pane
        cuts = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
        ordinals = np.empty(len(workers), np.int64)
        for start, stop in zip([0, *cuts], [*cuts, len(workers)], strict=True):
            if self.number != numbers[start]:
                self._turn_to(int(numbers[start]))
            part = slice(start, stop)
            self.counts.update(block.key[part], workers[part], block.owner[part])
            ordinals[part] = self.counts.pane
            self.last_due_us = float(block.due_us[stop - 1])
        return ordinals

    def finish(self) -> None:
        """Close the last pane, and the windows that it lies in.

        Raises
        ------
        DataError
            There was no tuple.
        """
        if self.number is None:
            raise DataError("simulate: the stream holds no tuple; give it at least one.")
        self._turn_to(None)
        self.queues.finish()

    def _turn_to(self, number: int | None) -> None:
        """Close the pane that runs; panes without tuples follow until no window holds it any more."""
        if self.number is not None:
            self._close()
            after = self.counts.panes - 1
            gap = after if number is None else min(after, number - self.number - 1)
            for _ in range(gap):
                self.number += 1
                self.counts.begin()
                self._close()
        if number is not None:
            self.number = number
            self.counts.begin()

    def _close(self) -> None:
        number = self.number or 0
        row = self.ledger.note(number, self.counts)
        end_us = (number + 1) * self.pane * 1e3 if self.by_arrival else self.last_due_us
        self.queues.close(
            self.counts.pane, row.loads, row.merged.astype(np.float64) * self.merge_us, end_us
        )


def _whole_panes(blocks: Iterator[Block], pane: int) -> Iterator[Block]:
    """Put the stream together again so that each block is a pane."""
    held: list[Block] = []
    for block in blocks:
        numbers = block.time // pane
        cuts = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
        for start, stop in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
            if held and held[0].time[0] // pane != numbers[start]:
                yield Block.joined(held)
                held = []
            held.append(block.part(start, stop))
    if held:
        yield Block.joined(held)


def _check_lengths(window: int, slide: int, pane: int) -> None:
    for name, part, longer, whole in (
        ("slide", slide, "window", window),
        ("batch", pane, "slide", slide),
    ):
        if whole % part:
            raise ParameterError(
                f"simulate: {longer} must be a multiple of {name}, got {whole} and {part}; windows are "
                f"made of whole panes."
            )


def _check_costs(costs: object) -> None:
    if not isinstance(costs, Costs):
        raise ParameterError(f"simulate: costs must be a Costs, got {costs!r}.")
    for name, value in costs._asdict().items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not (math.isfinite(value) and value >= 0)
        ):
            raise ParameterError(
                f"simulate: costs.{name} must be finite microseconds of at least 0, got {value!r}."
            )
