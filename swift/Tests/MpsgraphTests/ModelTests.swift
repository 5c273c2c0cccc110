// Models defined in Swift: training, states, configurations, transforms, and typed errors.
import Foundation
import XCTest

@testable import Mpsgraph

private final class Classifier: Layer {
  let hidden = Linear(16)
  let blocks: [any Layer] = [Activation.relu, Dropout(0.1)]
  let output: Linear? = Linear(2)

  func callAsFunction(_ x: Tensor) throws -> Tensor {
    let features = try blocks.reduce(hidden(x)) { try $1($0) }
    guard let output else { return features }
    return try output(features)
  }
}

private final class Scale: Layer, Codable {
  let factor = Parameter("factor", .constant(2))
  init() {}
  private enum CodingKeys: CodingKey {}
  func callAsFunction(_ x: Tensor) throws -> Tensor { try x * factor(in: x.graph, shape: [x.size(of: -1)]) }
}

final class ModelTests: XCTestCase {
  /// Points in a square, and whether they are above the diagonal.
  private func batch() throws -> [String: NDArray] {
    var (points, labels): ([Float], [Int32]) = ([], [])
    for i in 0..<64 {
      let (x, y) = (Float(i % 8) / 7, Float(i / 8) / 7 + 0.03)
      points += [x, y]
      labels.append(y > x ? 1 : 0)
    }
    return ["inputs": try NDArray(points, shape: [64, 2]), "labels": try NDArray(labels)]
  }

  private func trainer(seed: UInt64 = 3) throws -> (model: Classifier, trainer: Trainer) {
    let model = Classifier()
    let trainer = try Trainer(
      model, inputs: TensorType(.float32, [-1, 2]), labels: TensorType(.int32, [-1]), optimizer: Adam(0.02),
      metrics: [.accuracy], seed: seed)
    return (model, trainer)
  }

  func testModelTrains() async throws {
    let (model, trainer) = try trainer()
    XCTAssertEqual(
      model.namedParameters().map { $0.path }, ["hidden.weight", "hidden.bias", "output.weight", "output.bias"])
    XCTAssertEqual(trainer.inputNames, ["inputs", "labels"])
    XCTAssertEqual(trainer.resultNames, ["loss", "accuracy"])
    XCTAssertEqual(try trainer.inputType("inputs"), try TensorType(.float32, [-1, 2]))
    let batch = try batch()
    var results: [StepResult] = []
    for try await result in trainer.steps(Array(repeating: batch, count: 200)) { results.append(result) }
    XCTAssertEqual(results.map { $0.step }, Array(1...200))
    XCTAssertLessThan(results[199].loss, results[0].loss / 2)
    XCTAssertEqual(try trainer.stepCount(), 200)
    let evaluated = try await trainer.evaluate(batch)
    XCTAssertGreaterThan(evaluated["accuracy"]!, 0.9)
    let scores = try await trainer.predict([batch["inputs"]!])[0]
    XCTAssertEqual(scores.type.shape, [64, 2])
    XCTAssertEqual(try model.state()["hidden.weight"]?.type.shape, [2, 16])
    try trainer.setLearningRate(0)
    let before = try model.state()["hidden.bias"]!.values(Float.self)
    _ = try await trainer.step(batch)
    XCTAssertEqual(try model.state()["hidden.bias"]!.values(Float.self), before)
    XCTAssertThrowsError(try trainer.setLearningRate(-1)) { XCTAssertEqual(($0 as? Failure)?.kind, .invalidArgument) }
  }

  func testSameSeedGivesSameSteps() throws {
    let batch = try batch()
    let (one, other, another) = (try trainer().trainer, try trainer().trainer, try trainer(seed: 4).trainer)
    for _ in 0..<3 { XCTAssertEqual(try one.step(batch), try other.step(batch)) }
    XCTAssertNotEqual(try one.step(batch), try another.step(batch))
  }

  func testSavedStateContinues() throws {
    let batch = try batch()
    let (_, first) = try trainer()
    for _ in 0..<5 { _ = try first.step(batch) }
    let saved = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mpsgraph")
    defer { try? FileManager.default.removeItem(at: saved) }
    try first.save(to: saved)
    let (_, second) = try trainer(seed: 9)
    try second.loadState(from: saved)
    XCTAssertEqual(try second.stepCount(), 5)
    for _ in 0..<5 { XCTAssertEqual(try first.step(batch), try second.step(batch)) }
    let graph = try Graph(package: saved)
    XCTAssertEqual(try graph.tensors(.output).map { $0.name }, ["output"])
  }

