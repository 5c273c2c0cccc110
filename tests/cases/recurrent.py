"""Cases of the recurrent family: every flag of the three layers, and their gradients, computed step by step in numpy.

tests/operations/test_recurrent.py contains expected values from PyTorch.
"""

import numpy as np
from harness.case import Case, values

T, N, X, H = 3, 2, 3, 4

ACTIVATIONS = {
    "none": (lambda x: x, lambda y: np.ones_like(y)),
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0) * 1.0),
    "tanh": (np.tanh, lambda y: 1 - y * y),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
    "hard_sigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), lambda y: 0.2 * ((y > 0) & (y < 1))),
}


def act(name, x):
    return ACTIVATIONS[name][0](x)


def slope(name, y):
    return ACTIVATIONS[name][1](y)


class Layer:
    """Operands of a layer by direction, and helpers shared by the kinds of layers."""

    def __init__(self, gates, given, how):
        self.gates, self.given, self.how = gates, given, how
        self.directions = 2 if how.get("bidirectional") else 1
        self.hidden = given["recurrent_weight"].shape[-1]
        self.recurrent = given["recurrent_weight"].reshape(self.directions, gates * self.hidden, self.hidden)
        self.steps, self.batch = given["source"].shape[:2]

    def order(self, direction):
        """Return the time steps in the order of this direction."""
        backward = direction == 1 or (self.how.get("reverse") and self.directions == 1)
        return list(range(self.steps))[::-1] if backward else list(range(self.steps))

    def part(self, x, direction, count=1):
        """Return the part of the last axis that belongs to one direction."""
        width = count * self.hidden
        return x[..., direction * width : (direction + 1) * width]

    def projected(self):
        x = self.given["source"]
        if self.given.get("input_weight") is not None:
            x = x @ self.given["input_weight"].T
        return x if self.given.get("bias") is None else x + self.given["bias"]

    def initial(self, name, direction):
        whole = self.given.get(name)
        return np.zeros((self.batch, self.hidden)) if whole is None else self.part(whole, direction)

    def mask(self, direction):
        whole = self.given.get("mask")
        shape = (self.steps, self.batch, self.directions * self.hidden)
        return self.part(np.broadcast_to(1.0 if whole is None else whole, shape), direction)

    def split(self, x):
        return np.split(x, self.gates, axis=-1)

    def place(self, order, role):
        return order.index(role)

    def forward(self, step, count):
        """Run step(state, x, recurrent weights, mask, direction) -> (state, results...) over all steps and
        directions.
        """
        results = [np.zeros((self.steps, self.batch, self.directions * w)) for w in count]
        projected = self.projected()
        for d in range(self.directions):
            state, cell = self.initial("initial_state", d), self.initial("initial_cell", d)
            for t in self.order(d):
                x = self.part(projected[t], d, self.gates)
                state, cell, *found = step(state, cell, x, self.recurrent[d], self.mask(d)[t], d)
                for whole, value in zip(results, found, strict=True):
                    width = value.shape[-1]
                    whole[t][:, d * width : (d + 1) * width] = value
        return results


def lstm_order(how):
    return "izfo" if how.get("forget_gate_last") else "ifzo"


def lstm_activations(how):
    named = {"i": "input_gate", "f": "forget_gate", "z": "cell_gate", "o": "output_gate"}
    standard = {"i": "sigmoid", "f": "sigmoid", "z": "tanh", "o": "sigmoid"}
    return {g: how.get(f"{name}_activation", standard[g]) for g, name in named.items()}


