"""Server: a local HTTP server with OpenAI's interface for completions, on the standard library.

Each connection has a thread, which waits for one of a few slots. A slot holds a prompt cache, so a conversation that
continues processes only its new messages. The number of waiting requests is bounded. A client that disconnects frees
its slot at the next token.
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .._checks import Count, Size, checked
from ..errors import Error, GraphError
from .decoder import LanguageModel
from .generation import Piece, allowed, checked_tokens, stream
from .prompt_cache import PromptCache
from .requests import RequestError, Response, completion_of
from .tokenizer import Tokenizer

_LARGEST_BODY = 8 << 20
_PATIENCE = 10.0  # Seconds within which a client must send its request.
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]", "::1"}


class _Slots:
    """Prompt caches, each of which serves one request at a time, and the requests that wait for them."""

    def __init__(self, caches: list[PromptCache], waiting: int) -> None:
        self.free, self.most, self.waiting = list(caches), waiting, 0
        self.changed, self.closed = threading.Condition(), False

    @contextmanager
    def taken(self, tokens: list[int], connected: Any) -> Iterator[PromptCache]:
        """Wait for a cache, preferably one that begins with the same tokens.

        Raises:
            RequestError: If too many requests wait, or the server is shutting down.
            ConnectionError: If the client disconnects while it waits.
        """
        with self.changed:
            if not self.free and self.waiting >= self.most:
                raise RequestError("the server is busy: try again later", 503, code="overloaded")
            self.waiting += 1
            try:
                while not self.free:
                    if self.closed:
                        break
                    self.changed.wait(0.2)
                    if not connected():
                        raise ConnectionError("the client has disconnected")
            finally:
                self.waiting -= 1
            if self.closed:
                raise RequestError("the server is shutting down", 503, code="shutting_down")
            cache = max(self.free, key=lambda c: _common(c.tokens, tokens))
            self.free.remove(cache)
        try:
            yield cache
        finally:
            with self.changed:
                self.free.append(cache)
                self.changed.notify()

    def close(self) -> None:
        """Refuse all requests that wait."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


