"""A small web server for this machine only: pages that are made when they are asked for."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Annotated, Any, NamedTuple

from skewless.errors import ParameterError
from skewless.parameters import Range, check

__all__ = ["Answer", "LoopbackServer", "Port"]

_ADDRESS = "127.0.0.1"
_log = logging.getLogger("skewless")

Port = Annotated[int, Range(0, 65535)]


class Answer(NamedTuple):
    """What a path is answered with."""

    content_type: str
    """MIME type."""
    content: bytes
    """The body."""
    max_age_s: int = 0
    """How long a browser may keep it, seconds."""


class LoopbackServer:
    """Answers GET requests on 127.0.0.1, in threads of its own, until it is closed.

    Requests under another host name are refused, so that no web page elsewhere can read through a name
    of its own that leads here.

    Parameters
    ----------
    pages
        Path to a function that returns the answer; called in a thread per request, one at a time.
    port : int in [0, 65535]
        0 takes a free one.

    Raises
    ------
    ParameterError
        The port is out of range or taken.

    Examples
    --------
    >>> with LoopbackServer({"/": lambda: Answer("text/plain", b"here")}) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, pages: Mapping[str, Callable[[], Answer]], *, port: Port = 0) -> None:
        check("LoopbackServer", type(self).__init__, port=port)
        try:
            self._server = _Server((_ADDRESS, port), _Handler)
        except OSError as error:
            raise ParameterError(
                f"LoopbackServer: port must be free on {_ADDRESS}, got {port} ({error.strerror}); take "
                "another, or 0 for any."
            ) from error
        self._server.pages = dict(pages)
        self._server.hosts = {f"{name}:{self.port}" for name in (_ADDRESS, "localhost")}
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where the server answers, with a slash at the end."""
        return f"http://{_ADDRESS}:{self.port}/"

    def close(self) -> None:
        """Stop answering and give the port back; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> LoopbackServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """What a request needs to know."""

    daemon_threads = True
    pages: Mapping[str, Callable[[], Answer]] = {}
    hosts: frozenset[str] | set[str] = frozenset()

    def __init__(self, *arguments: Any) -> None:
        self.lock = threading.Lock()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, as the base does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _ADDRESS, int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        """Answer with the page, an error page, or a refusal."""
        if self.headers.get("Host", "") not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "Ask by the address 127.0.0.1")
            return
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            with self.server.lock:
                answer = page()
        except Exception:  # noqa: BLE001 - whoever asks must learn that it failed; the server lives on
            _log.exception("skewless: page %s cannot be made", self.path)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.content)))
        age = f"max-age={answer.max_age_s}" if answer.max_age_s else "no-store"
        self.send_header("Cache-Control", age)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: a terminal that shows a query is no place for a log of requests."""
