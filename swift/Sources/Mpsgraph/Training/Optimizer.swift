// What all optimizers share: the protocol, and their state in a graph.
import Foundation

/// A rule for training steps. An optimizer is a value; its state, such as momenta, consists of variables of the graph.
public protocol Optimizer: Codable, Hashable, Sendable {
  var learningRate: Schedule { get set }

  /// Throws a `Failure` of kind `invalidArgument` if an option is out of range.
  func check() throws

  /// Returns the new values of a parameter, and the operations that update its state.
  ///
  /// - Parameters:
  ///   - step: The state of the optimizer, and the learning rate as a tensor.
  ///   - variable: The parameter, for use with `step.state(of:_:)`.
  ///   - values: The values of the parameter.
  ///   - gradient: The gradient of the loss.
  func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update
}

/// The new values of a parameter, and the operations that update the optimizer's state.
public typealias Update = (values: Tensor, operations: [GraphOperation])

extension Optimizer {
  public func check() throws {}

  /// Adds the operations of one training step to the graph.
  ///
  /// - Parameters:
  ///   - gradients: The parameters and the gradients of the loss.
  ///   - learningRate: The rate, a float32 tensor of rank 0.
  /// - Returns: The operations to pass to a run.
  public func updates(_ gradients: [(variable: Tensor, gradient: Tensor)], learningRate: Tensor) throws
    -> [GraphOperation]
  {
    try self.learningRate.check()
    try check()
    guard let graph = gradients.first?.variable.graph else {
      throw Failure(.graph, "there is nothing to train: the model has no trainable parameters")
    }
    let step = OptimizerStep(graph, "\(type(of: self))".lowercased(), learningRate)
    var operations: [GraphOperation] = []
    for (variable, gradient) in gradients {
      guard [.float32, .float64].contains(variable.elementType) else {
        throw Failure(
          .elementType,
          "optimizers train float32 and float64 parameters, got '\(try variable.name())' of type \(variable.type): keep "
            + "parameters in float32 and cast them in the layer")
      }
      let update = try self.step(
        step, variable, variable.readVariable(), gradient.converted(to: variable.elementType))
      operations += update.operations
      operations.append(try graph.assign(variable, update.values))
    }
    return try operations + step.finish()
  }

  /// Throws a `Failure` unless 0 <= value < limit.
  func require(_ value: Double, _ name: String, below limit: Double = .infinity) throws {
    guard value >= 0, value < limit else {
      let range = limit.isFinite ? "at least 0 and below \(limit)" : "a number of at least 0"
      throw Failure(.invalidArgument, "\(type(of: self)): \(name) must be \(range), got \(value)")
    }
  }
}

/// The state variables of an optimizer in one graph, and the learning rate of the step.
public final class OptimizerStep {
  public let graph: Graph
  private let learningRate: Tensor
  private let name: String
  private var counts: [ElementType: Tensor] = [:]
  private var corrections: [String: Tensor] = [:]

  init(_ graph: Graph, _ name: String, _ learningRate: Tensor) {
    self.graph = graph
    self.name = name
    self.learningRate = learningRate
  }

  /// Returns the learning rate with the element type of a parameter's values.
  public func rate(for values: Tensor) throws -> Tensor { try learningRate.converted(to: values.elementType) }

  /// Adds a variable with the type of a parameter, which the graph stores as "<parameter>/<name>".
  public func state(of variable: Tensor, _ name: String, initial: Double = 0) throws -> Tensor {
    let shape = variable.shape ?? []
    let values = [Double](repeating: initial, count: shape.reduce(1, *))
    return try graph.variable(
      values.array(shape, as: variable.elementType, in: graph), name: "\(variable.name())/\(name)")
  }

  /// Returns 1 - beta^t for the current step t, counted from 1, as -2 sinh(a / 2) e^(a / 2) with a = t ln(beta). The
  /// difference of two numbers close to 1 would lose most digits.
  func correction(_ beta: Double, _ elementType: ElementType) throws -> Tensor {
    let rounded = elementType == .float64 ? beta : Double(Float(beta))
    if let found = corrections["\(rounded) \(elementType)"] { return found }
    let made: Tensor
    if rounded == 0 {
      made = try graph.constant(1.0, elementType)
    } else {
      let count = try count(elementType).readVariable() + 1.0
      let half = try (count * (log(rounded) / 2)).maximum(-40.0)  // below -40, sinh could overflow
      made = try half.sinh() * half.exponent() * -2.0
    }
    corrections["\(rounded) \(elementType)"] = made
    return made
  }

  private func count(_ elementType: ElementType) throws -> Tensor {
    if let found = counts[elementType] { return found }
    let made = try graph.variable([0.0].array([], as: elementType, in: graph), name: "\(name)/step")
    counts[elementType] = made
    return made
  }

  fileprivate func finish() throws -> [GraphOperation] {
    try counts.values.map { try graph.assign($0, $0.readVariable() + 1.0) }
  }
}
