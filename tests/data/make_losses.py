"""Makes losses.json: PyTorch's losses of four small networks over ten steps.

tests/training/test_golden_losses.py repeats them.

The networks are those of bench/w1_digits.py, w3_conv_lstm.py, w4_gan.py and w6_mlp.py, without dropout and with smaller
sizes where these do not decide which kernels ours takes. PyTorch computes in float64, so that its losses are exact for
float32. Epsilon is added where our Adam adds it, see `Adam` below: PyTorch's own place for it moves these losses by
4e-4 at most. Weights and batches come from numpy by a seed, in our layouts and by the paths of our modules: the test
draws the same and needs no PyTorch.
Run with PyTorch 2.13: python tests/data/make_losses.py
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_name("losses.json")
STEPS = 10
RATES = {"digits": 0.004, "activity": 3e-3, "adversarial": 5e-4, "perceptron": 1e-3}
BETA1, BETA2 = 0.5, 0.999  # BETA1 of both adversarial networks' Adam; all else is Adam's usual
EPSILON, SLOPE = 1e-3, 0.2  # of batch normalization, of leaky ReLU

DIGITS_BATCH, DIGITS_CHANNELS, DIGITS_HIDDEN = 16, (32, 64), 1024
SAMPLES, AXES, KERNEL, FEATURES, LSTM_HIDDEN, ACTIVITY_DENSE, ACTIVITIES = 400, 6, 40, 32, 64, 64, 6
ACTIVITY_BATCH = 16
LATENT, WIDE, NARROW, ADVERSARIAL_BATCH = 32, 64, 32, 16  # channels at a fourth and at half of the image
SIZES, PERCEPTRON_BATCH = (784, 512, 512, 10), 32
IMAGE = (28, 28, 1)


def layer(path: str, *shape: int, bias: int = 0, fan: int = 0, gain: float = 2.0) -> dict[str, tuple]:
    """A weight, and a bias if it has a size: shape, mean and deviation."""
    made = {f"{path}.weight": (shape, 0.0, math.sqrt(gain / (fan or math.prod(shape[:-1]))))}
    return made | ({f"{path}.bias": ((bias,), 0.0, 0.1)} if bias else {})


def scale(path: str, channels: int) -> dict[str, tuple]:
    """Of batch normalization."""
    return {f"{path}.gamma": ((channels,), 1.0, 0.1), f"{path}.beta": ((channels,), 0.0, 0.1)}


def lstm(path: str, inputs: int, hidden: int) -> dict[str, tuple]:
    shapes = {"weight_ih": (4 * hidden, inputs), "weight_hh": (4 * hidden, hidden)}
    shapes |= {"bias_ih": (4 * hidden,), "bias_hh": (4 * hidden,)}
    return {f"{path}.{name}_l0": (shape, 0.0, 1 / math.sqrt(hidden)) for name, shape in shapes.items()}


FLAT = 7 * 7 * WIDE
C1, C2 = DIGITS_CHANNELS
WEIGHTS = {
    "digits": layer("0", 5, 5, 1, C1, bias=C1)
    | layer("3", 5, 5, C1, C2, bias=C2)
    | layer("7", 7 * 7 * C2, DIGITS_HIDDEN, bias=DIGITS_HIDDEN)
    | layer("9", DIGITS_HIDDEN, 10, bias=10, gain=0.1),
    "activity": layer("0", KERNEL, AXES, FEATURES, bias=FEATURES)
    | lstm("2", FEATURES, LSTM_HIDDEN)
    | layer("4", LSTM_HIDDEN, ACTIVITY_DENSE, bias=ACTIVITY_DENSE)
    | layer("6", ACTIVITY_DENSE, ACTIVITIES, bias=ACTIVITIES, gain=0.5),
    "generator": layer("0", LATENT, FLAT)
    | scale("1", FLAT)
    | layer("4", 4, 4, NARROW, WIDE, fan=4 * WIDE)
    | scale("5", NARROW)
    | layer("7", 4, 4, 1, NARROW, bias=1, fan=4 * NARROW, gain=1.0),
    "discriminator": layer("0", 4, 4, 1, NARROW, bias=NARROW)
    | layer("2", 4, 4, NARROW, WIDE, bias=WIDE)
    | layer("5", FLAT, 1, bias=1, gain=1.0),
    "perceptron": layer("0", *SIZES[0:2], bias=SIZES[1])
    | layer("2", *SIZES[1:3], bias=SIZES[2])
    | layer("4", *SIZES[2:4], bias=SIZES[3], gain=0.1),
}


def uniform(rng: np.random.Generator, shape: tuple[int, ...], mean: float = 0.0, deviation: float = 1.0) -> np.ndarray:
    half = np.float32(math.sqrt(3) * deviation)
    return np.float32(mean) + half * (2 * rng.random(shape, np.float32) - 1)


def first_weights(network: str) -> dict[str, np.ndarray]:
    """By the path of the module."""
    rng = np.random.default_rng(list(WEIGHTS).index(network))
    return {path: uniform(rng, *how) for path, how in WEIGHTS[network].items()}


def of_classes(
    classes: int, batch: int, shape: tuple[int, ...], contrast: float = 0.3
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A pattern for each class with noise upon it, and labels."""
    rng = np.random.default_rng(100 + classes)
    patterns = uniform(rng, (classes, *shape), deviation=contrast)
    for _ in range(STEPS):
        labels = rng.integers(0, classes, batch, np.int32)
        yield patterns[labels] + uniform(rng, (batch, *shape)), labels


