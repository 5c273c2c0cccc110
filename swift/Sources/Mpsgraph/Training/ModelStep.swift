// A training step built in Swift from a model, a loss, and an optimizer.
import CMpsgraph
import Foundation

/// The operations of a training step, of evaluation, and of prediction, which share the model's variables.
final class ModelStep: Sendable {
  let graph: Graph
  /// The arrays of a batch by name: the model's inputs, then labels.
  let feeds: [(name: String, tensor: Tensor)]
  private let inputCount: Int
  private let rate: Tensor
  private let training: [(name: String, tensor: Tensor)]
  private let evaluation: [(name: String, tensor: Tensor)]
  private let outputs: [Tensor]
  private let updates: [GraphOperation]
  /// The number of completed steps, a variable so that saved states contain it.
  private let counter: Tensor
  private let schedule: Locked<Schedule>

  /// Builds the step. `forward` is called once for training and once for inference; it returns the outputs, the loss,
  /// and metrics.
  init(
    _ graph: Graph, inputs: [(name: String, type: TensorType)], labels: [(name: String, type: TensorType)],
    _ optimizer: some Optimizer, _ model: any Module,
    _ forward: ([String: Tensor]) throws -> (outputs: [Tensor], results: [(name: String, tensor: Tensor)])
  ) throws {
    self.graph = graph
    feeds = try (inputs + labels).map { ($0.name, try graph.placeholder($0.type, name: $0.name)) }
    inputCount = inputs.count
    let named = Dictionary(uniqueKeysWithValues: feeds.map { ($0.name, $0.tensor) })
    model.nameParameters()
    let built = try graph.withMode(.training) { try forward(named) }
    training = built.results
    guard let loss = built.results.first?.tensor else {
      throw Failure(.graph, "a training step needs a loss, got no results")
    }
    guard loss.type.count == 1, [.float32, .float64].contains(loss.elementType) else {
      throw Failure(.shape, "the loss must have exactly one floating-point element, got \(loss.type): use its mean")
    }
    let variables = model.trainableVariables()
    let gradients = try graph.gradients(of: loss, withRespectTo: variables)
    rate = try graph.placeholder(TensorType(.float32, []), name: "learning_rate")
    counter = try graph.variable(NDArray(scalar: 0 as Int32), name: "trainer/step")
    updates = try optimizer.updates(zip(variables, gradients).map { ($0, $1) }, learningRate: rate)
      + [graph.assign(counter, counter.readVariable() + 1)]
    schedule = Locked(optimizer.learningRate)
    let inferred = try graph.withMode(.inference) { try forward(named) }
    evaluation = inferred.results
    outputs = inferred.outputs
    for (index, output) in outputs.enumerated() {
      try graph.setName(outputs.count == 1 ? "output" : "output\(index)", .output, of: output)
    }
  }

  var resultNames: [String] { training.map { $0.name } }

  func step(_ batch: [String: NDArray]) throws -> [String: Double] {
    var fed = try fed(batch)
    fed[rate] = try NDArray(scalar: Float(learningRate()))
    return try numbers(training, graph.run(feeds: fed, targets: training.map { $0.tensor }, operations: updates))
  }

  func evaluate(_ batch: [String: NDArray]) throws -> [String: Double] {
    try numbers(evaluation, graph.run(feeds: fed(batch), targets: evaluation.map { $0.tensor }))
  }

  func predict(_ inputs: [NDArray]) throws -> [NDArray] {
    guard inputs.count == inputCount else {
      throw Failure(.invalidArgument, "the model has \(inputCount) inputs, got \(inputs.count) arrays")
    }
    let pairs = zip(feeds.prefix(inputCount).map { $0.tensor }, inputs)
    let results = try graph.run(feeds: Dictionary(uniqueKeysWithValues: pairs.map { ($0, $1) }), targets: outputs)
    return outputs.compactMap { results[$0] }
  }

  func stepCount() throws -> Int { Int(try counter.read().value(Int32.self)) }

  func learningRate() throws -> Double { try schedule.withLock { $0 }(stepCount()) }

