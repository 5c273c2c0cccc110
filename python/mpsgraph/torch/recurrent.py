"""LSTM, GRU and RNN in graphs captured by Dynamo: each layer becomes one operation, forward and backward.

PyTorch would decompose LSTM into an operation of oneDNN, and GRU and RNN into single time steps. Before AOTAutograd
derives gradients, calls of `torch.lstm`, `torch.gru` and the RNN functions are replaced with operations of the mpsgraph
namespace, each for one layer in one direction; PyTorch's own operations connect the layers. `aten/recurrent.py`
translates the new operations. Calls with projections or packed sequences are not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_library = torch.library.Library("mpsgraph", "DEF")
_LSTM = "Tensor x, Tensor h, Tensor c, Tensor inputs, Tensor recurrent, Tensor bias, bool reverse"
_GRU = "Tensor x, Tensor h, Tensor inputs, Tensor recurrent, Tensor bias, Tensor secondary, bool reverse"
_RNN = "Tensor x, Tensor h, Tensor inputs, Tensor recurrent, Tensor bias, str activation, bool reverse"
_library.define(f"lstm_layer({_LSTM}) -> (Tensor, Tensor, Tensor)")
_library.define(
    f"lstm_layer_backward(Tensor to_states, Tensor? to_cells, Tensor cells, Tensor gates, {_LSTM}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(f"gru_layer({_GRU}) -> (Tensor, Tensor)")
_library.define(
    f"gru_layer_backward(Tensor to_states, Tensor states, Tensor gates, {_GRU}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(f"rnn_layer({_RNN}) -> (Tensor, Tensor)")
_library.define(
    f"rnn_layer_backward(Tensor to_states, Tensor sums, {_RNN}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


# --- reference implementations in PyTorch, for calls that are not translated and for tests ----------------------------


def _steps(x: torch.Tensor, reverse: bool) -> list[int]:
    return list(range(x.shape[0]))[:: -1 if reverse else 1]


def _lstm(x: Any, h: Any, c: Any, inputs: Any, recurrent: Any, bias: Any, reverse: bool) -> tuple[Any, Any, Any]:
    found: dict[int, tuple[Any, Any, Any]] = {}
    for t in _steps(x, reverse):
        i, f, z, o = torch.nn.functional.linear(x[t], inputs, bias).add(h @ recurrent.T).chunk(4, -1)
        i, f, z, o = i.sigmoid(), f.sigmoid(), z.tanh(), o.sigmoid()
        c = f * c + i * z
        h = o * c.tanh()
        found[t] = h, c, torch.cat([i, f, z, o], -1)
    states, cells, gates = (torch.stack([found[t][k] for t in range(x.shape[0])]) for k in range(3))
    return states, cells, gates


def _gru(x: Any, h: Any, inputs: Any, recurrent: Any, bias: Any, secondary: Any, reverse: bool) -> tuple[Any, Any]:
    found: dict[int, tuple[Any, Any]] = {}
    for t in _steps(x, reverse):
        r, z, n = torch.nn.functional.linear(x[t], inputs, bias).chunk(3, -1)
        of_r, of_z, of_n = (h @ recurrent.T).chunk(3, -1)
        r, z = (r + of_r).sigmoid(), (z + of_z).sigmoid()
        n = (n + r * (of_n + secondary)).tanh()
        h = z * h + (1 - z) * n
        found[t] = h, torch.cat([r, z, n], -1)
    states, gates = (torch.stack([found[t][k] for t in range(x.shape[0])]) for k in range(2))
    return states, gates


def _rnn(x: Any, h: Any, inputs: Any, recurrent: Any, bias: Any, activation: str, reverse: bool) -> tuple[Any, Any]:
    found: dict[int, tuple[Any, Any]] = {}
    for t in _steps(x, reverse):
        z = torch.nn.functional.linear(x[t], inputs, bias) + h @ recurrent.T
        h = z.tanh() if activation == "tanh" else z.relu()
        found[t] = h, z
    states, sums = (torch.stack([found[t][k] for t in range(x.shape[0])]) for k in range(2))
    return states, sums


def _derived(layer: Callable[..., Any], incoming: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of a recurrent layer with respect to its tensor arguments.

    `incoming` holds the incoming gradients for the first results of the layer, or None for those without one.
    """
    with torch.enable_grad():
        copies = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) else x for x in given]
        pairs = [(y, d) for y, d in zip(layer(*copies), incoming, strict=False) if d is not None]
    wanted = [x for x in copies if isinstance(x, torch.Tensor)]
    return torch.autograd.grad([y for y, _ in pairs], wanted, [d for _, d in pairs])


