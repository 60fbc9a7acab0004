"""HyperLogLog: the number of distinct keys, from the longest runs of zero bits in their hashes.

P. Flajolet, E. Fusy, O. Gandouet, F. Meunier: HyperLogLog: the Analysis of a Near-optimal Cardinality
Estimation Algorithm, AofA 2007. The test for membership is that of N. Katsipoulakis, A. Labrinidis,
P. Chrysanthis: A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix
from skewless.parameters import Range, Seed
from skewless.sketches.base import Sketch

__all__ = ["HyperLogLog", "HyperLogLogState", "distinct", "insert", "no_registers", "seems_held"]


class HyperLogLogState(NamedTuple):
    """Registers of one or more counters, and the sums that their estimates need."""

    register: NDArray[np.uint8]
    """uint8, (counters, power of two): longest run of zeros plus 1, at most `limit`."""
    zeros: NDArray[np.int64]
    """int64, (counters,): registers at 0."""
    harmonic: NDArray[np.float64]
    """float64, (counters,): sum of ``2**-register``; exact, as a register has at most 5 bits."""
    limit: NDArray[np.int64]
    """int64, (1,): the highest value of a register."""


class HyperLogLog(Sketch):
    """Keep, per register, the longest run of zeros among the hashes sent to it.

    Use it to count distinct keys in memory that does not grow. Not to learn whether a key was seen
    where a wrong yes does harm: `contains` guesses.

    Parameters
    ----------
    precision : int in [4, 16]
        Bits of the hash that choose the register: there are ``2**precision``, 4096 by default.
    register_bits : int in [3, 5]
        Bits of a register; it stops at ``2**register_bits - 1``.
    seed : int in [0, 9223372036854775807]
        Which hash function.

    Notes
    -----
    Guarantee: the standard error is about ``1.04 / sqrt(registers)``, 1.6 % for 4096, as long as no
    register is full: with 5 bits up to some ``2**(precision + 27)`` distinct keys. `contains` never
    denies a key that was inserted; it affirms others more often the more there are. Merging equals
    having seen both streams.

    Cost: one hash and one register; an estimate is O(1). State: a byte a register and 24.

    Deviations from the papers: registers take a byte each, whatever their bits. Below ``2.5 * registers``
    the estimate is the linear count of the registers at zero (as in the first paper); there a trial
    insert that only raises another register leaves it unchanged, so `contains` affirms more. Hashes
    have 64 bits, so the correction for large ranges is left out.

    Examples
    --------
    >>> sketch = HyperLogLog()
    >>> sketch.update(np.arange(100_000, dtype=np.uint64))
    >>> round(sketch.estimate())
    100095
    >>> bool(sketch.contains([7])[0])
    True

    References
    ----------
    AofA 2007, figure 3, doi:10.46298/dmtcs.3545; PVLDB 10(11), section 3.2.2,
    doi:10.14778/3137628.3137639.
    """

    precision: int
    register_bits: int
    state: HyperLogLogState

    def __init__(
        self,
        *,
        precision: Annotated[int, Range(4, 16)] = 12,
        register_bits: Annotated[int, Range(3, 5)] = 5,
        seed: Seed = 0,
    ) -> None:
        self._take(precision=precision, register_bits=register_bits, seed=seed)
        self.state = no_registers(1, precision, register_bits)

    @property
    def standard_error(self) -> float:
        """The relative standard error of the estimate."""
        return 1.04 / math.sqrt(1 << self.precision)

    def update(self, keys: ArrayLike) -> None:
        """Insert `keys`."""
        _update(self.state, self._keys(keys), np.uint64(self.seed))

    def merge(self, other: HyperLogLog) -> None:
        """Become the sketch of both streams."""
        self._same(other)
        register = self.state.register
        np.maximum(register, other.state.register, out=register)
        self.state.zeros[0] = np.count_nonzero(register == 0)
        self.state.harmonic[0] = np.ldexp(1.0, -register.astype(np.int32)).sum()

    def estimate(self) -> float:
        """Return the estimated number of distinct keys."""
        return float(distinct(self.state, 0))

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Say of each key whether a trial insert leaves the estimate unchanged."""
        found = self._keys(keys)
        out = np.empty(len(found), np.bool_)
        _ask(self.state, found, np.uint64(self.seed), out)
        return out


def no_registers(n_counters: int, precision: int, register_bits: int) -> HyperLogLogState:
    """Return `n_counters` counters before the first key.

    Examples
    --------
    >>> no_registers(8, 12, 5).register.shape
    (8, 4096)
    """
    registers = 1 << precision
    return HyperLogLogState(
        np.zeros((n_counters, registers), np.uint8),
        np.full(n_counters, registers, np.int64),
        np.full(n_counters, float(registers)),
        np.array([(1 << register_bits) - 1], np.int64),
    )


@inline_kernel
def _rank(mixed: np.uint64, registers: int, limit: int) -> int:
    """Return 1 + the leading zeros of the bits that do not choose the register, at most `limit`."""
    rank = 1
    bit = np.uint64(1) << np.uint64(63)
    while rank < limit and not mixed & bit and bit >= np.uint64(registers):
        rank += 1
        bit >>= np.uint64(1)
    return rank


@inline_kernel
def _estimate(registers: int, zeros: int, harmonic: float) -> float:
    """Figure 3: the raw estimate, or the linear count in the small range."""
    if registers == 16:
        alpha = 0.673
    elif registers == 32:
        alpha = 0.697
    elif registers == 64:
        alpha = 0.709
    else:
        alpha = 0.7213 / (1.0 + 1.079 / registers)
    raw = alpha * registers * registers / harmonic
    if raw <= 2.5 * registers and zeros > 0:
        return registers * math.log(registers / zeros)
    return raw


@inline_kernel
def distinct(state: HyperLogLogState, counter: int) -> float:
    """Return the estimate of a counter."""
    registers = state.register.shape[1]
    return _estimate(registers, state.zeros[counter], state.harmonic[counter])


@inline_kernel
def insert(state: HyperLogLogState, counter: int, mixed: np.uint64) -> None:
    """Insert the key whose mixed bits are `mixed`: low bits choose the register, high bits rank."""
    registers = state.register.shape[1]
    place = mixed & np.uint64(registers - 1)
    rank = _rank(mixed, registers, state.limit[0])
    before = np.int64(state.register[counter, place])
    if rank > before:
        state.register[counter, place] = rank
        state.zeros[counter] -= before == 0
        state.harmonic[counter] += 2.0**-rank - 2.0**-before


@inline_kernel
def seems_held(state: HyperLogLogState, counter: int, mixed: np.uint64) -> bool:
    """Say whether inserting the key would leave the estimate as it is (Holistic, section 3.2.2)."""
    registers = state.register.shape[1]
    before = np.int64(state.register[counter, mixed & np.uint64(registers - 1)])
    rank = _rank(mixed, registers, state.limit[0])
    if rank <= before:
        return True
    zeros = state.zeros[counter] - (before == 0)
    harmonic = state.harmonic[counter] + (2.0**-rank - 2.0**-before)
    return bool(_estimate(registers, zeros, harmonic) == distinct(state, counter))


@lean_kernel
def _update(state: HyperLogLogState, keys: NDArray[np.uint64], seed: np.uint64) -> None:
    for i in range(len(keys)):
        insert(state, 0, mix(keys[i], seed))


@lean_kernel
def _ask(
    state: HyperLogLogState, keys: NDArray[np.uint64], seed: np.uint64, out: NDArray[np.bool_]
) -> None:
    for i in range(len(keys)):
        out[i] = seems_held(state, 0, mix(keys[i], seed))
