"""Text generation: continue token sequences with a language model, by sampling or beam search.

A model is a Module that takes tokens, int32 (N, L), and the keyword argument `cache`, a KeyValueCache, and returns the
logits of each next token, (N, L, V). `Generator` copies the model into a separate graph, in which a single run
processes the new tokens and samples the next ones. The graph in which the model was trained does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from .._checks import Bounds, Count, NotNegative, Size, checked
from .._core import Device, Tensor, int32
from .._display import shown
from ..errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from ..graph import Graph
from .key_value_cache import KeyValueCache
from .layers import shape_of_sizes, size_in_run
from .module import Module, unbuilt_copy
from .parts import graph_of

Prompt = np.ndarray | Sequence[int] | Sequence[Sequence[int]]
# Temperature below which the likeliest token is selected, because exponentials of logits / temperature may overflow.
_COLDEST = 1e-6
_FEWEST_ENTRIES = 64  # Minimum number of entries of the cache that a run reads.
TopP = Annotated[float, Bounds("above 0 and at most 1", lambda v: 0 < v <= 1)]


@checked
def sampled(
    logits: Tensor, temperature: Tensor | float = 1.0, *, top_k: Size | None = None, top_p: Tensor | TopP | None = None
) -> Tensor:
    """Sample a class for each row from softmax(logits / temperature).

    Each run draws new samples from the graph's random state.

    Args:
        logits: (N, V), with a known number of classes V.
        temperature: Number of at least 0, or a tensor with one element. 0 selects the likeliest class. Defaults to 1.
        top_k: Sample only from the k likeliest classes. Defaults to all.
        top_p: Sample only from the smallest set of likeliest classes whose probabilities, after top_k, sum to at least
            this value: a number above 0 and at most 1, or a tensor with one element. Defaults to no limit.

    Returns:
        The sampled classes, int32 (N,).

    Raises:
        ShapeError: If logits is not 2-D or V is dynamic.
        GraphError: If temperature is negative or another argument is out of range.

    Gradient: none.

    Source: Holtzman et al., arXiv:1904.09751 for top_p.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.sampled(g.constant([[1.0, 3.0, 2.0]]), top_k=1)).tolist()
        [1]
    """
    if logits.shape is None or len(logits.shape) != 2 or logits.shape[1] < 1:
        raise ShapeError(f"sampled needs 2-D logits (N, V) with a known number of classes, got shape {logits.shape}")
    if not isinstance(temperature, Tensor) and not temperature >= 0:
        raise GraphError(f"sampled: temperature must be at least 0, got {temperature}")
    g, classes = graph_of(logits), logits.shape[1]
    values, classes_of = g.cast(logits, "float32"), None
    if top_k is not None or top_p is not None:  # Sort the likeliest first, so that the candidates come first.
        values, classes_of = g.top_k(values, min(top_k or classes, classes), 1)
    warmth = g.cast(temperature, "float32") if isinstance(temperature, Tensor) else g.constant(float(temperature))
    cold = g.less_than(warmth, _COLDEST)
    best = values - g.reduction_maximum(values, 1)
    odds = g.softmax(best / g.maximum(warmth, _COLDEST), 1)
    if top_p is not None:
        odds = g.select(g.less_than(g.cumulative_sum(odds, 1, exclusive=True), top_p), odds, g.constant(0.0))
    total = g.reduction_sum(odds, 1)
    drawn = total * g.random_uniform(shape_of_sizes(total, [size_in_run(total, 0), 1]))
    place = g.reduction_sum(g.cast(g.less_than_or_equal_to(g.cumulative_sum(odds, 1), drawn), int32), 1)
    # Rounding can leave the drawn number above the sum of all odds. In that case, take the last class with nonzero
    # odds.
    number = g.coordinate_along_axis(1, g.shape_of(odds))
    last = g.reduction_maximum(g.select(g.greater_than(odds, 0.0), number, 0), 1)
    place = g.select(cold, g.reduction_arg_maximum(values, 1), g.minimum(place, last))
    return g.reshape(place if classes_of is None else g.gather_along_axis(1, classes_of, place), [-1])


@checked
class Generator:
    """Continues token sequences with a language model and its key-value cache.

    The generator copies the model's values when it is created and at each `load`.

    Args:
        model: Language model that has been called. It takes tokens, int32 (N, L), and `cache`, and returns logits (N,
            L, V).
        max_length: Maximum length of a prompt plus the new tokens. Defaults to 256.
        rows: Number of sequences generated at once. Defaults to 1.
        seed: Seed of the sampling. Defaults to 0.
        device: Device to run on. None, the default, means the default device.

    Raises:
        GraphError: If the model has no variables yet.
        ShapeError: If the model does not return logits (N, L, V) with a known V.

    Example:
        >>> class Next(mg.nn.Module):  # a model that likes each token's successor
        ...     def forward(self, tokens, cache=None):
        ...         return tokens.graph.one_hot((tokens + 1) % 5, 5, dtype=mg.float32) * 100.0
        >>> model = Next()
        >>> _ = model(mg.Graph().placeholder((1, -1), mg.int32))
        >>> mg.nn.Generator(model, max_length=16).generate([[2, 3]], 4).tolist()
        [[2, 3, 4, 0, 1, 2]]
    """

    def __init__(
        self, model: Module, *, max_length: Size = 256, rows: Size = 1, seed: int = 0, device: Device | None = None
    ) -> None:
        self.max_length, self.rows, self.device = max_length, rows, device
        self.graph = g = Graph(seed)
        self.tokens = g.placeholder((rows, -1), int32, "tokens")
        self.position = g.placeholder((1,), int32, "position")
        self.temperature = g.placeholder((1,), name="temperature")
        self.keys = g.placeholder((-1,), int32, "keys")
        self.cache = KeyValueCache(rows, max_length, self.position, keys=self.keys)
        self.model = unbuilt_copy(model).eval()
        logits = self.model(self.tokens, cache=self.cache)
        if logits.shape is None or len(logits.shape) != 3 or logits.shape[2] < 1:
            raise ShapeError(
                f"Generator: the model must return logits (N, L, V) with a known V, got shape {logits.shape}"
            )
        self.classes = int(logits.shape[2])
        self.logits = g.squeeze(g.slice_axis(logits, 1, -1, 1), 1)
        self._log_odds = g.log_softmax(g.cast(self.logits, "float32"), -1)
        self._rows = g.placeholder((rows,), int32, "rows")
        self._reordered = self.cache.reordered(self._rows)
        self._samplers: dict[tuple[int | None, float | None], Tensor] = {}
        self.load(model)

    def load(self, model: Module) -> None:
        """Copy the current values of a model of the same architecture.

        Args:
            model: Model whose values to copy.

        Raises:
            GraphError: If the names of the variables differ.
            ShapeError: If a shape differs.
            DTypeError: If an element type differs.
        """
        self.model.load_state_dict(model.state_dict())

    def generate(
        self,
        prompt: Prompt,
        length: Size,
        *,
        temperature: NotNegative = 1.0,
        top_k: Size | None = None,
        top_p: TopP | None = None,
        end: Count | None = None,
    ) -> np.ndarray:
        """Sample a continuation of each prompt.

        Args:
            prompt: Integer tokens (rows, P), or a list of `rows` lists whose lengths may differ; shorter prompts are
                continued while longer ones are still being read.
            length: Number of tokens to generate after the longest prompt.
            temperature: At least 0; 0 selects the likeliest token. Defaults to 1.
            top_k: Sample only from the k likeliest tokens. Defaults to all.
            top_p: Sample only from the likeliest tokens whose probabilities sum to at least this value. Defaults to no
                limit.
            end: Token that ends a sequence; the rest of the sequence is filled with it. Generation stops early if all
                sequences have ended. Defaults to none.

        Returns:
            Prompts and continuations, int32 (rows, longest prompt + length), or fewer columns if all sequences ended
            early.

        Raises:
            ShapeError: If the prompt has the wrong number of rows or an empty row, or exceeds max_length together with
                its continuation.
            DTypeError: If the tokens are not integers.
            OutOfRangeError: If a token is outside the model's vocabulary.
        """
        lengths, given = self._prompt(prompt, length)
        drawn = self._stream(given, lengths, length, self._sampler(top_k, top_p), temperature, end)
        return np.concatenate([given[:, : lengths.min()], *(tokens[:, None] for tokens in drawn)], 1)

    def stream(
        self,
        prompt: Prompt,
        length: Size,
        *,
        temperature: NotNegative = 1.0,
        top_k: Size | None = None,
        top_p: TopP | None = None,
        end: Count | None = None,
    ) -> Iterator[np.ndarray]:
        """Sample a continuation of each prompt, yielding tokens as they are drawn.

        Arguments are checked when the method is called, not when iteration starts.

        Args:
            prompt: Integer tokens (rows, P), or a list of `rows` lists whose lengths may differ.
            length: Number of tokens to generate after the longest prompt.
            temperature: At least 0; 0 selects the likeliest token. Defaults to 1.
            top_k: Sample only from the k likeliest tokens. Defaults to all.
            top_p: Sample only from the likeliest tokens whose probabilities sum to at least this value. Defaults to no
                limit.
            end: Token that ends a sequence. Defaults to none.

        Returns:
            An iterator over int32 arrays (rows,), one for each position after the shortest prompt.

        Raises:
            ShapeError: If the prompt has the wrong number of rows or an empty row, or exceeds max_length together with
                its continuation.
            DTypeError: If the tokens are not integers.
            OutOfRangeError: If a token is outside the model's vocabulary.
        """
        lengths, given = self._prompt(prompt, length)
        return self._stream(given, lengths, length, self._sampler(top_k, top_p), temperature, end)

    def _stream(
        self,
        given: np.ndarray,
        lengths: np.ndarray,
        length: int,
        drawn: Tensor,
        temperature: float,
        end: int | None,
    ) -> Iterator[np.ndarray]:
        ended = np.zeros(self.rows, bool)
        shortest, longest = int(lengths.min()), int(lengths.max())
        tokens = given[:, :shortest]
        for place in range(shortest, longest + length):
            found = self._run(tokens, place - tokens.shape[1], drawn, temperature).copy()
            own = lengths > place  # Rows whose prompt still covers this position.
            found[own] = given[own, place] if place < longest else 0
            if end is not None:
                found[ended & ~own] = end
                ended |= (found == end) & ~own
            yield found
            if ended.all():
                return
            tokens = found[:, None]

    def beam_search(
        self, prompt: Sequence[int] | np.ndarray, length: Size, *, end: Count | None = None, length_penalty: float = 1.0
    ) -> tuple[np.ndarray, float]:
        """Search for the likeliest continuation, keeping the `rows` best candidates at each step.

        Args:
            prompt: Integer tokens (P,) of one sequence.
            length: Maximum number of tokens to generate.
            end: Token that ends a sequence. Defaults to none.
            length_penalty: Exponent p: log-probabilities are divided by length^p to compare sequences of different
                lengths, as in Hugging Face's libraries. Defaults to 1.

        Returns:
            The prompt with its continuation, int32, including the end token, and the log-probability of the
            continuation in nats.

        Raises:
            ShapeError: If the prompt is empty, or exceeds max_length together with its continuation.
            DTypeError: If the tokens are not integers.
            OutOfRangeError: If a token is outside the model's vocabulary.
        """
        given = self._prompt([list(np.asarray(prompt).reshape(-1))] * self.rows, length)[1]
        begun, beams = given.shape[1], self.rows
        scores = np.full(beams, -np.inf)
        scores[0] = 0.0  # All rows start out identical, so only the first one counts.
        tokens, ended = given, []
        for place in range(begun, begun + length):
            step = tokens if place == begun else tokens[:, -1:]
            odds = self._run(step, place - step.shape[1], self._log_odds, 1.0)
            sums = (scores[:, None] + odds).reshape(-1)
            # Consider twice as many candidates as beams, because up to half of them can be sequences that end here.
            order = np.argsort(-sums, kind="stable")[: 2 * beams]
            kept: list[tuple[int, int]] = []
            for row, token in zip(*np.divmod(order, self.classes), strict=True):
                if sums[row * self.classes + token] == -np.inf:
                    continue
                if token == end:
                    if len(kept) < beams:
                        ended.append((np.append(tokens[row], token), float(sums[row * self.classes + token])))
                elif len(kept) < beams:
                    kept.append((row, token))
            if not kept:
                break
            rows, new = (
                np.array(part, np.int32) for part in zip(*(kept + kept[:1] * (beams - len(kept))), strict=True)
            )
            scores = sums[rows * self.classes + new]
            scores[len(kept) :] = -np.inf
            tokens = np.concatenate([tokens[rows], new[:, None]], 1)
            if self._reordered:
                self.graph.run({self._rows: rows}, [], self._reordered, device=self.device)
            if len(ended) >= beams and self._of_length(scores[0], place + 1 - begun, length_penalty) <= min(
                sorted((self._of_length(s, len(t) - begun, length_penalty) for t, s in ended), reverse=True)[:beams]
            ):
                break
        found = [*ended, *((tokens[row], float(scores[row])) for row in range(beams) if scores[row] > -np.inf)]
        return max(found, key=lambda one: self._of_length(one[1], len(one[0]) - begun, length_penalty))

    @staticmethod
    def _of_length(score: float, length: int, penalty: float) -> float:
        return float(score / length**penalty)

    def _sampler(self, top_k: int | None, top_p: float | None) -> Tensor:
        """Return the tensor of sampled tokens (rows,). It is built once for each combination of top_k and top_p."""
        if (top_k, top_p) not in self._samplers:
            self._samplers[top_k, top_p] = sampled(self.logits, self.temperature, top_k=top_k, top_p=top_p)
        return self._samplers[top_k, top_p]

    def _run(self, tokens: np.ndarray, place: int, target: Tensor, temperature: float) -> np.ndarray:
        """Run the model on tokens (rows, L) that start at position `place`, and return the final value of `target`.

        The tokens are processed in runs whose lengths are powers of two, so that only few programs need to be compiled.
        """
        while True:
            count = 1 << (tokens.shape[1].bit_length() - 1)
            feeds = {
                self.tokens: np.ascontiguousarray(tokens[:, :count]),
                self.position: np.array([place], np.int32),
                self.temperature: np.array([temperature], np.float32),
            }
            # Each power of two of filled entries has its own program, which reads only these entries.
            extent = max(1 << (place + count - 1).bit_length(), _FEWEST_ENTRIES)
            feeds[self.keys] = np.arange(min(extent, self.max_length), dtype=np.int32)
            if target is self._log_odds:
                del feeds[self.temperature]
            found = self.graph.run(feeds, target, device=self.device).numpy()
            place, tokens = place + count, tokens[:, count:]
            if not tokens.shape[1]:
                return found

    def _prompt(self, prompt: Prompt, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Check a prompt. Return the length of each row, and one array of all rows, padded with zeros at the end."""
        rows = [np.asarray(row) for row in prompt]
        if any(row.ndim != 1 for row in rows):
            raise ShapeError(f"Generator: prompt must be {self.rows} rows of tokens, got {shown(prompt)}")
        if any(len(row) == 0 for row in rows) or len(rows) != self.rows:
            raise ShapeError(
                f"Generator: prompt must have {self.rows} rows of at least 1 token each, got {len(rows)} rows, "
                f"the shortest with {min(map(len, rows), default=0)} tokens"
            )
        if any(row.dtype.kind not in "iu" for row in rows):
            raise DTypeError(f"Generator: prompt tokens must be integers, got {shown(prompt)}")
        for row in rows:
            if row.min() < 0 or row.max() >= self.classes:
                wrong = int(row[(row < 0) | (row >= self.classes)][0])
                raise OutOfRangeError(
                    f"Generator: token {wrong} is out of range: the model's vocabulary has tokens 0 to "
                    f"{self.classes - 1}"
                )
        lengths = np.array([len(row) for row in rows])
        if lengths.max() + length > self.max_length:
            raise ShapeError(
                f"Generator: a prompt of {lengths.max()} tokens plus {length} new ones exceeds "
                f"max_length={self.max_length}: create the Generator with a larger max_length"
            )
        given = np.zeros((self.rows, lengths.max()), np.int32)
        for row, tokens in zip(given, rows, strict=True):
            row[: len(tokens)] = tokens
        return lengths, given


