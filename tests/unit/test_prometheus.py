"""The text that Prometheus scrapes, read back by a parser that follows the format's page."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.operations import BatchMetrics, MetricsFile, Timing, exposition
from skewless.operations.loopback import Answer, LoopbackServer
from skewless.operations.prometheus import serve_metrics
from tests.oracles.prometheus import parse


def metrics(name: str = "clicks", **more: object) -> BatchMetrics:
    timing = Timing("id", "run", name, 1_772_366_410.25, 1.25, 101, 2.25)
    one = BatchMetrics(7, 3, 60, (30, 20, 10, 0), "WrapAround(4)", 3, timing=timing)
    return one._replace(hot_keys=5, split_keys=2, extra_fragments=4, rows_total=600, **more)


def test_every_number_of_a_batch_is_there_under_a_name_with_its_unit() -> None:
    families = parse(exposition([metrics(interval_s=10.0, batches_total=8)]))
    query = (("query", "clicks"),)
    single = {name: values[query] for name, (_, _, values) in families.items() if query in values}
    assert single == {
        "skewless_rows_total": 600,
        "skewless_batches_total": 8,
        "skewless_batch_id": 7,
        "skewless_batch_rows": 60,
        "skewless_batch_duration_seconds": 1.25,
        "skewless_batch_interval_seconds": 10.0,
        "skewless_batch_started_timestamp_seconds": 1_772_366_410.25,
        "skewless_load_max_over_mean_ratio": 1.5,
        "skewless_workers": 4,
        "skewless_active_workers": 3,
        "skewless_hot_keys": 5,
        "skewless_split_keys": 2,
        "skewless_extra_fragments": 4,
        "skewless_policy_version": 3,
        "skewless_source_behind_offsets": 101,
        "skewless_event_time_lag_seconds": 2.25,
    }
    assert families["skewless_worker_rows"][2] == {
        (*query, ("worker", str(worker))): load for worker, load in enumerate((30, 20, 10, 0))
    }
    assert families["skewless_policy_info"][2] == {(*query, ("policy", "WrapAround(4)")): 1}
    for name, (kind, words, _) in families.items():
        assert (kind == "counter") == name.endswith("_total"), name
        assert words.endswith((".", "always 1.")), name


def test_what_is_not_known_has_no_sample() -> None:
    families = parse(exposition([BatchMetrics(0, 1, 3, (1, 2))]))
    assert set(families) == {
        "skewless_batch_id",
        "skewless_batch_rows",
        "skewless_load_max_over_mean_ratio",
        "skewless_workers",
        "skewless_policy_version",
        "skewless_worker_rows",
    }
    assert exposition([]) == ""


@given(st.text(), st.text())
def test_any_name_comes_back_as_it_was(name: str, policy: str) -> None:
    one = metrics(name)._replace(policy=policy)
    values = parse(exposition([one]))["skewless_policy_info"][2]
    assert list(values) == [(("query", name or "id"), ("policy", policy))]


def test_several_queries_share_the_families() -> None:
    families = parse(exposition([metrics("a"), metrics("b")]))
    assert list(families["skewless_batch_rows"][2]) == [
        (("query", "a"),),
        (("query", "b"),),
    ]
    with pytest.raises(DataError, match=r"^exposition: query 'a' is there twice; give"):
        exposition([metrics("a"), metrics("a")])


def test_a_scrape_gets_the_last_batch_of_the_file(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    with serve_metrics(tmp_path) as server:
        assert _get(server.url + "metrics") == (200, "")
        file.append(metrics("before the checkpoint was lost"))
        file.append(metrics("now", batches_total=1))
        status, text = _get(server.url + "metrics?x=1")
        assert status == 200
        assert list(parse(text)["skewless_batch_rows"][2]) == [(("query", "now"),)]
        assert _get(server.url)[0] == 404
        assert _get(server.url + "../etc/passwd")[0] == 404


def test_the_server_listens_on_this_machine_only_and_under_its_own_name() -> None:
    with LoopbackServer({"/": lambda: Answer("text/plain", b"here")}) as server:
        assert server._server.server_address[0] == "127.0.0.1"
        for host, expected in (
            (f"127.0.0.1:{server.port}", 200),
            (f"localhost:{server.port}", 200),
            (f"elsewhere.example:{server.port}", 403),
            ("127.0.0.1", 403),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.request("GET", "/", headers={"Host": host})
            assert connection.getresponse().status == expected, host
            connection.close()
        with pytest.raises(ParameterError, match=rf"port must be free .*, got {server.port} "):
            LoopbackServer({}, port=server.port)
        url = server.url
    server.close()  # a second time
    with pytest.raises(urllib.error.URLError):
        _get(url)
    with pytest.raises(
        ParameterError, match=r"^LoopbackServer: port must be an int in \[0, 65535\]"
    ):
        LoopbackServer({}, port=70_000)


def test_a_page_that_fails_is_an_error_of_that_request_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([RuntimeError("no page"), Answer("text/plain", b"again")])

    def page() -> Answer:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with LoopbackServer({"/": page}) as server:
        assert _get(server.url)[0] == 500
        assert _get(server.url) == (200, "again")
    assert "page / cannot be made" in caplog.text


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - our own address
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
