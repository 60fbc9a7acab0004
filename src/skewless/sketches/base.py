"""What the sketches share: checked parameters, checked input, and one size."""

from __future__ import annotations

import abc
import inspect
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import DataError, ParameterError
from skewless.parameters import check

__all__ = ["Sketch"]


class Sketch(abc.ABC):
    """A summary of a stream of keys, in memory that its parameters bound; `state` holds arrays only."""

    state: NamedTuple
    seed: int = 0

    def _take(self, **parameters: Any) -> None:
        """Check the parameters against the signature of ``__init__`` and keep them as attributes."""
        check(type(self).__name__, type(self).__init__, **parameters)
        for name, value in parameters.items():
            setattr(self, name, value)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, in the order of the signature."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({given})"

    @property
    def state_bytes(self) -> int:
        """Bytes that the state holds now."""
        return sum(array.nbytes for array in self.state)

    @abc.abstractmethod
    def update(self, keys: NDArray[np.uint64]) -> None:
        """Take in a piece of the stream."""

    def _same(self, other: Sketch) -> None:
        """Refuse to merge what was summarised in another way."""
        if type(other) is not type(self):
            raise ParameterError(
                f"{type(self).__name__}: other must be a {type(self).__name__}, got "
                f"{type(other).__name__}."
            )
        for name, mine in self.parameters().items():
            theirs = getattr(other, name)
            if mine != theirs:
                raise ParameterError(
                    f"{type(self).__name__}: other must have the same {name}, {mine!r}, got "
                    f"{theirs!r}; sketches merge only when they were made alike."
                )

    def _keys(self, keys: ArrayLike) -> NDArray[np.uint64]:
        array = np.asarray(keys)
        if array.dtype == np.int64:
            array = array.view(np.uint64)
        elif array.dtype != np.uint64 and len(array) == 0:
            array = np.empty(0, np.uint64)
        if array.dtype != np.uint64 or array.ndim != 1:
            raise DataError(
                f"{type(self).__name__}: keys must be one column of uint64 or int64, got "
                f"{array.dtype} in {array.ndim} dimensions; hash other keys first."
            )
        return array

    def _weights(self, weights: ArrayLike, n_keys: int) -> NDArray[np.int64]:
        array = np.asarray(weights)
        if len(array) == 0:
            array = np.empty(0, np.int64)
        if array.dtype.kind not in "iu" or array.shape != (n_keys,):
            raise DataError(
                f"{type(self).__name__}: weights must be one integer per key, got {array.dtype} of "
                f"shape {array.shape} for {n_keys} keys."
            )
        if len(array) and int(array.min()) < 0:
            raise DataError(
                f"{type(self).__name__}: weights must be at least 0, got {array.min()}; a sketch "
                f"cannot forget."
            )
        return array.astype(np.int64)
