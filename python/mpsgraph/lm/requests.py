"""Requests and responses of the server: the fields of OpenAI's completion interface, checked one by one.

A field that the server does not support is an error, so a client never gets a result that ignores a setting.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._display import shown
from ..errors import Error
from .generation import Piece, tokens_of
from .tokenizer import Tokenizer


class RequestError(Exception):
    """An invalid request, with the HTTP status and the parts of OpenAI's error object."""

    def __init__(self, message: str, status: int = 400, parameter: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.parameter, self.code = status, parameter, code

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the response."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max_tokens": ("an integer of at least 1", _is_count),
    "max_completion_tokens": ("an integer of at least 1", _is_count),
    "temperature": ("a number from 0 to 2", lambda v: _is_number(v) and 0 <= v <= 2),
    "top_p": ("a number above 0 and at most 1", lambda v: _is_number(v) and 0 < v <= 1),
    "top_k": ("an integer of at least 1", _is_count),
    "min_p": ("a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1),
    "repetition_penalty": ("a number above 0", lambda v: _is_number(v) and v > 0),
    "seed": ("an integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "stream": ("true or false", lambda v: isinstance(v, bool)),
    "stream_options": (
        "an object",
        lambda v: isinstance(v, dict) and v.keys() <= {"include_usage", "include_obfuscation"},
    ),
    "stop": (
        "a string or a list of at most 4 strings",
        lambda v: isinstance(v, str) or (isinstance(v, list) and len(v) <= 4 and all(isinstance(s, str) for s in v)),
    ),
}
"""What each supported field must be, besides model, prompt, and messages."""
_ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "echo": (False,), "logprobs": (False, 0), "top_logprobs": (0,), "suffix": ("",),
    "presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},), "tools": ([],), "functions": ([],),
    "tool_choice": ("none", "auto"), "function_call": ("none", "auto"), "response_format": ({"type": "text"},),
    "modalities": (["text"],), "parallel_tool_calls": (True, False), "service_tier": ("auto", "default"),
    "store": (False,),
}  # fmt: skip
"""Fields of the interface that only these values leave without an effect."""
_NO_EFFECT = {"user", "metadata", "safety_identifier", "prompt_cache_key"}


@dataclass(frozen=True)
class Completion:
    """A checked request.

    Attributes:
        chat: Whether it is a chat completion.
        tokens: Tokens of the prompt.
        options: Keyword arguments of `lm.stream`.
        streamed: Whether to send the text as it is generated.
        usage: Whether a streamed response ends with the numbers of tokens.
    """

    chat: bool
    tokens: list[int]
    options: dict[str, Any]
    streamed: bool
    usage: bool


def completion_of(body: Any, *, chat: bool, name: str, tokenizer: Tokenizer, context: int, default: int) -> Completion:
    """Check the body of a request.

    Args:
        body: The parsed JSON body.
        chat: Whether the request is a chat completion.
        name: Name of the model.
        tokenizer: Tokenizer of the model.
        context: Maximum number of tokens of a prompt and its continuation.
        default: Number of tokens to generate if the request does not state it.

    Raises:
        RequestError: If a field is missing, invalid, or not supported.
    """
    if not isinstance(body, dict):
        raise RequestError(f"the body must be a JSON object, got {shown(body)}")
    subject = "messages" if chat else "prompt"
    for key in body:
        if key not in ("model", subject, *_FIELDS, *_ONLY, *_NO_EFFECT):
            raise RequestError(f"'{key}' is not a field of this request", parameter=key, code="unknown_parameter")
    if (model := body.get("model", name)) != name:
        raise RequestError(
            f"the model {shown(model)} does not exist; this server has '{name}'", 404, "model", "model_not_found"
        )
    fields = {key: value for key, value in body.items() if value is not None}
    for key, value in fields.items():
        if key in _FIELDS and not _FIELDS[key][1](value):
            raise RequestError(f"'{key}' must be {_FIELDS[key][0]}, got {shown(value)}", parameter=key)
        if key in _ONLY and value not in _ONLY[key]:
            raise RequestError(f"{key}={shown(value)} is not supported", parameter=key, code="unsupported_parameter")
    tokens = _prompt(fields.get(subject), chat, tokenizer)
    stated = fields.get("max_completion_tokens", fields.get("max_tokens"))
    count = min(default, context - len(tokens)) if stated is None else stated
    if len(tokens) + max(count, 1) > context:
        raise RequestError(
            f"the prompt has {len(tokens)} tokens, and {max(count, 1)} more exceed the context of {context} tokens",
            parameter=subject, code="context_length_exceeded",
        )  # fmt: skip
    names = ("top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop")
    options = {key: fields[key] for key in names if key in fields}
    options |= {"max_tokens": count, "temperature": fields.get("temperature", 1.0)}
    usage = bool(fields.get("stream_options", {}).get("include_usage", False))
    return Completion(chat, tokens, options, fields.get("stream", False), usage)


def _prompt(given: Any, chat: bool, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of a request's messages or prompt."""
    subject = "messages" if chat else "prompt"
    if not chat and isinstance(given, list) and len(given) == 1 and not isinstance(given[0], int):
        given = given[0]
    if chat:
        if not isinstance(given, list) or not given:
            raise RequestError(
                f"'messages' must be a list of at least one message, got {shown(given)}", parameter=subject
            )
        given = [_message(message) for message in given]
    elif not (isinstance(given, str) or (isinstance(given, list) and all(_is_token(t) for t in given))):
        raise RequestError(f"'prompt' must be a string or a list of tokens, got {shown(given)}", parameter=subject)
    try:
        return tokens_of(tokenizer, given)
    except (Error, ImportError) as error:
        raise RequestError(str(error), parameter=subject) from error


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _message(given: Any) -> dict[str, Any]:
    """Return a message whose content is text."""
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str):
        raise RequestError(f"each message must be an object with a role, got {shown(given)}", parameter="messages")
    content = given.get("content")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in content
        ]
        content = None if None in parts else "".join(map(str, parts))
    if not isinstance(content, str):
        raise RequestError(f"the content of each message must be text, got {shown(given)}", parameter="messages")
    return {**given, "content": content}


