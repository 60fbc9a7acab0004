"""The history of a policy log: what each version was, and what it changed; kept when versions go.

A version that is removed leaves a line in ``history.jsonl``. Before it goes, the version after it gets
its line too, because what that one changed cannot be told any more afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skewless.active_workers import used_workers
from skewless.errors import DataError
from skewless.routing import Routing
from skewless.spark import policy_reader

__all__ = ["Changes", "Damaged", "History", "Version", "changes", "compact", "history", "load"]

_NAME, _OLD = "history.jsonl", "history.old.jsonl"
#: Bytes after which a new history file is begun; two are kept.
_MAX_BYTES = 10_000_000


class Changes(NamedTuple):
    """What a version changed of the one before it."""

    added: int = 0
    """Keys that got workers of their own."""
    removed: int = 0
    """Keys that went back to their buckets."""
    resplit: int = 0
    """Keys that are on other workers than before."""
    reweighted: int = 0
    """Keys on the same workers with other shares."""
    buckets: int = 0
    """Buckets that changed their worker."""
    workers_before: int | None = None
    """Number of workers before, if it was another."""

    def __str__(self) -> str:
        """Return the changes as a few words."""
        counts = [
            (self.added, f"+{self.added} hot"),
            (self.removed, f"-{self.removed} hot"),
            (self.resplit, f"{self.resplit} moved"),
            (self.reweighted, f"{self.reweighted} reweighted"),
            (self.buckets, f"{self.buckets} buckets"),
        ]
        words = [text for count, text in counts if count]
        if self.workers_before is not None:
            words.insert(0, f"had {self.workers_before} workers")
        return ", ".join(words) or "nothing"


class Version(NamedTuple):
    """One version of the policy, summed up."""

    version: int
    """Its number."""
    written_s: float
    """When its file was written, seconds since 1970."""
    workers: int
    """Number of workers."""
    active: int
    """Workers that get anything."""
    seed: int
    """Seed of the key hash."""
    hot_keys: int
    """Keys with workers of their own."""
    split_keys: int
    """Those with more than one."""
    extra_fragments: int
    """Fragments beyond one for each hot key."""
    policy: str | None = None
    """The policy that made it, as text."""
    batch: int | None = None
    """Batch that it was learned from; ``None`` for a start."""
    rows: int | None = None
    """Rows of that batch."""
    max_over_mean: float | None = None
    """Load of the fullest worker over the mean in that batch."""
    scaling: str | None = None
    """Why it has so many active workers, if the query is elastic."""
    changes: Changes | None = None
    """What it changed; ``None`` for the first, or if the one before is lost."""
    on_disk: bool = True
    """Whether its routing can still be read."""


class Damaged(NamedTuple):
    """A file of the log that cannot be used."""

    file: str
    """Its path."""
    reason: str
    """What is wrong with it."""


class History(NamedTuple):
    """All that a policy log tells."""

    versions: list[Version]
    """Ascending; removed ones included."""
    damaged: list[Damaged]
    """Files that cannot be used."""


def changes(routing: Routing, before: Routing) -> Changes:
    """Return what a routing changed of the one before it.

    Examples
    --------
    >>> before = Routing(4, {7: {0: 0.5, 1: 0.5}, 8: {2: 1.0}})
    >>> print(changes(Routing(4, {7: {0: 0.5, 3: 0.5}, 9: {1: 1.0}}), before))
    +1 hot, -1 hot, 1 moved
    """
    now, then = routing.hot, before.hot
    both = now.keys() & then.keys()
    moved = sum(now[key].keys() != then[key].keys() for key in both)
    differ = sum(not _alike(now[key], then[key]) for key in both)
    at = (2 * np.arange(len(routing.buckets)) + 1) * len(before.buckets)
    owners = before.buckets[at // (2 * len(routing.buckets))]
    return Changes(
        len(now.keys() - then.keys()),
        len(then.keys() - now.keys()),
        moved,
        differ - moved,
        int(np.count_nonzero(owners != routing.buckets)),
        None if before.n_workers == routing.n_workers else before.n_workers,
    )


def _alike(now: Mapping[int, float], then: Mapping[int, float]) -> bool:
    """Say whether shares are the same up to their rounding."""
    return now.keys() == then.keys() and all(abs(now[w] - then[w]) < 1e-9 for w in now)


def load(folder: str | Path, version: int) -> tuple[Routing, Version]:
    """Read one version that is on disk.

    Raises
    ------
    DataError
        There is no such version, or its file is damaged.
    """
    path = Path(policy_reader.path(str(folder), version))
    try:
        routing, extra = Routing.parse(path.read_bytes(), str(path))
        written = path.stat().st_mtime
    except FileNotFoundError as error:
        raise DataError(
            f"policy: version {version} is not in folder {str(folder)!r}; it has "
            f"{_span(policy_reader.versions(str(folder)))}."
        ) from error
    except OSError as error:
        raise DataError(f"policy: {path} cannot be read ({error.strerror}).") from error
    facts = extra.get("facts")
    told = facts if isinstance(facts, dict) else {}
    known: dict[str, Any] = {
        name: told.get(name) for name in ("policy", "batch", "rows", "max_over_mean", "scaling")
    }
    return routing, Version(
        version,
        written,
        routing.n_workers,
        used_workers(routing),
        routing.seed,
        len(routing.keys),
        len(routing.split_keys),
        routing.extra_fragments,
        **known,
    )


def _span(versions: list[int]) -> str:
    return f"versions {versions[0]} to {versions[-1]}" if versions else "no versions"


def history(folder: str | Path) -> History:
    """Return all versions of a policy log, those that were removed included.

    Raises
    ------
    DataError
        The folder holds no policy log.
    """
    lines, damaged = _lines(Path(folder))
    on_disk = policy_reader.versions(str(folder))
    if not on_disk and not lines:
        raise DataError(
            f"policy: folder {str(folder)!r} holds no policy log; give the folder that the query names "
            "as state=."
        )
    found = {version: line for version, line in lines.items() if version not in on_disk}
    before: Routing | None = None
    last = -1
    for number in on_disk:
        try:
            routing, version = load(folder, number)
        except DataError as error:
            damaged.append(Damaged(policy_reader.path(str(folder), number), str(error)))
            continue
        if before is not None and last == number - 1:
            version = version._replace(changes=changes(routing, before))
        elif number in lines:
            version = version._replace(changes=lines[number].changes)
        found[number] = version
        before, last = routing, number
    return History([found[number] for number in sorted(found)], damaged)


def compact(folder: str | Path, keep: int) -> int:
    """Sum up and remove all versions but the newest `keep`; return how many were removed.

    Parameters
    ----------
    folder
        The folder of the log. A query may write to it: it needs the newest versions only.
    keep
        Versions whose routing stays, at least 2: the newest may be damaged.
    """
    keep = max(keep, 2)
    numbers = policy_reader.versions(str(folder))
    doomed = numbers[:-keep]
    if not doomed:
        return 0
    path = Path(folder, _NAME)
    if path.exists() and path.stat().st_size > _MAX_BYTES:
        path.replace(path.with_name(_OLD))
    # Without a file nothing was removed before, so the first has no line yet.
    before: Routing | None = None
    lines = []
    for place, number in enumerate(numbers[: len(doomed) + 1]):
        try:
            routing, version = load(folder, number)
        except DataError:
            before = None
            continue
        if before is not None and numbers[place - 1] == number - 1:
            version = version._replace(changes=changes(routing, before))
        if place > 0 or not path.exists():
            lines.append(_line(version))
        before = routing
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))
    for number in doomed:
        Path(policy_reader.path(str(folder), number)).unlink(missing_ok=True)
    return len(doomed)


def _line(version: Version) -> str:
    body = version._asdict()
    body["changes"] = None if version.changes is None else version.changes._asdict()
    del body["on_disk"]
    return json.dumps(body, separators=(",", ":")) + "\n"


def _lines(folder: Path) -> tuple[dict[int, Version], list[Damaged]]:
    found: dict[int, Version] = {}
    damaged: list[Damaged] = []
    for path in (folder / _OLD, folder / _NAME):
        bad = 0
        try:
            content = path.read_bytes()
        except OSError:
            continue
        for line in content.splitlines():
            version = _parse(line)
            if version is None:
                bad += 1
            else:
                found[version.version] = version
        if bad:
            damaged.append(Damaged(str(path), f"{bad} of its lines cannot be read"))
    return found, damaged


def _parse(line: bytes) -> Version | None:
    try:
        body: Any = json.loads(line)
        changed = body.pop("changes")
        told = None if changed is None else Changes(**changed)
        version = Version(**body, changes=told, on_disk=False)
        whole = version[:1] + version[2:8] + (told or Changes())[:5]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return version if all(isinstance(n, int) for n in whole) else None
