"""Zipf streams with the first key's share and the number of keys of data sets that papers used."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.skewed import log_normal, zipf_by_share
from skewless.errors import ParameterError, did_you_mean
from skewless.parameters import Range, Seed, check

__all__ = ["LOOK_ALIKES", "LookAlike", "look_alike"]


class LookAlike(NamedTuple):
    """What a paper tells about a data set."""

    name: str
    n_keys: int
    """Different keys."""
    p1: float
    """Share of the most frequent key."""
    messages: int | None
    """Tuples of the original; ``None`` where the paper does not say."""
    of: str
    """What the original is."""
    source: str
    """Paper and place in it."""
    log_normal: tuple[float, float] | None = None
    """Mean and deviation of the logarithm, where the original was itself drawn."""


_PKG, _DALTON = "PKG (ICDE 2015), Table I", "Dalton (PVLDB 2022), Table 2"

#: What `look_alike` knows, by name.
LOOK_ALIKES = {
    one.name: one
    for one in (
        LookAlike("wikipedia", 2_900_000, 0.0932, 22_000_000, "pages visited in a day", _PKG),
        LookAlike("twitter", 31_000_000, 0.0267, 1_200_000_000, "words of tweets", _PKG),
        LookAlike("cashtags", 2_900, 0.0329, 690_000, "stock symbols in tweets", _PKG),
        LookAlike("ln1", 16_000, 0.1471, 10_000_000, "log-normal", _PKG, (1.789, 2.366)),
        LookAlike("ln2", 1_100, 0.0701, 10_000_000, "log-normal", _PKG, (2.245, 1.133)),
        LookAlike("livejournal", 4_900_000, 0.0029, 69_000_000, "edges of a social graph", _PKG),
        LookAlike("slashdot0811", 77_000, 0.0328, 905_000, "edges of a social graph", _PKG),
        LookAlike("slashdot0902", 82_000, 0.0311, 948_000, "edges of a social graph", _PKG),
        LookAlike("t4sa", 450_000, 0.0269, None, "hashtags of tweets", _DALTON),
        LookAlike("elections", 200_000, 0.072, None, "hashtags of tweets", _DALTON),
        LookAlike("voters", 100_000, 0.3845, None, "post-codes of a voters' register", _DALTON),
    )
}


def look_alike(
    name: str,
    n_tuples: Annotated[int, Range(0)],
    *,
    scale: Annotated[float, Range(0, 1, low_open=True)] = 1.0,
    seed: Seed = 0,
) -> NDArray[np.uint64]:
    """Draw a stream that shares its first key's weight and its number of keys with a known data set.

    Parameters
    ----------
    name : str
        A key of `LOOK_ALIKES`.
    n_tuples : int of at least 0
        Number of tuples.
    scale : float in (0, 1]
        Part of the original's keys that can occur; the share of the first key stays. Makes no
        difference to the log-normal sets.
    seed : int in [0, 9223372036854775807]
        Seed of the draws and of the keys' names.

    Returns
    -------
    numpy.ndarray
        Key hashes, uint64, in arrival order.

    Raises
    ------
    ParameterError
        `name` is not known, or a number is out of its range.

    Notes
    -----
    Two numbers do not make a data set: that frequencies fall by Zipf's law, independently of the time,
    is an assumption. So many keys *can* occur; how many do depends on `n_tuples`. The log-normal sets
    are no look-alikes but the law that the paper drew them from.

    ``"twitter"`` needs about 500 MB while it is drawn, at ``scale=1``.

    References
    ----------
    M. A. Uddin Nasir et al., The Power of Both Choices, ICDE 2015, doi:10.1109/ICDE.2015.7113279,
    Table I. E. Zapridou, I. Mytilinis, A. Ailamaki, Dalton, PVLDB 16(3), 2022,
    doi:10.14778/3570690.3570699, Table 2.

    Examples
    --------
    >>> keys = look_alike("voters", 100_000, seed=1)
    >>> round(float(np.unique(keys, return_counts=True)[1].max()) / 100_000, 2)
    0.39
    """
    check("look_alike", look_alike, name=name, n_tuples=n_tuples, scale=scale, seed=seed)
    if name not in LOOK_ALIKES:
        raise ParameterError(
            f"look_alike: no data set is named {name!r}{did_you_mean(name, LOOK_ALIKES)}."
        )
    one = LOOK_ALIKES[name]
    if one.log_normal is not None:
        return log_normal(n_tuples, *one.log_normal, seed=seed)
    n_keys = max(round(one.n_keys * scale), int(np.ceil(1 / one.p1)))
    return zipf_by_share(n_tuples, n_keys, one.p1, seed=seed)
