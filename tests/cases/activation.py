"""Cases of the activation family: rectifiers, sigmoid, softmax along an axis, and their gradients."""

import numpy as np
from harness.case import Case, apart, values

X = apart(3, 4, seed=20)  # not near the kink at 0
G = values(3, 4, seed=21)
ALPHA = values(3, 4, seed=22, low=0.05, high=0.4)
CUBE, CUBE_G = values(2, 3, 4, seed=23), values(2, 3, 4, seed=24)
LARGE = np.array([[1000.0, 1001.0, 998.0], [-1000.0, -1000.0, -1000.0]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def softmax_gradient(g, x, axis=-1):
    s = softmax(x, axis)
    return s * (g - (g * s).sum(axis, keepdims=True))


def log_softmax_gradient(g, x, axis=-1):
    return g - softmax(x, axis) * g.sum(axis, keepdims=True)


def pointwise(operation, inputs, oracle, **options):
    return Case(operation, inputs, oracle, elementwise=True, **options)


CASES = [
    pointwise("relu", [X], lambda x: np.maximum(x, 0), exact=True),
    pointwise("relu_gradient", [G, X], lambda g, x: np.where(x > 0, g, 0), exact=True),
    pointwise("sigmoid", [X], sigmoid),
    pointwise("sigmoid", [LARGE], sigmoid, label="large", tolerance=2),
    pointwise("sigmoid_gradient", [G, X], lambda g, x: g * sigmoid(x) * (1 - sigmoid(x))),
    pointwise("leaky_relu", [X, ALPHA], lambda x, a: np.where(x >= 0, x, a * x)),
    pointwise("leaky_relu_gradient", [G, X, ALPHA], lambda g, x, a: np.where(x >= 0, g, a * g)),
]
for axis in (-1, 0, 1):
    along = {"attributes": {"axis": axis}, "label": f"axis_{axis}", "batch": (0,) if axis else ()}
    CASES += [
        Case("softmax", [CUBE], softmax, **along),
        Case("log_softmax", [CUBE], log_softmax, **along),
    ]
    along["batch"] = (0, 1) if axis else ()
    CASES += [
        Case("softmax_gradient", [CUBE_G, CUBE], softmax_gradient, **along),
        Case("log_softmax_gradient", [CUBE_G, CUBE], log_softmax_gradient, **along),
    ]
CASES += [
    Case("softmax", [LARGE], softmax, label="large", gradient=False),
    Case("log_softmax", [LARGE], log_softmax, label="large", gradient=False),
    Case("softmax", [values(0, 5)], lambda x, **_: x, label="empty"),
    Case("log_softmax", [values(7, 600, seed=25)], log_softmax, label="wide", gradient=False),
    Case("softmax", [values(130, 33, seed=26)], softmax, label="many_rows", gradient=False),
]