def _lstm_back(to_states: Any, to_cells: Any, cells: Any, gates: Any, *given: Any) -> tuple[Any, ...]:
    return _derived(_lstm, (to_states, to_cells), given)


def _gru_back(to_states: Any, states: Any, gates: Any, *given: Any) -> tuple[Any, ...]:
    return _derived(_gru, (to_states,), given)


def _rnn_back(to_states: Any, sums: Any, *given: Any) -> tuple[Any, ...]:
    return _derived(_rnn, (to_states,), given)


for _name, _function in (
    ("lstm_layer", _lstm), ("lstm_layer_backward", _lstm_back),
    ("gru_layer", _gru), ("gru_layer_backward", _gru_back),
    ("rnn_layer", _rnn), ("rnn_layer_backward", _rnn_back),
):  # fmt: skip
    _library.impl(_name, _function, "CPU")


# --- result shapes and gradients, for AOTAutograd ---------------------------------------------------------------------


def _results(*gates: int) -> Callable[..., tuple[Any, ...]]:
    """Return a shape function for a recurrent operation whose results span all time steps.

    The width of each result is the given multiple of the state's width.
    """

    def made(x: Any, h: Any, *given: Any) -> tuple[Any, ...]:
        return tuple(x.new_empty((x.shape[0], x.shape[1], count * h.shape[1])) for count in gates)

    return made


def _alike(first: int) -> Callable[..., tuple[Any, ...]]:
    """Return a shape function for a backward operation: its results have the shapes of the operands from index
    `first` on.
    """
    return lambda *given: tuple(x.new_empty(x.shape) for x in given[first:] if isinstance(x, torch.Tensor))


for _name, _fake in (
    ("lstm_layer", _results(1, 1, 4)), ("lstm_layer_backward", _alike(4)),
    ("gru_layer", _results(1, 3)), ("gru_layer_backward", _alike(3)),
    ("rnn_layer", _results(1, 1)), ("rnn_layer_backward", _alike(2)),
):  # fmt: skip
    torch.library.register_fake(f"mpsgraph::{_name}", _fake, lib=_library)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    """Save the operands and all results of a recurrent layer for its backward pass.

    Some results, such as gates and sums before activations, exist only for the backward pass.
    """
    ctx.set_materialize_grads(False)
    ctx.flags = [x for x in inputs if not isinstance(x, torch.Tensor)]
    ctx.count = len(output)
    ctx.save_for_backward(*output, *(x for x in inputs if isinstance(x, torch.Tensor)))


def _lstm_backward(ctx: Any, to_states: Any, to_cells: Any, to_gates: Any) -> tuple[Any, ...]:
    states, cells, gates, *given = ctx.saved_tensors
    to_states = torch.zeros_like(states) if to_states is None else to_states
    found = torch.ops.mpsgraph.lstm_layer_backward(to_states, to_cells, cells, gates, *given, *ctx.flags)
    return (*found, None)


def _gru_backward(ctx: Any, to_states: Any, to_gates: Any) -> tuple[Any, ...]:
    states, gates, *given = ctx.saved_tensors
    return (*torch.ops.mpsgraph.gru_layer_backward(to_states, states, gates, *given, *ctx.flags), None)


def _rnn_backward(ctx: Any, to_states: Any, to_sums: Any) -> tuple[Any, ...]:
    _, sums, *given = ctx.saved_tensors
    return (*torch.ops.mpsgraph.rnn_layer_backward(to_states, sums, *given, *ctx.flags), None, None)


for _name, _backward in (("lstm", _lstm_backward), ("gru", _gru_backward), ("rnn", _rnn_backward)):
    torch.library.register_autograd(f"mpsgraph::{_name}_layer", _backward, setup_context=_keep, lib=_library)


# --- replacement of PyTorch's recurrent calls -------------------------------------------------------------------------


Layer = Callable[[torch.Tensor, list[torch.Tensor], list[torch.Tensor], bool], tuple[torch.Tensor, list[torch.Tensor]]]
"""Function that runs one recurrent layer in one direction.

Its arguments are (inputs over time, initial states, weights and biases, reverse). It returns the outputs and, for each
state, the state over time.
"""


