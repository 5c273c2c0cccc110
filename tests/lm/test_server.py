"""Test the server with a plain HTTP client: responses, streams, errors, the queue, disconnection, and SIGTERM."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import mpsgraph as mg
import pytest
from harness.small_language_model import small_model, word_tokenizer

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")
PROMPT = "w5 w17 w33"
MESSAGES = [{"role": "user", "content": "w1 w2"}]


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture
def server(model):
    with mg.lm.Server(model, word_tokenizer(), "small", queue=1) as running:
        yield running


def asked(server, path, body=None, method=None, headers=None):
    """Return the status and the parsed body of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sent = {"Content-Type": "application/json", **(headers or {})}
    connection.request(method or ("GET" if body is None else "POST"), path, json.dumps(body) if body else None, sent)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def events(server, path, body):
    """Return the parsed server-sent events of a streamed response."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.getheader("Content-Type").startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.read().decode().split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_models_are_listed(server):
    status, body = asked(server, "/v1/models")
    assert status == 200 and [model["id"] for model in body["data"]] == ["small"]
    assert asked(server, "/v1/models/small")[1]["object"] == "model"


def test_completion_equals_generated_text(server, model):
    wanted = mg.lm.generate(model, word_tokenizer(), PROMPT, max_tokens=8)
    status, body = asked(
        server, "/v1/completions", {"model": "small", "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    )
    assert status == 200 and body["object"] == "text_completion"
    assert body["choices"][0]["text"] == wanted and body["choices"][0]["finish_reason"] == "length"
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}


def test_chat_completion_renders_the_template(server, model):
    wanted = mg.lm.generate(model, word_tokenizer(), MESSAGES, max_tokens=8)
    body = {"messages": MESSAGES, "max_completion_tokens": 8, "temperature": 0}
    status, found = asked(server, "/v1/chat/completions", body)
    assert status == 200 and found["choices"][0]["message"]["content"] == wanted
    assert found["usage"]["prompt_tokens"] == 5


def test_conversation_reuses_the_prompt_cache(server, model):
    first = asked(server, "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 6, "temperature": 0})[1]
    answer = first["choices"][0]["message"]["content"]
    longer = [*MESSAGES, {"role": "assistant", "content": answer}, {"role": "user", "content": "w7"}]
    wanted = mg.lm.generate(model, word_tokenizer(), longer, max_tokens=6)
    found = asked(server, "/v1/chat/completions", {"messages": longer, "max_tokens": 6, "temperature": 0})[1]
    assert found["choices"][0]["message"]["content"] == wanted


@pytest.mark.parametrize("chat", [False, True])
def test_streamed_pieces_join_to_the_whole_text(server, chat):
    path = "/v1/chat/completions" if chat else "/v1/completions"
    body = {"messages": MESSAGES} if chat else {"prompt": PROMPT}
    body |= {"max_tokens": 8, "temperature": 0}
    whole = asked(server, path, body)[1]["choices"][0]
    found = events(server, path, {**body, "stream_options": {"include_usage": True}})
    assert found.pop()["usage"]["completion_tokens"] == 8
    if chat:
        assert found[0]["choices"][0]["delta"]["role"] == "assistant"
        assert "".join(e["choices"][0]["delta"]["content"] for e in found) == whole["message"]["content"]
    else:
        assert "".join(e["choices"][0]["text"] for e in found) == whole["text"]
    assert [e["choices"][0]["finish_reason"] for e in found][-1] == "length" and len(found) > 4


def test_stop_strings_and_seeds_apply(server):
    body = {"prompt": PROMPT, "max_tokens": 20, "temperature": 1.5, "seed": 3}
    text = asked(server, "/v1/completions", body)[1]["choices"][0]["text"]
    word = text.split()[4]
    stopped = asked(server, "/v1/completions", {**body, "stop": [word]})[1]["choices"][0]
    assert stopped["text"] == text[: text.index(word)] and stopped["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/completions", {"prompt": PROMPT, "temperature": 9}, 400, "'temperature' must be a number from 0 to 2"),
        ("/v1/completions", {"prompt": PROMPT, "max_tokens": "8"}, 400, "'max_tokens' must be an integer"),
        ("/v1/completions", {"prompt": PROMPT, "n": 2}, 400, "n=2 is not supported"),
        ("/v1/completions", {"prompt": PROMPT, "logprobs": 5}, 400, "logprobs=5 is not supported"),
        ("/v1/completions", {"prompt": PROMPT, "colour": "red"}, 400, "'colour' is not a field"),
        ("/v1/completions", {"prompt": [1, 2, 400]}, 400, "token 400 is out of range"),
        ("/v1/completions", {"prompt": PROMPT, "max_tokens": 4000}, 400, "exceed the context of 512 tokens"),
        ("/v1/completions", {"prompt": PROMPT, "model": "large"}, 404, "does not exist"),
        ("/v1/completions", {"max_tokens": 3}, 400, "'prompt' must be a string or a list of tokens"),
        ("/v1/chat/completions", {"messages": []}, 400, "at least one message"),
        ("/v1/chat/completions", {"messages": [{"role": "robot", "content": "w1"}]}, 400, "unknown role"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400, "must be text"),
        ("/v1/embeddings", {"input": "x"}, 404, "does not exist"),
    ],
)
def test_bad_requests_get_errors(server, path, body, status, message):
    found = asked(server, path, body)
    assert found[0] == status and message in found[1]["error"]["message"]
    assert found[1]["error"]["type"] == "invalid_request_error"


def test_bodies_and_hosts_are_checked(server):
    for headers, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "example.org"}, 403),
        ({"Content-Length": "99999999"}, 413),
    ):
        assert asked(server, "/v1/completions", {"prompt": PROMPT}, headers=headers)[0] == status
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", "{", {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 400 and b"not valid JSON" in response.read()


def test_key_is_required_if_set(model):
    with mg.lm.Server(model, word_tokenizer(), "small", key="secret") as running:
        assert asked(running, "/v1/models")[0] == 401
        assert asked(running, "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200


def started(server, body):
    """Send a streamed request, wait for its first event, and return the connection."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    text = json.dumps({**body, "stream": True})
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
    received = b""
    while b"data: " not in received:
        received += connection.recv(1 << 16)
    return connection


