"""``skewless state``: look into the state folder of a stateful stream."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help=__doc__)


@app.callback()
def _root() -> None:
    """Look into the state folder of a stateful stream."""


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="Folder that the query names as state=.")],
    batch: Annotated[
        int | None, typer.Option(min=0, help="State after this batch; the newest if left out.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="States to print.")] = 0,
    check: Annotated[bool, typer.Option(help="Read every file and prove its checksum.")] = False,
) -> None:
    """Say what a state folder holds: versions, sizes, owners, the last batches."""
    from skewless.state_store import describe, read_state, verify

    for line in _lines(describe(path, batch=batch)):
        typer.echo(line)
    if rows:
        typer.echo("states")
        for row in read_state(path, batch=batch).slice(0, rows).to_pylist():
            typer.echo("  " + ", ".join(f"{name}={value!r}" for name, value in row.items()))
    if check:
        damaged = verify(path, batch=batch)
        for sentence in damaged:
            typer.echo(f"error: {sentence}", err=True)
        typer.echo(f"files: {len(damaged)} damaged" if damaged else "files: all whole")
        if damaged:
            raise SystemExit(1)


def _lines(found: dict[str, Any]) -> list[str]:
    """Return the description as lines of text."""
    columns = {**found["key_columns"], **found["state_columns"]}
    lines = [
        f"state     {found['folder']}",
        f"query     {found['query']}, after batch {found['batch']}",
        f"versions  {', '.join(map(str, found['versions']))}; shown: {found['version']}",
        f"columns   {', '.join(f'{name} {kind}' for name, kind in columns.items())}",
        f"size      {found['keys']:,} keys, {found['bytes']:,} bytes, {found['n_buckets']} buckets",
        f"routing   {found['routing']}",
        "",
        "worker       keys        bytes  files",
    ]
    for worker, held in found["workers"].items():
        lines.append(f"{worker:6d} {held['keys']:10,d} {held['bytes']:12,d} {held['files']:6d}")
    lines += ["", " batch       rows  max/mean  moved keys      part   migration  what"]
    for one in found["records"][-10:]:
        mean = one["rows"] / len(one["loads"])
        balance = max(one["loads"]) / mean if mean else 1.0
        lines.append(
            f"{one['batch']:6d} {one['rows']:10,d} {balance:9.2f} {one['moved_keys']:11,d} "
            f"{one['relative_migration']:9.4f} {one['migration_ms']:8.1f} ms  {one['reason']}"
        )
    return lines
