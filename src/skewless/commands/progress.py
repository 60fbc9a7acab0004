"""A bar for the commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar"]


@contextmanager
def bar(first: str = "reading") -> Iterator[Callable[[float, str], None]]:
    """Show on a terminal which part is done, and what is done now; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _part, _what: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(first, total=1.0)
        yield lambda part, what: shown.update(task, completed=part, description=escape(what))
