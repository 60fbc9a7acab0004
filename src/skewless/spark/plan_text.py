"""What `explain` says of a plan on a batch frame: how it came about, what it promises, what it cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.spark.auto import Choice
from skewless.spark.batch import Plan
from skewless.spark.replaying import Loads, Replayed

__all__ = ["choice_lines", "cost_lines", "limit_lines", "replay_lines"]


def choice_lines(choice: Choice) -> list[str]:
    """Say what ``"auto"`` measured, predicted and chose for an aggregator."""
    costs = choice.costs
    lines = [
        f"  reason: {choice.policy}, chosen by 'auto': {choice.reason}.",
        (
            f"  costs measured: update {costs.update_us:.3g} us a row, merge {costs.merge_us:.3g} us a "
            f"fragment; it took {choice.measured_s:.2f} s."
        ),
    ]
    if not choice.outcomes:
        return [*lines, "  cost of the plan: none, keys were not counted."]
    predicted = ", ".join(
        f"{one.policy} {one.predicted_s:.3g} s (max/mean {one.max_over_mean:.2f}, "
        f"{one.extra_fragments:,.0f} extra fragments)"
        for one in choice.outcomes
    )
    return [*lines, f"  predicted: {predicted}.", *cost_lines(choice.plan)]


def cost_lines(found: Plan, loads: NDArray[np.float64] | None = None) -> list[str]:
    """Say what balance a plan promises, and what it took to find.

    `loads` are those of the workers where it is not the routing that places the rows.
    """
    if found.histogram is None:
        return ["  cost of the plan: none, the policy needs no counts."]
    if loads is None:
        loads = found.routing.loads(found.histogram)
    even = max(float(loads.mean()), 1.0)
    rows, how = f"the {found.histogram.total} rows counted", "count the keys"
    if found.sampled:
        rows, how = f"about {found.histogram.total} rows", f"sample {found.sampled} rows"
    return [
        f"  balance expected: max/mean {float(loads.max()) / even:.2f} over {rows}.",
        (
            f"  cost of the plan: {found.gather_s:.2f} s to {how}, "
            f"{found.learn_s:.2f} s to plan on the driver."
        ),
    ]


def limit_lines(found: Plan) -> list[str]:
    """Say how long the heaviest group makes its task, where groups stay whole."""
    if found.histogram is None or not len(found.histogram) or not found.histogram.total:
        return []
    share = int(found.histogram.counts[0]) / found.histogram.total
    fair = share * found.routing.n_workers
    if fair <= 1:
        return []
    return [
        (
            f"  limit: the heaviest group is {fair:.1f} fair shares ({100 * share:.1f} % of all) and "
            "cannot be split by a function; an Aggregator could."
        )
    ]


def replay_lines(replayed: Replayed, loads: Loads | None) -> list[str]:
    """Say what the first tasks told, whether the plan pays, and what all rows came to.

    Parameters
    ----------
    replayed
        The plan and the test.
    loads
        Under the routing in force; ``None`` if nothing was planned from the first tasks.
    """
    gain, first = replayed.gain, replayed.first
    if gain is None or first is None or loads is None:
        return [
            (
                "  replay: refused, Spark Connect does not say how many tasks the rows lie in; all keys "
                "were counted and the plan is taken."
            ),
            *cost_lines(replayed.plan),
        ]
    behind = (
        ", behind a shuffle that ran for it and runs again for the job" if first.shuffled else ""
    )
    predicted = gain.plan_balance if gain.pays else gain.hash_balance
    mean = float(loads.weight.mean())
    found = float(loads.weight.max()) / mean if mean > 0 else 1.0
    return [
        (
            f"  counted: the first {first.tasks} of {first.of_tasks} tasks, {first.rows:,} rows, in "
            f"{first.seconds:.2f} s{behind}; the job reads them again."
        ),
        (
            f"  gain test: hashing {gain.hash_s:.3g} s (max/mean {gain.hash_balance:.2f}), the plan "
            f"{gain.plan_s:.3g} s (max/mean {gain.plan_balance:.2f}), replaying the counted rows "
            f"{gain.replay_s:.3g} s: "
            + (
                "it pays, so the plan is taken."
                if gain.pays
                else "it does not pay, so rows are hashed."
            )
        ),
        (
            f"  balance: max/mean {predicted:.2f} predicted from the counted rows, {found:.2f} found "
            f"over all {loads.rows:,} rows."
        ),
        f"  cost of the plan: {first.seconds:.2f} s to count, {replayed.plan.learn_s:.2f} s to plan.",
    ]
