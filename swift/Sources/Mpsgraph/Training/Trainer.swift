// Training: trainable packages, which Python's mpsgraph.save(path, trainer) writes, training steps built from a graph,
// and models defined in Swift (ModelStep.swift).
import CMpsgraph
import Dispatch
import Foundation

/// A compiled training step and its state. Steps of one trainer run one after the other.
public final class Trainer: Sendable {
  private enum Step: Sendable {
    case handle(Handle)
    case model(ModelStep)
  }

  private let step: Step
  /// The graph of the step. Access its variables through `tensors(.parameter)`.
  public let graph: Graph
  /// The names of a batch's arrays, in order: "inputs" and "labels", or the names that the model defines.
  public let inputNames: [String]
  /// The names of a step's results: "loss", followed by the metrics.
  public let resultNames: [String]
  private let steps = DispatchQueue(label: "mpsgraph.trainer")

  /// Opens a trainable package. Training continues from the saved state with bit-identical results.
  public convenience init(package: URL, device: Device? = nil) throws {
    try self.init(Handle { mpsgraph_trainer_open(package.path, device?.handle.pointer, $0) })
  }

  /// Creates a training step from parts of a graph. `step` takes arrays in the order of `feeds`; `loss` must be a
  /// scalar.
  public convenience init(_ graph: Graph, feeds: [Tensor], loss: Tensor, updates: [GraphOperation]) throws {
    let fed: [OpaquePointer?] = feeds.map { $0.pointer }
    let run: [OpaquePointer?] = updates.map { $0.pointer }
    try self.init(
      Handle { mpsgraph_trainer_create(graph.handle.pointer, fed, fed.count, loss.pointer, run, run.count, $0) })
  }

  init(_ model: ModelStep) throws {
    step = .model(model)
    graph = model.graph
    inputNames = model.feeds.map { $0.name }
    resultNames = model.resultNames
  }

  private init(_ handle: Handle) throws {
    step = .handle(handle)
    graph = try Graph(Handle { mpsgraph_trainer_graph(handle.pointer, $0) })
    inputNames = try names(
      { mpsgraph_trainer_input_count(handle.pointer, $0) },
      { mpsgraph_trainer_input_name_at(handle.pointer, $0, $1, $2, $3) })
    resultNames = try names(
      { mpsgraph_trainer_result_count(handle.pointer, $0) },
      { mpsgraph_trainer_result_name_at(handle.pointer, $0, $1, $2, $3) })
  }

  /// Returns the type of an input. Dimensions that may change from batch to batch are -1.
  public func inputType(_ name: String) throws -> TensorType {
    guard let index = inputNames.firstIndex(of: name) else {
      throw Failure(.outOfRange, "unknown input '\(name)'; must be one of \(inputNames.joined(separator: ", "))")
    }
    switch step {
    case .model(let model): return model.feeds[index].tensor.type
    case .handle(let handle):
      var type = mpsgraph_type()
      try check(mpsgraph_trainer_input_type(handle.pointer, index, &type))
      return try TensorType(type)
    }
  }

  // MARK: steps

  /// Takes a step on a batch, whose arrays are in the order of `inputNames`, and returns the loss before the update.
  public func step(_ batch: [NDArray]) throws -> Double {
    try steps.sync { try lossOfStep(batch) }
  }

  /// Takes a step on a thread of the trainer, so that the calling actor or main thread is not blocked.
  public func step(_ batch: [NDArray]) async throws -> Double {
    try await onOwnThread { try self.lossOfStep(batch) }
  }

  /// Takes a step on a batch of named arrays and returns the loss and metrics by name.
  public func step(_ batch: [String: NDArray]) throws -> [String: Double] {
    try steps.sync { try stepped(batch) }
  }

  public func step(_ batch: [String: NDArray]) async throws -> [String: Double] {
    try await onOwnThread { try self.stepped(batch) }
  }

  /// Returns the loss and metrics of a batch in inference mode, without a step. Metrics that exist only in training are
  /// NaN.
  public func evaluate(_ batch: [String: NDArray]) throws -> [String: Double] {
    try steps.sync { try evaluated(batch) }
  }

  public func evaluate(_ batch: [String: NDArray]) async throws -> [String: Double] {
    try await onOwnThread { try self.evaluated(batch) }
  }

  /// Returns the model's outputs in inference mode, for its inputs only.
  public func predict(_ inputs: [NDArray]) throws -> [NDArray] {
    try steps.sync { try outputs(inputs) }
  }

  public func predict(_ inputs: [NDArray]) async throws -> [NDArray] {
    try await onOwnThread { try self.outputs(inputs) }
  }

  // MARK: state

  /// The number of steps taken, including those before the package was saved.
  public func stepCount() throws -> Int {
    switch step {
    case .model(let model): return try steps.sync { try model.stepCount() }
    case .handle(let handle):
      var count: Int64 = 0
      try check(mpsgraph_trainer_step_count(handle.pointer, &count))
      return Int(count)
    }
  }