def lstm_forward(given, how):
    layer, order, acts = Layer(4, given, how), lstm_order(how), lstm_activations(how)

    def step(state, cell, x, recurrent, mask, d):
        before = x + (state * mask) @ recurrent.T
        if given.get("peephole") is not None:
            before = before + np.tile(cell, 4) * given["peephole"].reshape(layer.directions, -1)[d]
        gates = {g: act(acts[g], part) for g, part in zip(order, layer.split(before), strict=True)}
        cell = gates["f"] * cell + gates["i"] * gates["z"]
        state = gates["o"] * act(how.get("activation", "tanh"), cell)
        return state, cell, state, cell, np.concatenate([gates[g] for g in order], -1)

    return layer.forward(step, [layer.hidden, layer.hidden, 4 * layer.hidden])


def gru_order(how):
    return "rzo" if how.get("reset_gate_first") else "zro"


def gru_activations(how):
    standard = {"z": ("update", "sigmoid"), "r": ("reset", "sigmoid"), "o": ("output", "tanh")}
    return {g: how.get(f"{name}_gate_activation", kind) for g, (name, kind) in standard.items()}


def gru_candidate(layer, given, how, state, reset, recurrent, mask, d):
    """Return the recurrent part of the GRU's output gate, and the factor of the reset gate if the reset
    follows the product.
    """
    rows = recurrent[2 * layer.hidden :]
    if not how.get("reset_after"):
        return (state * reset * mask) @ rows.T, None
    bias = 0 if given.get("secondary_bias") is None else layer.part(given["secondary_bias"], d)
    inner = (state * mask) @ rows.T + bias
    return inner * reset, inner


def gru_forward(given, how):
    layer, order, acts = Layer(3, given, how), gru_order(how), gru_activations(how)

    def step(state, cell, x, recurrent, mask, d):
        products = layer.split((state * mask) @ recurrent.T)
        inputs = layer.split(x)
        gates = {}
        for k, g in enumerate(order[:2]):
            gates[g] = act(acts[g], inputs[k] + products[k])
        candidate, _ = gru_candidate(layer, given, how, state, gates["r"], recurrent, mask, d)
        gates["o"] = act(acts["o"], inputs[2] + candidate)
        z = 1 - gates["z"] if how.get("flip_z") else gates["z"]
        state = z * state + (1 - z) * gates["o"]
        return state, cell, state, np.concatenate([gates[g] for g in order], -1)

    return layer.forward(step, [layer.hidden, 3 * layer.hidden])


def single_gate_forward(given, how):
    layer, name = Layer(1, given, how), how.get("activation", "relu")

    def step(state, cell, x, recurrent, mask, d):
        z = x + (state * mask) @ recurrent.T
        state = act(name, z)
        return state, cell, state, z

    return layer.forward(step, [layer.hidden, layer.hidden])


# --- gradients --------------------------------------------------------------------------------------------------------
def backward(layer, back, states, d_states, d_cells=None):
    """Run the backward pass over all steps and directions.

    back(t, before, d_state, d_cell, direction) returns the gradients of the projected input, of the recurrent product,
    and of the masked state, and further gradients of state and cell before the step.
    """
    given, shape = layer.given, (layer.steps, layer.batch, layer.directions * layer.gates * layer.hidden)
    d_projected, d_recurrent = np.zeros(shape), np.zeros(layer.recurrent.shape)
    d_initial = [np.zeros((layer.batch, layer.directions * layer.hidden)) for _ in range(2)]
    d_mask = np.zeros((layer.steps, layer.batch, layer.directions * layer.hidden))
    for d in range(layer.directions):
        last = [given.get("state_gradient"), given.get("cell_gradient")]
        d_state, d_cell = (np.zeros((layer.batch, layer.hidden)) if x is None or x.ndim == 3 else layer.part(x, d)
                           for x in last)  # fmt: skip
        order, mask = layer.order(d), layer.mask(d)
        for k, t in reversed(list(enumerate(order))):
            state = layer.part(states[order[k - 1]], d) if k else layer.initial("initial_state", d)
            d_state = d_state + layer.part(d_states[t], d)
            if d_cells is not None:
                d_cell = d_cell + layer.part(d_cells[t], d)
            before = order[k - 1] if k else None
            d_x, pieces, d_masked, d_state, d_cell = back(t, before, d_state, d_cell, d)
            layer.part(d_projected[t], d, layer.gates)[:] = d_x
            for rows, gradient, value in pieces:
                d_recurrent[d][rows] += gradient.T @ (state * mask[t] if value is None else value)
            layer.part(d_mask[t], d)[:] = d_masked * state
            d_state = d_state + d_masked * mask[t]
        for whole, value in zip(d_initial, (d_state, d_cell), strict=True):
            layer.part(whole, d)[:] = value
    return d_projected, d_recurrent, *d_initial, d_mask