@checked
def generate(
    model: Module,
    prompt: Prompt,
    length: Size,
    *,
    temperature: NotNegative = 1.0,
    top_k: Size | None = None,
    top_p: TopP | None = None,
    beams: Size | None = None,
    end: Count | None = None,
    seed: int = 0,
    device: Device | None = None,
) -> np.ndarray:
    """Continue a prompt with a language model, by sampling or beam search.

    Each call compiles the model again. To compile only once, create a `Generator` and reuse it.

    Args:
        model: Language model that has been called. It takes tokens, int32 (N, L), and `cache`, and returns logits (N,
            L, V).
        prompt: Integer tokens (P,), or several rows of them.
        length: Number of tokens to generate.
        temperature: At least 0; 0 selects the likeliest token. Defaults to 1.
        top_k: Sample only from the k likeliest tokens. Defaults to all.
        top_p: Sample only from the likeliest tokens whose probabilities sum to at least this value. Defaults to no
            limit.
        beams: Number of candidates kept by a beam search, which takes one prompt. None, the default, samples instead.
        end: Token that ends a sequence. Defaults to none.
        seed: Seed of the sampling. Defaults to 0.
        device: Device to run on. None, the default, means the default device.

    Returns:
        Prompt and continuation, int32 (P + length,), or (rows, P + length) for several rows; shorter if all sequences
        end early.

    Raises:
        GraphError: If the model has no variables yet.
        ShapeError: If the prompt is empty, or has more than one row although beams is set.
        DTypeError: If the tokens are not integers.
        OutOfRangeError: If a token is outside the model's vocabulary.

    Example:
        >>> class Next(mg.nn.Module):  # a model that likes each token's successor
        ...     def forward(self, tokens, cache=None):
        ...         return tokens.graph.one_hot((tokens + 1) % 5, 5, dtype=mg.float32) * 100.0
        >>> model = Next()
        >>> _ = model(mg.Graph().placeholder((1, -1), mg.int32))
        >>> mg.nn.generate(model, [2, 3], 4).tolist(), mg.nn.generate(model, [2, 3], 4, beams=3).tolist()
        ([2, 3, 4, 0, 1, 2], [2, 3, 4, 0, 1, 2])
    """
    plain = bool(len(prompt)) and np.ndim(prompt[0]) == 0
    rows: Any = [prompt] if plain else list(prompt)
    longest = max((len(row) for row in rows), default=0)
    if beams is not None and len(rows) != 1:
        raise ShapeError(
            f"generate: beam search takes one prompt, got {len(rows)}: call generate for each prompt separately"
        )
    generator = Generator(
        model, max_length=max(longest, 1) + length, rows=beams or max(len(rows), 1), seed=seed, device=device
    )
    if beams is not None:
        found = generator.beam_search(rows[0], length, end=end)[0]
        return found if plain else found[None]
    written = generator.generate(
        rows,
        length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        end=end,
    )
    return written[0] if plain else written