  /// The learning rate of the next step.
  public func learningRate() throws -> Double {
    switch step {
    case .model(let model): return try steps.sync { try model.learningRate() }
    case .handle(let handle):
      var rate = 0.0
      try check(mpsgraph_trainer_learning_rate(handle.pointer, &rate))
      return rate
    }
  }

  /// Sets the learning rate from the next step on.
  public func setLearningRate(_ rate: Double) throws {
    switch step {
    case .model(let model): try steps.sync { try model.setLearningRate(rate) }
    case .handle(let handle): try check(mpsgraph_trainer_set_learning_rate(handle.pointer, rate))
    }
  }

  /// Saves a package with the state of the trainer.
  ///
  /// If the trainer was opened from a package, Swift, Python, C, and C++ can continue training with the new package. If
  /// the model was defined in Swift, its code creates the trainer again, and `loadState(from:)` continues; other
  /// languages open the package as a graph that maps the inputs to the outputs.
  public func save(to package: URL) throws {
    switch step {
    case .model(let model): try steps.sync { try model.graph.save(to: package) }
    case .handle(let handle): try check(mpsgraph_trainer_save(handle.pointer, package.path))
    }
  }

  /// Loads the state of a package saved by this trainer or one like it. If any part of that state does not match this
  /// trainer, nothing changes.
  public func loadState(from package: URL) throws {
    switch step {
    case .model(let model): try steps.sync { try model.graph.loadState(from: package) }
    case .handle(let handle): try check(mpsgraph_trainer_load_state(handle.pointer, package.path))
    }
  }

  // MARK: on the trainer's thread

  private typealias Numbers = (
    OpaquePointer?, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<OpaquePointer?>?, Int,
    UnsafeMutablePointer<Double>?, Int
  ) -> mpsgraph_status

  private func lossOfStep(_ batch: [NDArray]) throws -> Double {
    guard case .handle(let handle) = step else {
      guard batch.count == inputNames.count else {
        throw Failure(.invalidArgument, "a batch must have the arrays \(inputNames), got \(batch.count) arrays")
      }
      return try stepped(Dictionary(uniqueKeysWithValues: zip(inputNames, batch)))[resultNames[0]] ?? .nan
    }
    var loss = 0.0
    try withHandles(batch) { given, count in
      try check(mpsgraph_train_step(handle.pointer, given, count, &loss))
    }
    return loss
  }

  private func stepped(_ batch: [String: NDArray]) throws -> [String: Double] {
    switch step {
    case .model(let model): return try model.step(batch)
    case .handle(let handle): return try numbers(handle, batch, mpsgraph_trainer_train_step)
    }
  }

  private func evaluated(_ batch: [String: NDArray]) throws -> [String: Double] {
    switch step {
    case .model(let model): return try model.evaluate(batch)
    case .handle(let handle): return try numbers(handle, batch, mpsgraph_trainer_evaluate)
    }
  }

  private func numbers(_ handle: Handle, _ batch: [String: NDArray], _ function: Numbers) throws -> [String: Double] {
    let items = Array(batch)
    var results = [Double](repeating: 0, count: resultNames.count)
    try withCStrings(items.map { $0.key }) { names in
      try withHandles(items.map { $0.value }) { given, count in
        try check(function(handle.pointer, names, given, count, &results, results.count))
      }
    }
    return Dictionary(uniqueKeysWithValues: zip(resultNames, results))
  }

  private func outputs(_ inputs: [NDArray]) throws -> [NDArray] {
    let handle: Handle
    switch step {
    case .model(let model): return try model.predict(inputs)
    case .handle(let packaged): handle = packaged
    }
    var results = [OpaquePointer?](repeating: nil, count: try graph.count(.output))
    try withHandles(inputs) { given, count in
      try check(mpsgraph_trainer_predict(handle.pointer, nil, given, count, &results, results.count))
    }
    return try adopt(results)
  }

  private func onOwnThread<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
      steps.async { continuation.resume(with: Result { try work() }) }
    }
  }
}

private func names(
  _ count: (UnsafeMutablePointer<Int>?) -> mpsgraph_status,
  _ write: (Int, UnsafeMutablePointer<CChar>?, Int, UnsafeMutablePointer<Int>?) -> mpsgraph_status
) throws -> [String] {
  var found = 0
  try check(count(&found))
  return try (0..<found).map { index in try text { write(index, $0, $1, $2) } }
}

/// Calls `body` with the strings as C strings, which are valid during the call.
private func withCStrings<R>(_ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) throws -> R) rethrows
  -> R
{
  let copies: [UnsafePointer<CChar>?] = strings.map { string in
    let characters = Array(string.utf8CString)
    let copy = UnsafeMutablePointer<CChar>.allocate(capacity: characters.count)
    copy.initialize(from: characters, count: characters.count)
    return UnsafePointer(copy)
  }
  defer { for copy in copies { copy?.deallocate() } }
  return try copies.withUnsafeBufferPointer { try body($0.baseAddress) }
}
