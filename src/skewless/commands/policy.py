"""``skewless policy``: look into the policy log of a streaming query, and keep it small."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skewless.routing import Routing
    from skewless.spark.policy_history import History, Version

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help=__doc__)

#: Keys of a version that are listed with their shares if no version is named.
_TOP = 10

_Path = Annotated[str, typer.Argument(help="Folder that the query names as state=.")]


@app.callback()
def _root() -> None:
    """Look into the policy log of a streaming query, and keep it small."""


@app.command()
def show(
    path: _Path,
    version: Annotated[
        int | None, typer.Option(min=1, help="Show this version, with all of its hot keys.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="Versions to list.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what the versions of a policy were, what each changed, and which files are damaged.

    Ends with status 1 if a file is damaged. Keys are named by Spark's xxhash64 of the key columns.
    """
    from skewless.spark.policy_history import history, load

    found = history(path)
    number = version
    if number is None:
        number = next((one.version for one in reversed(found.versions) if one.on_disk), None)
    routing = None if number is None else load(path, number)[0]
    shown = next((one for one in found.versions if one.version == number), None)
    if as_json:
        typer.echo(json.dumps(_document(path, found, shown, routing, last), indent=1))
    else:
        for line in _lines(path, found, shown, routing, last, whole=version is not None):
            typer.echo(line)
    if found.damaged:
        raise SystemExit(1)


@app.command()
def compact(
    path: _Path,
    keep: Annotated[int, typer.Option(min=2, help="Versions whose routing stays.")] = 20,
) -> None:
    """Sum up old versions in a line each and remove their files; a running query is not disturbed."""
    from skewless.spark.policy_history import compact as sum_up
    from skewless.spark.policy_history import history

    history(path)  # refuses a folder that is no policy log
    removed = sum_up(path, keep)
    typer.echo(
        f"removed {removed} version{'' if removed == 1 else 's'}; each is a line of history now"
    )


def _document(
    path: str, found: History, shown: Version | None, routing: Routing | None, last: int
) -> dict[str, Any]:
    """Return what is told, as JSON values."""
    versions = []
    for one in found.versions[-last:]:
        body = one._asdict()
        body["changes"] = None if one.changes is None else one.changes._asdict()
        versions.append(body)
    detail = None
    if shown is not None and routing is not None:
        hot = [{"key": key, "shares": shares} for key, shares in _heaviest(routing)]
        detail = {"version": shown.version, "hot": hot}
    return {
        "folder": path,
        "versions": versions,
        "damaged": [one._asdict() for one in found.damaged],
        "shown": detail,
    }


def _heaviest(routing: Routing) -> list[tuple[int, dict[int, float]]]:
    """Return the hot keys, signed, the most split first, and each one's workers by share."""
    ordered = sorted(routing.hot.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        (
            key - (1 << 64) if key >> 63 else key,
            dict(sorted(shares.items(), key=lambda part: (-part[1], part[0]))),
        )
        for key, shares in ordered
    ]


def _lines(
    path: str,
    found: History,
    shown: Version | None,
    routing: Routing | None,
    last: int,
    *,
    whole: bool,
) -> list[str]:
    """Return what is told, as lines of text."""
    gone = sum(not one.on_disk for one in found.versions)
    counts = (
        f"{len(found.versions)}, {gone} of them summed up only, {len(found.damaged)} files damaged"
    )
    lines = [
        f"policy log  {path}",
        f"versions    {counts}",
        *(f"damaged     {one.file}: {one.reason}" for one in found.damaged),
    ]
    if not whole:
        listed = found.versions[-last:]
        lines += ["", *_table(_HEADINGS, [_cells(one) for one in listed])]
    if shown is None or routing is None:
        return lines
    lines += ["", f"version {shown.version}  {_moment(shown.written_s)} UTC, {shown.policy or '-'}"]
    lines.append(
        f"  {shown.active} of {shown.workers} workers active, {len(routing.buckets)} buckets, seed "
        f"{shown.seed}, {shown.hot_keys} hot keys in {shown.hot_keys + shown.extra_fragments} fragments"
    )
    if shown.changes is not None:
        lines.append(f"  changed: {shown.changes}")
    if shown.scaling:
        lines.append(f"  active workers: {shown.scaling}")
    keys = _heaviest(routing)
    listed_keys = keys if whole else keys[:_TOP]
    if listed_keys:
        rows = [[str(key), str(len(shares)), _shares(shares)] for key, shares in listed_keys]
        lines += _table(["xxhash64", "workers", "worker: share"], rows)
    if len(keys) > len(listed_keys):
        lines.append(f"... and {len(keys) - len(listed_keys)} more: --version {shown.version}")
    return lines


_HEADINGS = (
    "version",
    "written (UTC)",
    "batch",
    "workers",
    "hot keys",
    "split",
    "max/mean",
    "policy",
    "what changed",
)


def _cells(one: Version) -> list[str]:
    workers = str(one.workers) if one.active == one.workers else f"{one.active} of {one.workers}"
    return [
        str(one.version) + ("" if one.on_disk else "*"),
        _moment(one.written_s),
        "-" if one.batch is None else str(one.batch),
        workers,
        str(one.hot_keys),
        str(one.split_keys),
        "-" if one.max_over_mean is None else f"{one.max_over_mean:.2f}",
        one.policy or "-",
        "-" if one.changes is None else str(one.changes),
    ]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _shares(shares: dict[int, float]) -> str:
    return ", ".join(f"{worker}: {share:.1%}" for worker, share in shares.items())


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return columns of text: numbers to the right, the last two columns to the left."""
    shown = [[_printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in shown) for i in range(len(headings))]
    left = len(headings) - 2 if len(headings) > 3 else len(headings) - 1
    return [
        "  ".join(
            cell.ljust(width) if i >= left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def _printable(cell: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in cell)