def _layers(
    layer: Layer, x: Any, firsts: Sequence[Any], parameters: Sequence[Any], biases: bool, layers: int, dropout: float,
    training: bool, both: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Run all layers of a recurrent call. Like torch.lstm, return the outputs and the last value of each state."""
    each, ways = 4 if biases else 2, 2 if both else 1
    x = x.transpose(0, 1) if batch_first else x
    ends: list[list[Any]] = []
    for number in range(layers):
        outputs = []
        for way in range(ways):
            at = number * ways + way
            given = list(parameters[at * each : (at + 1) * each])
            if not biases:
                given += [given[0].new_zeros(given[0].shape[0])] * 2
            found, states = layer(x, [first[at] for first in firsts], given, way == 1)
            outputs.append(found)
            ends.append([state[0 if way else -1] for state in states])
        x = torch.cat(outputs, -1) if both else outputs[0]
        if dropout and training and number < layers - 1:
            # Unlike torch.dropout, these operations do not write to a tensor in place, so that they can be traced.
            x = x * (torch.bernoulli(torch.full_like(x, 1 - dropout)) / (1 - dropout))
    finals = [torch.stack(states) for states in zip(*ends, strict=True)]
    return (x.transpose(0, 1) if batch_first else x, *finals)


def _lstm_in_layers(x: Any, states: Any, parameters: Any, *how: Any) -> tuple[Any, ...]:
    def layer(x: Any, firsts: list[Any], given: list[Any], reverse: bool) -> tuple[Any, list[Any]]:
        inputs, recurrent, *two = given
        h, c, _ = torch.ops.mpsgraph.lstm_layer(x, *firsts, inputs, recurrent, two[0] + two[1], reverse)
        return h, [h, c]

    return _layers(layer, x, states, parameters, *how)


def _gru_in_layers(x: Any, states: Any, parameters: Any, *how: Any) -> tuple[Any, ...]:
    def layer(x: Any, firsts: list[Any], given: list[Any], reverse: bool) -> tuple[Any, list[Any]]:
        inputs, recurrent, of_inputs, of_states = given
        size = recurrent.shape[1]
        gates, secondary = of_states[: 2 * size], of_states[2 * size :]
        bias = of_inputs + torch.nn.functional.pad(gates, (0, size))
        h, _ = torch.ops.mpsgraph.gru_layer(x, *firsts, inputs, recurrent, bias, secondary, reverse)
        return h, [h]

    return _layers(layer, x, [states], parameters, *how)


def _rnn_in_layers(activation: str) -> Callable[..., tuple[Any, ...]]:
    def call(x: Any, states: Any, parameters: Any, *how: Any) -> tuple[Any, ...]:
        def layer(x: Any, firsts: list[Any], given: list[Any], reverse: bool) -> tuple[Any, list[Any]]:
            inputs, recurrent, *two = given
            h, _ = torch.ops.mpsgraph.rnn_layer(x, *firsts, inputs, recurrent, two[0] + two[1], activation, reverse)
            return h, [h]

        return _layers(layer, x, [states], parameters, *how)

    return call


IN_LAYERS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    torch.lstm: _lstm_in_layers,
    torch.gru: _gru_in_layers,
    torch.rnn_tanh: _rnn_in_layers("tanh"),
    torch.rnn_relu: _rnn_in_layers("relu"),
}
"""Functions that run the layers of a recurrent call with mpsgraph's layer operations."""


def in_layers(module: torch.fx.GraphModule) -> None:
    """Replace recurrent calls in a graph from Dynamo with mpsgraph's layer operations if these support the calls."""
    changed = False
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in IN_LAYERS and _is_plain(node):
            node.target = IN_LAYERS[node.target]
            changed = True
    if changed:
        module.recompile()


def _is_plain(node: torch.fx.Node) -> bool:
    """Return whether a recurrent call can be replaced with mpsgraph's layer operations.

    It must have a batch axis, tensors on the CPU, no projection and no packed sequence. A call with a packed sequence
    is recognized by its second operand, the batch sizes.
    """
    if len(node.args) != 9 or node.kwargs or not isinstance(node.args[3], bool):
        return False
    x, states, parameters, biases, layers, _, _, both, _ = node.args
    firsts = states if isinstance(states, (list, tuple)) else [states]
    known = [n.meta.get("example_value") for n in (x, *firsts, *parameters) if isinstance(n, torch.fx.Node)]
    if not all(isinstance(v, torch.Tensor) and v.device.type == "cpu" for v in known) or known[0].dim() != 3:
        return False
    floats = {v.dtype for v in known}
    plain = len(parameters) == (4 if biases else 2) * layers * (2 if both else 1)
    return plain and len(floats) == 1 and floats <= {torch.float32, torch.float64, torch.float16, torch.bfloat16}
