"""Chat templates: conversations rendered by a checkpoint's Jinja template, and which characters the model answered.

Templates may mark answers with {% generation %} ... {% endgeneration %}, as in Hugging Face's transformers. For other
templates, answers are found by rendering the conversation up to each of them.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .._optional import require
from ..errors import GraphError

Tokenizer: TypeAlias = Any
"""A Tokenizer of mpsgraph.lm, whose file imports this one."""

Messages = Sequence[Mapping[str, Any]]
Span = tuple[int, int]
"""First character of an answer, and the one after its last."""
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def rendered(
    tokenizer: Tokenizer, messages: Messages, tools: Sequence[Any] | None, more: Mapping[str, Any]
) -> tuple[str, list[Span]]:
    """Render a conversation.

    Args:
        tokenizer: Tokenizer with the template and the special tokens.
        messages: Messages of the conversation.
        tools: Descriptions of tools, or None.
        more: Further variables of the template, such as add_generation_prompt.

    Returns:
        The text, and the spans that the template marks as generated.

    Raises:
        GraphError: If the checkpoint has no chat template, or the template rejects the messages.
        ImportError: If jinja2 is not installed.
    """
    template = template_of(tokenizer)
    require("jinja2", "lm", "a chat template")
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    mark = secrets.token_hex(8)  # Text that no conversation contains surrounds the generated parts.
    first, last = f"\0{mark}(", f"\0{mark})"

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            inside = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_marked"), [], [], inside).set_lineno(line)

        def _marked(self, caller: Any) -> str:
            return f"{first}{caller()}{last}"

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    special = {name: token for name in _SPECIAL if (token := tokenizer.special(name)) is not None}
    try:
        marked = environment.from_string(template).render(messages=list(messages), tools=tools, **{**special, **more})
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise GraphError(f"chat: the chat template rejects the messages: {error}") from error
    text, spans = "", []
    for i, part in enumerate(str(marked).split(first)):
        inside, closed, after = part.partition(last)
        if i and closed:
            spans.append((len(text), len(text) + len(inside)))
        text += inside + after
    return text, spans


def template_of(tokenizer: Tokenizer) -> str:
    """Return the chat template of a tokenizer. Raise GraphError if it has none."""
    template = tokenizer.configuration.get("chat_template")
    if isinstance(template, list):  # Several templates with names.
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    if not isinstance(template, str):
        raise GraphError(
            "chat: the checkpoint has no chat template: pass the prompt as a string, or set "
            'tokenizer.configuration["chat_template"]'
        )
    return template


def answered(
    tokenizer: Tokenizer, messages: Messages, tools: Sequence[Any] | None, more: Mapping[str, Any]
) -> tuple[str, list[Span]]:
    """Render a whole conversation for training.

    Returns:
        The text, and the spans of the assistant's answers, each with the tokens that end it.

    Raises:
        GraphError: If there is no answer, or the template changes earlier messages, so that answers cannot be found.
    """
    text, spans = rendered(tokenizer, messages, tools, {**more, "add_generation_prompt": False})
    answers = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
    if not answers:
        raise GraphError("the conversation has no message of the assistant, so there is nothing to learn from it")
    if "generation" in template_of(tokenizer) and spans:
        return text, spans
    found = []
    for i in answers:
        before = rendered(tokenizer, messages[:i], tools, {**more, "add_generation_prompt": True})[0] if i else ""
        until = rendered(tokenizer, messages[: i + 1], tools, {**more, "add_generation_prompt": False})[0]
        if not text.startswith(until) or not until.startswith(before):
            raise GraphError(
                "the chat template changes earlier messages when others follow, so the answers cannot be found in the "
                "text: mark them in the template with {% generation %} and {% endgeneration %}"
            )
        found.append((len(before), len(until)))
    return text, found
