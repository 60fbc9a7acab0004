"""Generators by a short text, as the command line takes them: ``zipf:1.5``, ``voters``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.changing import alternating, redrawn, renamed
from skewless.datasets.generators import drifting, uniform, zipf
from skewless.datasets.look_alikes import LOOK_ALIKES, look_alike
from skewless.datasets.skewed import log_normal, zipf_by_share
from skewless.errors import ParameterError, did_you_mean
from skewless.parameters import Range, Seed, check, specification

__all__ = ["SPECS", "from_spec", "is_spec"]

_N_KEYS = 100_000


class _Spec(NamedTuple):
    generator: Callable[..., NDArray[np.uint64]]
    takes: tuple[str, ...]
    """Parameters in the order in which they may be given without a name."""
    defaults: dict[str, Any]


#: Generators by name; every look-alike is one more.
SPECS = {
    "uniform": _Spec(uniform, ("n_keys",), {"n_keys": _N_KEYS}),
    "zipf": _Spec(zipf, ("exponent", "n_keys"), {"n_keys": _N_KEYS}),
    "zipf_by_share": _Spec(zipf_by_share, ("p1", "n_keys"), {"n_keys": _N_KEYS}),
    "log_normal": _Spec(log_normal, ("mu", "sigma"), {}),
    "drifting": _Spec(drifting, ("exponent", "period", "n_keys", "n_hot"), {"n_keys": _N_KEYS}),
    "renamed": _Spec(renamed, ("exponent", "period", "n_keys"), {"n_keys": _N_KEYS}),
    "redrawn": _Spec(redrawn, ("period", "low", "high", "n_keys"), {"n_keys": _N_KEYS}),
    "alternating": _Spec(alternating, ("exponent", "period", "n_keys"), {"n_keys": _N_KEYS}),
}


def is_spec(text: str) -> bool:
    """Say whether a text names a generator, and so no file.

    Examples
    --------
    >>> is_spec("zipf:1.5"), is_spec("voters"), is_spec("zipf.csv")
    (True, True, False)
    """
    name = text.partition(":")[0]
    return name in SPECS or name in LOOK_ALIKES


def from_spec(
    spec: str, n_tuples: Annotated[int, Range(0)], *, seed: Seed = 0
) -> NDArray[np.uint64]:
    """Draw the stream that a text describes: ``name``, or ``name:value,...,parameter=value``.

    Parameters
    ----------
    spec : str
        The name of a generator or of a look-alike, and after a colon its parameters, separated by
        commas: first those without a name, in the order below, then any by name.

        ==================================================  ====================================
        ``uniform:n_keys``                                  as `uniform`
        ``zipf:exponent,n_keys``                            as `zipf`
        ``zipf_by_share:p1,n_keys``                         as `zipf_by_share`
        ``log_normal:mu,sigma``                             as `log_normal`
        ``drifting:exponent,period,n_keys,n_hot``           as `drifting`
        ``renamed:exponent,period,n_keys``                  as `renamed`
        ``redrawn:period,low,high,n_keys``                  as `redrawn`
        ``alternating:exponent,period,n_keys``              as `alternating`
        ``wikipedia:scale``, ``voters``, ``t4sa``, ...      as `look_alike`
        ==================================================  ====================================

        Left out, `n_keys` is 100,000.
    n_tuples : int of at least 0
        Number of tuples.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Raises
    ------
    ParameterError
        The name, a parameter or a value is wrong, or a parameter is missing.

    Examples
    --------
    >>> bool((from_spec("zipf:1.5,n_keys=50", 100) == zipf(100, 50, 1.5)).all())
    True
    >>> from_spec("zpf:1.5", 100)
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: zpf:1.5: no generator is named 'zpf' (did you mean 'zipf'?).
    """
    check("from_spec", from_spec, spec=spec, n_tuples=n_tuples, seed=seed)
    name, _, rest = spec.partition(":")
    if name in LOOK_ALIKES:
        given = _given(spec, rest, look_alike, ("scale",))
        return look_alike(name, n_tuples, seed=seed, **given)
    if name not in SPECS:
        known = did_you_mean(name, [*SPECS, *LOOK_ALIKES])
        raise ParameterError(f"{spec}: no generator is named {name!r}{known}.")
    generator, takes, defaults = SPECS[name]
    values = {**defaults, **_given(spec, rest, generator, takes)}
    missing = [one for one in _required(generator) if one not in values]
    if missing:
        form = f"{name}:{','.join(takes)}"
        raise ParameterError(f"{spec}: {missing[0]} is missing; write {form}.")
    return generator(n_tuples=n_tuples, seed=seed, **values)


def _required(generator: Callable[..., Any]) -> list[str]:
    import inspect

    parameters = inspect.signature(generator).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.name != "n_tuples"]


def _given(
    spec: str, rest: str, generator: Callable[..., Any], takes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the values after the colon by parameter, of the type that the generator takes."""
    kinds = specification(generator)
    found: dict[str, Any] = {}
    for place, part in enumerate(rest.split(",") if rest else []):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals:
            if place >= len(takes) or tuple(found) != takes[:place]:
                raise ParameterError(
                    f"{spec}: {part!r} has no place; values without a name come first and are, in "
                    f"this order: {', '.join(takes)}."
                )
            name, text = takes[place], name
        if name not in takes:
            raise ParameterError(f"{spec}: no parameter {name!r}{did_you_mean(name, takes)}.")
        if name in found:
            raise ParameterError(f"{spec}: {name} is given twice; give it once.")
        kind = kinds[name][0]
        try:
            found[name] = int(text.replace("_", "")) if kind is int else float(text)
        except ValueError as error:
            article = "an int" if kind is int else "a number"
            raise ParameterError(f"{spec}: {name} must be {article}, got {text!r}.") from error
    return found
