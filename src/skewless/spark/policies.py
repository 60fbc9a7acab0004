"""What `policy=` and `workers=` mean."""

from __future__ import annotations

from skewless import partitioners, planners
from skewless.errors import ParameterError, nearest
from skewless.policy import Policy, policy_name
from skewless.routing import Routing

__all__ = ["AUTO", "LOCAL", "SPARK", "PolicyLike", "resolve_policy"]

#: Combine where the rows are: no routing.
LOCAL = "local"
#: Leave the query to Spark.
SPARK = "spark"
#: Choose, and say why.
AUTO = "auto"

PolicyLike = Policy | Routing | str


def resolve_policy(
    verb: str, policy: PolicyLike, workers: int | None, default_workers: int
) -> Policy | Routing | str:
    """Return a policy object, a fixed routing, or one of `LOCAL`, `SPARK`, `AUTO`.

    Parameters
    ----------
    verb
        Opens the error sentence.
    policy
        An object (its number of workers counts), or a name.
    workers
        Number of workers for a name; with an object both must agree.
    default_workers
        Used where neither says a number.

    Raises
    ------
    ParameterError
        Unknown name, ``workers`` below 1, or two numbers of workers that differ.
    """
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or workers < 1
    ):
        raise ParameterError(f"{verb}: workers must be an int of at least 1, got {workers!r}.")
    if isinstance(policy, (Policy, Routing)):
        if workers is not None and workers != policy.n_workers:
            raise ParameterError(
                f"{verb}: workers={workers} but the policy has {policy.n_workers} workers; give one "
                "of the two, or the same number twice."
            )
        return policy
    names = {policy_name(cls): cls for cls in (*partitioners.ALL, *planners.ALL)}
    if policy in (LOCAL, SPARK, AUTO):
        return policy
    if not isinstance(policy, str):
        raise ParameterError(
            f"{verb}: policy must be a policy object or a name, got {type(policy).__name__}."
        )
    if policy not in names:
        known = [*names, LOCAL, SPARK, AUTO]
        near = nearest(policy, known)
        hint = "" if near is None else f" (did you mean {near!r}?)"
        raise ParameterError(
            f"{verb}: policy {policy!r} is not known{hint}; there is {', '.join(known)}."
        )
    return names[policy](workers or default_workers)  # type: ignore[call-arg]
