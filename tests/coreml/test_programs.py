"""Compare ML Programs that coremltools converts from PyTorch with PyTorch itself.

The tests cover traced and exported modules, dynamic sizes, float16, and compressed weights. With compressed weights,
PyTorch runs with the weights that coremltools decompresses.
"""

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-coreml")
import coremltools.optimize.coreml as cto  # noqa: E402
import mpsgraph as mg  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # coremltools and PyTorch warn about each other's versions.


def seeded(module, seed=0):
    """Put the module into inference mode, with random batch normalization statistics."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1, generator=generator)
            part.running_var.uniform_(0.5, 2, generator=generator)
    return module.eval()


def converted(module, arrays, types=None, precision="FLOAT32", target="iOS17", by_export=False):
    """Convert a traced or exported module with coremltools; the inputs are named x0, x1, ..."""
    tensors = tuple(torch.from_numpy(a) for a in arrays)
    with torch.no_grad():
        if by_export:
            source = torch.export.export(module, tensors).run_decompositions({})
        else:
            source = torch.jit.trace(module, tensors, check_trace=False)
    stated = types or [ct.TensorType(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    return ct.convert(
        source, inputs=None if by_export else stated, convert_to="mlprogram", skip_model_load=True,
        compute_precision=getattr(ct.precision, precision), minimum_deployment_target=getattr(ct.target, target),
    )  # fmt: skip


def loaded(model, path, **how):
    file = path / "net.mlpackage"
    model.save(str(file))
    return mg.coreml.load(file, **how)


def compare(model, module, arrays, tolerance=1e-4):
    with torch.no_grad():
        wanted = module(*(torch.from_numpy(a) for a in arrays))
    found = model(*arrays)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- models -----------------------------------------------------------------------------------------------------------
def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3),
        nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expansion, depthwise convolution, projection (Sandler et al., arXiv:1801.04381)."""

    def __init__(self, given, out, stride, factor):
        super().__init__()
        wide, parts = given * factor, []
        if factor != 1:
            parts += [nn.Conv2d(given, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        parts += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        self.parts = nn.Sequential(*parts, nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.adds = stride == 1 and given == out

    def forward(self, x):
        return x + self.parts(x) if self.adds else self.parts(x)


def mobilenet():
    parts, width = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    table = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, out, count, stride in table:
        for i in range(count):
            parts.append(InvertedResidual(width, out, 1 if i else stride, factor))
            width = out
    parts += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 100))


class Sequence(nn.Module):
    def __init__(self, kind, both=False, layers=1):
        super().__init__()
        self.layer = kind(5, 7, layers, bidirectional=both, batch_first=True)
        self.head = nn.Linear(14 if both else 7, 3)

    def forward(self, x):
        y, _ = self.layer(x)
        return self.head(y), y[:, -1]


class Encoder(nn.Module):
    """A BERT encoder: embeddings of words and positions, blocks of attention and a perceptron, and a pooled first
    token.
    """

    def __init__(self, words=50, width=32, heads=4, layers=2, places=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.norm = nn.LayerNorm(width)
        sizes = {"q": width, "k": width, "v": width, "o": width, "up": 4 * width}
        self.blocks = nn.ModuleList(nn.ModuleDict(self.parts(sizes, width)) for _ in range(layers))
        self.pool, self.heads = nn.Linear(width, width), heads

    @staticmethod
    def parts(sizes, width):
        linear = {name: nn.Linear(width, out) for name, out in sizes.items()}
        return {**linear, "down": nn.Linear(4 * width, width), "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}

    def forward(self, ids, mask):
        batch, steps = ids.shape
        x = self.norm(self.words(ids) + self.places(torch.arange(steps)))
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for block in self.blocks:
            q, k, v = (block[name](x).view(batch, steps, self.heads, -1).transpose(1, 2) for name in "qkv")
            weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias, -1)
            x = block["n1"](x + block["o"]((weights @ v).transpose(1, 2).reshape(batch, steps, -1)))
            x = block["n2"](x + block["down"](F.gelu(block["up"](x))))
        return x, torch.tanh(self.pool(x[:, 0]))


IDS = np.random.default_rng(1).integers(0, 50, (2, 9)).astype(np.int32)
MASK = (np.arange(9) < [[9], [6]]).astype(np.int32)

MODELS = {
    "cnn": (cnn, [numbers(2, 3, 32, 32)]),
    "mobilenet": (mobilenet, [numbers(1, 3, 64, 64)]),
    "lstm": (lambda: Sequence(nn.LSTM), [numbers(2, 6, 5)]),
    "lstm, both ways, two layers": (lambda: Sequence(nn.LSTM, True, 2), [numbers(2, 6, 5)]),
    "gru": (lambda: Sequence(nn.GRU), [numbers(1, 6, 5)]),
    "rnn": (lambda: Sequence(nn.RNN), [numbers(2, 6, 5)]),
    "encoder": (Encoder, [IDS, MASK]),
    "one axis": (
        lambda: nn.Sequential(
            nn.Conv1d(3, 8, 5, padding=2, stride=2), nn.PReLU(8), nn.MaxPool1d(2),
            nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1), nn.InstanceNorm1d(4, affine=True), nn.ELU(),
            nn.Hardsigmoid(),
        ),
        [numbers(2, 3, 32)],
    ),
    "three axes": (
        lambda: nn.Sequential(
            nn.Conv3d(2, 4, 3, padding=1), nn.Hardswish(), nn.AvgPool3d(2), nn.Conv3d(4, 4, 2),
            nn.MaxPool3d(2, ceil_mode=True),
        ),
        [numbers(1, 2, 8, 8, 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_traced_models_match_pytorch(name, tmp_path):
    make, arrays = MODELS[name]
    torch.manual_seed(0)
    module = seeded(make())
    compare(loaded(converted(module, arrays), tmp_path), module, arrays)


def test_torch_export_model_matches_pytorch(tmp_path):
    torch.manual_seed(0)
    module = seeded(
        nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(),
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.AvgPool2d(3, 2, 1), nn.PixelShuffle(2),
        )
    )  # fmt: skip
    arrays = [numbers(1, 3, 16, 16)]
    compare(loaded(converted(module, arrays, by_export=True), tmp_path), module, arrays)


def test_fused_mil_attention_matches_pytorch(tmp_path):
    class Attention(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v)

    arrays = [numbers(1, 4, 5, 8, seed=i) for i in range(3)]
    compare(loaded(converted(Attention(), arrays, target="iOS18"), tmp_path), Attention(), arrays)


def test_converted_models_are_trainable(tmp_path):
    torch.manual_seed(0)
    module = seeded(cnn())
    model = loaded(converted(module, [numbers(2, 3, 32, 32)]), tmp_path)
    counts = sorted(int(np.prod(v.shape)) for v in model.parameters.values())
    # Two convolutions, one of which includes the folded normalization, and a linear layer.
    assert counts[-1] == 16 * 8 * 9 and len(counts) == 6
    graph = model.graph
    loss = graph.mean(graph.square(next(iter(model.outputs.values()))))
    gradients = graph.gradients(loss, list(model.parameters.values()))
    feed = {next(iter(model.inputs.values())): numbers(2, 3, 32, 32)}
    assert all(np.abs(g.numpy()).max() > 0 for g in graph.run(feed, list(gradients.values())).values())


# --- dynamic sizes ----------------------------------------------------------------------------------------------------
def test_converted_model_accepts_a_range_of_image_sizes(tmp_path):
    torch.manual_seed(0)
    module, side = seeded(cnn()), ct.RangeDim(8, 64, default=32)
    types = [ct.TensorType("x0", (ct.RangeDim(1, 8), 3, side, side))]
    model = loaded(converted(module, [numbers(1, 3, 32, 32)], types), tmp_path)
    assert next(iter(model.inputs.values())).shape == (-1, 3, -1, -1)
    for shape in ((1, 3, 32, 32), (3, 3, 24, 40)):
        compare(model, module, [numbers(*shape)])


def test_converted_model_accepts_a_range_of_sequence_lengths(tmp_path):
    torch.manual_seed(0)
    steps = ct.RangeDim(1, 32, default=9)
    model = seeded(Encoder())
    types = [ct.TensorType(f"x{i}", (2, steps), np.int32) for i in range(2)]
    found = loaded(converted(model, [IDS, MASK], types), tmp_path)
    for count in (9, 4):
        compare(found, model, [IDS[:, :count], MASK[:, :count]])
    recurrent = seeded(Sequence(nn.LSTM, True))
    types = [ct.TensorType("x0", (2, ct.RangeDim(1, 20), 5))]
    found = loaded(converted(recurrent, [numbers(2, 6, 5)], types), tmp_path)
    for count in (6, 3):
        compare(found, recurrent, [numbers(2, count, 5)])


def test_converted_model_accepts_enumerated_shapes(tmp_path):
    torch.manual_seed(0)
    module = seeded(cnn())
    shapes = [(1, 3, 32, 32), (1, 3, 48, 48), (1, 3, 64, 40)]
    stated = [ct.TensorType("x0", ct.EnumeratedShapes(shapes))]
    model = loaded(converted(module, [numbers(*shapes[1])], stated), tmp_path)
    for shape in shapes:
        compare(model, module, [numbers(*shape)])


# --- half precision ---------------------------------------------------------------------------------------------------
def test_float16_coreml_model_matches_pytorch_within_tolerance(tmp_path):
    """The model's weights and intermediate values are float16."""
    torch.manual_seed(0)
    module = seeded(cnn())
    model = loaded(converted(module, [numbers(1, 3, 32, 32)], precision="FLOAT16"), tmp_path)
    assert {str(v.dtype) for v in model.parameters.values()} == {"float16"}
    compare(model, module, [numbers(1, 3, 32, 32)], 2e-3)


# --- compressed weights -----------------------------------------------------------------------------------------------
def config(kind, **how):
    return cto.OptimizationConfig(global_config=kind(weight_threshold=0, **how))


def linear(**how):
    return lambda m: cto.linear_quantize_weights(m, config(cto.OpLinearQuantizerConfig, **how))


def palette(**how):
    return lambda m: cto.palettize_weights(m, config(cto.OpPalettizerConfig, **how))


def sparse(m):
    return cto.prune_weights(m, config(cto.OpMagnitudePrunerConfig, target_sparsity=0.6))


SMALL = {
    "8 bits": ("iOS16", linear(mode="linear_symmetric")),
    "8 bits with zero points": ("iOS16", linear(mode="linear", dtype="uint8")),
    "8 bits a channel": ("iOS18", linear(mode="linear_symmetric", granularity="per_channel")),
    "4 bits a block": (
        "iOS18",
        linear(mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=2),
    ),
    "4 bits with zero points": ("iOS18", linear(mode="linear", dtype="uint4", granularity="per_channel")),
    **{f"palette of {n} bits": ("iOS18", palette(mode="kmeans", nbits=n)) for n in (1, 2, 3, 4, 6, 8)},
    **{f"older palette of {n} bits": ("iOS16", palette(mode="uniform", nbits=n)) for n in (1, 2, 4, 6, 8)},
    "palettes of groups": (
        "iOS18",
        palette(mode="kmeans", nbits=4, granularity="per_grouped_channel", group_size=8),
    ),
    "palette of vectors": ("iOS18", palette(mode="kmeans", nbits=4, cluster_dim=2)),
    "older mask": ("iOS16", sparse),
    "mask": ("iOS18", sparse),
    "mask and palette": (
        "iOS18",
        lambda m: cto.palettize_weights(
            sparse(m), config(cto.OpPalettizerConfig, mode="kmeans", nbits=4), joint_compression=True
        ),
    ),
    "mask and 8 bits": (
        "iOS18",
        lambda m: cto.linear_quantize_weights(
            sparse(m), config(cto.OpLinearQuantizerConfig, mode="linear_symmetric"), joint_compression=True
        ),
    ),
    "palette in 8 bits": (
        "iOS18",
        lambda m: cto.linear_quantize_weights(
            palette(mode="kmeans", nbits=4)(m),
            config(cto.OpLinearQuantizerConfig, mode="linear_symmetric", granularity="per_tensor"),
            joint_compression=True,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_compressed_coreml_weights_match_decompressed_weights(name, tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 32),
    ).eval()  # fmt: skip
    target, compress = SMALL[name]
    arrays = [numbers(2, 3, 16, 16)]
    small = compress(converted(module, arrays, target=target))
    kinds = [op.op_type for op in small._mil_program.functions["main"].operations]
    assert any(kind.startswith("constexpr_") for kind in kinds)
    whole = {tuple(w.val.shape): w.val for w in cto.get_weights_metadata(cto.decompress_weights(small), 1).values()}
    with torch.no_grad():
        for value in module.parameters():
            if value.ndim > 1:
                assert not np.array_equal(value, whole[tuple(value.shape)]) or "8 bits" not in name
                value.copy_(torch.from_numpy(np.array(whole[tuple(value.shape)])))
    compare(loaded(small, tmp_path), module, arrays)


# --- interface --------------------------------------------------------------------------------------------------------
def test_coreml_image_classifier_program_matches_pytorch(tmp_path):
    """The program contains the scale and bias of the image; labels are returned as indices into the classes."""
    torch.manual_seed(0)
    module = seeded(nn.Sequential(cnn(), nn.Softmax(-1)))
    image = ct.ImageType("image", (1, 3, 32, 32), scale=1 / 127.5, bias=[-1, -1, -1], color_layout=ct.colorlayout.RGB)
    labels = [f"class {i}" for i in range(10)]
    pixels = np.random.default_rng(3).integers(0, 256, (1, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        traced = torch.jit.trace(module, torch.from_numpy(pixels))
        wanted = module(torch.from_numpy(pixels / np.float32(127.5) - 1))[0].numpy()
    model = ct.convert(
        traced, inputs=[image], classifier_config=ct.ClassifierConfig(labels), convert_to="mlprogram",
        compute_precision=ct.precision.FLOAT32, skip_model_load=True,
    )  # fmt: skip
    found = loaded(model, tmp_path)
    results = found.run({"image": pixels})
    scores = next(name for name in results if name != "classLabel")
    np.testing.assert_allclose(results[scores].numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert found.classes["classLabel"][results["classLabel"].item()] == labels[int(wanted.argmax())]
    assert found.classes[scores] == labels


def test_coreml_model_with_several_functions_loads_each_by_name(tmp_path):
    torch.manual_seed(0)
    modules = [nn.Linear(4, 3).eval() for _ in range(2)]
    descriptor = ct.utils.MultiFunctionDescriptor()
    for i, module in enumerate(modules):
        converted(module, [numbers(2, 4)], target="iOS18").save(str(tmp_path / f"{i}.mlpackage"))
        descriptor.add_function(str(tmp_path / f"{i}.mlpackage"), "main", f"f{i}")
    descriptor.default_function_name = "f1"
    ct.utils.save_multifunction(descriptor, str(tmp_path / "both.mlpackage"))
    for name, module in ((None, modules[1]), ("f0", modules[0])):
        compare(mg.coreml.load(tmp_path / "both.mlpackage", function=name), module, [numbers(2, 4)])
    with pytest.raises(mg.GraphError, match="no function 'f2'; it has 'f0', 'f1'"):
        mg.coreml.load(tmp_path / "both.mlpackage", function="f2")
