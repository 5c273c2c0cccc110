// Training: packages that train, which Python's mpsgraph.save(path, trainer) writes, and steps built from a graph.
import CMpsgraph
import Dispatch
import Foundation

/// A compiled training step with all of its state. Steps of one trainer run one after the other.
public final class Trainer: Sendable {
  let handle: Handle
  /// The graph of the step: its variables are read and written by `tensors(.parameter)`.
  public let graph: Graph
  /// What a batch's arrays are called, in order: "inputs" and "labels", or as the model calls them.
  public let inputNames: [String]
  /// The numbers of a step: "loss" first, then the metrics.
  public let resultNames: [String]
  private let steps = DispatchQueue(label: "mpsgraph.trainer")

  /// A package that trains; it goes on where the trainer, or who last saved it, stopped, bit for bit.
  public convenience init(package: URL, device: Device? = nil) throws {
    try self.init(Handle { mpsgraph_trainer_open(package.path, device?.handle.pointer, $0) })
  }

  /// A step of a graph's own parts: `feeds` in the order in which `step` takes arrays; `loss` is one number.
  public convenience init(_ graph: Graph, feeds: [Tensor], loss: Tensor, updates: [Operation]) throws {
    let fed: [OpaquePointer?] = feeds.map { $0.pointer }
    let run: [OpaquePointer?] = updates.map { $0.pointer }
    try self.init(
      Handle { mpsgraph_trainer_create(graph.handle.pointer, fed, fed.count, loss.pointer, run, run.count, $0) })
  }

  private init(_ handle: Handle) throws {
    self.handle = handle
    graph = try Graph(Handle { mpsgraph_trainer_graph(handle.pointer, $0) })
    inputNames = try names(
      { mpsgraph_trainer_input_count(handle.pointer, $0) },
      { mpsgraph_trainer_input_name_at(handle.pointer, $0, $1, $2, $3) })
    resultNames = try names(
      { mpsgraph_trainer_result_count(handle.pointer, $0) },
      { mpsgraph_trainer_result_name_at(handle.pointer, $0, $1, $2, $3) })
  }

  /// The type of an input, -1 where dimensions may change from batch to batch.
  public func inputType(_ name: String) throws -> TensorType {
    guard let index = inputNames.firstIndex(of: name) else {
      throw Failure(.outOfRange, "there is no input '\(name)'; there are \(inputNames.joined(separator: ", "))")
    }
    var type = mpsgraph_type()
    try check(mpsgraph_trainer_input_type(handle.pointer, index, &type))
    return try TensorType(type)
  }

  // MARK: steps

  /// One step on a batch, of arrays in the order of `inputNames`; its loss, computed before the update.
  public func step(_ batch: [NDArray]) throws -> Double {
    try steps.sync { try lossOfStep(batch) }
  }

  /// The same on a thread of the trainer's, so that an actor or the main thread stays free.
  public func step(_ batch: [NDArray]) async throws -> Double {
    try await onOwnThread { try self.lossOfStep(batch) }
  }

  /// One step on a batch by name: the loss and the metrics by theirs.
  public func step(_ batch: [String: NDArray]) throws -> [String: Double] {
    try steps.sync { try numbers(batch, mpsgraph_trainer_train_step) }
  }

  public func step(_ batch: [String: NDArray]) async throws -> [String: Double] {
    try await onOwnThread { try self.numbers(batch, mpsgraph_trainer_train_step) }
  }

  /// The same numbers of a batch in inference mode, without a step; NaN for those that only training has.
  public func evaluate(_ batch: [String: NDArray]) throws -> [String: Double] {
    try steps.sync { try numbers(batch, mpsgraph_trainer_evaluate) }
  }

  public func evaluate(_ batch: [String: NDArray]) async throws -> [String: Double] {
    try await onOwnThread { try self.numbers(batch, mpsgraph_trainer_evaluate) }
  }

  /// The model's outputs in inference mode, of its inputs alone.
  public func predict(_ inputs: [NDArray]) throws -> [NDArray] {
    try steps.sync { try outputs(inputs) }
  }

  public func predict(_ inputs: [NDArray]) async throws -> [NDArray] {
    try await onOwnThread { try self.outputs(inputs) }
  }

  // MARK: state

  /// Steps that were taken, those before the package was saved included.
  public func stepCount() throws -> Int {
    var count: Int64 = 0
    try check(mpsgraph_trainer_step_count(handle.pointer, &count))
    return Int(count)
  }

  /// Of the next step.
  public func learningRate() throws -> Double {
    var rate = 0.0
    try check(mpsgraph_trainer_learning_rate(handle.pointer, &rate))
    return rate
  }

  /// From the next step on.
  public func setLearningRate(_ rate: Double) throws {
    try check(mpsgraph_trainer_set_learning_rate(handle.pointer, rate))
  }

  /// A package that Swift, Python, C and C++ go on with.
  public func save(to package: URL) throws { try check(mpsgraph_trainer_save(handle.pointer, package.path)) }

  /// The state of a package that was saved of this trainer: all of it, or nothing where a part does not fit.
  public func loadState(from package: URL) throws {
    try check(mpsgraph_trainer_load_state(handle.pointer, package.path))
  }

  // MARK: on the thread of the steps

  private typealias Numbers = (
    OpaquePointer?, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<OpaquePointer?>?, Int,
    UnsafeMutablePointer<Double>?, Int
  ) -> mpsgraph_status

  private func lossOfStep(_ batch: [NDArray]) throws -> Double {
    var loss = 0.0
    try withHandles(batch) { given, count in
      try check(mpsgraph_train_step(handle.pointer, given, count, &loss))
    }
    return loss
  }

  private func numbers(_ batch: [String: NDArray], _ function: Numbers) throws -> [String: Double] {
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

/// The strings as C has them, for the time of `body`.
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
