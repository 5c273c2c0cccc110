// Functions of tensors as functions of arrays: compiled, or with their gradients.

/// Returns a function of arrays that computes `function`. It is compiled once for each combination of types.
///
/// ```swift
/// let norm = compiled { try ($0[0] * $0[0]).reductionSum().squareRoot() }
/// let length = try norm([NDArray([3, 4] as [Float])])
/// ```
public func compiled(_ function: @escaping ([Tensor]) throws -> Tensor) -> ([NDArray]) throws -> NDArray {
  let programs = Programs { graph, inputs in [try function(inputs)] }
  return { try programs.run($0)[0] }
}

/// Returns a function of arrays that computes the value of `function` and its gradients.
///
/// ```swift
/// let lossAndGradients = valueAndGrad { try ($0[0] * $0[1]).meanOfAll() }
/// let (loss, gradients) = try lossAndGradients([weights, inputs])
/// ```
///
/// - Parameters:
///   - function: Returns a tensor with one floating-point element.
///   - arguments: The indices of the arguments with respect to which the gradients are computed.
public func valueAndGrad(
  _ function: @escaping ([Tensor]) throws -> Tensor, arguments: [Int] = [0]
) -> ([NDArray]) throws -> (value: NDArray, gradients: [NDArray]) {
  let programs = Programs { graph, inputs in
    guard arguments.allSatisfy(inputs.indices.contains) else {
      throw Failure(.outOfRange, "valueAndGrad: arguments must be indices of \(inputs.count) arrays, got \(arguments)")
    }
    let value = try function(inputs)
    guard value.type.count == 1 else {
      throw Failure(.shape, "valueAndGrad: the function must return one element, got \(value.type): use its mean")
    }
    return try [value] + graph.gradients(of: value, withRespectTo: arguments.map { inputs[$0] })
  }
  return { arrays in
    let results = try programs.run(arrays)
    return (results[0], Array(results.dropFirst()))
  }
}

/// Returns a function of an array that computes the value of `function` and its gradient.
public func valueAndGrad(
  _ function: @escaping (Tensor) throws -> Tensor
) -> (NDArray) throws -> (value: NDArray, gradient: NDArray) {
  let both = valueAndGrad({ (inputs: [Tensor]) in try function(inputs[0]) }, arguments: [0])
  return { array in
    let (value, gradients) = try both([array])
    return (value, gradients[0])
  }
}

/// Returns a function of an array that computes the gradient of `function`.
public func grad(_ function: @escaping (Tensor) throws -> Tensor) -> (NDArray) throws -> NDArray {
  let both = valueAndGrad(function)
  return { try both($0).gradient }
}

/// Returns a function of arrays that computes a loss of a model, and the gradients of its trainable parameters by path.
///
/// The values of the parameters are those of the model at the time of the call. The model must not be in another graph.
///
/// ```swift
/// let lossAndGradients = valueAndGrad(model) { model, batch in try Loss.crossEntropy(model(batch[0]), batch[1]) }
/// ```
public func valueAndGrad<M: Module>(
  _ model: M, _ function: @escaping (M, [Tensor]) throws -> Tensor, mode: Mode = .training
) -> ([NDArray]) throws -> (value: NDArray, gradients: [String: NDArray]) {
  var paths: [String] = []
  var shared: Graph?
  let programs = Programs(graph: {
    if let shared { return shared }
    let made = try Graph()
    shared = made
    return made
  }) { graph, inputs in
    model.nameParameters()
    let value = try graph.withMode(mode) { try function(model, inputs) }
    let trained = model.namedParameters().compactMap { path, parameter in
      parameter.isTrainable ? parameter.variable.map { (path, $0) } : nil
    }
    paths = trained.map { $0.0 }
    return try [value] + graph.gradients(of: value, withRespectTo: trained.map { $0.1 })
  }
  return { arrays in
    let results = try programs.run(arrays)
    return (results[0], Dictionary(uniqueKeysWithValues: zip(paths, results.dropFirst())))
  }
}

/// Graphs of a function, one for each combination of input types.
private final class Programs {
  private var known: [[TensorType]: Executable] = [:]
  private let graph: () throws -> Graph
  private let build: (Graph, [Tensor]) throws -> [Tensor]

  init(graph: @escaping () throws -> Graph = { try Graph() }, _ build: @escaping (Graph, [Tensor]) throws -> [Tensor]) {
    self.graph = graph
    self.build = build
  }

  func run(_ arrays: [NDArray]) throws -> [NDArray] {
    let types = arrays.map { $0.type }
    if let executable = known[types] { return try executable.run(arrays) }
    let graph = try graph()
    let inputs = try types.map { try graph.placeholder($0, name: nil) }
    let executable = try graph.compile(feeds: zip(inputs, types).map { ($0, $1) }, targets: build(graph, inputs))
    known[types] = executable
    return try executable.run(arrays)
  }
}
