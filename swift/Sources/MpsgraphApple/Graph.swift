// Placeholders, variables, control flow, gradients, and runs of graphs with Apple's names.
import Foundation
import Mpsgraph

extension Graph {
  /// Creates an empty graph on the default device.
  public convenience init() { self.init(sharing: orStop { try Graph(device: nil, seed: nil) }) }

  /// Adds a placeholder. A nil shape means that the rank is unknown; sizes of -1 are known when the graph runs.
  public func placeholder(shape: [Int]?, dataType: ElementType = .float32, name: String? = nil) -> Tensor {
    orStop { try placeholder(TensorType(dataType, shape), name: name) }
  }

  /// Adds a variable whose initial value has these bytes.
  public func variable(with data: Data, shape: [Int], dataType: ElementType, name: String? = nil) -> Tensor {
    orStop { try variable(NDArray(data: data, type: TensorType(dataType, shape)), name: name) }
  }

  /// Adds a constant of rank 0.
  public func constant(_ scalar: Double, dataType: ElementType) -> Tensor { orStop { try constant(scalar, dataType) } }

  /// Adds a constant with the same number everywhere.
  public func constant(_ scalar: Double, shape: [Int], dataType: ElementType) -> Tensor {
    orStop { try constant(scalar, dataType, shape: shape) }
  }

  /// Adds a constant with these bytes.
  public func constant(_ data: Data, shape: [Int], dataType: ElementType) -> Tensor {
    orStop { try constant(NDArray(data: data, type: TensorType(dataType, shape))) }
  }

  /// Returns the value of a variable at this point of a run.
  public func read(_ variable: Tensor, name: String? = nil) -> Tensor { orStop { try variable.readVariable(name: name) } }

  /// Adds an operation that sets a variable.
  public func assign(_ variable: Tensor, tensor: Tensor, name: String? = nil) -> GraphOperation {
    orStop { try variable.assign(tensor, name: name) }
  }

  // MARK: control flow

  /// Returns the results of one of two blocks. Both must return tensors of the same types.
  public func `if`(
    _ predicate: Tensor, then: @escaping () -> [Tensor], else otherwise: @escaping () -> [Tensor], name: String? = nil
  ) -> [Tensor] {
    orStop { try self.if(predicate, then: then, otherwise: otherwise) }
  }

  /// Returns the results of a block whose operations run after the given operations.
  public func controlDependency(
    with operations: [GraphOperation], dependentBlock: @escaping () -> [Tensor], name: String? = nil
  ) -> [Tensor] {
    orStop { try controlDependency(on: operations) { dependentBlock() } }
  }

  // MARK: gradients and optimizers

  /// Returns the gradient with respect to each tensor.
  public func gradients(of primary: Tensor, with tensors: [Tensor], name: String? = nil) -> [Tensor: Tensor] {
    orStop { try gradients(of: primary, with: tensors) }
  }

  /// Returns values - learningRate * gradient.
  public func stochasticGradientDescent(
    learningRate: Tensor, values: Tensor, gradient: Tensor, name: String? = nil
  ) -> Tensor {
    orStop { try learningRate.stochasticGradientDescent(values, gradient: gradient, name: name) }
  }

  // MARK: runs

  /// Runs the graph, waits, and returns the values of the targets. The operations are executed as well.
  public func run(feeds: TensorDataDictionary, targetTensors: [Tensor], targetOperations: [GraphOperation]?)
    -> TensorDataDictionary
  {
    orStop {
      try run(feeds: feeds.mapValues { $0.mpsndarray() }, targets: targetTensors, operations: targetOperations ?? [])
        .mapValues { TensorData($0) }
    }
  }

  /// Runs the graph on a queue and waits.
  public func run(
    with queue: CommandQueue, feeds: TensorDataDictionary, targetTensors: [Tensor], targetOperations: [GraphOperation]?
  ) -> TensorDataDictionary {
    let descriptor = ExecutionDescriptor()
    descriptor.waitUntilCompleted = true
    return runAsync(
      with: queue, feeds: feeds, targetTensors: targetTensors, targetOperations: targetOperations,
      executionDescriptor: descriptor)
  }

  /// Starts a run and returns its results, whose contents are valid once the run has ended.
  @discardableResult
  public func runAsync(
    feeds: TensorDataDictionary, targetTensors: [Tensor], targetOperations: [GraphOperation]?,
    executionDescriptor: ExecutionDescriptor? = nil
  ) -> TensorDataDictionary {
    runAsync(
      with: orStop { try CommandQueue() }, feeds: feeds, targetTensors: targetTensors, targetOperations: targetOperations,
      executionDescriptor: executionDescriptor)
  }

  /// Starts a run on a queue and returns its results, whose contents are valid once the run has ended.
  @discardableResult
  public func runAsync(
    with queue: CommandQueue, feeds: TensorDataDictionary, targetTensors: [Tensor], targetOperations: [GraphOperation]?,
    executionDescriptor: ExecutionDescriptor? = nil
  ) -> TensorDataDictionary {
    orStop {
      let (executable, inputs) = try executable(
        feeds.mapValues { $0.mpsndarray() }, targetTensors, targetOperations ?? [])
      let buffer = try CommandBuffer(queue)
      for (event, value) in executionDescriptor?.waits ?? [] { try buffer.wait(for: event, value: value) }
      let results = try buffer.encode(executable, inputs).map { TensorData($0) }
      for (event, value) in executionDescriptor?.signals ?? [] { try buffer.signal(event, value: value) }
      let named = Dictionary(zip(targetTensors, results)) { first, _ in first }
      if let handler = executionDescriptor?.completionHandler {
        let moved = MovedHandler(call: handler)
        try buffer.addCompletedHandler { failed in moved.call(failed == nil ? named : [:], failed) }
      }
      try buffer.commit()
      executionDescriptor?.scheduledHandler?(named, nil)
      if executionDescriptor?.waitUntilCompleted == true { try buffer.wait() }
      return named
    }
  }
}
