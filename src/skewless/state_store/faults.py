"""Points at which a process may die: the store passes them, tests choose one."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["hook", "reached"]

#: Called with the name of every point that the store passes; ``None`` in production.
hook: Callable[[str], None] | None = None


def reached(point: str) -> None:
    """Tell the hook, if there is one, that the store got to `point`.

    Examples
    --------
    >>> reached("before commit")
    """
    if hook is not None:
        hook(point)
