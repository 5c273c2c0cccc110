"""load, create, and save: language models in the files of Hugging Face's libraries, and GGUF files.

A checkpoint is a folder with config.json, safetensors files, and, for text, tokenizer.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._checks import Size, checked
from .._core import int32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import CheckpointError, GraphError
from ..graph import Graph
from ..nn.initialisers import Initialiser, zeros
from ..nn.state import Value
from ..nn.weights.files import read_values
from .adapters import adapter_names
from .decoder import Decoder, Encoder, LanguageModel
from .families import family_of
from .gguf import read_gguf
from .gptq import method_of, packed_checkpoint
from .quantization import Formats, formats_of, packed_rules, quantized_formats, replace_layers, without_quantization
from .settings import Settings
from .storage import read_json, write_safetensors
from .tokenizer import Tokenizer, load_tokenizer
from .weights import dtype_of, load_weights, renamed_state, written

PathLike = str | os.PathLike[str]
_LARGEST = 5 << 30  # Maximum size of a safetensors file in bytes, as in Hugging Face's libraries.


@checked
def load(
    path: PathLike, *, dtype: DTypeLike | None = None, ignore: Sequence[str] = ()
) -> tuple[LanguageModel, Tokenizer | None]:
    """Load a language model and its tokenizer.

    Every entry of config.json and every tensor must be understood; anything else is an error, so a model never
    computes something other than its authors intended without notice.

    Args:
        path: Folder with config.json, safetensors files (one, or several with an index), and tokenizer.json; or a
            .gguf file. Its matrices of the types Q4_0, Q8_0, and Q4_K stay packed; other quantized tensors become
            floating-point numbers.
        dtype: Element type of the parameters and of the computation. None, the default, means the checkpoint's.
        ignore: Entries of config.json and patterns of tensor names to ignore, such as "vision_tower.*".

    Returns:
        The model, in inference mode, and the tokenizer, or None if there is no tokenizer.json.

    Raises:
        CheckpointError: If files are missing or damaged, or tensors are missing, left over, or of the wrong shape.
        UnsupportedError: If the family, or an entry of config.json, is not supported.

    Example:
        >>> import tempfile
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mg.lm.save(mg.lm.create({"model_type": "llama", **sizes, **more}), folder)
        ...     model, tokenizer = mg.lm.load(folder)
        >>> len(mg.lm.generate(model, None, [3, 1, 4], max_tokens=2))
        2
    """
    place = Path(path)
    state: Mapping[str, Any]
    if place.suffix == ".gguf":
        entries, state, tokenizer = read_gguf(place)
    else:
        entries, state, tokenizer = read_configuration(place), read_values(place), load_tokenizer(place)
    where = str(place / "config.json") if place.is_dir() else str(place)
    if method_of(entries) is not None:
        entries, state = packed_checkpoint(entries, state, where)
    wanted = dtype_of(state) if dtype is None else as_dtype(dtype)
    entries, quantization = without_quantization(entries, where)
    model = described(entries, zeros, wanted, ignore, where)
    family, a = family_of(entries["model_type"]), model.architecture
    rules, names, formats = family.rules(a), family.names(a), Formats()
    if quantization is not None:
        formats = formats_of(quantization, rules, renamed_state(state, rules, names, ignore), where)
        replace_layers(model, formats)
        model.configuration["quantization"] = quantization
    model(Graph().placeholder((-1, -1), int32, "tokens"))
    rules = packed_rules(rules, formats)
    load_weights(model, state, rules, names, cast=dtype is not None, ignored=ignore)
    return model.eval(), tokenizer


@checked
def create(configuration: Mapping[str, Any], *, dtype: DTypeLike = "float32", seed: int = 0) -> LanguageModel:
    """Create a language model with random weights.

    Args:
        configuration: Entries of a config.json, with at least model_type and the sizes.
        dtype: Element type of the parameters and of the computation. Defaults to "float32".
        seed: Seed of the weights. Defaults to 0.

    Returns:
        The model.

    Raises:
        CheckpointError: If an entry is missing or has the wrong type.
        UnsupportedError: If the family, or an entry, is not supported.

    Example:
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> model = mg.lm.create({"model_type": "llama", **sizes, **more})
        >>> sum(parameter.shape[0] * (parameter.shape[1:] or (1,))[0] for parameter in model.parameters())
        6800
    """
    model = described(dict(configuration), None, dtype, (), "configuration")
    model(Graph(seed).placeholder((-1, -1), int32, "tokens"))
    return model


def described(
    entries: dict[str, Any],
    initialiser: Initialiser | None,
    dtype: DTypeLike,
    ignore: Sequence[str],
    where: str,
) -> LanguageModel:
    """Return the model, still without variables, that the entries of a config.json describe."""
    family = family_of(entries.get("model_type"))
    settings = Settings(entries, where)
    architecture = family.architecture(settings)
    settings.finish(ignore)
    model = (Decoder if architecture.causal else Encoder)(architecture, initialiser, dtype)
    model.configuration = {key: value for key, value in entries.items() if key not in ("dtype", "torch_dtype")}
    return model


def read_configuration(folder: Path) -> dict[str, Any]:
    """Return the entries of a folder's config.json."""
    entries = read_json(folder / "config.json")
    if entries is None:
        raise CheckpointError(f"{folder} has no config.json: pass the folder of a checkpoint, or a .gguf file")
    if not isinstance(entries, dict):
        raise CheckpointError(f"{folder / 'config.json'} must contain a JSON object, got {shown(entries)}")
    return entries