def _common(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@checked
class Server:
    """Serves a model over HTTP: /v1/models, /v1/completions, and /v1/chat/completions.

    Args:
        model: Decoder.
        tokenizer: Tokenizer of the model.
        name: Name of the model in requests.
        host: Address to listen on. Defaults to "127.0.0.1", which other machines cannot reach.
        port: Port to listen on. 0, the default, means a free one.
        context: Maximum number of tokens of a prompt and its continuation. Defaults to 4096, or the model's maximum
            length if that is smaller.
        slots: Number of requests that are processed at the same time. Defaults to 1.
        queue: Number of requests that may wait; further ones get an error. Defaults to 16.
        max_tokens: Number of tokens to generate if a request does not state it. Defaults to 512.
        key: Key that clients must send as a bearer token. Defaults to none.

    Attributes:
        port: Port on which the server listens.

    Raises:
        GraphError: If the model is not a Decoder, or tokenizer is None.
        OSError: If the address cannot be used.

    Example:
        >>> import tokenizers, urllib.request
        >>> backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(50)}, unk_token="0"))
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> with mg.lm.Server(model, mg.lm.Tokenizer(backend), "small") as server:
        ...     found = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/models").read()
        >>> b'"id": "small"' in found
        True
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer | None,
        name: str,
        *,
        host: str = "127.0.0.1",
        port: Count = 0,
        context: Size | None = None,
        slots: Size = 1,
        queue: Count = 16,
        max_tokens: Size = 512,
        key: str | None = None,
    ) -> None:
        if tokenizer is None:
            raise GraphError("Server needs a tokenizer, got None: the checkpoint has no tokenizer.json")
        self.model, self.tokenizer, self.name, self.key, self.max_tokens = model, tokenizer, name, key, max_tokens
        self.context = min(4096, model.architecture.max_length) if context is None else context
        if model.architecture.learned_positions:
            self.context = min(self.context, model.architecture.learned_positions)
        self.caches = [PromptCache(model, self.context) for _ in range(slots)]
        self.slots = _Slots(self.caches, queue)
        self.created, self.loopback = int(time.time()), host in _LOOPBACK
        self._http = _Http((host, port), _Handler, slots + queue + 16)
        self._http.server = self
        self.port = int(self._http.server_address[1])
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Serve requests until `stop` is called from another thread or a signal handler."""
        self._http.serve_forever(0.1)
        self._http.server_close()  # Waits for the requests that are running.
        for cache in self.caches:
            cache.close()

    def stop(self) -> None:
        """Accept no further requests and refuse those that wait; requests that are running are finished."""
        self.slots.close()
        threading.Thread(target=self._http.shutdown, daemon=True).start()

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self.serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()


class _Http(ThreadingHTTPServer):
    """The HTTP server, with a bounded number of connections."""

    daemon_threads = False
    server: Server

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], most: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.connections = threading.BoundedSemaphore(most)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"mpsgraph: a request failed: {error!r}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    """One request. Each connection serves a single one."""

    protocol_version = "HTTP/1.1"
    server_version = "mpsgraph"
    sys_version = ""
    timeout = _PATIENCE
    server: _Http

    @property
    def app(self) -> Server:
        return self.server.server

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _answered(self, handle: Any) -> None:
        self.close_connection = True
        try:
            self._authorize()
            handle()
        except RequestError as error:
            self._json(error.body(), error.status)
        except Error as error:
            self._json(RequestError(str(error), 500).body(), 500)

    def _authorize(self) -> None:
        app = self.app
        host = self.headers.get("Host", "")
        host = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        if app.loopback and host not in _LOOPBACK:
            raise RequestError(f"the host {host!r} is not this machine", 403, code="forbidden_host")
        if app.key is not None:
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), app.key.encode()):
                raise RequestError("the API key is missing or wrong", 401, code="invalid_api_key")

    def _get(self) -> None:
        app = self.app
        model = {"id": app.name, "object": "model", "created": app.created, "owned_by": "mpsgraph"}
        if self.path == "/v1/models":
            self._json({"object": "list", "data": [model]})
        elif self.path == f"/v1/models/{app.name}":
            self._json(model)
        elif self.path == "/health":
            self._json({"status": "ok"})
        else:
            raise RequestError(f"{self.path} does not exist", 404, code="not_found")

    def _post(self) -> None:
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            raise RequestError(f"{self.path} does not exist", 404, code="not_found")
        app = self.app
        request = completion_of(
            self._body(), chat="chat" in self.path, name=app.name, tokenizer=app.tokenizer, context=app.context,
            default=app.max_tokens,
        )  # fmt: skip
        try:
            checked_tokens(app.model, [request.tokens])
            allowed(app.model, len(request.tokens), 1)
        except Error as error:
            raise RequestError(str(error)) from error
        with app.slots.taken(request.tokens, self._connected) as cache:
            response = Response(request, app.name)
            pieces = stream(app.model, app.tokenizer, request.tokens, cache=cache, **request.options)
            try:
                if request.streamed:
                    self._stream(pieces, response)
                else:
                    self._whole(pieces, response)
            finally:
                pieces.close()  # type: ignore[attr-defined]

    def _body(self) -> Any:
        """Return the parsed body of the request."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # Browsers send other types to any site without asking it.
            raise RequestError(f"Content-Type must be application/json, got {kind!r}", 415)
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise RequestError("Content-Length is required", 411)
        if int(length) > _LARGEST_BODY:
            raise RequestError(f"the body must have at most {_LARGEST_BODY} bytes, got {length}", 413)
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the body is not valid JSON: {error}") from error

    def _stream(self, pieces: Iterator[Piece], response: Response) -> None:
        """Send pieces as server-sent events."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        first = True
        try:
            for piece in pieces:
                self._event(response.chunk(piece, first))
                first = False
                if not self._connected():
                    return
            if response.request.usage:
                self._event(response.last())
        except Error as error:
            self._event(RequestError(str(error), 500).body())
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, content: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(content).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, pieces: Iterator[Piece], response: Response) -> None:
        text, reason = [], None
        for piece in pieces:
            response.count += len(piece.tokens)
            text.append(str(piece))
            reason = piece.reason
            if not self._connected():
                return
        self._json(response.whole("".join(text), reason))

    def _json(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def _connected(self) -> bool:
        """Return whether the client is still connected; a closed connection is readable and has no data."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except (OSError, ValueError):
            return False
