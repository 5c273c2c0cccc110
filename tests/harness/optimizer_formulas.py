"""Published update rules of optimizers, in float64, which tests compare mpsgraph and PyTorch with.

Each function returns update(t, w, g, s): the weights after step t (counted from 1) from weights w, gradient g, and the
optimizer's state, a dict that starts empty. Conventions and defaults are PyTorch's; those of LAMB, LARS, and Lion are
optax's. Differences that would cancel, such as 1 - beta^t, are computed with expm1.
"""

import math

import numpy as np


def missing(beta, t):
    """Return 1 - beta^t."""
    return -math.expm1(t * math.log(beta)) if beta else 1.0


def mean(s, name, beta, x):
    """Move a running mean toward x and return it."""
    s[name] = s.get(name, 0.0) + (1 - beta) * (x - s.get(name, 0.0))
    return s[name]


def sgd(rate, momentum=0.0, nesterov=False, decay=0.0, decoupled=False):
    def update(t, w, g, s):
        if decoupled:
            w = w * (1 - rate * decay)
        else:
            g = g + decay * w
        s["v"] = momentum * s.get("v", 0.0) + g
        return w - rate * (g + momentum * s["v"] if nesterov else s["v"])

    return update


def adam(rate, b1=0.9, b2=0.999, eps=1e-8, amsgrad=False, decay=0.0, decoupled=0.0, corrected=True):
    def update(t, w, g, s):
        g, w = g + decay * w, w * (1 - rate * decoupled)
        first, second = mean(s, "m", b1, g), mean(s, "v", b2, g * g)
        s["top"] = np.maximum(s.get("top", 0.0), second)
        root = math.sqrt(missing(b2, t))
        spread = np.sqrt(s["top"] if amsgrad else second) / root + eps * (1 if corrected else 1 / root)
        return w - rate / missing(b1, t) * first / spread

    return update


def nadam(rate, b1=0.9, b2=0.999, eps=1e-8, decay=0.0, momentum_decay=4e-3):
    def mu(t):
        return b1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))

    def update(t, w, g, s):
        g = g + decay * w
        first, second = mean(s, "m", b1, g), mean(s, "v", b2, g * g)
        s["mu"] = s.get("mu", 1.0) * mu(t)
        spread = np.sqrt(second / missing(b2, t)) + eps
        now, after = (1 - mu(t)) / (1 - s["mu"]), mu(t + 1) / (1 - s["mu"] * mu(t + 1))
        return w - rate * (now * g + after * first) / spread

    return update


def radam(rate, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        first, second = mean(s, "m", b1, g), mean(s, "v", b2, g * g)
        longest = 2 / (1 - b2) - 1
        length = longest - 2 * t * (1 - missing(b2, t)) / missing(b2, t)
        step = rate * first / missing(b1, t)
        if length <= 5:
            return w - step
        ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        return w - step * math.sqrt(ratio * missing(b2, t)) / (np.sqrt(second) + eps)

    return update


def adamax(rate, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        first = mean(s, "m", b1, g)
        s["u"] = np.maximum(b2 * s.get("u", 0.0), np.abs(g) + eps)
        return w - rate / missing(b1, t) * first / s["u"]

    return update


def lion(rate, b1=0.9, b2=0.99, decay=0.0):
    def update(t, w, g, s):
        m = s.get("m", 0.0)
        s["m"] = b2 * m + (1 - b2) * g
        return w - rate * (np.sign(b1 * m + (1 - b1) * g) + decay * w)

    return update


def rmsprop(rate, alpha=0.99, eps=1e-8, momentum=0.0, centered=False, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        spread, middle = mean(s, "v", alpha, g * g), mean(s, "m", alpha, g)
        root = np.sqrt(np.maximum(spread - middle**2, 0.0) if centered else spread)
        s["b"] = momentum * s.get("b", 0.0) + g / (root + eps)
        return w - rate * s["b"]

    return update


def adagrad(rate, eps=1e-10, initial=0.0, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        s["s"] = s.get("s", initial) + g * g
        return w - rate * g / (np.sqrt(s["s"]) + eps)

    return update


def adadelta(rate=1.0, rho=0.9, eps=1e-6, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        spread = mean(s, "v", rho, g * g)
        step = g * np.sqrt(s.get("u", 0.0) + eps) / np.sqrt(spread + eps)
        mean(s, "u", rho, step * step)
        return w - rate * step

    return update


def lamb(rate, b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    def update(t, w, g, s):
        first, second = mean(s, "m", b1, g), mean(s, "v", b2, g * g)
        step = first / missing(b1, t) / (np.sqrt(second / missing(b2, t)) + eps) + decay * w
        return w - rate * np.linalg.norm(w) / np.linalg.norm(step) * step

    return update


def lars(rate, momentum=0.9, nesterov=False, decay=0.0, trust=0.001, eps=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        step = rate * trust * np.linalg.norm(w) / (np.linalg.norm(g) + eps) * g
        s["v"] = momentum * s.get("v", 0.0) + step
        return w - (momentum * s["v"] + step if nesterov else s["v"])

    return update


def adafactor(rate=0.01, beta2_decay=-0.8, eps1=2.0**-23, eps2=1e-3, clip=1.0, decay=0.0):
    def update(t, w, g, s):
        beta, scale = 1 - t**beta2_decay, max(eps2, np.sqrt(np.mean(w**2)))
        w = w * (1 - rate * decay)
        if g.ndim > 1:
            rows = mean(s, "r", beta, np.mean(g * g, -1, keepdims=True))
            columns = mean(s, "c", beta, np.mean(g * g, -2, keepdims=True))
            spread = rows * columns / np.maximum(np.mean(rows, -2, keepdims=True), eps1)
        else:
            spread = mean(s, "v", beta, g * g)
        step = g / np.sqrt(np.maximum(spread, eps1**2))
        return w - scale * min(rate, 1 / math.sqrt(t)) * step / max(1.0, np.sqrt(np.mean(step**2)) / clip)

    return update


def muon(rate, decay=0.1, momentum=0.95, nesterov=True, matched=False, outputs_first=False):
    """Muon for a matrix of shape (inputs, outputs), or (outputs, inputs) with outputs_first, which is PyTorch's
    layout.
    """

    def update(t, w, g, s):
        w, g = (w, g) if outputs_first else (w.T, g.T)
        m = mean(s, "m", momentum, g)
        x = g + momentum * (m - g) if nesterov else m
        rows, columns = x.shape
        x = (x.T if rows > columns else x) / max(np.linalg.norm(x), 1e-7)
        for _ in range(5):
            square = x @ x.T
            x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
        factor = 0.2 * math.sqrt(max(rows, columns)) if matched else math.sqrt(max(1.0, rows / columns))
        w = w * (1 - rate * decay) - rate * factor * (x.T if rows > columns else x)
        return w if outputs_first else w.T

    return update