def gathered(layer, d_projected, d_recurrent, d_initial, d_initial_cell, *, peephole=None, secondary=None):
    """Return the results of a gradient operation in the order that the operation defines."""
    given, weight = layer.given, layer.given.get("input_weight")
    flat = d_projected.reshape(-1, d_projected.shape[-1])
    results = [d_projected if weight is None else d_projected @ weight]
    results.append(d_recurrent.reshape(given["recurrent_weight"].shape))
    if weight is not None:
        results.append(flat.T @ given["source"].reshape(-1, given["source"].shape[-1]))
    if given.get("bias") is not None:
        results.append(flat.sum(0))
    if given.get("peephole") is not None:
        results.append(peephole.reshape(given["peephole"].shape))
    if given.get("initial_state") is not None:
        results.append(d_initial)
    if given.get("initial_cell") is not None:
        results.append(d_initial_cell)
    if given.get("secondary_bias") is not None:
        results.append(secondary)
    return results


def lstm_backward(given, how):
    layer, order, acts = Layer(4, given, how), lstm_order(how), lstm_activations(how)
    kind, gates, cells = how.get("activation", "tanh"), given["training_state"], given["cell"]
    extra = given.get("training_state_gradient")
    peephole = given.get("peephole")
    weights = None if peephole is None else peephole.reshape(layer.directions, 4, layer.hidden)
    d_peephole = np.zeros((layer.directions, 4, layer.hidden))
    at = order.index

    def back(t, before, d_state, d_cell, d):
        g = layer.split(layer.part(gates[t], d, 4))
        i, f, z, o = (g[at(role)] for role in "ifzo")
        old = layer.part(cells[before], d) if before is not None else layer.initial("initial_cell", d)
        image = act(kind, layer.part(cells[t], d))
        d_cell = d_cell + d_state * o * slope(kind, image)
        raw = {"i": d_cell * z, "f": d_cell * old, "z": d_cell * i, "o": d_state * image}
        more = layer.split(layer.part(extra[t], d, 4)) if extra is not None else [0] * 4
        parts = [(raw[role] + more[k]) * slope(acts[role], g[k]) for k, role in enumerate(order)]
        d_gates, d_cell = np.concatenate(parts, -1), d_cell * f
        if weights is not None:
            d_peephole[d] += np.stack([(p * old).sum(0) for p in parts])
            d_cell = d_cell + sum(p * w for p, w in zip(parts, weights[d], strict=True))
        return d_gates, [(slice(None), d_gates, None)], d_gates @ layer.recurrent[d], np.zeros_like(d_state), d_cell

    def cell_of_all():
        whole = given.get("cell_gradient")
        return whole if whole is not None and whole.ndim == 3 else None

    states = np.zeros_like(cells)
    for d in range(layer.directions):
        o = layer.split(
            np.stack([layer.part(x, d, 4) for x in gates]) if layer.steps else gates[..., : 4 * layer.hidden]
        )
        layer.part(states, d)[:] = o[at("o")] * act(kind, layer.part(cells, d))
    found = backward(layer, back, states, given["source_gradient"], cell_of_all())
    return gathered(layer, *found[:4], peephole=d_peephole)


