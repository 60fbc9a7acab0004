"""What partitioners and planners share: a number of workers, named parameters, one way to learn."""

from __future__ import annotations

import abc
import inspect
import re
from typing import Any, ClassVar

from skewless.histogram import Histogram
from skewless.parameters import check
from skewless.routing import Routing

__all__ = ["Policy", "policy_name"]


def policy_name(cls: type) -> str:
    """Return the one name of a policy: its class name in snake case.

    Examples
    --------
    >>> class DChoices: ...
    >>> class PKG: ...
    >>> policy_name(DChoices), policy_name(PKG)
    ('d_choices', 'pkg')
    """
    name = cls.__name__.replace("PoTC", "Potc")  # an acronym, with a small letter in it
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Policy(abc.ABC):
    """A rule that places keys on `n_workers` workers.

    Attributes
    ----------
    splits_keys
        Whether a key may have several workers at one time.
    moves_keys
        Whether a key may change its worker while the policy runs.
    n_workers
        Number of workers, at least 1.
    seed
        Seed of the key hash and of all random choices.
    """

    splits_keys: ClassVar[bool]
    moves_keys: ClassVar[bool]
    n_workers: int
    seed: int = 0

    def _take(self, **parameters: Any) -> None:
        """Check the parameters against the signature of ``__init__`` and keep them as attributes."""
        check(type(self).__name__, type(self).__init__, **parameters)
        for name, value in parameters.items():
            setattr(self, name, value)

    @property
    def name(self) -> str:
        """The policy's name as given to ``policy=``."""
        return policy_name(type(self))

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the policy, by name, in the order of the signature."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        rest = [
            f"{name}={value!r}"
            for name, value in self.parameters().items()
            if name != "n_workers" and value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join([str(self.n_workers), *rest])})"

    @abc.abstractmethod
    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window, given what the last one held.

        Parameters
        ----------
        histogram
            Counts of the last window (or micro-batch).
        previous
            The routing in force, or ``None`` at the start.
        """
