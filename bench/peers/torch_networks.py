"""Networks of the workloads in PyTorch, without steps, losses, and modes, which are in torch_peer.py."""

import math

import torch
import torch.nn.functional as F
import workloads as sizes
from torch import Tensor, nn


class DigitNetwork(nn.Module):
    """The digit network of W1."""

    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.W1_CHANNELS
        self.convolution1 = nn.Conv2d(1, first, 5, padding=2)
        self.convolution2 = nn.Conv2d(first, second, 5, padding=2)
        self.dense1 = nn.Linear(sizes.W1_FLAT, sizes.W1_HIDDEN)
        self.dense2 = nn.Linear(sizes.W1_HIDDEN, sizes.CLASSES)
        self.dropout = nn.Dropout(sizes.W1_DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.convolution1(x)), 2)
        x = F.max_pool2d(F.relu(self.convolution2(x)), 2)
        return self.dense2(self.dropout(F.relu(self.dense1(x.flatten(1)))))


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution followed by batch normalization."""
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=1 if kernel == 3 else 0, bias=False),
        nn.BatchNorm2d(outputs, sizes.EPSILON, 1 - sizes.MOMENTUM),
    ]


class Block(nn.Module):
    """A residual block of ResNet-50 with the stride in its first convolution."""

    def __init__(self, inputs: int, within: int, behind: int, stride: int, projected: bool) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *convolution(inputs, within, 1, stride),
            nn.ReLU(),
            *convolution(within, within, 3),
            nn.ReLU(),
            *convolution(within, behind, 1),
        )
        self.projection = nn.Sequential(*convolution(inputs, behind, 1, stride)) if projected else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.convolutions(x) + self.projection(x))


def resnet50() -> nn.Module:
    """Build ResNet-50 for W2 and W8."""
    blocks, inputs = [], sizes.W2_STEM
    for within, behind, count, stride in sizes.W2_STAGES:
        for first in [True] + [False] * (count - 1):
            blocks.append(Block(inputs, within, behind, stride if first else 1, first))
            inputs = behind
    return nn.Sequential(
        *convolution(3, sizes.W2_STEM, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inputs, sizes.CLASSES),
    )


def mobile() -> nn.Module:
    """Build MobileNetV3 small without squeeze-and-excite."""

    def normalized(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [layer, nn.BatchNorm2d(outputs, sizes.EPSILON)]

    layers = [*normalized(3, sizes.BUSY_STEM, 3, 2), nn.Hardswish()]
    inputs = sizes.BUSY_STEM
    for kernel, expanded, channels, stride, hard in sizes.BUSY_MOBILE:
        activation = nn.Hardswish if hard else nn.ReLU
        layers += [*normalized(inputs, expanded, 1), activation()]
        layers += [*normalized(expanded, expanded, kernel, stride, expanded), activation()]
        layers += normalized(expanded, channels, 1)
        inputs = channels
    layers += [*normalized(inputs, sizes.BUSY_HEAD, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(sizes.BUSY_HEAD, sizes.BUSY_CLASSES))


class InBfloat16(nn.Module):
    """Run another module under autocast, without the cache of casts, which cannot be traced."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            return self.module(x).float()


