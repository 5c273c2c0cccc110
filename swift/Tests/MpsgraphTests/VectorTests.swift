// Layers, losses, optimizers, and schedules compared with the Python package. make_vectors.py wrote the expected values
// on another machine, whose kernels may add in another order, so results may differ by 2e-5 of the largest element.
import Foundation
import XCTest

@testable import Mpsgraph

struct Vector: Decodable {
  let shape: [Int]
  let type: String
  let values: [Double]

  func array() throws -> NDArray {
    type == "int32" ? try NDArray(values.map { Int32($0) }, shape: shape) : try NDArray(values.map { Float($0) }, shape: shape)
  }
}

func vectors<T: Decodable>(_ name: String, _ type: T.Type = T.self) throws -> T {
  let file = Bundle.module.resourceURL!.appendingPathComponent("Vectors/\(name).json")
  return try JSONDecoder().decode(T.self, from: Data(contentsOf: file))
}

private func assertClose(
  _ got: NDArray, _ want: Vector, _ what: String, tolerance: Double = 2e-5, line: UInt = #line
) throws {
  XCTAssertEqual(got.type.shape, want.shape, what, line: line)
  let largest = want.values.reduce(1e-3) { max($0, abs($1)) }
  for (a, b) in zip(try got.values(Float.self), want.values) where !(abs(Double(a) - b) <= tolerance * largest) {
    return XCTFail("\(what): expected \(b), got \(a)", line: line)
  }
}

final class VectorTests: XCTestCase {
  private static func layers() -> [String: any Layer] {
    [
      "linear": Linear(3),
      "linear_without_bias": Linear(3, bias: false),
      "conv1d": Conv1d(4, 3, strides: 2, padding: .same),
      "conv2d": Conv2d(6, 3, strides: [2, 1], padding: .same, groups: 2),
      "conv2d_explicit": Conv2d(3, [2, 3], padding: .explicit([[1, 0], [2, 1]]), dilations: 2),
      "conv2d_nchw": Conv2d(3, 3, dataLayout: .NCHW),
      "conv3d": Conv3d(2, 2),
      "depthwise_conv2d": DepthwiseConv2d(3, channelMultiplier: 2),
      "conv_transpose2d": ConvTranspose2d(3, 3, strides: 2, padding: .same),
      "conv_transpose2d_valid": ConvTranspose2d(3, [2, 3], strides: 2),
      "max_pool2d": MaxPool2d(2),
      "avg_pool2d": AvgPool2d(3, strides: 2, padding: .same),
      "global_average_pooling2d": GlobalAveragePooling2d(),
      "batch_norm": BatchNorm(),
      "batch_norm_nchw": BatchNorm(momentum: 0.5, dataLayout: .NCHW),
      "layer_norm": LayerNorm(),
      "layer_norm_2": LayerNorm(axes: 2),
      "rms_norm": RMSNorm(),
      "group_norm": GroupNorm(2),
      "instance_norm": InstanceNorm(scale: true, center: true),
      "embedding": Embedding(7, 3),
      "dropout": Dropout(0.25),
      "rnn": RNN(4),
      "lstm": LSTM(4),
      "lstm_stacked": LSTM(3, numLayers: 2, bidirectional: true),
      "gru": GRU(4),
      "gru_stacked": GRU(3, numLayers: 2, batchFirst: false, bidirectional: true),
      "multi_head_attention": MultiHeadAttention(6, 2),
      "relu": ReLU(),
      "leaky_relu": Activation.leakyReLU(alpha: 0.2),
      "sigmoid": Sigmoid(),
      "tanh": Tanh(),
      "gelu": GELU(),
      "gelu_tanh": Activation(.geluTanh),
      "elu": Activation.elu(alpha: 0.5),
      "selu": Activation.selu,
      "silu": SiLU(),
      "mish": Activation.mish,
      "softplus": Activation.softplus,
      "softsign": Activation.softsign,
      "softmax": Softmax(),
      "log_softmax": Activation.logSoftmax(),
      "sequential": Sequential(
        Conv2d(4, 3), BatchNorm(), ReLU(), MaxPool2d(2), Flatten(), Dropout(0.5), Linear(3)),
    ]
  }

  private struct LayerCase: Decodable {
    let input: Vector
    let weights: [String: Vector]
    let inference: Vector
    let training: Vector
    let gradients: [String: Vector]
    let statistics: [String: Vector]
  }

  func testLayersComputeWhatPythonComputes() throws {
    let cases: [String: LayerCase] = try vectors("layers")
    let layers = Self.layers()
    XCTAssertEqual(Set(cases.keys), Set(layers.keys))
    for (name, expected) in cases.sorted(by: { $0.key < $1.key }) {
      guard let layer = layers[name] else { continue }
      do {
        let graph = try Graph(seed: 1)
        let input = try expected.input.array()
        let x = try graph.placeholder(input.type, name: "x")
        try layer.load(expected.weights.mapValues { try $0.array() })
        let inference = try layer(x)
        try assertClose(graph.run(inference, feeds: [x: input]), expected.inference, "\(name) in inference")
        let training = try graph.withMode(.training) { try layer(x) }
        XCTAssertEqual(graph.mode, .inference)
        let loss = try training.square().mean()
        let parameters = layer.namedParameters().filter { $0.parameter.isTrainable }
        let variables = parameters.compactMap { $0.parameter.variable }
        XCTAssertEqual(Set(parameters.map { $0.path }), Set(expected.gradients.keys), name)
        let gradients = try graph.gradients(of: loss, withRespectTo: variables)
        let results = try graph.run(feeds: [x: input], targets: [training] + gradients)
        try assertClose(results[training]!, expected.training, "\(name) in training")
        for (parameter, gradient) in zip(parameters, gradients) {
          try assertClose(results[gradient]!, expected.gradients[parameter.path]!, "\(name): gradient of \(parameter.path)")
        }
        let state = try layer.state()
        for (path, statistic) in expected.statistics { try assertClose(state[path]!, statistic, "\(name): \(path)") }
      }
    }
  }

