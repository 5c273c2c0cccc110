"""The command `mpsgraph lm`: generate text, chat, quantize, serve, fine-tune, and merge a model.

Usage:
    mpsgraph lm generate PATH --prompt TEXT [--max-tokens N] [--temperature T] ...
    mpsgraph lm chat PATH [--system TEXT] ...
    mpsgraph lm quantize PATH OUTPUT [--bits N] [--group-size N] [--skip PATTERN]
    mpsgraph lm serve PATH [--host ADDRESS] [--port N] [--slots N] [--queue N] [--key KEY] ...
    mpsgraph lm finetune PATH DATA --output FOLDER [--resume] [--rank N] [--targets NAMES] [--epochs N] ...
    mpsgraph lm merge PATH ADAPTER --output FOLDER
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add the command to the parser of `mpsgraph`."""
    kinds = commands.add_parser("lm", help="language models: generate text, chat, quantize, serve, fine-tune, merge")
    kinds = kinds.add_subparsers(dest="lm", required=True)
    generate = kinds.add_parser("generate", help="continue a prompt and print the text as it is generated")
    chat = kinds.add_parser("chat", help="hold a conversation with the model")
    quantize = kinds.add_parser("quantize", help="pack the weights at a few bits and write them as a new checkpoint")
    serve = kinds.add_parser("serve", help="serve the model over HTTP with OpenAI's interface, on this machine only")
    finetune = kinds.add_parser("finetune", help="train an adapter on a JSONL file of texts, completions, or chats")
    merge = kinds.add_parser("merge", help="fold an adapter into the weights of a checkpoint")
    for parser in (generate, chat, quantize, serve, finetune, merge):
        parser.add_argument("path", type=Path, help="folder of the checkpoint, or a .gguf file")
        parser.add_argument("--dtype", help="element type of the computation (default: the checkpoint's)")
        parser.add_argument(
            "--ignore", action="append", default=[], metavar="NAME",
            help="entry of config.json, or pattern of tensor names, to ignore; may be repeated",
        )  # fmt: skip
    for parser in (generate, chat, serve):
        parser.add_argument("--adapter", type=Path, metavar="FOLDER", help="adapter of the model, in PEFT's format")
    for parser in (generate, chat):
        _add_sampling(parser)
    _add_finetuning(finetune)
    merge.add_argument("adapter", type=Path, help="folder of the adapter")
    for parser in (finetune, merge):
        parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder to write")
    generate.add_argument("--prompt", default="-", help='text to continue; "-", the default, reads standard input')
    generate.add_argument("--draft", type=Path, metavar="PATH", help="smaller checkpoint that proposes tokens")
    generate.add_argument("--cache", type=Path, metavar="FILE", help="prompt cache to continue from, and to write")
    quantize.add_argument("output", type=Path, help="folder to write")
    quantize.add_argument("--bits", type=int, default=4, metavar="N", help="bits of a weight (default: 4)")
    quantize.add_argument("--group-size", type=int, default=64, metavar="N",
                          help="weights that share a scale and a bias (default: 64)")  # fmt: skip
    quantize.add_argument("--skip", action="append", default=[], metavar="PATTERN",
                          help="paths of layers to leave as they are; may be repeated")  # fmt: skip
    chat.add_argument("--system", metavar="TEXT", help="system message")
    serve.add_argument("--name", help="name of the model in requests (default: the name of the folder)")
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, only this machine)"
    )
    serve.add_argument("--port", type=int, default=8080, help="port to listen on (default: 8080)")
    serve.add_argument("--context", type=int, metavar="N", help="maximum number of tokens of a request (default: 4096)")
    serve.add_argument("--slots", type=int, default=1, metavar="N", help="requests processed at once (default: 1)")
    serve.add_argument("--queue", type=int, default=16, metavar="N", help="requests that may wait (default: 16)")
    serve.add_argument("--max-tokens", type=int, default=512, metavar="N",
                       help="tokens to generate if a request does not state it (default: 512)")  # fmt: skip
    serve.add_argument("--key", default=os.environ.get("MPSGRAPH_API_KEY"), metavar="KEY",
                       help="key that clients must send (default: the variable MPSGRAPH_API_KEY, or none)")  # fmt: skip


