"""Fresh policies of every kind, with windows of one length."""

from __future__ import annotations

import inspect

from skewless import partitioners, planners
from skewless.policy import Policy, policy_name

__all__ = ["CLASSES", "contestants"]

CLASSES: dict[str, type[Policy]] = {policy_name(c): c for c in (*partitioners.ALL, *planners.ALL)}


def contestants(
    n_workers: int, window: int, slide: int, names: tuple[str, ...] | None = None
) -> dict[str, Policy]:
    """Return a new instance of each policy; those that look at a window look at this one."""
    made: dict[str, Policy] = {}
    for name in names or tuple(CLASSES):
        takes = inspect.signature(CLASSES[name].__init__).parameters
        given = {"window": window, "slide": slide}
        made[name] = CLASSES[name](n_workers, **{k: v for k, v in given.items() if k in takes})  # type: ignore[call-arg]
    return made