def gru_backward(given, how):
    layer, order, acts = Layer(3, given, how), gru_order(how), gru_activations(how)
    gates, states, extra = given["training_state"], given["state"], given.get("training_state_gradient")
    d_secondary = np.zeros(layer.directions * layer.hidden)
    h, at = layer.hidden, order.index

    def back(t, before, d_state, d_cell, d):
        g = layer.split(layer.part(gates[t], d, 3))
        z, r, o = (g[at(role)] for role in "zro")
        old = layer.part(states[before], d) if before is not None else layer.initial("initial_state", d)
        mask, recurrent = layer.mask(d)[t], layer.recurrent[d]
        more = layer.split(layer.part(extra[t], d, 3)) if extra is not None else [0] * 3
        keep, new = (1 - z, z) if how.get("flip_z") else (z, 1 - z)
        difference = o - old if how.get("flip_z") else old - o
        d_o = (d_state * new + more[2]) * slope(acts["o"], o)
        d_z = (d_state * difference + more[at("z")]) * slope(acts["z"], z)
        _, inner = gru_candidate(layer, given, how, old, r, recurrent, mask, d)
        if how.get("reset_after"):
            d_inner, d_reset = d_o * r, d_o * inner
            layer.part(d_secondary, d)[:] += d_inner.sum(0)
            d_masked, pieces = d_inner @ recurrent[2 * h :], [(slice(2 * h, None), d_inner, None)]
        else:
            d_product = d_o @ recurrent[2 * h :]
            d_masked, d_reset = d_product * r, d_product * old * mask
            pieces = [(slice(2 * h, None), d_o, old * r * mask)]
        d_r = (d_reset + more[at("r")]) * slope(acts["r"], r)
        by_role = {"z": d_z, "r": d_r, "o": d_o}
        for k, role in enumerate(order[:2]):
            rows = slice(k * h, (k + 1) * h)
            d_masked = d_masked + by_role[role] @ recurrent[rows]
            pieces.append((rows, by_role[role], None))
        return np.concatenate([by_role[g] for g in order], -1), pieces, d_masked, d_state * keep, d_cell

    found = backward(layer, back, states, given["source_gradient"])
    return gathered(layer, *found[:4], secondary=d_secondary)


def single_gate_backward(given, how):
    layer, name = Layer(1, given, how), how.get("activation", "relu")
    values_, extra = given["training_state"], given.get("training_state_gradient")

    def back(t, before, d_state, d_cell, d):
        z = layer.part(values_[t], d)
        d_z = d_state * slope(name, act(name, z)) + (layer.part(extra[t], d) if extra is not None else 0)
        return d_z, [(slice(None), d_z, None)], d_z @ layer.recurrent[d], np.zeros_like(d_state), d_cell

    found = backward(layer, back, act(name, values_), given["source_gradient"])
    return gathered(layer, *found[:4])


# --- cases ------------------------------------------------------------------------------------------------------------
GATES = {"single_gate_rnn": 1, "lstm": 4, "gru": 3}
FORWARD = {"single_gate_rnn": single_gate_forward, "lstm": lstm_forward, "gru": gru_forward}
BACKWARD = {"single_gate_rnn": single_gate_backward, "lstm": lstm_backward, "gru": gru_backward}
KEEPS = {"single_gate_rnn": ["training_state"], "lstm": ["training_state", "cell"], "gru": ["training_state", "state"]}
EXTRA = {"single_gate_rnn": [], "lstm": ["initial_cell", "peephole"], "gru": ["secondary_bias"]}
# In the order of the methods' parameters.
OPTIONAL = {
    "single_gate_rnn": ["input_weight", "bias", "initial_state", "mask"],
    "lstm": ["input_weight", "bias", "initial_state", "initial_cell", "mask", "peephole"],
    "gru": ["input_weight", "bias", "initial_state", "mask", "secondary_bias"],
}