class LSTMCell(nn.Module):
    """An LSTM computed step by step, so that it can be compiled; the inputs of all steps share one matmul."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)
        self.hidden = hidden
        self.inputs = nn.Linear(inputs, 4 * hidden)
        self.recurrent = nn.Parameter(torch.empty(4 * hidden, hidden).uniform_(-bound, bound))

    def step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (gates + F.linear(h, self.recurrent)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Tensor) -> Tensor:
        """Return the last hidden state for inputs (batch, time, features)."""
        gates = self.inputs(x)
        h = c = x.new_zeros(len(x), self.hidden)
        for time in range(x.shape[1]):
            h, c = self.step(gates[:, time], h, c)
        return h


class ActivityClassifier(nn.Module):
    """The activity classifier of W3, with PyTorch's LSTM or with LSTMCell."""

    def __init__(self, by_steps: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(sizes.W3_AXES, sizes.W3_FEATURES, sizes.W3_KERNEL, sizes.W3_KERNEL)
        self.by_steps = by_steps
        self.lstm = (
            LSTMCell(sizes.W3_FEATURES, sizes.W3_HIDDEN)
            if by_steps
            else nn.LSTM(sizes.W3_FEATURES, sizes.W3_HIDDEN, batch_first=True)
        )
        self.dense1 = nn.Linear(sizes.W3_HIDDEN, sizes.W3_DENSE)
        self.dense2 = nn.Linear(sizes.W3_DENSE, sizes.W3_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        features = F.relu(self.convolution(x)).transpose(1, 2)
        last = self.lstm(features) if self.by_steps else self.lstm(features)[0][:, -1]
        return self.dense2(F.relu(self.dense1(last)))


class Generator(nn.Module):
    """The generator of W4."""

    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.W4_CHANNELS
        self.dense = nn.Linear(sizes.W4_LATENT, sizes.W4_FLAT, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm1d(sizes.W4_FLAT), nn.BatchNorm2d(second)
        self.convolution1 = nn.ConvTranspose2d(first, second, sizes.W4_KERNEL, 2, 1, bias=False)
        self.convolution2 = nn.ConvTranspose2d(second, 1, sizes.W4_KERNEL, 2, 1)
        self.layout = torch.contiguous_format

    def forward(self, z: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.dense(z))).view(-1, sizes.W4_CHANNELS[0], sizes.W4_SMALL, sizes.W4_SMALL)
        x = x.contiguous(memory_format=self.layout)
        return torch.tanh(self.convolution2(F.relu(self.norm2(self.convolution1(x)))))


class Discriminator(nn.Module):
    """The discriminator of W4."""

    def __init__(self) -> None:
        super().__init__()
        second, first = sizes.W4_CHANNELS
        self.convolution1 = nn.Conv2d(1, first, sizes.W4_KERNEL, 2, 1)
        self.convolution2 = nn.Conv2d(first, second, sizes.W4_KERNEL, 2, 1)
        self.dense = nn.Linear(sizes.W4_FLAT, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.convolution1(x), sizes.W4_SLOPE)
        x = F.leaky_relu(self.convolution2(x), sizes.W4_SLOPE)
        return self.dense(F.dropout(x.flatten(1), sizes.W4_DROPOUT))


class Characters(nn.Module):
    """The character model of W7: (character, h, c) -> (next character, h, c)."""

    def __init__(self, by_steps: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.W7_CHARACTERS, sizes.W7_EMBEDDING)
        self.by_steps = by_steps
        kind = LSTMCell if by_steps else nn.LSTM
        self.lstm = kind(sizes.W7_EMBEDDING, sizes.W7_HIDDEN)
        self.dense = nn.Linear(sizes.W7_HIDDEN, sizes.W7_CHARACTERS)

    def forward(self, character: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.embedding(character)
        if self.by_steps:
            h, c = self.lstm.step(self.lstm.inputs(x), h, c)
        else:
            _, (h, c) = self.lstm(x, (h, c))
        p = torch.softmax(self.dense(h) / sizes.W7_TEMPERATURE, -1)
        # Equivalent to torch.multinomial for one sample, in operations that can be compiled.
        return (p / torch.empty_like(p).exponential_(1.0)).argmax(-1), h, c


class LanguageModel(nn.Module):
    """The language model of W12: tokens (batch, steps) -> logits of the next tokens."""

    def __init__(self, tokens: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dense = nn.Linear(hidden, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.dense(self.lstm(self.embedding(tokens))[0])


class CachedAttention(nn.Module):
    """Attention of one token to all earlier tokens, whose keys and values are cached."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = (3, sizes.W10_HEADS, sizes.W10_WIDTH // sizes.W10_HEADS)
        self.maps, self.output = (
            nn.Linear(sizes.W10_WIDTH, 3 * sizes.W10_WIDTH),
            nn.Linear(sizes.W10_WIDTH, sizes.W10_WIDTH),
        )
        self.keys, self.values = (torch.zeros(self.rows[1], sizes.W10_POSITIONS, self.rows[2]) for _ in range(2))

    def forward(self, x: Tensor, position: int) -> Tensor:
        q, k, v = self.maps(x).view(self.rows)
        self.keys[:, position], self.values[:, position] = k, v
        seen = slice(position + 1)
        y = F.scaled_dot_product_attention(q[:, None], self.keys[:, seen], self.values[:, seen])
        return self.output(y.view(1, sizes.W10_WIDTH))


class Gpt(nn.Module):
    """The GPT of W10: (token, position) -> next token."""

    def __init__(self) -> None:
        super().__init__()
        width = sizes.W10_WIDTH
        self.tokens, self.positions = (
            nn.Embedding(sizes.W10_VOCABULARY, width),
            nn.Embedding(sizes.W10_POSITIONS, width),
        )
        self.attention = nn.ModuleList(CachedAttention() for _ in range(sizes.W10_LAYERS))
        self.dense = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(sizes.W10_LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(sizes.W10_LAYERS))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, sizes.W10_VOCABULARY))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.tokens(token) + self.positions(position)
        at = int(position)
        for norm, attention, dense in zip(self.norms, self.attention, self.dense, strict=True):
            x = x + attention(norm(x), at)
            x = x + dense(x)
        return self.last(x).argmax(-1)


# --- networks of networks.py ------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """Layers of PyTorch's encoder: causal with tokens and normalization first (GPT), or on features."""

    def __init__(self, layers: int, width: int, heads: int, words: int = 0, positions: int = 0) -> None:
        super().__init__()
        self.words = words
        self.embedding = nn.Embedding(words, width) if words else nn.Identity()
        how = {"dropout": 0.0, "batch_first": True, "norm_first": bool(words)}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, **how) for _ in range(layers))
        self.norm = nn.LayerNorm(width) if words else nn.Flatten()
        self.dense = nn.Linear(width, words) if words else nn.Linear(positions * width, sizes.NETWORK_CLASSES)
        mask = torch.triu(torch.full((positions, positions), -math.inf), 1)
        self.register_buffer("mask", mask if words else None)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=self.mask is not None)
        return self.dense(self.norm(x))


class Inverted(nn.Module):
    """The inverted residual block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = expansion * inputs
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden)]
        layers += [nn.ReLU6(), nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobile_v2() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    inputs = 32
    for expansion, channels, count, stride in sizes.MOBILE_V2:
        for i in range(count):
            layers.append(Inverted(inputs, channels, expansion, stride if i == 0 else 1))
            inputs = channels
    layers += [nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, sizes.NETWORK_CLASSES))


def grouped() -> nn.Module:
    def normalized(inputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, 128, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [layer, nn.BatchNorm2d(128), nn.ReLU()]

    layers = normalized(3, 3, 2)
    for _ in range(3):
        layers += normalized(128, 3, groups=32) + normalized(128, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, sizes.NETWORK_CLASSES))


class TwoLstms(nn.Module):
    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.dense = nn.Linear(steps * width, sizes.NETWORK_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(self.lstm(x)[0].flatten(1))


def two_layers(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width // 2, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, sizes.NETWORK_CLASSES),
    )