  private struct Losses: Decodable {
    struct Case: Decodable {
      let labels: Vector
      let value: Double
      let gradient: Vector?
    }
    let outputs: Vector
    let cases: [String: Case]
  }

  func testLossesComputeWhatPythonComputes() throws {
    let expected: Losses = try vectors("losses")
    let functions: [String: @Sendable (Tensor, Tensor) throws -> Tensor] = [
      "cross_entropy": Loss.crossEntropy.callAsFunction,
      "cross_entropy_smoothed": Loss.crossEntropy(labelSmoothing: 0.1).callAsFunction,
      "mean_squared_error": Loss.meanSquaredError.callAsFunction,
      "mean_absolute_error": Loss.meanAbsoluteError.callAsFunction,
      "huber": Loss.huber().callAsFunction,
      "binary_cross_entropy_with_logits": Loss.binaryCrossEntropyWithLogits.callAsFunction,
      "accuracy": Metric.accuracy.callAsFunction,
    ]
    XCTAssertEqual(Set(expected.cases.keys), Set(functions.keys))
    for (name, one) in expected.cases {
      let (outputs, labels) = (try expected.outputs.array(), try one.labels.array())
      let loss = { (inputs: [Tensor]) in try functions[name]!(inputs[0], inputs[1]) }
      guard let gradient = one.gradient else {
        XCTAssertEqual(Double(try compiled(loss)([outputs, labels]).value(Float.self)), one.value, accuracy: 1e-6, name)
        continue
      }
      let (value, gradients) = try valueAndGrad(loss)([outputs, labels])
      XCTAssertEqual(Double(try value.value(Float.self)), one.value, accuracy: 1e-6, name)
      try assertClose(gradients[0], gradient, "gradient of \(name)")
    }
  }

  private struct Optimizers: Decodable {
    let start: [Double]
    let gradients: [[Double]]
    let values: [String: [[Double]]]
  }

  func testOptimizersComputeWhatPythonComputes() throws {
    let expected: Optimizers = try vectors("optimizers")
    let optimizers: [String: any Optimizer] = [
      "sgd": SGD(0.1),
      "sgd_momentum": SGD(0.1, momentum: 0.9, weightDecay: 0.01),
      "sgd_nesterov": SGD(0.1, momentum: 0.9, nesterov: true, weightDecay: 0.1, decoupled: true),
      "adam": Adam(0.1),
      "adam_amsgrad": Adam(
        0.1, beta1: 0.8, beta2: 0.99, epsilon: 1e-6, amsgrad: true, weightDecay: 0.01, correctedEpsilon: true),
      "adamw": AdamW(0.1, weightDecay: 0.1),
      "rmsprop": RMSProp(0.1),
      "rmsprop_momentum": RMSProp(0.1, decay: 0.9, momentum: 0.5, weightDecay: 0.01),
      "adagrad": Adagrad(0.1, initialSum: 0.1),
      "adadelta": AdaDelta(0.5, weightDecay: 0.01),
      "lion": Lion(0.1, weightDecay: 0.1),
    ]
    XCTAssertEqual(Set(expected.values.keys), Set(optimizers.keys))
    for (name, optimizer) in optimizers {
      let graph = try Graph()
      let variable = try graph.variable(NDArray(expected.start.map { Float($0) }), name: "v")
      let gradient = try graph.placeholder(variable.type, name: "gradient")
      let rate = try graph.placeholder(TensorType(.float32, []), name: "rate")
      let updates = try optimizer.updates([(variable, gradient)], learningRate: rate)
      for (step, values) in expected.gradients.enumerated() {
        _ = try graph.run(
          feeds: [
            gradient: NDArray(values.map { Float($0) }), rate: NDArray(scalar: Float(optimizer.learningRate(step))),
          ], targets: [], operations: updates)
        let want = Vector(shape: [6], type: "float32", values: expected.values[name]![step])
        try assertClose(variable.read(), want, "\(name), step \(step)", tolerance: 1e-6)
      }
    }
  }

  func testSchedulesComputeWhatPythonComputes() throws {
    let expected: [String: [Double]] = try vectors("schedules")
    let schedules: [String: Schedule] = [
      "constant": 0.1,
      "step": .step(rate: 1, every: 3, factor: 0.5),
      "exponential": .exponential(rate: 1, every: 4, factor: 0.5),
      "cosine": .cosine(rate: 0.5, steps: 8, final: 0.1),
      "linear": .linear(rate: 0.5, steps: 8, final: 0.1),
      "warm_up": .warmUp(.cosine(rate: 0.5, steps: 6, final: 0), steps: 3),
    ]
    XCTAssertEqual(Set(expected.keys), Set(schedules.keys))
    for (name, rates) in expected {
      for (step, rate) in rates.enumerated() {
        XCTAssertEqual(schedules[name]!(step), rate, accuracy: 1e-12, "\(name), step \(step)")
      }
    }
  }
}