def operands(kind, wanted, directions=1, t=T, n=N, i=X, h=H, seed=0):
    """Return operands by name: source, recurrent weight, and the requested optional ones."""
    gates, wide = GATES[kind], directions * h
    both = (2,) if directions == 2 else ()
    shapes = {
        "source": (t, n, i if "input_weight" in wanted else directions * gates * h),
        "recurrent_weight": (*both, gates * h, h),
        "input_weight": (directions * gates * h, i),
        "bias": (directions * gates * h,),
        "initial_state": (n, wide),
        "initial_cell": (n, wide),
        "mask": (t, n, wide),
        "row_mask": (n, wide),
        "unit_mask": (wide,),
        "peephole": (*both, 4 * h),
        "secondary_bias": (wide,),
    }
    names = ["source", "recurrent_weight", *(w.removeprefix("row_").removeprefix("unit_") for w in wanted)]
    names = [name for name in ["source", "recurrent_weight", *OPTIONAL[kind]] if name in names]
    result = {}
    for k, name in enumerate(names):
        shape = next(shapes[p + name] for p in ("row_", "unit_", "") if p == "" or p + name in wanted)
        # Small enough that many steps do not amplify rounding errors.
        scale = {"recurrent_weight": min(0.9, 1.6 / h**0.5), "input_weight": 0.9}.get(name, 1.2)
        result[name] = values(*shape, seed=seed + 200 + k, low=-scale, high=scale)
    return result


def possible(wanted, how):
    """Remove the second GRU bias if the reset precedes the product."""
    return [w for w in wanted if w != "secondary_bias" or how.get("reset_after")]


def forward_case(kind, label, wanted=(), directions=1, how=None, sizes=None, **case):
    how = dict(how or {})
    wanted = possible(wanted, how)
    if directions == 2:
        how["bidirectional"] = True
    given = operands(kind, wanted, directions, **(sizes or {}))
    names, flags = list(given), dict(how)

    def oracle(*arrays):
        found = FORWARD[kind](dict(zip(names, arrays, strict=True)), flags)
        if kind != "lstm":
            return found if flags.get("training") else found[:1]
        return found if flags.get("training") else found[:2] if flags.get("produce_cell") else found[:1]

    def build(graph, *tensors):
        return getattr(graph, kind)(**dict(zip(names, tensors, strict=True)), **flags)

    settings = {"batch": (0,) if "mask" not in wanted else (0, names.index("mask")), "tolerance": 8} | case
    return Case(kind, list(given.values()), oracle, build=build, label=label, **settings)


def gradient_case(kind, label, wanted=(), directions=1, how=None, sizes=None, more=(), **case):
    how = dict(how or {})
    wanted = possible(wanted, how)
    if directions == 2:
        how["bidirectional"] = True
    given = operands(kind, wanted, directions, **(sizes or {}))
    forward = FORWARD[kind](given, how)
    state = forward[0]
    kept = {"training_state": forward[-1], "cell": forward[1], "state": state}
    shapes = {"state_gradient": state.shape[1:], "cell_gradient": state.shape[1:], "all_cell_gradient": state.shape,
              "training_state_gradient": forward[-1].shape}  # fmt: skip
    required = {"source": given["source"], "recurrent_weight": given["recurrent_weight"],
                "source_gradient": values(*state.shape, seed=290), **{k: kept[k] for k in KEEPS[kind]}}  # fmt: skip
    gradients = {name.removeprefix("all_"): values(*shapes[name], seed=291 + k) for k, name in enumerate(more)}
    optional = {k: v for k, v in given.items() if k not in required} | gradients
    names = [*required, *optional]

    def oracle(*arrays):
        return BACKWARD[kind](dict(zip(names, arrays, strict=True)), how)

    def build(graph, *tensors):
        by_name = dict(zip(names, tensors, strict=True))
        if "training_state_gradient" not in by_name:
            return getattr(graph, f"{kind}_gradients")(**by_name, **how)
        # Operands that only automatic differentiation passes and the public method does not have.
        order = [*OPTIONAL[kind], "state_gradient", "cell_gradient", "training_state_gradient"]
        order = [name for name in order if name != "cell_gradient" or kind == "lstm"]
        return graph._recurrent(
            f"{kind}_gradients", [by_name[k] for k in required], {k: by_name.get(k) for k in order}, how, None
        )

    settings = {"batch": (), "tolerance": 32, "unranked": False} | case
    return Case(
        f"{kind}_gradients", [*required.values(), *optional.values()], oracle, build=build, label=label, **settings
    )