def batches(network: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What the steps read: inputs and labels; of the adversarial networks real images and random numbers."""
    if network == "digits":
        return of_classes(10, DIGITS_BATCH, IMAGE)
    if network == "activity":
        return of_classes(ACTIVITIES, ACTIVITY_BATCH, (SAMPLES, AXES), contrast=0.7)
    if network == "perceptron":
        return of_classes(SIZES[-1], PERCEPTRON_BATCH, SIZES[:1])
    images = of_classes(2, ADVERSARIAL_BATCH, IMAGE)
    rng = np.random.default_rng(200)
    return ((np.tanh(x), uniform(rng, (ADVERSARIAL_BATCH, LATENT))) for x, _ in images)


# --- PyTorch's side: functions of weights in our layouts and of images with channels last ----------------------------
def torch_losses() -> dict[str, list]:
    """Of each network, ten losses; of the adversarial networks pairs of the generator's and the discriminator's."""
    import torch
    import torch.nn.functional as F

    def first_axes(x):
        return x.movedim(-1, 1)

    def kernel(w):
        """OIHW of HWIO; of a transposed convolution IOHW of HWOI."""
        return w.movedim((-1, -2), (0, 1))

    def dense(p, path, x):
        return x @ p[f"{path}.weight"] + p.get(f"{path}.bias", 0.0)

    def convolution(p, path, x, function=F.conv2d, **how):
        return function(x, kernel(p[f"{path}.weight"]), p.get(f"{path}.bias"), **how)

    def normalized(p, path, x):
        return F.batch_norm(x, None, None, p[f"{path}.gamma"], p[f"{path}.beta"], training=True, eps=EPSILON)

    def flat(x):
        return x.movedim(1, -1).flatten(1)

    def digits(p, x):
        x = F.max_pool2d(F.relu(convolution(p, "0", first_axes(x), padding=2)), 2)
        x = F.max_pool2d(F.relu(convolution(p, "3", x, padding=2)), 2)
        return dense(p, "9", F.relu(dense(p, "7", flat(x))))

    def activity(p, x):
        x = F.relu(convolution(p, "0", first_axes(x), F.conv1d, stride=KERNEL)).movedim(1, -1)
        recurrent = torch.nn.LSTM(FEATURES, LSTM_HIDDEN, batch_first=True)
        weights = {name: p[f"2.{name}"] for name, _ in recurrent.named_parameters()}
        states, _ = torch.func.functional_call(recurrent, weights, (x,))
        return dense(p, "6", F.relu(dense(p, "4", states[:, -1])))

    def perceptron(p, x):
        return dense(p, "4", F.relu(dense(p, "2", F.relu(dense(p, "0", x)))))

    def generator(p, z):
        x = F.relu(normalized(p, "1", dense(p, "0", z))).view(-1, 7, 7, WIDE)
        x = convolution(p, "4", first_axes(x), F.conv_transpose2d, stride=2, padding=1)
        x = convolution(p, "7", F.relu(normalized(p, "5", x)), F.conv_transpose2d, stride=2, padding=1)
        return torch.tanh(x).movedim(1, -1)

    def discriminator(p, x):
        x = F.leaky_relu(convolution(p, "0", first_axes(x), stride=2, padding=1), SLOPE)
        x = F.leaky_relu(convolution(p, "2", x, stride=2, padding=1), SLOPE)
        return dense(p, "5", flat(x))

    def double(array):
        return torch.from_numpy(array.astype(np.float64))

    def weights_of(network):
        return {path: double(w).requires_grad_() for path, w in first_weights(network).items()}

    class Adam(torch.optim.Adam):
        """With epsilon beside the root of the second moment as it is, before the correction of its bias, as ours."""

        def step(self):
            self.steps = getattr(self, "steps", 0) + 1
            for group in self.param_groups:
                group["eps"] = 1e-8 / math.sqrt(1 - BETA2**self.steps)
            super().step()

    def classifier(network, function, optimizer):
        p = weights_of(network)
        steps, losses = optimizer(list(p.values()), lr=RATES[network]), []
        for x, labels in batches(network):
            loss = F.cross_entropy(function(p, double(x)), torch.from_numpy(labels).long())
            steps.zero_grad()
            loss.backward()
            steps.step()
            losses.append(loss.item())
        return losses

    def adversarial():
        """Both gradients are those before either update."""
        made, told = weights_of("generator"), weights_of("discriminator")
        optimizers = [Adam(list(p.values()), RATES["adversarial"], (BETA1, BETA2)) for p in (made, told)]
        binary, losses = F.binary_cross_entropy_with_logits, []
        for real, z in batches("adversarial"):
            of_real, of_fake = discriminator(told, double(real)), discriminator(told, generator(made, double(z)))
            ones, zeros = torch.ones_like(of_real), torch.zeros_like(of_real)
            pair = binary(of_fake, ones), binary(of_real, ones) + binary(of_fake, zeros)
            for p, loss in zip((made, told), pair, strict=True):
                for w, d in zip(
                    p.values(), torch.autograd.grad(loss, list(p.values()), retain_graph=True), strict=True
                ):
                    w.grad = d
            for optimizer in optimizers:
                optimizer.step()
            losses.append([loss.item() for loss in pair])
        return losses

    torch.set_default_dtype(torch.float64)
    return {
        "digits": classifier("digits", digits, torch.optim.SGD),
        "activity": classifier("activity", activity, Adam),
        "adversarial": adversarial(),
        "perceptron": classifier("perceptron", perceptron, Adam),
    }


def main() -> None:
    import torch

    stored = {"torch": torch.__version__, "numpy": np.__version__, **torch_losses()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