@checked
def save(model: LanguageModel, path: PathLike, tokenizer: Tokenizer | None = None, *, largest: Size = _LARGEST) -> None:
    """Write a model and its tokenizer as a folder that `lm.load` and Hugging Face's libraries read.

    Args:
        model: Model that `lm.load` or `lm.create` returned.
        path: Folder to write, which is created if it does not exist.
        tokenizer: Tokenizer to write with the model. Defaults to none.
        largest: Maximum size of a safetensors file in bytes; a larger model is written as several files with an index.
            Defaults to 5 GiB.

    Raises:
        CheckpointError: If the model has no configuration, or the files cannot be written.
        GraphError: If the model has adapters.

    Example:
        >>> import tempfile, os
        >>> sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
        >>> more = {"num_attention_heads": 2, "max_position_embeddings": 64}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mg.lm.save(mg.lm.create({"model_type": "llama", **sizes, **more}), folder)
        ...     sorted(os.listdir(folder))
        ['config.json', 'model.safetensors']
    """
    if not model.configuration:
        raise CheckpointError(
            "save: the model has no configuration: create it with lm.create or lm.load instead of from an Architecture"
        )
    if adapter_names(model):
        raise GraphError(
            "save: the model has adapters, which this format cannot hold: write them with save_adapters, and call "
            "remove_adapters before save; or fold them into the weights with merge_adapters"
        )
    folder, family = Path(path), family_of(model.configuration["model_type"])
    state = written(model, packed_rules(family.rules(model.architecture), quantized_formats(model)))
    dtype = model.embedding.dtype.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**model.configuration, "dtype": dtype}, indent=2, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        _write_shards(folder, state, largest)
        if tokenizer is not None:
            tokenizer.save(folder)
    except OSError as error:
        raise CheckpointError(f"save: {folder} cannot be written: {error}") from error


def _write_shards(folder: Path, state: Mapping[str, Value], largest: int) -> None:
    """Write tensors as model.safetensors, or as several files and their index."""
    shards: list[dict[str, Value]] = [{}]
    size = 0
    for name, value in state.items():
        if shards[-1] and size + value.array.nbytes > largest:
            shards.append({})
            size = 0
        shards[-1][name] = value
        size += value.array.nbytes
    if len(shards) == 1:
        write_safetensors(folder / "model.safetensors", shards[0])
        return
    files = {f"model-{i:05}-of-{len(shards):05}.safetensors": shard for i, shard in enumerate(shards, 1)}
    for file, shard in files.items():
        write_safetensors(folder / file, shard)
    total = sum(value.array.nbytes for value in state.values())
    names = {name: file for file, shard in files.items() for name in shard}
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