ODD = {"t": 2, "n": 7, "i": 5, "h": 19}
LONG = {"t": 70, "n": 5, "i": 3, "h": 34}  # enough rows for packed weights and for both threads
WIDE = {"t": 3, "n": 1, "i": 2, "h": 200}  # threads share the hidden units of a single row
MANY = {"t": 30, "n": 9, "i": 5, "h": 20}  # enough work per step to multiply inputs and states together
VALUES = {"gradient": False, "dtypes": ("float32", "float64", "float16")}
PLAIN = ("input_weight", "bias")

CASES = []
for kind in GATES:
    everything = tuple(OPTIONAL[kind])
    training = {"training": True}
    CASES += [
        forward_case(kind, "projected"),
        forward_case(kind, "plain", PLAIN),
        forward_case(kind, "all", everything, how=training),
        forward_case(kind, "both_ways", everything, 2, training, sizes={"t": 2}),
        forward_case(kind, "reverse", ("input_weight", "initial_state"), how={"reverse": True}),
        forward_case(kind, "row_mask", (*PLAIN, "row_mask"), how={"reverse": True}),
        forward_case(kind, "unit_mask", (*PLAIN, "unit_mask"), 2),
        forward_case(kind, "one_step", everything, sizes={"t": 1, "n": 1}),
        forward_case(kind, "no_steps", everything, how=training, sizes={"t": 0}, batch=()),
        forward_case(kind, "no_rows", PLAIN, sizes={"n": 0}),
        forward_case(kind, "odd", everything, how=training, sizes=ODD, **VALUES),
        forward_case(kind, "odd_both_ways", everything, 2, training, sizes=ODD, **VALUES),
        forward_case(kind, "long", PLAIN, how=training, sizes=LONG, batch=(), tolerance=64, **VALUES),
        forward_case(kind, "wide", PLAIN, 2, sizes=WIDE, batch=(), tolerance=64, **VALUES),
        forward_case(kind, "many", PLAIN, how=training, sizes=MANY, batch=(), tolerance=64, **VALUES),
        forward_case(kind, "many_all", everything, how=training, sizes=MANY, batch=(), tolerance=64, **VALUES),
        forward_case(kind, "many_both_ways", everything, 2, training, sizes=MANY, batch=(), tolerance=64, **VALUES),
        forward_case(kind, "many_reverse", ("input_weight",), how={"reverse": True}, sizes=MANY, batch=(),
                     tolerance=64, **VALUES),
        gradient_case(kind, "projected"),
        gradient_case(kind, "plain", PLAIN, sizes={"t": 2}),
        gradient_case(kind, "all", everything, more=("state_gradient",)),
        gradient_case(kind, "both_ways", everything, 2, sizes={"t": 2}),
        gradient_case(kind, "reverse", ("input_weight", "initial_state"), how={"reverse": True}),
        gradient_case(kind, "odd", everything, sizes=ODD, tolerance=128, **VALUES),
        gradient_case(kind, "odd_both_ways", everything, 2, sizes=ODD, tolerance=128, **VALUES),
        gradient_case(kind, "long", PLAIN, sizes=LONG, tolerance=512, gradient=False, dtypes=("float32", "float64")),
        gradient_case(kind, "many", PLAIN, sizes=MANY, tolerance=512, gradient=False, dtypes=("float32", "float64")),
        gradient_case(kind, "wide", PLAIN, 2, sizes=WIDE, tolerance=512, gradient=False, dtypes=("float32", "float64")),
        gradient_case(kind, "no_steps", everything, sizes={"t": 0}, more=("state_gradient",)),
    ]  # fmt: skip
