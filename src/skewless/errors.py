"""The three errors that skewless raises on purpose, and the wording they share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["DataError", "MissingExtra", "ParameterError", "did_you_mean"]


class ParameterError(ValueError):
    """A parameter is of the wrong type or outside its range."""


class DataError(ValueError):
    """The data cannot be used as asked: a missing column, a wrong type, a file that is not ours."""


class MissingExtra(ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str, package: str) -> None:
        super().__init__(
            f"{feature} needs {package}, which is not installed: pip install 'skewless[{extra}]'."
        )
        self.extra = extra


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`; ``None`` if none is.

    Examples
    --------
    >>> nearest("usr", ["user", "ts"])
    'user'
    """
    folded = {candidate.lower(): candidate for candidate in reversed(list(known))}
    near = get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known name, or what there is to choose from.

    Examples
    --------
    >>> did_you_mean("usr", ["user", "ts"])
    " (did you mean 'user'?)"
    """
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f" (did you mean {near!r}?)"
    return (
        f" (there is: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''})" if names else ""
    )
