"""What ``elastic=`` means: a policy whose number of active workers follows the batches."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

from pyspark.sql import DataFrame

from skewless.active_workers import ActiveWorkers, Elastic
from skewless.errors import ParameterError
from skewless.policy import Policy
from skewless.spark.policies import PolicyLike, resolve_policy
from skewless.state_store.job import Job
from skewless.state_store.manifest import Manifest

__all__ = ["ElasticLike", "StatefulScaling", "elastic_policy"]

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


class StatefulScaling:
    """Gives each batch of a stateful stream the policy for as many workers as the ones before ask for.

    Another number of workers is another routing, so the states move with their keys; a worker here is a
    partition, and the reducer of its keys.

    Parameters
    ----------
    policy
        The policy that can be remade.
    clock
        Seconds that only grow.
    """

    def __init__(self, policy: Elastic, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = copy.deepcopy(policy)
        self._clock = clock
        self._resumed = False
        self._began: float | None = None
        self._took: float | None = None
        self._rows = self._keys = 0

    def begin(self, job: Job) -> Job:
        """Return the job with the policy for the batch that begins now."""
        now = self._clock()
        if not self._resumed:
            self._resumed = True
            newest = job.store.newest()
            if newest is not None:
                self.policy.resume(newest.routing.n_workers)
        if self._began is not None and self._took is not None:
            self.policy.scale(self._took, now - self._began, self._rows, self._keys)
        self._began, self._took = now, None
        return job._replace(policy=self.policy.current)

    def finish(self, manifest: Manifest) -> None:
        """Take note of what the batch took, once its output is handed over."""
        if self._began is not None:
            self._took = self._clock() - self._began
        self._rows = int(manifest.records[-1]["rows"]) if manifest.records else 0
        self._keys = manifest.n_keys