  func setLearningRate(_ rate: Double) throws {
    try Schedule.constant(rate).check()
    schedule.withLock { $0 = .constant(rate) }
  }

  private func fed(_ batch: [String: NDArray]) throws -> [Tensor: NDArray] {
    let names = feeds.map { $0.name }
    guard Set(batch.keys) == Set(names) else {
      throw Failure(
        .invalidArgument,
        "a batch must have the arrays \(names.joined(separator: ", ")), got \(batch.keys.sorted().joined(separator: ", "))")
    }
    return Dictionary(uniqueKeysWithValues: feeds.compactMap { feed in batch[feed.name].map { (feed.tensor, $0) } })
  }

  private func numbers(_ wanted: [(name: String, tensor: Tensor)], _ results: [Tensor: NDArray]) throws
    -> [String: Double]
  {
    try Dictionary(
      uniqueKeysWithValues: wanted.map { name, tensor in
        guard let result = results[tensor] else { throw Failure(.internal, "the run did not return '\(name)'") }
        return (name, try result.type.elementType == .float64 ? result.value(Double.self) : Double(result.value(Float.self)))
      })
  }
}

extension Trainer {
  /// Creates a trainer of a model that maps one input to one output.
  ///
  /// ```swift
  /// let model = Sequential(Flatten(), Linear(64), ReLU(), Linear(10))
  /// let trainer = try Trainer(
  ///   model, inputs: TensorType(.float32, [-1, 28, 28, 1]), labels: TensorType(.int32, [-1]), optimizer: Adam(1e-3),
  ///   metrics: [.accuracy])
  /// ```
  ///
  /// The arrays of a batch are "inputs" and "labels".
  ///
  /// - Parameters:
  ///   - model: The model. It must not have been called in another graph.
  ///   - inputs: The type of the inputs; -1 is a size that may change from batch to batch.
  ///   - labels: The type of the labels.
  ///   - loss: The function to minimize.
  ///   - optimizer: The optimizer, with its learning rate.
  ///   - metrics: Numbers that steps and evaluations return next to the loss.
  ///   - device: The device. By default, the default device.
  ///   - seed: Determines the initial weights and the random numbers of dropout.
  public convenience init(
    _ model: some Layer, inputs: TensorType, labels: TensorType, loss: Loss = .crossEntropy,
    optimizer: some Optimizer, metrics: [Metric] = [], device: Device? = nil, seed: UInt64? = nil
  ) throws {
    try self.init(
      model, inputs: ["inputs": inputs], labels: ["labels": labels], optimizer: optimizer, device: device, seed: seed
    ) { batch in
      guard let x = batch["inputs"], let y = batch["labels"] else {
        throw Failure(.internal, "the batch lacks inputs or labels")
      }
      let outputs = try model(x)
      return ([outputs], try [("loss", loss(outputs, y))] + metrics.map { ($0.name, try $0(outputs, y)) })
    }
  }

  /// Creates a trainer of a model with any inputs, labels, and results.
  ///
  /// - Parameters:
  ///   - model: The model, whose parameters are trained. It must not have been called in another graph.
  ///   - inputs: The types of the arrays of a batch that predictions need, by name.
  ///   - labels: The types of the other arrays of a batch, by name.
  ///   - optimizer: The optimizer, with its learning rate.
  ///   - device: The device. By default, the default device.
  ///   - seed: Determines the initial weights and the random numbers of dropout.
  ///   - forward: Calls the model and returns its outputs, and named results: first the loss, then metrics. It is called
  ///     once for training and once for inference, where outputs must not depend on labels.
  public convenience init(
    _ model: some Module, inputs: KeyValuePairs<String, TensorType>, labels: KeyValuePairs<String, TensorType>,
    optimizer: some Optimizer, device: Device? = nil, seed: UInt64? = nil,
    forward: ([String: Tensor]) throws -> (outputs: [Tensor], results: [(name: String, tensor: Tensor)])
  ) throws {
    try self.init(
      ModelStep(
        Graph(device: device, seed: seed), inputs: inputs.map { ($0.key, $0.value) },
        labels: labels.map { ($0.key, $0.value) }, optimizer, model, forward))
  }
}
