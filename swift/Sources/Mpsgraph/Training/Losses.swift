// Losses and metrics: functions of outputs and labels that return a number.

/// A function of a model's outputs and of labels that training minimizes.
///
/// ```swift
/// let loss = Loss("quartic") { outputs, labels in try (outputs - labels).square().square().mean() }
/// ```
public struct Loss: Sendable {
  public let name: String
  private let function: @Sendable (_ outputs: Tensor, _ labels: Tensor) throws -> Tensor

  /// - Parameter function: Returns a tensor with one element.
  public init(_ name: String, _ function: @escaping @Sendable (_ outputs: Tensor, _ labels: Tensor) throws -> Tensor) {
    self.name = name
    self.function = function
  }

  public func callAsFunction(_ outputs: Tensor, _ labels: Tensor) throws -> Tensor { try function(outputs, labels) }

  /// Softmax cross-entropy of logits (..., classes) and either class indices (...) or probabilities (..., classes).
  public static let crossEntropy = crossEntropy(labelSmoothing: 0)

  /// Softmax cross-entropy with labels p replaced by (1 - smoothing) * p + smoothing / classes.
  public static func crossEntropy(labelSmoothing: Double) -> Loss {
    Loss("cross_entropy") { logits, labels in
      guard 0...1 ~= labelSmoothing else {
        throw Failure(.invalidArgument, "crossEntropy: labelSmoothing must be from 0 to 1, got \(labelSmoothing)")
      }
      let classes = try logits.size(of: -1, in: "crossEntropy")
      var shares: Tensor
      if let rank = labels.shape?.count, rank + 1 == logits.shape?.count {
        guard labels.elementType.isInteger else {
          throw Failure(
            .elementType,
            "crossEntropy: labels of type \(labels.type) are class indices and must be integers, such as Int32")
        }
        shares = try labels.oneHot(depth: classes, dataType: logits.elementType, outOfRange: .error)
      } else {
        shares = try labels.matching(logits)
      }
      if labelSmoothing > 0 { shares = try shares * (1 - labelSmoothing) + labelSmoothing / Double(classes) }
      return try logits.softmaxCrossEntropy(shares, reduction: .mean)
    }
  }

  /// The mean of the squared differences.
  public static let meanSquaredError = Loss("mean_squared_error") { outputs, labels in
    try (outputs - labels.matching(outputs)).square().meanOfAll()
  }

  /// The mean of the absolute differences.
  public static let meanAbsoluteError = Loss("mean_absolute_error") { outputs, labels in
    try (outputs - labels.matching(outputs)).absolute().meanOfAll()
  }

  /// Half the squared difference where it is below `delta`, and linear beyond.
  public static func huber(delta: Double = 1) -> Loss {
    Loss("huber") { outputs, labels in
      guard delta > 0 else { throw Failure(.invalidArgument, "huber: delta must be above 0, got \(delta)") }
      let size = try (outputs - labels.matching(outputs)).absolute()
      let near = try (size .> delta).select(delta, whenFalse: size)
      return try (near * (size - near * 0.5)).meanOfAll()
    }
  }

  /// Binary cross-entropy of logits and of labels from 0 to 1 with the same shape.
  public static let binaryCrossEntropyWithLogits = Loss("binary_cross_entropy_with_logits") { logits, labels in
    let wanted = try labels.matching(logits)
    return try ((1 - wanted) * logits.softplus() + wanted * (-logits).softplus()).meanOfAll()
  }
}

/// A number that describes how well a model does on a batch.
public struct Metric: Sendable {
  public let name: String
  private let function: @Sendable (_ outputs: Tensor, _ labels: Tensor) throws -> Tensor

  /// - Parameter function: Returns a tensor with one element.
  public init(_ name: String, _ function: @escaping @Sendable (_ outputs: Tensor, _ labels: Tensor) throws -> Tensor) {
    self.name = name
    self.function = function
  }

  public func callAsFunction(_ outputs: Tensor, _ labels: Tensor) throws -> Tensor { try function(outputs, labels) }

  /// The fraction of samples whose largest output is that of the label, a class index.
  public static let accuracy = Metric("accuracy") { outputs, labels in
    guard let rank = labels.shape?.count, rank + 1 == outputs.shape?.count, labels.elementType.isInteger else {
      throw Failure(
        .shape, "accuracy: labels must be a class index for each row of the outputs, got \(labels.type) and \(outputs.type)")
    }
    let predicted = try outputs.reductionArgMaximum().squeeze(axes: [rank])
    return try (predicted.converted(to: labels.elementType) .== labels).cast(.float32).meanOfAll()
  }

  public static let meanAbsoluteError = Metric("mean_absolute_error") { try Loss.meanAbsoluteError($0, $1) }
}

extension Tensor {
  /// Returns the mean of all elements as a tensor of rank 0.
  public func meanOfAll() throws -> Tensor { try mean().reshape([Int]()) }

  /// Returns labels with the element type of the outputs, whose shape they must have.
  fileprivate func matching(_ outputs: Tensor) throws -> Tensor {
    let fits = zip(shape ?? [], outputs.shape ?? []).allSatisfy { $0 == $1 || $0 < 0 || $1 < 0 }
    guard shape?.count == outputs.shape?.count, fits else {
      throw Failure(.shape, "labels must have the shape of the outputs, \(outputs.type), got \(type)")
    }
    return try converted(to: outputs.elementType)
  }
}