def test_disconnected_client_frees_its_slot(server):
    """The request would take 500 tokens; the next one is served after the client has gone."""
    long = started(server, {"prompt": PROMPT, "max_tokens": 500, "temperature": 0})
    assert not server.slots.free
    long.close()
    status, body = asked(server, "/v1/completions", {"prompt": PROMPT, "max_tokens": 2, "temperature": 0})
    assert status == 200 and body["usage"]["completion_tokens"] == 2
    assert len(server.caches[0].tokens) < 100, "the first request was not abandoned"


def test_full_queue_refuses_requests(server, monkeypatch):
    """One request runs, one may wait, and the third gets an error."""
    gate = threading.Event()
    original = mg.lm.PromptCache._continue

    def held(self, *arguments):
        gate.wait(60)
        yield from original(self, *arguments)

    monkeypatch.setattr(mg.lm.PromptCache, "_continue", held)
    body, found = {"prompt": PROMPT, "max_tokens": 2}, []
    threads = [threading.Thread(target=lambda: found.append(asked(server, "/v1/completions", body))) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while server.slots.waiting < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    status, refused = asked(server, "/v1/completions", body)
    assert status == 503 and refused["error"]["code"] == "overloaded"
    gate.set()
    for thread in threads:
        thread.join()
    assert [status for status, _ in found] == [200, 200]


SCRIPT = """
import signal, sys
from harness.small_language_model import small_model, word_tokenizer
import mpsgraph as mg
server = mg.lm.Server(small_model(), word_tokenizer(), "small")
signal.signal(signal.SIGTERM, lambda *_: server.stop())
print(server.port, flush=True)
server.serve()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")
def test_sigterm_finishes_running_requests(repository):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, cwd=repository / "tests"
    )
    try:
        port = int(process.stdout.readline())
        running = type("Running", (), {"port": port})
        with started(running, {"prompt": PROMPT, "max_tokens": 300, "temperature": 0}) as connection:
            process.send_signal(signal.SIGTERM)
            received = b""
            while part := connection.recv(1 << 16):
                received += part
        assert received.endswith(b"data: [DONE]\n\n") and received.count(b"data: ") > 200
        assert process.wait(60) == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_openai_client_talks_to_the_server(server, model):
    openai = pytest.importorskip("openai")
    wanted = mg.lm.generate(model, word_tokenizer(), MESSAGES, max_tokens=8)
    options = {"model": "small", "messages": MESSAGES, "max_tokens": 8, "temperature": 0}
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none") as client:
        assert [each.id for each in client.models.list()] == ["small"]
        assert client.chat.completions.create(**options).choices[0].message.content == wanted
        pieces = client.chat.completions.create(**options, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == wanted
        with pytest.raises(openai.BadRequestError, match="not supported"):
            client.completions.create(model="small", prompt=PROMPT, n=3)
