// The optimizers. Formulas and defaults are those of the Python package.

/// Returns decay * mean + (1 - decay) * x in a form that does not round the decay.
private func toward(_ mean: Tensor, _ x: Tensor, _ decay: Double) throws -> Tensor { try mean + (x - mean) * (1 - decay) }

extension Tensor {
  /// Returns values - rate * slope.
  fileprivate func descended(_ slope: Tensor, _ step: OptimizerStep) throws -> Tensor {
    try step.rate(for: self).stochasticGradientDescent(self, gradient: slope)
  }
}

/// Stochastic gradient descent, with momentum and weight decay.
public struct SGD: Optimizer {
  public var learningRate: Schedule
  public var momentum: Double
  public var nesterov: Bool
  public var weightDecay: Double
  /// Whether weight decay shrinks the values directly, rather than being added to the gradient.
  public var decoupled: Bool

  public init(
    _ learningRate: Schedule = 0.01, momentum: Double = 0, nesterov: Bool = false, weightDecay: Double = 0,
    decoupled: Bool = false
  ) {
    self.learningRate = learningRate
    self.momentum = momentum
    self.nesterov = nesterov
    self.weightDecay = weightDecay
    self.decoupled = decoupled
  }

  public func check() throws {
    try require(momentum, "momentum", below: 1)
    try require(weightDecay, "weightDecay")
    guard !nesterov || momentum > 0 else {
      throw Failure(.invalidArgument, "SGD: nesterov needs momentum above 0, got \(momentum)")
    }
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    var (values, gradient) = (values, gradient)
    if weightDecay > 0 {
      if decoupled {
        values = try values * (1.0 - step.rate(for: values) * weightDecay)
      } else {
        gradient = try gradient + values * weightDecay
      }
    }
    guard momentum > 0 else { return (try values.descended(gradient, step), []) }
    let state = try step.state(of: variable, "momentum")
    let velocity = try state * momentum + gradient
    let slope = nesterov ? try gradient + velocity * momentum : velocity
    return (try values.descended(slope, step), [try step.graph.assign(state, velocity)])
  }
}

/// Adam, and optionally AMSGrad. Weight decay is added to the gradient.
public struct Adam: Optimizer {
  public var learningRate: Schedule
  public var beta1: Double
  public var beta2: Double
  public var epsilon: Double
  public var amsgrad: Bool
  public var weightDecay: Double
  /// Whether epsilon is added to the bias-corrected root, as in PyTorch.
  public var correctedEpsilon: Bool

  public init(
    _ learningRate: Schedule = 1e-3, beta1: Double = 0.9, beta2: Double = 0.999, epsilon: Double = 1e-8,
    amsgrad: Bool = false, weightDecay: Double = 0, correctedEpsilon: Bool = false
  ) {
    self.learningRate = learningRate
    self.beta1 = beta1
    self.beta2 = beta2
    self.epsilon = epsilon
    self.amsgrad = amsgrad
    self.weightDecay = weightDecay
    self.correctedEpsilon = correctedEpsilon
  }

  public func check() throws {
    try require(beta1, "beta1", below: 1)
    try require(beta2, "beta2", below: 1)
    try require(weightDecay, "weightDecay")
    guard epsilon > 0 else { throw Failure(.invalidArgument, "Adam: epsilon must be above 0, got \(epsilon)") }
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    try moved(step, variable, values, weightDecay > 0 ? gradient + values * weightDecay : gradient)
  }

  fileprivate func moved(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    let type = values.elementType
    let root = try step.correction(beta2, type).squareRoot()
    let rate = try step.rate(for: values) * (root / step.correction(beta1, type))
    let added: any TensorLike = correctedEpsilon ? try root * epsilon : epsilon
    let names = ["momentum", "velocity"] + (amsgrad ? ["maximum_velocity"] : [])
    let states = try names.map { try step.state(of: variable, $0) }
    let results = try rate.adamWithCurrentLearningRate(
      beta1, beta2: beta2, epsilon: added, values: values, momentum: states[0], velocity: states[1], gradient: gradient,
      maximumVelocity: amsgrad ? states[2] : nil)
    return (results[0], try zip(states, results.dropFirst()).map { try step.graph.assign($0, $1) })
  }
}

/// AdamW: Adam with decoupled weight decay, with PyTorch's conventions and defaults.
public struct AdamW: Optimizer {
  public var learningRate: Schedule
  public var beta1: Double
  public var beta2: Double
  public var epsilon: Double
  public var amsgrad: Bool
  public var weightDecay: Double

  public init(
    _ learningRate: Schedule = 1e-3, beta1: Double = 0.9, beta2: Double = 0.999, epsilon: Double = 1e-8,
    amsgrad: Bool = false, weightDecay: Double = 0.01
  ) {
    self.learningRate = learningRate
    self.beta1 = beta1
    self.beta2 = beta2
    self.epsilon = epsilon
    self.amsgrad = amsgrad
    self.weightDecay = weightDecay
  }

