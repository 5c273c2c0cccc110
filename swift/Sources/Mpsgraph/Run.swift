// Running a graph for any feeds and targets, as MPSGraph does.
import CMpsgraph

extension Graph {
  /// Computes the targets, executes the operations, and returns the value of each target.
  ///
  /// The graph is compiled for the types of the feeds on the first run, and the compiled program is reused afterwards.
  ///
  /// - Parameters:
  ///   - feeds: A value for each placeholder that the targets and operations need.
  ///   - targets: The tensors whose values are returned.
  ///   - operations: Operations to execute for their effects, such as assignments of variables.
  /// - Throws: A `Failure` if a placeholder has no value, a type does not match, or the run fails. Variables then have
  ///   their values from before the run.
  public func run(
    feeds: [Tensor: NDArray] = [:], targets: [Tensor], operations: [GraphOperation] = []
  ) throws -> [Tensor: NDArray] {
    let (executable, inputs) = try executable(feeds, targets, operations)
    return try named(executable.run(inputs), targets)
  }

  /// Runs the graph on the library's threads and resumes when it completes.
  public func run(
    feeds: [Tensor: NDArray] = [:], targets: [Tensor], operations: [GraphOperation] = []
  ) async throws -> [Tensor: NDArray] {
    let (executable, inputs) = try executable(feeds, targets, operations)
    return try await named(executable.run(inputs), targets)
  }

  /// Computes one tensor.
  public func run(_ target: Tensor, feeds: [Tensor: NDArray] = [:]) throws -> NDArray {
    let (executable, inputs) = try executable(feeds, [target], [])
    return try executable.run(inputs)[0]
  }

  /// Adds the gradients of a tensor with respect to each of `tensors`, keyed by these tensors.
  public func gradients(of loss: Tensor, with tensors: [Tensor]) throws -> [Tensor: Tensor] {
    var seen = Set<Tensor>()
    let distinct = tensors.filter { seen.insert($0).inserted }
    return Dictionary(uniqueKeysWithValues: zip(distinct, try gradients(of: loss, withRespectTo: distinct)))
  }

  /// Returns the program for these feeds, and its inputs in order. The order of a dictionary is random, so the feeds are
  /// sorted: the library finds a compiled program by its feeds in order.
  package func executable(_ feeds: [Tensor: NDArray], _ targets: [Tensor], _ operations: [GraphOperation]) throws -> (
    Executable, [NDArray]
  ) {
    let sorted = feeds.sorted { UInt(bitPattern: $0.key.pointer) < UInt(bitPattern: $1.key.pointer) }
    let compiled = try compile(
      feeds: sorted.map { ($0.key, $0.value.type) }, targets: targets, operations: operations)
    return (compiled, sorted.map { $0.value })
  }

  private func named(_ results: [NDArray], _ targets: [Tensor]) -> [Tensor: NDArray] {
    Dictionary(zip(targets, results)) { first, _ in first }
  }
}
