"""What ``elastic=`` means: a policy whose number of active workers follows the batches."""

from __future__ import annotations

from pyspark.sql import DataFrame

from skewless.active_workers import ActiveWorkers, Elastic
from skewless.errors import ParameterError
from skewless.policy import Policy
from skewless.spark.policies import PolicyLike, resolve_policy

__all__ = ["ElasticLike", "elastic_policy"]

ElasticLike = ActiveWorkers | tuple[int, int]


def elastic_policy(
    verb: str, df: DataFrame, policy: PolicyLike, workers: int | None, elastic: ElasticLike
) -> tuple[Policy, int]:
    """Return the policy with active workers, and how many there are in all.

    Parameters
    ----------
    verb
        Opens the error sentence.
    df
        The frame, which must be a stream.
    policy, workers
        As given to the verb.
    elastic
        ``(fewest, most)``, or the object.

    Raises
    ------
    ParameterError
        The frame is no stream, the policy does not learn, or the numbers do not agree.
    """
    if not df.isStreaming:
        raise ParameterError(
            f"{verb}: elastic={elastic!r} follows the micro-batches of a stream, but this frame is not "
            "streaming; leave it out."
        )
    if isinstance(elastic, ActiveWorkers):
        scaling = elastic
    elif isinstance(elastic, tuple) and len(elastic) == 2:
        scaling = ActiveWorkers(*elastic)
    else:
        raise ParameterError(
            f"{verb}: elastic must be (fewest, most) workers or ActiveWorkers(...), got {elastic!r}."
        )
    if isinstance(policy, str) and workers is None:
        workers = scaling.high
    chosen = resolve_policy(verb, policy, workers, scaling.high)
    if not isinstance(chosen, Policy):
        raise ParameterError(
            f"{verb}: elastic={elastic!r} needs a policy that learns while the stream runs, got "
            f"{policy!r}; take policy='wrap_around', or leave it out."
        )
    return Elastic(chosen, scaling), chosen.n_workers