  private var adam: Adam {
    Adam(learningRate, beta1: beta1, beta2: beta2, epsilon: epsilon, amsgrad: amsgrad, correctedEpsilon: true)
  }

  public func check() throws {
    try adam.check()
    try require(weightDecay, "weightDecay")
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    try adam.moved(step, variable, values * (1.0 - step.rate(for: values) * weightDecay), gradient)
  }
}

/// RMSProp: divides gradients by the root of their running mean square.
public struct RMSProp: Optimizer {
  public var learningRate: Schedule
  public var decay: Double
  public var epsilon: Double
  public var momentum: Double
  public var weightDecay: Double

  public init(
    _ learningRate: Schedule = 0.01, decay: Double = 0.99, epsilon: Double = 1e-8, momentum: Double = 0,
    weightDecay: Double = 0
  ) {
    self.learningRate = learningRate
    self.decay = decay
    self.epsilon = epsilon
    self.momentum = momentum
    self.weightDecay = weightDecay
  }

  public func check() throws {
    try require(decay, "decay", below: 1)
    try require(momentum, "momentum", below: 1)
    try require(weightDecay, "weightDecay")
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    let gradient = weightDecay > 0 ? try gradient + values * weightDecay : gradient
    let velocity = try step.state(of: variable, "velocity")
    let spread = try toward(velocity, gradient.square(), decay)
    var changes = [try step.graph.assign(velocity, spread)]
    var slope = try gradient / (spread.squareRoot() + epsilon)
    if momentum > 0 {
      let state = try step.state(of: variable, "momentum")
      slope = try state * momentum + slope
      changes.append(try step.graph.assign(state, slope))
    }
    return (try values.descended(slope, step), changes)
  }
}

/// Adagrad: divides gradients by the root of the sum of all their squares.
public struct Adagrad: Optimizer {
  public var learningRate: Schedule
  public var epsilon: Double
  public var initialSum: Double
  public var weightDecay: Double

  public init(_ learningRate: Schedule = 0.01, epsilon: Double = 1e-10, initialSum: Double = 0, weightDecay: Double = 0) {
    self.learningRate = learningRate
    self.epsilon = epsilon
    self.initialSum = initialSum
    self.weightDecay = weightDecay
  }

  public func check() throws {
    try require(initialSum, "initialSum")
    try require(weightDecay, "weightDecay")
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    let gradient = weightDecay > 0 ? try gradient + values * weightDecay : gradient
    let total = try step.state(of: variable, "sum", initial: initialSum)
    let raised = try total + gradient.square()
    let slope = try gradient / (raised.squareRoot() + epsilon)
    return (try values.descended(slope, step), [try step.graph.assign(total, raised)])
  }
}

/// AdaDelta: scales gradients by running means of past steps and past gradients.
public struct AdaDelta: Optimizer {
  public var learningRate: Schedule
  public var decay: Double
  public var epsilon: Double
  public var weightDecay: Double

  public init(_ learningRate: Schedule = 1, decay: Double = 0.9, epsilon: Double = 1e-6, weightDecay: Double = 0) {
    self.learningRate = learningRate
    self.decay = decay
    self.epsilon = epsilon
    self.weightDecay = weightDecay
  }

  public func check() throws {
    try require(decay, "decay", below: 1)
    try require(weightDecay, "weightDecay")
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    let gradient = weightDecay > 0 ? try gradient + values * weightDecay : gradient
    let (velocity, steps) = (try step.state(of: variable, "velocity"), try step.state(of: variable, "steps"))
    let spread = try toward(velocity, gradient.square(), decay)
    let slope = try gradient * ((steps + epsilon) / (spread + epsilon)).squareRoot()
    let travelled = try toward(steps, slope.square(), decay)
    let changes = [try step.graph.assign(velocity, spread), try step.graph.assign(steps, travelled)]
    return (try values.descended(slope, step), changes)
  }
}

/// Lion: the sign of a mean of gradients, with decoupled weight decay.
public struct Lion: Optimizer {
  public var learningRate: Schedule
  public var beta1: Double
  public var beta2: Double
  public var weightDecay: Double

  public init(_ learningRate: Schedule = 1e-4, beta1: Double = 0.9, beta2: Double = 0.99, weightDecay: Double = 0) {
    self.learningRate = learningRate
    self.beta1 = beta1
    self.beta2 = beta2
    self.weightDecay = weightDecay
  }

  public func check() throws {
    try require(beta1, "beta1", below: 1)
    try require(beta2, "beta2", below: 1)
    try require(weightDecay, "weightDecay")
  }

  public func step(_ step: OptimizerStep, _ variable: Tensor, _ values: Tensor, _ gradient: Tensor) throws -> Update {
    let momentum = try step.state(of: variable, "momentum")
    var slope = try (momentum * beta1 + gradient * (1 - beta1)).sign()
    if weightDecay > 0 { slope = try slope + values * weightDecay }
    let change = try step.graph.assign(momentum, toward(momentum, gradient, beta2))
    return (try values.descended(slope, step), [change])
  }
}
