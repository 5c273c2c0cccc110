"""Test which methods of data sources are called, the arguments of `update`, and the state after a method raises."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.nodes import Convolution, Normalization, close, graph_of, pool, queue, run
from mpsgraph import DeviceError, DTypeError, GraphError, PackageError, ShapeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray


class Logged(Convolution):
    """A data source that logs its calls and raises in the one named by `raises`."""

    def __init__(self, log: list[str], name: str, seed: int, optimizer: Any = None) -> None:
        d = nn.ConvolutionDescriptor(1, 1, 2, 2)
        self.own = pool(2, 1, 1, 2, seed=seed).astype(np.float32), np.zeros(2, np.float32)
        super().__init__(d, *self.own)
        self.log, self.name, self.optimizer, self.raises = log, name, optimizer, ""
        self.seen: list[tuple[Any, Any]] = []
        self.moments = [[np.zeros_like(a) for a in self.own] for _ in range(2)]

    def said(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if self.raises == what:
            raise KeyError(f"{what} of {self.name}")

    def load(self) -> bool:
        self.said("load")
        return True

    def purge(self) -> None:
        self.said("purge")

    def weights(self) -> Any:
        self.said("weights")
        return super().weights()

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
        self.said("update")
        self.seen.append((gradient_state, source_state))
        if self.optimizer is None:
            return None
        self.optimizer.encode(
            command_buffer,
            convolution_gradient_state=gradient_state,
            convolution_source_state=source_state,
            input_momentum_vectors=self.moments[0],
            input_velocity_vectors=self.moments[1],
        )
        return source_state


def chain(*sources: Any) -> tuple[nn.NNGraph, Any]:
    """Build a training graph that chains convolutions and ends in a squared error."""
    image = nn.ImageNode("x")
    for i, source in enumerate(sources):
        last = nn.ConvolutionNode(image, source, label=f"layer {i}")
        image = last.result_image
    loss = nn.LossNode(image, nn.LossDescriptor("mean_squared_error", weight=0.5))
    return graph_of([f.result_image for f in loss.training_graph(None)]), last


X = pool(3, 2, 2, 2, seed=1).astype(np.float32)
T = pool(3, 2, 2, 2, seed=2).astype(np.float32)


def train(graph: nn.NNGraph, x: Array = X, t: Array = T) -> Array:
    labels = nn.LossLabelsBatch(t)
    run(graph, {"x": x}, [labels])
    return labels.losses.numpy()


class TestCalls:
    def test_data_sources_are_loaded_and_purged_in_order(self):
        log: list[str] = []
        a, b = Logged(log, "a", 1), Logged(log, "b", 2)
        graph, _ = chain(a, b)
        once = ["a load", "a weights", "a purge", "b load", "b weights", "b purge"]
        assert log == once
        train(graph)
        assert sorted(log[6:]) == ["a update", "b update"]
        del log[:]
        graph.reload_from_data_sources()
        assert log == once

    def test_inference_graph_does_not_call_update(self):
        log: list[str] = []
        node = nn.ConvolutionNode(nn.ImageNode("x"), Logged(log, "a", 1))
        run(graph_of(node.result_image), {"x": X})
        assert log == ["a load", "a weights", "a purge"]

    def test_update_is_called_while_a_batch_is_encoded(self):
        log: list[str] = []
        source = Logged(log, "a", 1)
        graph, _ = chain(source)
        buffer = queue().command_buffer()
        graph.encode_batch(buffer, [X], [nn.LossLabelsBatch(T)])
        ((gradients, held),) = source.seen
        assert gradients.names == ["weights", "biases"] == held.names
        with pytest.raises(DeviceError, match="has not completed"):
            gradients.read("weights")
        buffer.commit()
        buffer.wait_until_completed()
        close(np.array(held.read("weights")), source.own[0].astype(float), 0, "weights in use")
        e = np.einsum("nhwc,oc->nhwo", X.astype(float), source.own[0][:, 0, 0]) - T
        close(np.array(gradients.read("weights"))[:, 0, 0], np.einsum("nhwo,nhwc->oc", e, X), 1e-5, "weights")
        close(np.array(gradients.read("biases")), e.sum((0, 1, 2)), 1e-5, "biases")

    def test_state_returned_by_update_is_used_by_next_batch(self):
        class Replaces(Logged):
            def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
                weights = np.array(source_state.array("weights")) + 1
                return nn.ConvolutionWeightsAndBiasesState(weights, np.ones(2, np.float32))

        source = Replaces([], "a", 1)
        graph, _ = chain(source)
        for step in range(3):
            w, b = source.own[0][:, 0, 0].astype(float) + step, float(step > 0)
            e = np.einsum("nhwc,oc->nhwo", X, w) + b - T
            close(train(graph).ravel(), 0.5 * (e**2).sum((1, 2, 3)), 1e-5, f"loss {step}")
        graph.reload_from_data_sources()  # The source still returns its own weights.
        e = np.einsum("nhwc,oc->nhwo", X.astype(float), source.own[0][:, 0, 0]) - T
        close(train(graph).ravel(), 0.5 * (e**2).sum((1, 2, 3)), 1e-5, "reloaded")

    def test_update_returning_none_keeps_the_parameters(self):
        graph, _ = chain(Logged([], "a", 1))
        np.testing.assert_array_equal(train(graph), train(graph))

    @pytest.mark.parametrize("given", [3, "weights", np.zeros((2, 1, 1, 2), np.float32)])
    def test_update_returning_invalid_value_raises(self, given: Any):
        source = Logged([], "a", 1)
        source.update = lambda *_: given
        graph, _ = chain(source)
        with pytest.raises(GraphError, match="update"):
            train(graph)

    def test_update_returning_wrong_shape_raises(self):
        source = Logged([], "a", 1)
        source.update = lambda *_: nn.ConvolutionWeightsAndBiasesState(np.zeros((2, 3, 3, 2), np.float32))
        graph, _ = chain(source)
        with pytest.raises(ShapeError, match=r"layer 0.*update\(\) must return weights"):
            train(graph)


class TestExceptions:
    @pytest.mark.parametrize("where", ["load", "weights", "purge"])
    def test_data_source_exception_during_build_purges_loaded_sources(self, where: str):
        log: list[str] = []
        a, b = Logged(log, "a", 1), Logged(log, "b", 2)
        b.raises = where
        with pytest.raises(KeyError, match=f"{where} of b"):
            chain(a, b)
        loads = sum(1 for line in log if line.endswith("load")) - (where == "load")
        assert sum(1 for line in log if line.endswith("purge")) == loads

    @pytest.mark.parametrize("where", ["load", "weights", "purge"])
    def test_data_source_exception_during_reload_keeps_old_weights(self, where: str):
        a, b = Logged([], "a", 1), Logged([], "b", 2)
        graph, _ = chain(a, b)
        before = train(graph)
        a.arrays["weights"] = a.own[0] + 1
        b.raises = where
        with pytest.raises(KeyError, match=f"{where} of b"):
            graph.reload_from_data_sources()
        np.testing.assert_array_equal(train(graph), before)  # The new weights of source a were not applied either.

    def test_exception_in_update_leaves_all_weights_unchanged(self):
        plain = [nn.Adam(0.1), nn.Adam(0.1)]
        a, b = (Logged([], n, i, o) for n, i, o in zip("ab", (1, 2), plain, strict=True))
        graph, _ = chain(a, b)
        first = train(graph)
        assert [o.time_step for o in plain] == [1, 1]
        buffer = queue().command_buffer()
        for failing in (a, b):
            failing.raises = "update"
            with pytest.raises(KeyError, match=f"update of {failing.name}"):
                graph.encode_batch(buffer, [X], [nn.LossLabelsBatch(T)])
            failing.raises = ""
        assert [o.time_step for o in plain] == [1, 1]
        buffer.commit()
        buffer.wait_until_completed()  # The command buffer completes although nothing was encoded.
        twin, _ = chain(*(Logged([], n, i, nn.Adam(0.1)) for n, i in (("a", 1), ("b", 2))))
        np.testing.assert_array_equal(first, train(twin))
        for _ in range(3):  # Training continues as if the failing batches had never happened.
            np.testing.assert_array_equal(train(graph), train(twin))

    def test_failed_encode_keeps_earlier_work_in_command_buffer(self):
        source = Logged([], "a", 1)
        graph, _ = chain(source)
        doubled = graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 2.0).result_image)
        buffer = queue().command_buffer()
        result = doubled.encode_batch(buffer, [X])
        source.raises = "update"
        with pytest.raises(KeyError):
            graph.encode_batch(buffer, [X], [nn.LossLabelsBatch(T)])
        buffer.commit()
        buffer.wait_until_completed()
        np.testing.assert_array_equal(result.numpy(), 2 * X)


class TestTrainable:
    def test_twenty_training_steps_match_numpy(self):
        """Train convolution, batch normalization, tanh, and a fully connected layer, with momentum and L2
        regularization in numpy.
        """
        rng = np.random.default_rng(7)
        w1, w2 = pool(4, 1, 1, 2, seed=3), pool(3, 2, 2, 4, seed=4)
        values = {"w1": w1[:, 0, 0], "b1": np.zeros(4), "gamma": np.ones(4), "beta": np.zeros(4),
                  "w2": w2.reshape(3, 16), "b2": np.zeros(3)}  # fmt: skip
        moving = {"mean": np.zeros(4), "variance": np.ones(4)}
        momenta = {k: np.zeros_like(v) for k, v in values.items()}
        sgd = nn.StochasticGradientDescent(
            0.05, momentum_scale=0.9, regularization_type="l2", regularization_scale=0.01
        )
        first = nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 4), w1.astype(np.float32), optimizer=sgd)
        norm = nn.TrainableNormalization(4, epsilon=1e-3, momentum=0.8, optimizer=sgd)
        last = nn.TrainableConvolution(nn.ConvolutionDescriptor(2, 2, 4, 3), w2.astype(np.float32), optimizer=sgd)
        a = nn.ConvolutionNode(nn.ImageNode("x"), first)
        b = nn.BatchNormalizationNode(a.result_image, norm)
        c = nn.NeuronTanHNode(b.result_image)
        d = nn.FullyConnectedNode(c.result_image, last)
        loss = nn.LossNode(d.result_image, nn.LossDescriptor("softmax_cross_entropy", weight=1 / 6))
        graph = graph_of([f.result_image for f in loss.training_graph(None)], False)
        for step in range(20):
            x, t = rng.standard_normal((6, 2, 2, 2)).astype(np.float32), np.eye(3)[rng.integers(0, 3, 6)]
            labels = nn.LossLabelsBatch(t.astype(np.float32))
            run(graph, {"x": x}, [labels])
            y1 = x @ values["w1"].T + values["b1"]
            mean, variance = y1.mean((0, 1, 2)), y1.var((0, 1, 2))
            root = np.sqrt(variance + 1e-3)
            z = (y1 - mean) / root
            h = np.tanh(z * values["gamma"] + values["beta"])
            y2 = h.reshape(6, 16) @ values["w2"].T + values["b2"]
            p = np.exp(y2 - y2.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            close(labels.losses.numpy().ravel(), -np.log((p * t).sum(1)) / 6, 1e-4, f"loss {step}")
            g2 = (p - t) / 6
            gh = (g2 @ values["w2"]).reshape(h.shape) * (1 - h**2)
            gz = gh * values["gamma"]
            g1 = (gz - gz.mean((0, 1, 2)) - z * (gz * z).mean((0, 1, 2))) / root
            slopes = {"w2": g2.T @ h.reshape(6, 16), "b2": g2.sum(0), "gamma": (gh * z).sum((0, 1, 2)),
                      "beta": gh.sum((0, 1, 2)), "w1": np.einsum("nhwo,nhwc->oc", g1, x),
                      "b1": g1.sum((0, 1, 2))}  # fmt: skip
            for name, value in values.items():
                momenta[name] = 0.9 * momenta[name] + 0.05 * (slopes[name] + 0.01 * value)
                values[name] = value - momenta[name]
            for name, now in (("mean", mean), ("variance", variance)):
                moving[name] = 0.8 * moving[name] + 0.2 * now
        for source in (first, norm, last):
            source.load()
        close(first.weights()[:, 0, 0], values["w1"], 1e-4, "w1")
        close(last.weights().reshape(3, 16), values["w2"], 1e-4, "w2")
        close(last.bias_terms(), values["b2"], 1e-4, "b2")
        close(norm.gamma(), values["gamma"], 1e-4, "gamma")
        close(norm.beta(), values["beta"], 1e-4, "beta")
        close(norm.mean(), moving["mean"], 1e-4, "mean")
        close(norm.variance(), moving["variance"], 1e-4, "variance")
        # Inference uses the moving statistics and the trained weights.
        (found,) = run(graph_of(d.result_image), {"x": x})
        z = (x @ values["w1"].T + values["b1"] - moving["mean"]) / np.sqrt(moving["variance"] + 1e-3)
        h = np.tanh(z * values["gamma"] + values["beta"])
        close(found[:, 0, 0], h.reshape(6, 16) @ values["w2"].T + values["b2"], 1e-4, "inference")

    def trained(self) -> tuple[Any, Any]:
        d = nn.ConvolutionDescriptor(1, 1, 2, 2)
        source = nn.TrainableConvolution(d, seed=1, optimizer=nn.StochasticGradientDescent(0.01))
        return source, chain(source)

    def test_inference_graph_uses_trained_weights_after_reload(self):
        source, (graph, node) = self.trained()
        inference = graph_of(node.result_image)
        (before,) = run(inference, {"x": X})
        train(graph)
        np.testing.assert_array_equal(run(inference, {"x": X})[0], before)
        inference.reload_from_data_sources()
        (after,) = run(inference, {"x": X})
        assert np.abs(after - before).max() > 1e-3
        wanted = np.einsum("nhwc,oc->nhwo", X, source.weights()[:, 0, 0]) + source.bias_terms()
        close(after, wanted.astype(float), 1e-5, "trained")

    def test_trained_weights_outlive_their_graph(self):
        source, (graph, _) = self.trained()
        before = source.weights().copy()
        train(graph)
        del graph
        gc.collect()
        assert np.abs(source.weights() - before).max() > 1e-3

    def test_rebuilt_graph_continues_from_trained_weights(self):
        """Like a notebook cell that runs twice, free the first graph once the second exists."""
        source, (graph, _) = self.trained()
        train(graph)
        source.load()
        held = source.weights().copy()
        graph, _ = chain(source)
        gc.collect()
        np.testing.assert_array_equal(source.weights(), held)
        train(graph)
        source.load()
        assert np.abs(source.weights() - held).max() > 1e-3

    def test_layer_without_optimizer_keeps_its_weights(self):
        d = nn.ConvolutionDescriptor(1, 1, 2, 2)
        frozen = nn.TrainableConvolution(d, seed=1)
        moving = nn.TrainableConvolution(d, seed=2, optimizer=nn.StochasticGradientDescent(0.1))
        graph, _ = chain(frozen, moving)
        before = frozen.weights().copy(), moving.weights().copy()
        train(graph)
        frozen.load(), moving.load()
        np.testing.assert_array_equal(frozen.weights(), before[0])
        assert np.abs(moving.weights() - before[1]).max() > 1e-3

    def test_trainable_convolution_copies_given_weights(self):
        weights = np.ones((2, 1, 1, 2), np.float32)
        source = nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2), weights)
        weights[:] = 5
        assert (source.weights() == 1).all()

    def test_float16_weights_without_biases_are_accepted(self):
        half = pool(2, 1, 1, 2).astype(np.float16)
        source = nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2), half, False)
        assert source.bias_terms() is None
        np.testing.assert_array_equal(source.weights(), half.astype(np.float32))

    @pytest.mark.parametrize("kind", ["instance", "group"])
    def test_instance_and_group_normalization_keep_no_statistics(self, kind: str):
        source = nn.TrainableNormalization(4, kind=kind, number_of_groups=2)
        assert source.mean() is None and source.variance() is None
        with pytest.raises(GraphError, match="mean and variance are for kind='batch' only"):
            nn.TrainableNormalization(4, kind=kind, mean=np.zeros(4, np.float32))


class TestBatchNormalization:
    x = pool(5, 2, 3, 4, seed=9).astype(np.float32)

    def test_batch_normalization_uses_stored_or_batch_statistics(self):
        kept = {"mean": pool(4, seed=1).astype(np.float32), "variance": pool(4, seed=2, low=0.5).astype(np.float32)}
        source = Normalization(4, epsilon=1e-3, **kept)
        node = nn.BatchNormalizationNode(nn.ImageNode("x"), source)
        (alone,) = run(graph_of(node.result_image), {"x": self.x})
        close(alone, (self.x - kept["mean"]) / np.sqrt(kept["variance"] + 1e-3).astype(float), 1e-5, "the source's")
        gradient = node.gradient_filter(nn.ImageNode("g"))
        together = graph_of([node.result_image, gradient.result_image])
        found, _ = run(together, {"x": self.x, "g": self.x})
        mean, variance = self.x.astype(float).mean((0, 1, 2)), self.x.astype(float).var((0, 1, 2))
        close(found, (self.x - mean) / np.sqrt(variance + 1e-3), 1e-5, "the batch's")
        close(np.array(source.state.read("mean")), mean, 1e-5, "mean")
        close(np.array(source.state.read("variance")), variance, 1e-5, "variance, by the number of elements")

    def test_statistics_are_updated_before_gamma_and_beta(self):
        log: list[str] = []

        class Both(Normalization):
            def update_mean_and_variance(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
                log.append("statistics")
                return nn.ParameterState({"mean": np.full(4, 7, np.float32), "variance": np.full(4, 3, np.float32)})

            def update_gamma_and_beta(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
                log.append("gamma and beta")
                return nn.ParameterState({"gamma": np.full(4, 2, np.float32)})

        ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
        source = Both(4, epsilon=0.0, gamma=ones, beta=zeros, mean=zeros, variance=ones)
        node = nn.BatchNormalizationNode(nn.ImageNode("x"), source)
        gradient = node.gradient_filter(nn.ImageNode("g"))
        still = nn.BatchNormalizationNode(nn.ImageNode("x"), source, flags="calculate_statistics_never")
        graph = graph_of([gradient.result_image, still.result_image])
        feeds = {"x": self.x, "g": self.x}
        buffer = queue().command_buffer()
        batches = [self.x] * len(graph.source_image_handles)
        graph.encode_batch(buffer, batches)
        results: list[Any] = []
        graph.encode_batch(buffer, batches, results=results)
        buffer.commit()
        buffer.wait_until_completed()
        assert log == ["statistics", "gamma and beta"] * 2
        close(results[1].numpy(), 2 * (self.x - 7) / np.sqrt(3.0), 1e-5, "both were taken")
        del feeds


def test_float16_accumulation_is_close_to_float32():
    """The CPU always accumulates in float32; a device that honors the option also rounds the weights to float16."""
    x, weights = pool(2, 5, 4, 3).astype(np.float32), pool(4, 3, 3, 3, seed=1).astype(np.float32)
    source = Convolution(nn.ConvolutionDescriptor(3, 3, 3, 4), weights)
    results = []
    for precision in ("float32", "float16"):
        node = nn.ConvolutionNode(nn.ImageNode("x"), source, accumulator_precision=precision)
        results += run(graph_of(node.result_image), {"x": x})
    close(results[1], results[0], 2e-3, "the sums")


class TestStoredWeights:
    d = nn.ConvolutionDescriptor(3, 2, 4, 5)
    weights, biases = pool(5, 2, 3, 4).astype(np.float32), pool(5).astype(np.float32)

    def file(self, path: Path, **tensors: Array) -> Path:
        header, blob = {}, b""
        names = {"int32": "I32", "float32": "F32", "float16": "F16", "float64": "F64"}
        for name, array in tensors.items():
            ends = [len(blob), len(blob) + array.nbytes]
            header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data_offsets": ends}
            blob += np.ascontiguousarray(array).tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # Pad the header so that the data is aligned.
        path.write_bytes(len(text).to_bytes(8, "little") + text + blob)
        return path

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("layout", ["OHWI", "OIHW", "HWIO"])
    def test_stored_weights_are_read_in_each_layout(self, tmp_path: Path, layout: str, dtype: str):
        orders = {"OHWI": (0, 1, 2, 3), "OIHW": (0, 3, 1, 2), "HWIO": (1, 2, 3, 0)}
        there = self.weights.transpose(orders[layout]).astype(dtype)
        path = self.file(tmp_path / "w.safetensors", other=np.zeros(3, np.float32), w=there, b=self.biases)
        source = nn.StoredWeights(path, self.d, "w", "b", layout=layout)
        x = pool(2, 4, 4, 4).astype(np.float32)
        (found,) = run(graph_of(nn.ConvolutionNode(nn.ImageNode("x"), source).result_image), {"x": x})
        kept = Convolution(self.d, self.weights.astype(dtype).astype(np.float32), self.biases)
        (wanted,) = run(graph_of(nn.ConvolutionNode(nn.ImageNode("x"), kept).result_image), {"x": x})
        close(found, wanted.astype(float), 1e-6, layout)

    def test_stored_weights_are_available_only_between_load_and_purge(self, tmp_path: Path):
        source = nn.StoredWeights(self.file(tmp_path / "w", w=self.weights), self.d, "w", label="stored")
        with pytest.raises(DeviceError, match="stored"):
            source.weights()
        source.load()
        assert source.weights().shape == (5, 2, 3, 4)
        source.purge()
        with pytest.raises(DeviceError, match="stored"):
            source.weights()

    def test_invalid_weight_files_raise(self, tmp_path: Path):
        path = self.file(tmp_path / "w", whole=self.weights.astype(np.int32), w=self.weights, flat=self.biases)

        def use(name: str, where: Path = path, **options: Any) -> None:
            node = nn.ConvolutionNode(nn.ImageNode("x"), nn.StoredWeights(where, self.d, name, **options))
            run(graph_of(node.result_image), {"x": np.ones((1, 4, 4, 4), np.float32)})

        with pytest.raises(PackageError, match="no tensor 'missing'"):
            use("missing")
        with pytest.raises(ShapeError, match="flat"):
            use("flat")
        with pytest.raises(DTypeError, match="int32"):
            use("whole")
        with pytest.raises(ShapeError):
            use("w", layout="HWIO")
        with pytest.raises(GraphError, match="layout"):
            use("w", layout="OWHI")
        with pytest.raises(PackageError):
            use("w", tmp_path / "nothing")
        (tmp_path / "short").write_bytes(b"\xff" * 16)
        with pytest.raises(PackageError):
            use("w", tmp_path / "short")
        (tmp_path / "cut").write_bytes(path.read_bytes()[:-4000])
        with pytest.raises(PackageError):
            use("w", tmp_path / "cut")