  func testStepsEndWhenTheTaskIsCancelled() async throws {
    let (_, trainer) = try trainer()
    let batch = try batch()
    let task = Task {
      var count = 0
      for try await _ in trainer.steps(sequence(first: batch) { _ in batch }) {
        count += 1
        if count == 3 { withUnsafeCurrentTask { $0?.cancel() } }
      }
      return count
    }
    let count = try await task.value
    XCTAssertEqual(count, 3)
  }

  func testFrozenParametersStay() throws {
    let model = Classifier()
    model.hidden.freeze()
    let trainer = try Trainer(
      model, inputs: TensorType(.float32, [-1, 2]), labels: TensorType(.int32, [-1]), optimizer: SGD(0.1))
    let before = try model.state()
    _ = try trainer.step(batch())
    let after = try model.state()
    for (path, value) in before {
      let same = try value.values(Float.self) == after[path]!.values(Float.self)
      XCTAssertEqual(same, path.hasPrefix("hidden"), path)
    }
  }

  func testConfigurationsRoundTrip() throws {
    LayerTypes.register(Scale.self)
    let model = Sequential(
      Conv2d(4, [3, 5], strides: 2, padding: .explicit([[1, 1], [0, 2]])), BatchNorm(momentum: 0.8), ReLU(), Flatten(),
      Scale(), Dropout(0.25), Linear(3, bias: false, weightInitializer: .heUniform), Sequential(Softmax()))
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let text = try encoder.encode(model)
    let again = try JSONDecoder().decode(Sequential.self, from: text)
    XCTAssertEqual(try encoder.encode(again), text)
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [2, 9, 9, 1]), name: "x")
    XCTAssertEqual(try model(x).type, try again(x).type)
    XCTAssertEqual(model.namedParameters().map { $0.path }, again.namedParameters().map { $0.path })
    let optimizer = AdamW(.warmUp(.cosine(rate: 0.1, steps: 10, final: 0.01), steps: 2), weightDecay: 0.05)
    XCTAssertEqual(try JSONDecoder().decode(AdamW.self, from: JSONEncoder().encode(optimizer)), optimizer)
    XCTAssertThrowsError(try JSONEncoder().encode(Sequential(Classifier()))) { XCTAssertTrue("\($0)".contains("Codable")) }
    let unknown = Data(#"[{"layer": "Convolve", "options": {}}]"#.utf8)
    XCTAssertThrowsError(try JSONDecoder().decode(Sequential.self, from: unknown)) {
      XCTAssertTrue("\($0)".contains("Convolve"))
    }
  }

  func testTransforms() throws {
    let square = { (x: Tensor) in try (x * x).reductionSum().squeeze() }
    let x = try NDArray([1, -2, 3] as [Float])
    let (value, gradient) = try valueAndGrad(square)(x)
    XCTAssertEqual(try value.value(Float.self), 14)
    XCTAssertEqual(try gradient.values(Float.self), [2, -4, 6])
    let derivative = grad(square)
    XCTAssertEqual(try derivative(NDArray([5] as [Float])).values(Float.self), [10])
    XCTAssertEqual(try derivative(x).values(Float.self), [2, -4, 6])
    let both = valueAndGrad({ try ($0[0] * $0[1]).meanOfAll() }, arguments: [0, 1])
    XCTAssertEqual(try both([x, x]).gradients.count, 2)
    XCTAssertThrowsError(try valueAndGrad { (x: Tensor) in try x * 2 }(x)) { XCTAssertEqual(($0 as? Failure)?.kind, .shape) }
    let model = Linear(1)
    try model.load(["weight": NDArray([2, 3] as [Float], shape: [2, 1]), "bias": NDArray([1] as [Float])])
    let ofModel = valueAndGrad(model) { model, batch in try model(batch[0]).meanOfAll() }
    let (loss, gradients) = try ofModel([NDArray([1, 1] as [Float], shape: [1, 2])])
    XCTAssertEqual(try loss.value(Float.self), 6)
    XCTAssertEqual(Set(gradients.keys), ["weight", "bias"])
    XCTAssertEqual(try gradients["weight"]!.values(Float.self), [1, 1])
  }

  func testOperatorsAndMethods() throws {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [3]), name: "x")
    let values = try NDArray([1, 2, 4] as [Float])
    func run(_ y: Tensor) throws -> [Float] { try graph.run(y, feeds: [x: values]).values(Float.self) }
    XCTAssertEqual(try run(2 * x + 1 - x / 2), [2.5, 4, 7])
    XCTAssertEqual(try run(-x * x), [-1, -4, -16])
    XCTAssertEqual(try run(8 / x - 1), [7, 3, 1])
    XCTAssertEqual(try run((x .> 1.5).select(x, whenFalse: 0)), [0, 2, 4])
    XCTAssertEqual(try run((x .>= 2 .& !(x .== 4)).cast(.float32)), [0, 1, 0])
    XCTAssertEqual(try run(x.slice(0, from: -2, count: 2)), [2, 4])
    XCTAssertEqual(try run(x.clamp(minimum: 1.5, maximum: 3)), [1.5, 2, 3])
    XCTAssertEqual(try run(x.reshape([3, 1]).matmul(x.reshape([1, 3])).reductionSum().squeeze()), [49])
    XCTAssertEqual(try run(graph.constant(3, shape: [2])), [3, 3])
    let count = try graph.constant(1, .int32)
    XCTAssertThrowsError(try count + 0.5) { XCTAssertEqual(($0 as? Failure)?.kind, .elementType) }
    XCTAssertEqual(x.shape, [3])
    XCTAssertEqual(Set([x, x]).count, 1)
  }

  func testRunsReturnTargetsAndExecuteOperations() async throws {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, []), name: "x")
    let total = try graph.variable(NDArray(scalar: 0 as Float), name: "total")
    let add = try graph.assign(total, total + x)
    let y = try x * x
    let results = try await graph.run(feeds: [x: NDArray(scalar: 3 as Float)], targets: [y, x], operations: [add])
    XCTAssertEqual(try results[y]!.value(Float.self), 9)
    XCTAssertEqual(try results[x]!.value(Float.self), 3)
    XCTAssertEqual(try total.read().value(Float.self), 3)
    do {
      _ = try await graph.run(targets: [y])
      XCTFail("a run without the feed must throw")
    } catch { XCTAssertTrue(error is Failure) }
    let gradients = try graph.gradients(of: y, with: [x, x])
    XCTAssertEqual(gradients.count, 1)
    let executable = try graph.compile(feeds: [(x, x.type)], targets: [y])
    let buffer = try CommandBuffer(CommandQueue())
    let encoded = try buffer.encode(executable, [NDArray(scalar: 5 as Float)])
    try await buffer.commitAndWait()
    XCTAssertEqual(try encoded[0].value(Float.self), 25)
    do {
      try await buffer.commitAndWait()
      XCTFail("a command buffer can be committed only once")
    } catch { XCTAssertTrue(error is Failure) }
  }

  func testErrorsSayWhatToDo() throws {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [-1, 4]), name: "x")
    func assertFails(_ kind: Failure.Kind, _ words: String, line: UInt = #line, _ body: () throws -> Any) {
      XCTAssertThrowsError(try body(), line: line) { error in
        XCTAssertEqual((error as? Failure)?.kind, kind, "\(error)", line: line)
        XCTAssertTrue("\(error)".contains(words), "\(error)", line: line)
      }
    }
    assertFails(.shape, "size 3") { try Linear(2, inFeatures: 3)(x) }
    assertFails(.invalidArgument, "less than 1") { try Dropout(1)(x) }
    assertFails(.shape, "NHWC") { try Conv2d(2, 3)(x) }
    assertFails(.elementType, "cast them to int32") { try Embedding(3, 2)(x) }
    assertFails(.shape, "divisible") { try MultiHeadAttention(5, 2)(x) }
    assertFails(.graph, "another graph") {
      let layer = Linear(2)
      _ = try layer(x)
      return try layer(Graph().placeholder(TensorType(.float32, [1, 4]), name: "x"))
    }
    assertFails(.graph, "unknown [\"wieght\"]") { try Linear(2).load(["wieght": NDArray([1 as Float])]) }
    assertFails(.invalidArgument, "momentum above 0") { try SGD(0.1, nesterov: true).check() }
    assertFails(.shape, "mean") {
      try Trainer(
        Linear(1), inputs: ["x": TensorType(.float32, [-1, 2])], labels: [:], optimizer: SGD()
      ) { ([], [("loss", $0["x"]!)]) }
    }
    assertFails(.invalidArgument, "inputs, labels") { try self.trainer().trainer.step(["inputs": NDArray([1 as Float])]) }
  }
}
