"""PyTorch as a benchmark peer: `python -m peers.torch_peer WORKLOAD MODE`, run in a separate environment.

Training modes:
    eager           with fused optimizers
    compile         forward pass and optimizer, each compiled by torch.compile
    compile cell    an LSTM computed step by step instead of PyTorch's layer
    compile step    loss, gradients (torch.func), and update in one compiled function
Inference modes:
    script          traced, frozen, and optimized for inference
    freeze          compiled with frozen weights
The suffix "channels_last" sets the layout of images. The prefix "bfloat16" computes under autocast.
"""

import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
import workloads as sizes
from measuring import THREADS
from measuring.protocol import Step, serve
from peers.torch_networks import (
    ActivityClassifier,
    Characters,
    DigitNetwork,
    Discriminator,
    Generator,
    Gpt,
    InBfloat16,
    LanguageModel,
    Transformer,
    TwoLstms,
    grouped,
    mobile,
    mobile_v2,
    resnet50,
    two_layers,
)
from torch import Tensor, nn
from w9_inputs import INPUTS

Loss = Callable[[Callable[[Tensor], Tensor]], Tensor]
"""A function that returns the loss of a model on the workload's batch."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Defaults of torch.optim.Adam.


def layout(mode: str) -> torch.memory_format:
    return torch.channels_last if mode.endswith("channels_last") else torch.contiguous_format


def images(mode: str, *shape: int) -> Tensor:
    return torch.randn(shape).contiguous(memory_format=layout(mode))


# --- training ---------------------------------------------------------------------------------------------------------


def w1(mode: str) -> Step:
    model = DigitNetwork().to(memory_format=layout(mode))
    x = images(mode, sizes.W1_BATCH, 1, sizes.W1_IMAGE, sizes.W1_IMAGE)
    labels = torch.randint(0, sizes.CLASSES, (sizes.W1_BATCH,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(x), labels), sizes.W1_RATE, adam=False)


def w2(mode: str) -> Step:
    model = resnet50().to(memory_format=layout(mode))
    x = images(mode, sizes.W2_BATCH, 3, sizes.W2_IMAGE, sizes.W2_IMAGE)
    labels = torch.randint(0, sizes.CLASSES, (sizes.W2_BATCH,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(x).float(), labels), sizes.W2_RATE, adam=False)


def w3(mode: str) -> Step:
    model = ActivityClassifier(by_steps=mode in ("compile cell", "compile step"))
    x = torch.randn(sizes.W3_BATCH, sizes.W3_AXES, sizes.W3_SAMPLES)
    labels = torch.randint(0, sizes.W3_CLASSES, (sizes.W3_BATCH,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(x), labels), sizes.W3_RATE, adam=True)


def perceptron(mode: str, widths: Sequence[int], batch: int, rate: float) -> Step:
    layers = [layer for inputs, outputs in pairwise(widths) for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    inputs, labels = torch.randn(batch, widths[0]), torch.randint(0, widths[-1], (batch,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(inputs), labels), rate, adam=True)


def w6(mode: str) -> Step:
    return perceptron(mode, sizes.W6_SIZES, sizes.W6_BATCH, sizes.W6_RATE)


def w12(mode: str, name: str) -> Step:
    model = LanguageModel(*sizes.W12_MODELS[name])
    shape = (sizes.W12_BATCH, sizes.W12_STEPS)
    tokens, following = (torch.randint(0, sizes.W12_MODELS[name][0], shape) for _ in range(2))
    return training_step(
        mode, model, lambda f: F.cross_entropy(f(tokens).flatten(0, 1), following.flatten()), sizes.W12_RATE, adam=True
    )


def network(mode: str, name: str) -> Step:
    """Return the training step of a network of networks.py."""
    kind, size = sizes.NETWORKS[name]
    batch = size["batch"]
    labels = torch.randint(0, sizes.NETWORK_CLASSES, (batch,))
    if kind == "gpt":
        model = Transformer(*(size[key] for key in ("layers", "width", "heads", "words", "positions")))
        x, labels = (torch.randint(0, size["words"], (batch, size["positions"])) for _ in range(2))
    elif kind == "encoder":
        model = Transformer(size["layers"], size["width"], size["heads"], positions=size["positions"])
        x = torch.randn(batch, size["positions"], size["width"])
    elif kind == "lstm":
        model, x = TwoLstms(size["width"], size["steps"]), torch.randn(batch, size["steps"], size["width"])
    elif kind == "perceptron":
        model, x = two_layers(size["width"]), torch.randn(batch, size["width"] // 2)
    else:
        model = {"mobile": mobile_v2, "grouped": grouped, "resnet": resnet50}[kind]()
        model = model.to(memory_format=layout(mode))
        x = images(mode, batch, 3, size["image"], size["image"])
    flat = labels.flatten()
    return training_step(
        mode, model, lambda f: F.cross_entropy(f(x).view(len(flat), -1), flat), sizes.NETWORK_RATE, adam=False
    )


def w13(mode: str) -> Step:
    import peft
    import transformers

    options = {key: value for key, value in sizes.W13_MODEL.items() if key != "model_type"}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**options, attn_implementation="sdpa"))
    adapter = peft.LoraConfig(r=sizes.W13_RANK, lora_alpha=2 * sizes.W13_RANK, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(model, adapter)
    tokens = torch.randint(0, sizes.W13_MODEL["vocab_size"], (sizes.W13_BATCH, sizes.W13_STEPS + 1))
    given, following = tokens[:, :-1], tokens[:, 1:].flatten()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=sizes.W13_RATE, fused=mode == "eager")

    def forward() -> Tensor:
        return F.cross_entropy(model(given, use_cache=False).logits.flatten(0, 1), following)

    forward = torch.compile(forward) if mode == "compile" else forward

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def training_step(mode: str, model: nn.Module, loss_of: Loss, rate: float, adam: bool) -> Step:
    if mode == "compile step":
        return whole_step(model, loss_of, rate, adam)
    compiled = "compile" in mode
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=rate, fused=not compiled)

    def forward() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=mode.startswith("bfloat16")):
            return loss_of(model)

    update = optimizer.step
    if compiled:
        forward, update = torch.compile(forward), torch.compile(update)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        update()
        return loss.item()

    return step


def whole_step(model: nn.Module, loss_of: Loss, rate: float, adam: bool) -> Step:
    """Return a whole training step as one compiled function."""
    parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
    momenta = {name: torch.zeros_like(value) for name, value in parameters.items()}
    velocities = {name: torch.zeros_like(value) for name, value in parameters.items()}
    time = torch.zeros(())

    def loss_at(values: dict[str, Tensor]) -> Tensor:
        return loss_of(lambda x: torch.func.functional_call(model, values, (x,)))

    def descend(gradients: dict[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            parameters[name].sub_(rate * gradient)

    def descend_by_adam(gradients: dict[str, Tensor]) -> None:
        time.add_(1)
        for name, gradient in gradients.items():
            momentum = momenta[name].mul_(BETA1).add_((1 - BETA1) * gradient)
            velocity = velocities[name].mul_(BETA2).add_((1 - BETA2) * gradient * gradient)
            root = (velocity / (1 - BETA2**time)).sqrt() + EPSILON
            parameters[name].sub_(rate / (1 - BETA1**time) * momentum / root)

    @torch.compile(fullgraph=True)
    def whole() -> Tensor:
        gradients, loss = torch.func.grad_and_value(loss_at)(parameters)
        (descend_by_adam if adam else descend)(gradients)
        return loss

    def step() -> float:
        with torch.no_grad():
            return whole().item()

    return step


def w4(mode: str) -> Step:
    makes, tells = (model.to(memory_format=layout(mode)) for model in (Generator(), Discriminator()))
    makes.layout = layout(mode)
    compiled = mode.startswith("compile")
    optimizers = [
        torch.optim.Adam(model.parameters(), sizes.W4_RATE, (sizes.W4_BETA1, BETA2), fused=not compiled)
        for model in (makes, tells)
    ]
    shape = (sizes.W4_BATCH, 1, sizes.W4_IMAGE, sizes.W4_IMAGE)
    real = (torch.rand(shape) * 2 - 1).contiguous(memory_format=layout(mode))
    yes, no = torch.ones(sizes.W4_BATCH, 1), torch.zeros(sizes.W4_BATCH, 1)
    loss = F.binary_cross_entropy_with_logits

    def fake() -> Tensor:
        return makes(torch.randn(sizes.W4_BATCH, sizes.W4_LATENT))

    def update() -> None:
        for optimizer in optimizers:
            optimizer.step()

    def eager_step() -> float:
        of_fake, of_real = tells(fake()), tells(real)
        makes_loss, tells_loss = loss(of_fake, yes), loss(of_real, yes) + loss(of_fake, no)
        for model, of in ((makes, makes_loss), (tells, tells_loss)):
            parameters = list(model.parameters())
            gradients = torch.autograd.grad(of, parameters, retain_graph=model is makes)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
        update()
        return makes_loss.item()

    if not compiled:
        return eager_step

    @torch.compile
    def both_losses() -> tuple[Tensor, Tensor]:
        """Return the generator's loss, and a sum whose gradients are those of both losses.

        A compiled function has only one backward pass.
        """
        made = fake()
        frozen = {name: value.detach() for name, value in tells.named_parameters()}
        makes_loss = loss(torch.func.functional_call(tells, frozen, made), yes)
        return makes_loss, makes_loss + loss(tells(real), yes) + loss(tells(made.detach()), no)

    compiled_update = torch.compile(update)

    def compiled_step() -> float:
        for optimizer in optimizers:
            optimizer.zero_grad()
        makes_loss, both = both_losses()
        both.backward()
        compiled_update()
        return makes_loss.item()

    return compiled_step


# --- functions --------------------------------------------------------------------------------------------------------


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * (1 / math.sqrt(2))))


def w5_forward(mode: str) -> Step:
    function = torch.compile(gelu) if mode == "compile" else gelu
    x = torch.randn(sizes.W5_SHAPE)

    def step() -> None:
        with torch.no_grad():
            function(x)

    return step


def w5_backward(mode: str) -> Step:
    def total(x: Tensor) -> Tensor:
        return gelu(x).sum()

    function = torch.compile(total) if mode == "compile" else total
    x = torch.randn(sizes.W5_SHAPE, requires_grad=True)

    def step() -> float:
        x.grad = None
        loss = function(x)
        loss.backward()
        return loss.item()

    return step


# --- inference --------------------------------------------------------------------------------------------------------


def w7(mode: str) -> Step:
    model = Characters(by_steps=mode == "compile cell").eval()
    function = torch.compile(model) if mode == "compile cell" else model
    state = (torch.zeros(1, dtype=torch.long), *(torch.zeros(1, sizes.W7_HIDDEN) for _ in range(2)))

    def step() -> float:
        nonlocal state
        with torch.no_grad():
            state = function(*state)
        return float(state[0])

    return step


def w10(mode: str) -> Step:
    model = Gpt().eval()
    token, position = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)

    def step() -> float:
        nonlocal token, position
        with torch.inference_mode():
            token = model(token, position)
            position = (position + 1) % sizes.W10_POSITIONS
        return float(token)

    return step


def w11(mode: str, positions: int, kind: str) -> Step:
    shape = (sizes.W11_BATCHES[positions], sizes.W11_HEADS, positions, sizes.W11_FEATURES)
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    *operands, dy = (torch.randn(shape, dtype=dtype) for _ in range(4))
    operands = [operand.requires_grad_() for operand in operands]
    mask = torch.from_numpy(sizes.w11_mask(positions)) if kind == "masked" else None
    dropout = sizes.W11_DROPOUT if kind == "dropped" else 0.0

    def attention(*operands: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*operands, mask, dropout, kind == "causal")

    function = torch.compile(attention) if mode.startswith("compile") else attention

    def step() -> None:
        torch.autograd.grad(function(*operands), operands, dy)

    return step


def w8(mode: str, batch: int) -> Step:
    model = resnet50().eval().to(memory_format=layout(mode))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    x = images(mode, batch, 3, sizes.W2_IMAGE, sizes.W2_IMAGE)
    if mode.startswith("bfloat16"):
        model = InBfloat16(model).eval()
    with torch.no_grad():
        if mode == "eager":
            function = model
        elif "script" in mode:
            function = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x)))
        else:
            torch._inductor.config.freezing = "freeze" in mode
            function = torch.compile(model)

    def step() -> None:
        with torch.no_grad():
            function(x)

    return step


def inference(model: nn.Module, x: Tensor) -> Step:
    def step() -> None:
        with torch.inference_mode():
            model(x)

    return step


def busy_mobile(mode: str) -> Step:
    model = mobile().eval().to(memory_format=layout(mode))
    return inference(model, images(mode, 1, 3, sizes.BUSY_IMAGE, sizes.BUSY_IMAGE))


def busy_text(mode: str) -> Step:
    width = sizes.BUSY_WIDTH
    layers = [
        nn.TransformerEncoderLayer(width, sizes.BUSY_HEADS, 4 * width, batch_first=True)
        for _ in range(sizes.BUSY_LAYERS)
    ]
    return inference(nn.Sequential(*layers).eval(), torch.randn(1, sizes.BUSY_WORDS, width))


# --- single operations ------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "sort float32": lambda x: torch.sort(x)[0],
    "sort int32": lambda x: torch.sort(x)[0],
    "arg-sort float32": torch.argsort,
    "arg-sort int32": torch.argsort,
    "cumulative sum": lambda x: torch.cumsum(x, 1),
    "FFT of rows": torch.fft.fft,
    "FFT of a plane": torch.fft.fft2,
    "grid sample": lambda x, places: F.grid_sample(x, places, align_corners=False),
}


def w9(name: str, mode: str) -> Step:
    inputs = [torch.from_numpy(value) for value in INPUTS[name]()]
    if name == "grid sample":
        inputs[0] = inputs[0].permute(0, 3, 1, 2).contiguous(memory_format=layout(mode))
    function = torch.compile(OPERATIONS[name]) if mode.startswith("compile") else OPERATIONS[name]

    def step() -> None:
        with torch.no_grad():
            function(*inputs)

    return step


WORKLOADS = {
    "W1": w1,
    "W2 float32": w2,
    "W2 bfloat16": w2,
    "W3": w3,
    "W4": w4,
    "W5 forward": w5_forward,
    "W5 forward+backward": w5_backward,
    "W6": w6,
    "W7": w7,
    "W8 batch 1": lambda mode: w8(mode, 1),
    "W8 batch 64": lambda mode: w8(mode, 64),
    "W8 bfloat16 batch 1": lambda mode: w8(mode, 1),
    "W8 bfloat16 batch 64": lambda mode: w8(mode, 64),
    "W10": w10,
    "W13": w13,
    "busy tabular": lambda mode: perceptron(mode, sizes.BUSY_TABULAR, sizes.BUSY_BATCH, sizes.BUSY_RATE),
    "busy mobile": busy_mobile,
    "busy text": busy_text,
    **{
        f"W11 {positions}{kind and ' '}{kind}": lambda mode, n=positions, kind=kind: w11(mode, n, kind)
        for positions in sizes.W11_BATCHES
        for kind in sizes.W11_KINDS
    },
    **{f"W12 {name}": lambda mode, name=name: w12(mode, name) for name in sizes.W12_MODELS},
    **{name: lambda mode, name=name: network(mode, name) for name in sizes.NETWORKS},
    **{f"W9 {name}": lambda mode, name=name: w9(name, mode) for name in OPERATIONS},
}

if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    serve(lambda: WORKLOADS[workload](mode), "torch")