for name in ACTIVATIONS:
    one = {"how": {"activation": name}}
    CASES += [
        forward_case("single_gate_rnn", name, PLAIN, **one),
        gradient_case("single_gate_rnn", name, PLAIN, **one),
    ]
OTHER_LSTM = {
    "input_gate_activation": "tanh", "forget_gate_activation": "none", "cell_gate_activation": "sigmoid",
    "output_gate_activation": "tanh", "activation": "sigmoid",
}  # fmt: skip
HARD_LSTM = {
    "input_gate_activation": "hard_sigmoid", "forget_gate_activation": "hard_sigmoid", "cell_gate_activation": "relu",
    "output_gate_activation": "hard_sigmoid", "activation": "relu",
}  # fmt: skip
OTHER_GRU = {"update_gate_activation": "tanh", "reset_gate_activation": "none", "output_gate_activation": "sigmoid"}
HARD_GRU = {
    "update_gate_activation": "hard_sigmoid", "reset_gate_activation": "hard_sigmoid", "output_gate_activation": "relu",
}  # fmt: skip
LSTM_FLAGS = {
    "cell": {"produce_cell": True},
    "forget_gate_last": {"forget_gate_last": True},
    "other_activations": OTHER_LSTM,
    "hard_activations": HARD_LSTM,
}
GRU_FLAGS = {
    "reset_gate_first": {"reset_gate_first": True},
    "reset_after": {"reset_after": True},
    "flip_z": {"flip_z": True},
    "torch": {"reset_gate_first": True, "reset_after": True},
    "all_flags": {"reset_gate_first": True, "reset_after": True, "flip_z": True},
    "other_activations": OTHER_GRU,
    "hard_activations": HARD_GRU,
}


def away_from_kinks(label):
    """The operands of a gradient include gate values, which are often at the kinks of hard activations."""
    return {"gradient": label != "hard_activations"}


for label, flags in LSTM_FLAGS.items():
    CASES.append(forward_case("lstm", label, OPTIONAL["lstm"], how=flags))
    if label != "cell":
        CASES.append(
            gradient_case("lstm", label, OPTIONAL["lstm"], how=flags, sizes={"t": 2}, **away_from_kinks(label))
        )
CASES += [
    gradient_case("lstm", "cells", PLAIN, more=("state_gradient", "all_cell_gradient", "training_state_gradient")),
    gradient_case("lstm", "everything", OPTIONAL["lstm"], sizes={"t": 2},
                  more=("state_gradient", "cell_gradient", "training_state_gradient")),
    gradient_case("single_gate_rnn", "everything", OPTIONAL["single_gate_rnn"], how={"activation": "tanh"},
                  more=("state_gradient", "training_state_gradient")),
]  # fmt: skip
for label, flags in GRU_FLAGS.items():
    CASES += [
        forward_case("gru", label, OPTIONAL["gru"], how=flags),
        forward_case("gru", f"{label}_both_ways", OPTIONAL["gru"], 2, flags, sizes=ODD, **VALUES),
        gradient_case("gru", label, OPTIONAL["gru"], how=flags, sizes={"t": 2}, **away_from_kinks(label)),
        gradient_case("gru", f"{label}_both_ways", OPTIONAL["gru"], 2, flags, sizes=ODD, tolerance=128, **VALUES),
    ]
CASES += [
    gradient_case("gru", "everything", OPTIONAL["gru"], how={"reset_after": True}, sizes={"t": 2},
                  more=("state_gradient", "training_state_gradient")),
    gradient_case("gru", "wide_reset_after", OPTIONAL["gru"], 2, {"reset_after": True}, sizes=WIDE, tolerance=512,
                  gradient=False, dtypes=("float32", "float64")),
]  # fmt: skip
