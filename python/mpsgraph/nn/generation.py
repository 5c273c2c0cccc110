"""Writing on: sequences of tokens that a language model continues, with its cache, by sampling or by beam search.

A model is a Module that takes tokens, int32 (N, L), and `cache=`, a KeyValueCache, and gives the logits of the token
behind each, (N, L, V). `Generator` copies it into a graph of its own, where a step is one run: the new tokens in, the
drawn ones out. The graph that the model was trained in stays as it is.
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
from .module import Module, graph_of, unbuilt_copy

Prompt = np.ndarray | Sequence[int] | Sequence[Sequence[int]]
_COLDEST = 1e-6  # temperature: below it the likeliest is taken, as odds may be infinite there
TopP = Annotated[float, Bounds("above 0 and up to 1", lambda v: 0 < v <= 1)]


@checked
def sampled(
    logits: Tensor, temperature: Tensor | float = 1.0, *, top_k: Size | None = None, top_p: Tensor | TopP | None = None
) -> Tensor:
    """A class drawn for each row by the odds softmax(logits / temperature), among the likeliest if told so.

    Args: logits (N, V); temperature, at least 0, where 0 takes the likeliest, as a number or a tensor of one element;
    top_k, how many of the likeliest may be drawn; top_p, the least share of the odds that those which may be drawn
    have together, of what top_k left (Holtzman et al., arXiv:1904.09751), a number or a tensor of one element. Result:
    int32 (N,). Each run draws anew from the graph's random numbers. Errors: ShapeError, GraphError. Gradient: none.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.sampled(g.constant([[1.0, 3.0, 2.0]]), top_k=1)).tolist()
    [1]
    """
    if logits.shape is None or len(logits.shape) != 2 or logits.shape[1] < 1:
        raise ShapeError(f"sampled needs logits (N, V) of a known number of classes, their shape is {logits.shape}")
    if not isinstance(temperature, Tensor) and not temperature >= 0:
        raise GraphError(f"sampled: temperature must be at least 0, got {temperature}")
    g, classes = graph_of(logits), logits.shape[1]
    values, classes_of = g.cast(logits, "float32"), None
    if top_k is not None or top_p is not None:  # the likeliest first, so that what may be drawn stands in front
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
    # rounding may let the number pass all odds: then the last one that is not 0 is meant
    number = g.coordinate_along_axis(1, g.shape_of(odds))
    last = g.reduction_maximum(g.select(g.greater_than(odds, 0.0), number, 0), 1)
    place = g.select(cold, g.reduction_arg_maximum(values, 1), g.minimum(place, last))
    return g.reshape(place if classes_of is None else g.gather_along_axis(1, classes_of, place), [-1])


@checked
class Generator:
    """Continues sequences of tokens by a language model and its cache.

    Args: model, as the module's first lines say, with variables; max_length, of a prompt and what is written behind it
    together; rows, how many sequences are written at once; seed, of what is drawn; device, None for the first. The
    model's values are copied now, and by each `load`. Errors: GraphError, ShapeError.

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
        self.cache = KeyValueCache(rows, max_length, self.position)
        self.model = unbuilt_copy(model).eval()
        logits = self.model(self.tokens, cache=self.cache)
        if logits.shape is None or len(logits.shape) != 3 or logits.shape[2] < 1:
            raise ShapeError(f"Generator: a model gives logits (N, L, V) of a known V, its result is {logits.shape}")
        self.classes = int(logits.shape[2])
        self.logits = g.squeeze(g.slice_axis(logits, 1, -1, 1), 1)
        self._log_odds = g.log_softmax(g.cast(self.logits, "float32"), -1)
        self._rows = g.placeholder((rows,), int32, "rows")
        self._reordered = self.cache.reordered(self._rows)
        self._samplers: dict[tuple[int | None, float | None], Tensor] = {}
        self.load(model)

    def load(self, model: Module) -> None:
        """Takes the values that the model has now. Errors: GraphError, ShapeError, DTypeError when it is another."""
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
        """The prompt and `length` drawn tokens behind it, int32 (rows, longest prompt + length).

        Args: prompt, int tokens (rows, P), or a list of `rows` lists, of different lengths if need be: shorter ones are
        continued sooner; length, tokens to write behind the longest; temperature, top_k and top_p as `sampled`'s; end,
        a token behind which a sequence holds nothing but it: when all have it the result may be shorter. Errors:
        ShapeError, DTypeError, OutOfRangeError.
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
        """What `generate` gives behind the shortest prompt, step by step as it is drawn: int32 (rows,) each.

        Args and errors: as generate's; what is wrong is said by the call, not by the first step.
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
            own = lengths > place  # what the prompt says still
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
        """The likeliest continuation that a search finds which keeps the `rows` best beginnings at each step.

        Args: prompt, int tokens (P,) of one sequence; length, tokens to write at most; end, a token that ends a
        sequence; length_penalty, by which power of what was written the logarithms of odds are divided when sequences
        of different lengths are compared, as in Hugging Face's. Result: the prompt with what was written, int32, the
        end included; and the sum of the logarithms of its odds, in nats. Errors: as generate's.
        """
        given = self._prompt([list(np.asarray(prompt).reshape(-1))] * self.rows, length)[1]
        begun, beams = given.shape[1], self.rows
        scores = np.full(beams, -np.inf)
        scores[0] = 0.0  # all rows are equal yet
        tokens, ended = given, []
        for place in range(begun, begun + length):
            step = tokens if place == begun else tokens[:, -1:]
            odds = self._run(step, place - step.shape[1], self._log_odds, 1.0)
            sums = (scores[:, None] + odds).reshape(-1)
            order = np.argsort(-sums, kind="stable")[: 2 * beams]  # of which half may end
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
        """The drawn tokens, (rows,), made once for each pair of limits."""
        if (top_k, top_p) not in self._samplers:
            self._samplers[top_k, top_p] = sampled(self.logits, self.temperature, top_k=top_k, top_p=top_p)
        return self._samplers[top_k, top_p]

    def _run(self, tokens: np.ndarray, place: int, target: Tensor, temperature: float) -> np.ndarray:
        """What is found behind tokens (rows, L) that stand at a place. L goes in powers of two: few programs do."""
        while True:
            count = 1 << (tokens.shape[1].bit_length() - 1)
            feeds = {
                self.tokens: np.ascontiguousarray(tokens[:, :count]),
                self.position: np.array([place], np.int32),
                self.temperature: np.array([temperature], np.float32),
            }
            if target is self._log_odds:
                del feeds[self.temperature]
            found = self.graph.run(feeds, target, device=self.device).numpy()
            place, tokens = place + count, tokens[:, count:]
            if not tokens.shape[1]:
                return found

    def _prompt(self, prompt: Prompt, length: int) -> tuple[np.ndarray, np.ndarray]:
        """How long each prompt is, and all as an array with zeros behind the shorter ones."""
        rows = [np.asarray(row) for row in prompt]
        if any(row.ndim != 1 for row in rows):
            raise ShapeError(f"Generator: a prompt is {self.rows} rows of tokens, got {shown(prompt)}")
        if any(len(row) == 0 for row in rows) or len(rows) != self.rows:
            raise ShapeError(
                f"Generator: a prompt is {self.rows} rows of a token at least, got {len(rows)} of "
                f"{min(map(len, rows), default=0)} and more"
            )
        if any(row.dtype.kind not in "iu" for row in rows):
            raise DTypeError(f"Generator: tokens must be integers, got {shown(prompt)}")
        for row in rows:
            if row.min() < 0 or row.max() >= self.classes:
                wrong = int(row[(row < 0) | (row >= self.classes)][0])
                raise OutOfRangeError(f"Generator: token {wrong} is none of the {self.classes} that the model knows")
        lengths = np.array([len(row) for row in rows])
        if lengths.max() + length > self.max_length:
            raise ShapeError(
                f"Generator: a prompt of {lengths.max()} tokens and {length} more do not fit max_length "
                f"{self.max_length}: make one with a greater max_length"
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
    """Tokens that go on from a prompt by a language model, drawn, or with `beams` searched for.

    Args: model, which takes tokens and `cache=`; prompt, int tokens (P,), or rows of them; length, tokens to write;
    temperature, top_k, top_p and end as `Generator.generate`'s; beams, how many beginnings a beam search keeps, for one
    prompt. Result: int32, prompt and what was written, (P + length,) or (rows, P + length). Each call compiles the
    model anew: a `Generator` is kept and does so once. Errors: GraphError, ShapeError, DTypeError, OutOfRangeError.

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
        raise ShapeError(f"generate: a beam search continues one prompt, got {len(rows)}: search for each by itself")
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