class Response:
    """Builds the JSON objects of a response.

    Args:
        request: The request.
        name: Name of the model.
    """

    def __init__(self, request: Completion, name: str) -> None:
        self.request = request
        kind = "chat.completion" if request.chat else "text_completion"
        self.kind = kind
        prefix = "chatcmpl" if request.chat else "cmpl"
        self.head = {"id": f"{prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": name}
        self.count = 0

    def chunk(self, piece: Piece, first: bool) -> dict[str, Any]:
        """Return the object of a streamed piece."""
        self.count += len(piece.tokens)
        choice: dict[str, Any] = {"index": 0, "finish_reason": piece.reason, "logprobs": None}
        if self.request.chat:
            choice["delta"] = {**({"role": "assistant"} if first else {}), "content": str(piece)}
        else:
            choice["text"] = str(piece)
        kind = "chat.completion.chunk" if self.request.chat else self.kind
        return {**self.head, "object": kind, "choices": [choice]}

    def whole(self, text: str, reason: str | None) -> dict[str, Any]:
        """Return the object of a complete response."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.request.chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["text"] = text
        return {**self.head, "object": self.kind, "choices": [choice], "usage": self.usage()}

    def usage(self) -> dict[str, int]:
        """Return the numbers of tokens."""
        prompt = len(self.request.tokens)
        return {"prompt_tokens": prompt, "completion_tokens": self.count, "total_tokens": prompt + self.count}

    def last(self) -> dict[str, Any]:
        """Return the object that ends a streamed response with the numbers of tokens."""
        kind = "chat.completion.chunk" if self.request.chat else self.kind
        return {**self.head, "object": kind, "choices": [], "usage": self.usage()}
