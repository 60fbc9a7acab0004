"""A query's metrics in Prometheus' text format, and a loopback address that serves them.

Format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from skewless.errors import DataError
from skewless.operations.batch_metrics import BatchMetrics
from skewless.operations.loopback import Answer, LoopbackServer, Port
from skewless.operations.metrics_file import MetricsFile, Tail

__all__ = ["CONTENT_TYPE", "answer", "exposition", "serve_metrics"]

#: What a server says the text is.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Family(NamedTuple):
    name: str
    kind: str
    text: str
    value: Callable[[BatchMetrics], float | None]


#: One line each; the unit is in the name, a counter's name ends in _total.
_FAMILIES = (
    _Family("rows_total", "counter", "Rows routed since the query began.", lambda m: m.rows_total),
    _Family(
        "batches_total",
        "counter",
        "Micro-batches with rows since the query began.",
        lambda m: m.batches_total,
    ),
    _Family("batch_id", "gauge", "Id of the last micro-batch.", lambda m: m.batch),
    _Family("batch_rows", "gauge", "Rows of the last micro-batch.", lambda m: m.rows),
    _Family(
        "batch_duration_seconds",
        "gauge",
        "What the last micro-batch took.",
        lambda m: m.timing.seconds,
    ),
    _Family(
        "batch_interval_seconds",
        "gauge",
        "From the begin of the micro-batch before to that of the last one.",
        lambda m: m.interval_s,
    ),
    _Family(
        "batch_started_timestamp_seconds",
        "gauge",
        "When the last micro-batch began, since 1970.",
        lambda m: m.timing.started_s,
    ),
    _Family(
        "load_max_over_mean_ratio",
        "gauge",
        "Rows of the fullest worker over the mean of the active ones.",
        lambda m: m.max_over_mean,
    ),
    _Family("workers", "gauge", "Workers, active or not.", lambda m: m.workers),
    _Family("active_workers", "gauge", "Workers that the policy uses.", lambda m: m.active),
    _Family("hot_keys", "gauge", "Keys with workers of their own.", lambda m: m.hot_keys),
    _Family("split_keys", "gauge", "Keys with several workers.", lambda m: m.split_keys),
    _Family(
        "extra_fragments",
        "gauge",
        "Fragments beyond one for each hot key.",
        lambda m: m.extra_fragments,
    ),
    _Family(
        "policy_version", "gauge", "Policy version that routed the batch.", lambda m: m.version
    ),
    _Family(
        "source_behind_offsets",
        "gauge",
        "Offsets that the source has and the query did not take yet.",
        lambda m: m.timing.behind,
    ),
    _Family(
        "event_time_lag_seconds",
        "gauge",
        "From the latest event time of the last micro-batch to its begin.",
        lambda m: m.timing.event_lag_s,
    ),
)


def exposition(latest: Sequence[BatchMetrics]) -> str:
    r"""Return the text that Prometheus scrapes, for the last batch of each query.

    Parameters
    ----------
    latest
        One batch per query; the label ``query`` is the query's name, or its id.

    Returns
    -------
    str
        HELP, TYPE and samples of each family, `skewless_` in front of every name. What is not known
        has no sample.

    Raises
    ------
    DataError
        Two of the batches are of one query, so their samples would clash.

    Examples
    --------
    >>> text = exposition([BatchMetrics(4, 2, 30, (10, 20))])
    >>> print("\n".join(line for line in text.splitlines() if "worker_rows" in line))
    # HELP skewless_worker_rows Rows of each worker in the last micro-batch.
    # TYPE skewless_worker_rows gauge
    skewless_worker_rows{query="",worker="0"} 10
    skewless_worker_rows{query="",worker="1"} 20
    """
    titles = [one.title for one in latest]
    for title in titles:
        if titles.count(title) > 1:
            raise DataError(
                f"exposition: query {title!r} is there twice; give the last batch of each query, and "
                "a name of its own to each query."
            )
    lines: list[str] = []
    for family in _FAMILIES:
        samples = [
            _sample(family.name, {"query": one.title}, value)
            for one in latest
            if (value := family.value(one)) is not None
        ]
        lines += _family(family.name, family.kind, family.text, samples)
    lines += _family(
        "worker_rows",
        "gauge",
        "Rows of each worker in the last micro-batch.",
        [
            _sample("worker_rows", {"query": one.title, "worker": str(worker)}, load)
            for one in latest
            for worker, load in enumerate(one.loads)
        ],
    )
    lines += _family(
        "policy_info",
        "gauge",
        "The policy that learns; always 1.",
        [
            _sample("policy_info", {"query": one.title, "policy": one.policy}, 1)
            for one in latest
            if one.policy is not None
        ],
    )
    return "".join(f"{line}\n" for line in lines)


def answer(tail: Tail) -> Answer:
    """Return what a scrape of a metrics file gets: its last batch, and nothing of queries before."""
    tail.update()
    return Answer(CONTENT_TYPE, exposition(list(tail.batches)[-1:]).encode())


def serve_metrics(folder: str | Path, *, port: Port = 0) -> LoopbackServer:
    """Serve the metrics of a query at ``http://127.0.0.1:<port>/metrics`` until it is closed.

    Parameters
    ----------
    folder
        The folder that the query names as ``state=``; its first batch may be yet to come.
    port : int in [0, 65535]
        0 takes a free one.

    Returns
    -------
    LoopbackServer
        A context manager with `url` and `close`; it answers in a thread of its own.

    Examples
    --------
    >>> import tempfile, urllib.request
    >>> with tempfile.TemporaryDirectory() as folder, serve_metrics(folder) as server:
    ...     with urllib.request.urlopen(f"{server.url}metrics") as reply:
    ...         reply.status
    200
    """
    tail = Tail(MetricsFile(folder))
    return LoopbackServer({"/metrics": lambda: answer(tail)}, port=port)


def _family(name: str, kind: str, text: str, samples: list[str]) -> list[str]:
    if not samples:
        return []
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP skewless_{name} {escaped}", f"# TYPE skewless_{name} {kind}", *samples]


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"skewless_{name}{{{inside}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