def _add_finetuning(parser: argparse.ArgumentParser) -> None:
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    real: dict[str, Any] = {"type": float, "metavar": "X"}
    parser.add_argument("data", help="JSONL file whose lines have text, prompt and completion, or messages")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run from its last checkpoint")
    parser.add_argument("--validation", metavar="FILE", help="JSONL file to evaluate after each epoch")
    parser.add_argument("--rank", default=8, **number, help="rank of the adapter (default: 8)")
    parser.add_argument("--alpha", **real, help="numerator of the scale alpha / rank (default: twice the rank)")
    parser.add_argument(
        "--targets", default="query,value", metavar="NAMES",
        help='projections with an adapter, separated by commas, or "all-linear" (default: query,value)',
    )  # fmt: skip
    parser.add_argument("--dropout", default=0.0, **real, help="dropout of the adapter's input (default: 0)")
    parser.add_argument("--dora", action="store_true", help="learn the norms of the outputs as well")
    parser.add_argument("--rslora", action="store_true", help="scale by alpha / sqrt(rank)")
    parser.add_argument("--epochs", default=1, **number, help="number of epochs (default: 1)")
    parser.add_argument("--steps", **number, help="number of steps, instead of epochs")
    parser.add_argument("--batch-size", default=4, **number, help="rows of a batch (default: 4)")
    parser.add_argument("--max-length", default=512, **number, help="maximum number of tokens of a row (default: 512)")
    parser.add_argument("--pack", action="store_true", help="put several samples into a row")
    parser.add_argument("--truncate", action="store_true", help="drop the end of samples that are too long")
    parser.add_argument("--accumulate", default=1, **number, help="batches of one update (default: 1)")
    parser.add_argument("--rate", default=1e-4, **real, help="highest learning rate (default: 0.0001)")
    parser.add_argument("--warm-up", default=0, **number, help="updates in which the rate rises (default: 0)")
    parser.add_argument("--weight-decay", default=0.0, **real, help="weight decay of AdamW (default: 0)")
    parser.add_argument("--seed", default=0, **number, help="seed of dropout and the order of the data (default: 0)")
    parser.add_argument("--save-every", default=100, **number, help="steps between checkpoints (default: 100)")


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N", help="tokens to generate (default: 256)")
    parser.add_argument("--temperature", type=float, default=0.7, metavar="T",
                        help="0 chooses the likeliest token; higher values surprise more (default: 0.7)")  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="K", help="choose only from the K likeliest tokens")
    parser.add_argument("--top-p", type=float, metavar="P",
                        help="choose only from the likeliest tokens with this total probability")  # fmt: skip
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P",
                        help="choose only from tokens with this fraction of the highest probability")  # fmt: skip
    parser.add_argument("--repetition-penalty", type=float, default=1.0, metavar="R",
                        help="make tokens that occurred less likely (default: 1, no penalty)")  # fmt: skip
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end at this text; may be repeated")
    parser.add_argument("--seed", type=int, help="seed of the random numbers (default: random)")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    commands = {
        "generate": _generate, "chat": _chat, "quantize": _quantize, "serve": _serve, "finetune": _finetune,
        "merge": _merge,
    }  # fmt: skip
    return commands[options.lm](options)


def _load(options: argparse.Namespace) -> tuple[Any, Any]:
    from .lm.files import load
    from .lm.peft import load_adapters

    model, tokenizer = load(options.path, dtype=options.dtype, ignore=options.ignore)
    if getattr(options, "adapter", None) is not None:
        load_adapters(model, options.adapter)
    return model.eval(), tokenizer


def _sampling(options: argparse.Namespace) -> dict[str, Any]:
    names = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "stop", "seed")
    return {name: getattr(options, name) for name in names}


def _generate(options: argparse.Namespace) -> int:
    from .lm.files import load
    from .lm.generation import stream
    from .lm.prompt_cache import PromptCache

    model, tokenizer = _load(options)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    draft = None if options.draft is None else load(options.draft, dtype=options.dtype)[0]
    cache = None
    if options.cache is not None:
        there = options.cache.is_file()
        cache = PromptCache.load(options.cache, model) if there else PromptCache(model)
    for piece in stream(model, tokenizer, prompt, cache=cache, draft=draft, **_sampling(options)):
        print(piece, end="", flush=True)
    print()
    if cache is not None:
        cache.save(options.cache)
    return 0


def _chat(options: argparse.Namespace) -> int:
    from .lm.generation import stream
    from .lm.prompt_cache import PromptCache

    model, tokenizer = _load(options)
    cache = PromptCache(model)
    messages = [] if options.system is None else [{"role": "system", "content": options.system}]
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            return 0
        if not text.strip():
            continue
        messages.append({"role": "user", "content": text})
        answer = []
        for piece in stream(model, tokenizer, messages, cache=cache, **_sampling(options)):
            answer.append(piece)
            print(piece, end="", flush=True)
        print()
        messages.append({"role": "assistant", "content": "".join(answer)})


def _quantize(options: argparse.Namespace) -> int:
    from .lm.files import save
    from .lm.quantization import quantize

    model, tokenizer = _load(options)
    quantize(model, options.bits, options.group_size, skip=options.skip)
    save(model, options.output, tokenizer)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from .lm.server import Server

    model, tokenizer = _load(options)
    name = options.name or options.path.resolve().stem
    server = Server(
        model, tokenizer, name, host=options.host, port=options.port, context=options.context, slots=options.slots,
        queue=options.queue, max_tokens=options.max_tokens, key=options.key,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    print(f"serving {name} at http://{options.host}:{server.port}/v1", flush=True)
    server.serve()
    return 0


def _finetune(options: argparse.Namespace) -> int:
    from .lm.finetuning import FineTuning, finetune

    targets = options.targets if options.targets == "all-linear" else options.targets.split(",")
    names = (
        "data", "validation", "rank", "alpha", "dropout", "dora", "epochs", "steps", "batch_size", "max_length", "pack",
        "truncate", "accumulate", "rate", "warm_up", "weight_decay", "seed", "dtype", "save_every", "ignore",
    )  # fmt: skip
    chosen = {name: getattr(options, name) for name in names}
    settings = FineTuning(str(options.path), targets=targets, rank_stabilized=options.rslora, **chosen)
    finetune(settings, options.output, resume=options.resume)
    print(f"the adapter is in {options.output}")
    return 0


def _merge(options: argparse.Namespace) -> int:
    from .lm.finetuning import merge

    merge(options.path, options.adapter, options.output, dtype=options.dtype, ignore=options.ignore)
    print(f"the merged checkpoint is in {options.output}")
    return 0
