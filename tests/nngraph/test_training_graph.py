"""Test gradient_filter, gradient_filters, and training_graph, and graphs with several results and batch sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness.nodes import STEP, Convolution, close, graph_of, pool, queue, run
from mpsgraph import GraphError, UnsupportedError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray


def convolution(source: Any, ins: int, outs: int, seed: int, size: int = 3, **options: Any) -> tuple[Any, Convolution]:
    d = nn.ConvolutionDescriptor(size, size, ins, outs)
    source_of = Convolution(d, pool(*d.weights_shape, seed=seed).astype(np.float32), np.zeros(outs, np.float32))
    return nn.ConvolutionNode(source, source_of, **options), source_of


def check_whole(last: Any, inputs: dict[str, Array], learned: dict[str, Convolution] | None = None) -> None:
    """Compare all input and weight gradients that training_graph() computes with finite differences of the forward
    graph.
    """
    learned = learned or {}
    incoming = nn.ImageNode("incoming")
    ends = last.training_graph(incoming)
    forward = graph_of(last.result_image)
    feeds = {k: v.astype(np.float32) for k, v in inputs.items()}
    (value,) = run(forward, {h: feeds[h] for h in forward.source_image_handles})
    feeds["incoming"] = pool(*value.shape, seed=55).astype(np.float32)
    graph = graph_of([e.result_image for e in ends])
    found = dict(zip([e.result_image.handle for e in ends], run(graph, feeds), strict=True))
    assert found.keys() == inputs.keys()
    found |= {name: np.array(s.state.read("weights")) for name, s in learned.items()}
    arrays = {**inputs, **{n: s.arrays["weights"].astype(float) for n, s in learned.items()}}
    for name, array in arrays.items():
        direction = pool(*array.shape, seed=66)
        values = []
        for sign in (1, -1):
            moved = array + sign * 100 * STEP * direction
            if name in learned:
                learned[name].arrays["weights"] = moved.astype(np.float32)
                forward.reload_from_data_sources()
            changed = {**feeds, name: moved.astype(np.float32)}
            (y,) = run(forward, {h: changed[h] for h in forward.source_image_handles})
            values.append(float(np.sum(y.astype(float) * feeds["incoming"])))
        if name in learned:
            learned[name].arrays["weights"] = array.astype(np.float32)
            forward.reload_from_data_sources()
        wanted = (values[0] - values[1]) / (200 * STEP)
        assert float(np.sum(found[name] * direction)) == pytest.approx(wanted, rel=2e-2, abs=2e-2), name


def test_training_graph_of_filter_chain_matches_numpy():
    first, a = convolution(nn.ImageNode("x"), 2, 4, 1)
    smooth = nn.NeuronTanHNode(first.result_image)
    second, b = convolution(smooth.result_image, 4, 3, 2)
    check_whole(second, {"x": pool(2, 4, 4, 2)}, {"a": a, "b": b})


@pytest.mark.parametrize("kind", ["addition", "subtraction", "multiplication"])
def test_training_graph_of_residual_block_matches_numpy(kind: str):
    """Each gradient filter returns only the share of its source, not that of the other source."""
    x = nn.ImageNode("x")
    inner, a = convolution(x, 4, 4, 1)
    node = {"addition": nn.AdditionNode, "subtraction": nn.SubtractionNode, "multiplication": nn.MultiplicationNode}[
        kind
    ]
    check_whole(node(x, inner.result_image), {"x": pool(2, 3, 3, 4)}, {"a": a})
    check_whole(node(inner.result_image, x), {"x": pool(2, 3, 3, 4)}, {"a": a})


def test_gradient_filters_return_one_gradient_per_source_image():
    x = nn.ImageNode("x")
    triple = nn.NeuronLinearNode(x, 3.0)
    node = nn.AdditionNode(x, triple.result_image)
    ones = np.ones((1, 1, 1, 4), np.float32)
    parts = [f.result_image for f in node.gradient_filters(nn.ImageNode("g"))]
    assert [p.ravel().tolist() for p in run(graph_of(parts), {"x": ones, "g": ones})] == [[1] * 4, [1] * 4]
    (end,) = node.training_graph(nn.ImageNode("g"))
    (whole,) = run(graph_of(end.result_image), {"x": ones, "g": ones})
    assert whole.ravel().tolist() == [4] * 4


def test_training_graph_of_dense_and_inception_blocks_matches_numpy():
    x = nn.ImageNode("x")
    first, a = convolution(x, 4, 4, 1)
    wide = nn.ConcatenationNode([x, first.result_image])
    second, b = convolution(wide.result_image, 8, 4, 2)
    pooled = nn.PoolingAverageNode(wide.result_image, 3, 1)
    last = nn.ConcatenationNode([second.result_image, pooled.result_image, first.result_image])
    check_whole(last, {"x": pool(2, 4, 4, 4)}, {"a": a, "b": b})


@pytest.mark.parametrize("kind", ["addition", "subtraction", "multiplication", "concatenation"])
def test_training_graph_accepts_one_image_as_both_sources(kind: str):
    x = nn.ImageNode("x")
    nodes = {
        "addition": nn.AdditionNode,
        "subtraction": nn.SubtractionNode,
        "multiplication": nn.MultiplicationNode,
        "concatenation": lambda a, b: nn.ConcatenationNode([a, b]),
    }
    check_whole(nodes[kind](x, x), {"x": pool(2, 2, 2, 4)})


def test_training_graph_accepts_one_data_source_in_several_filters():
    """An unrolled recurrence: the weight gradients of all filters are added, and update is called once."""
    d = nn.ConvolutionDescriptor(3, 3, 2, 2)
    calls = []

    class Counted(Convolution):
        def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> None:
            calls.append(gradient_state)
            super().update(command_buffer, gradient_state, source_state)

    shared = Counted(d, pool(2, 3, 3, 2, seed=1).astype(np.float32))
    image = nn.ImageNode("x")
    for _ in range(3):
        image = nn.ConvolutionNode(image, shared).result_image
    last = nn.ConvolutionNode(image, shared)
    check_whole(last, {"x": pool(1, 3, 3, 2)}, {"shared": shared})
    assert len(calls) == 1


def test_training_graph_supports_two_inputs():
    x, y = nn.ImageNode("x"), nn.ImageNode("y")
    left, a = convolution(x, 2, 4, 1)
    product = nn.MultiplicationNode(left.result_image, y)
    check_whole(product, {"x": pool(2, 3, 3, 2), "y": pool(2, 3, 3, 4)}, {"a": a})


class TestGradientFilters:
    def test_gradient_filter_refers_to_its_forward_node(self):
        node = nn.NeuronSigmoidNode(nn.ImageNode("x"), label="squash")
        gradient = node.gradient_filter(nn.ImageNode("g"))
        assert gradient.is_gradient and not node.is_gradient
        assert gradient.forward is node
        assert gradient.label == "squash"
        assert repr(gradient) == "<neuron_sigmoid gradient 'squash'>"

    def test_filter_with_several_sources_has_one_gradient_per_source(self):
        images = [nn.ImageNode(str(i)) for i in range(3)]
        node = nn.ConcatenationNode(images)
        assert len(node.gradient_filters(nn.ImageNode("g"))) == 3
        with pytest.raises(GraphError, match="gradient_filters"):
            node.gradient_filter(nn.ImageNode("g"))

    def test_differentiating_gradient_filters_and_losses_raises(self):
        node = nn.SoftMaxNode(nn.ImageNode("x"))
        gradient = node.gradient_filter(nn.ImageNode("g"))
        with pytest.raises(UnsupportedError, match="gradient filters have no gradient"):
            gradient.gradient_filter(nn.ImageNode("g"))
        loss = nn.LossNode(nn.ImageNode("x"), nn.LossDescriptor("log"), label="ends here")
        with pytest.raises(UnsupportedError, match="ends here.*its result is already the gradient"):
            loss.gradient_filter(nn.ImageNode("g"))

    @pytest.mark.parametrize("row", [r for r in nn.node_table() if r["without"]], ids=lambda r: r["name"])
    def test_error_for_filter_without_gradient_explains_why(self, row: dict[str, str]):
        makers: dict[str, Any] = {
            "division": lambda x: nn.DivisionNode(x, x),
            "comparison": lambda x: nn.ComparisonNode(x, x),
            "loss": lambda x: nn.LossNode(x, nn.LossDescriptor("log")),
            "bilinear_scale": lambda x: nn.BilinearScaleNode(x, width=1, height=1),
            "lanczos_scale": lambda x: nn.LanczosScaleNode(x, width=1, height=1),
            "yolo_loss": lambda x: nn.YOLOLossNode(x, nn.YOLOLossDescriptor([(1, 1)])),
            "dropout_gradient": lambda x: nn.DropoutGradientNode(x, x, nn.StateNode()),
        }
        name = "".join(part.capitalize() for part in row["name"].split("_")) + "Node"
        node = makers.get(row["name"], getattr(nn, name, None))(nn.ImageNode("x"))
        assert node.kind == row["name"]
        with pytest.raises(UnsupportedError) as raised:
            node.gradient_filter(nn.ImageNode("g"))
        assert row["without"] in str(raised.value)
        assert "test_training_graph.py:" in str(raised.value)

    def test_node_handler_is_called_for_every_node(self):
        x = nn.ImageNode("x")
        first = nn.NeuronTanHNode(x, label="first")
        left = nn.NeuronSigmoidNode(first.result_image, label="left")
        last = nn.AdditionNode(left.result_image, first.result_image, label="last")
        seen = []
        start = nn.ImageNode("g")
        last.training_graph(start, lambda *nodes: seen.append(nodes))
        forwards = [forward.label if forward else None for _, forward, _, _ in seen]
        assert forwards == ["last", "last", "left", None, "first"]
        for gradient, forward, source, incoming in seen:
            assert incoming in gradient.sources
            if forward is None:
                assert gradient.kind == "addition" and not gradient.is_gradient
                assert source is first.result_image
            else:
                assert gradient.forward is forward and source in forward.sources
        assert seen[0][3] is start

    def test_exception_in_node_handler_reaches_the_caller(self):
        def handler(*nodes: Any) -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            nn.NeuronTanHNode(nn.ImageNode("x")).training_graph(nn.ImageNode("g"), handler)

    def test_gradient_images_without_node_handler_have_source_image_handles(self):
        node = nn.NeuronTanHNode(nn.ImageNode("x"))
        (end,) = node.training_graph(nn.ImageNode("g"))
        assert end.result_image.handle == "x"
        (bare,) = node.training_graph(nn.ImageNode("g"), lambda *_: None)
        assert bare.result_image.handle == ""

    def test_training_graph_stops_at_stop_gradient(self):
        x = nn.ImageNode("x")
        first, a = convolution(x, 2, 2, 1, label="first")
        second, b = convolution(first.result_image, 2, 2, 2, label="second")
        third, c = convolution(second.result_image, 2, 2, 3, label="third")
        second.result_image.stop_gradient = True
        ends = third.training_graph(nn.ImageNode("g"))
        assert [e.forward.label for e in ends] == ["third"]  # The third layer still learns, but nothing before it does.
        ones = np.ones((1, 3, 3, 2), np.float32)
        run(graph_of([e.result_image for e in ends]), {"x": ones, "g": ones})
        assert (a.state, b.state) == (None, None) and c.state is not None

    def test_stop_gradient_stops_only_its_branch_of_a_fork(self):
        x = nn.ImageNode("x")
        stopped, free = nn.NeuronLinearNode(x, 2.0), nn.NeuronLinearNode(x, 5.0)
        stopped.result_image.stop_gradient = True
        node = nn.AdditionNode(stopped.result_image, free.result_image)
        ends = node.training_graph(nn.ImageNode("g"))
        assert [e.forward for e in ends] == [free]
        ones = np.ones((1, 1, 1, 4), np.float32)
        (found,) = run(graph_of(ends[0].result_image), {"x": ones, "g": ones})
        assert found.ravel().tolist() == [5] * 4

    def test_stop_gradient_at_the_input_gives_empty_training_graph(self):
        node = nn.NeuronTanHNode(nn.ImageNode("x"))
        node.sources[0].stop_gradient = True
        assert node.training_graph(nn.ImageNode("g")) == []


class TestGraphs:
    def nodes(self) -> tuple[Any, Any, Any]:
        x = nn.ImageNode("x")
        double, minus = nn.NeuronLinearNode(x, 2.0), nn.NeuronLinearNode(x, -1.0)
        return double, minus, nn.AdditionNode(double.result_image, minus.result_image)

    x = np.arange(8, dtype=np.float32).reshape(2, 1, 2, 2)

    @pytest.mark.parametrize("needed", list(itertools.product((False, True), repeat=3)))
    def test_graph_returns_only_requested_results(self, needed: tuple[bool, ...]):
        nodes = self.nodes()
        images = [n.result_image for n in nodes]
        if not any(needed):
            with pytest.raises(GraphError, match="would compute nothing"):
                graph_of(images, needed)
            return
        graph = graph_of(images, needed)
        buffer = queue().command_buffer()
        results: list[Any] = []
        first = graph.encode_batch(buffer, [self.x], results=results)
        buffer.commit()
        buffer.wait_until_completed()
        assert (first is not None) == needed[0]
        for result, wanted, asked in zip(results, (2 * self.x, -self.x, self.x), needed, strict=True):
            assert (result is not None) == asked
            if asked:
                np.testing.assert_array_equal(result.numpy(), wanted)

    def test_exported_images_are_returned_by_handle(self):
        double, minus, total = self.nodes()
        for node, handle in ((minus, "minus"), (double, "double")):
            node.result_image.export_from_graph = True
            node.result_image.handle = handle
        graph = graph_of(total.result_image)
        buffer = queue().command_buffer()
        exported: list[Any] = []
        graph.encode_batch(buffer, [self.x], intermediate_images=exported)
        buffer.commit()
        buffer.wait_until_completed()
        found = dict(zip(graph.intermediate_image_handles, exported, strict=True))
        np.testing.assert_array_equal(found["double"].numpy(), 2 * self.x)
        np.testing.assert_array_equal(found["minus"].numpy(), -self.x)

    def test_result_of_one_graph_can_be_inner_node_of_another(self):
        double, _, total = self.nodes()
        assert run(graph_of(double.result_image), {"x": self.x})[0].tolist() == (2 * self.x).tolist()
        assert run(graph_of(total.result_image), {"x": self.x})[0].tolist() == self.x.tolist()

    def test_same_result_can_be_requested_twice(self):
        double, _, _ = self.nodes()
        first, second = run(graph_of([double.result_image] * 2), {"x": self.x})
        np.testing.assert_array_equal(first, second)

    def test_float16_format_rounds_the_result_of_each_filter(self):
        x = pool(1, 2, 2, 4).astype(np.float32)
        exact = nn.NeuronLinearNode(nn.ImageNode("x"), 1 / 3)
        again = nn.NeuronLinearNode(exact.result_image, 3.0)
        graph = graph_of(again.result_image)
        graph.format = "float16"
        (found,) = run(graph, {"x": x})
        third = (x * np.float32(1 / 3)).astype(np.float16)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, (third.astype(np.float32) * 3).astype(np.float16))
        exact.result_image.format = "float32"  # The format of an image overrides that of the graph.
        (found,) = run(graph_of(exact.result_image), {"x": x})
        assert found.dtype == np.float32
        graph.format = "float32"
        (found,) = run(graph, {"x": x})
        assert found.dtype == np.float32
        close(found, x.astype(float), 1e-6, "float32 again")
        with pytest.raises(GraphError, match="float16 or float32"):
            graph.format = "unorm8"

    @pytest.mark.parametrize(("dtype", "scale"), [("uint8", 255), ("uint16", 65535), ("float16", 1)])
    def test_graphs_accept_every_input_format(self, dtype: str, scale: int):
        numbers = np.array([0, 1, 127, scale if scale > 1 else 2]).astype(dtype).reshape(1, 1, 1, 4)
        node, source = convolution(nn.ImageNode("x"), 4, 1, 1, size=1)
        (found,) = run(graph_of(node.result_image), {"x": numbers})
        wanted = np.sum(numbers.astype(float) / scale * source.arrays["weights"], 3, keepdims=True)
        close(found, wanted, 1e-6, dtype)
        gradient = node.gradient_filter(nn.ImageNode("g"))
        run(graph_of(gradient.result_image), {"x": numbers, "g": np.ones((1, 1, 1, 1), np.float32)})
        close(np.array(source.state.read("weights")).ravel(), numbers.ravel() / scale, 1e-6, "weights")

    def test_graph_accepts_alternating_batch_sizes(self):
        node, source = convolution(nn.ImageNode("x"), 2, 3, 1)
        graph = graph_of(node.result_image)
        alone = {}
        for _ in range(2):
            for shape in [(1, 4, 4, 2), (5, 4, 4, 2), (2, 7, 3, 2)]:
                (found,) = run(graph, {"x": pool(*shape).astype(np.float32)})
                assert found.shape == (*shape[:3], 3)
                np.testing.assert_array_equal(found, alone.setdefault(shape, found))
