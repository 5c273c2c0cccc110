// Fully connected layers, embedding, dropout, and changes of shape.

/// A fully connected layer: x @ weight + bias, from (..., inputs) to (..., outFeatures).
public final class Linear: Layer, Codable {
  public let outFeatures: Int
  public let inFeatures: Int?
  public let weight: Parameter
  public let bias: Parameter?

  /// - Parameters:
  ///   - outFeatures: The number of outputs.
  ///   - bias: Whether to add a bias.
  ///   - inFeatures: The expected number of inputs. By default, it is inferred from the first input.
  public init(
    _ outFeatures: Int, bias: Bool = true, inFeatures: Int? = nil, weightInitializer: Initializer = .glorotUniform,
    biasInitializer: Initializer = .zeros
  ) {
    self.outFeatures = outFeatures
    self.inFeatures = inFeatures
    weight = Parameter("weight", weightInitializer)
    self.bias = bias ? Parameter("bias", biasInitializer) : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let inputs = try x.size(of: -1, in: "Linear", expected: inFeatures)
    let weight = try weight(in: x.graph, shape: [inputs, outFeatures], elementType: x.elementType)
    let y = try x.matmul(weight)
    guard let bias else { return y }
    return try y + bias(in: x.graph, shape: [outFeatures], elementType: x.elementType)
  }
}

/// Looks up a trained vector for each index: from integers (...) to (..., embeddingDim).
///
/// An index outside the table is an error when the graph runs.
public final class Embedding: Layer, Codable {
  public let numEmbeddings: Int
  public let embeddingDim: Int
  public let weight: Parameter

  public init(
    _ numEmbeddings: Int, _ embeddingDim: Int, weightInitializer: Initializer = .normal(mean: 0, standardDeviation: 1)
  ) {
    self.numEmbeddings = numEmbeddings
    self.embeddingDim = embeddingDim
    weight = Parameter("weight", weightInitializer)
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    guard x.elementType.isInteger else {
      throw Failure(.elementType, "Embedding: indices must be integers, got \(x.type): cast them to int32 first")
    }
    let table = try weight(in: x.graph, shape: [numEmbeddings, embeddingDim])
    return try table.gather(x, outOfRange: .error)
  }
}

/// In training, zeroes random elements and scales the others by 1 / (1 - rate). In inference, returns the input.
public final class Dropout: Layer, Codable {
  public let rate: Double

  /// - Parameter rate: The probability that an element is dropped, at least 0 and less than 1.
  public init(_ rate: Double = 0.5) { self.rate = rate }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    try requireRate(rate, "Dropout")
    return x.graph.mode == .training ? try x.droppedOut(rate) : x
  }
}

func requireRate(_ rate: Double, _ layer: String) throws {
  guard 0..<1 ~= rate else {
    throw Failure(.invalidArgument, "\(layer): the rate must be at least 0 and less than 1 (the fraction dropped), got \(rate)")
  }
}

extension Tensor {
  /// Applies dropout with a random state of its own, as the operation `dropout` of the Python package does.
  func droppedOut(_ rate: Double) throws -> Tensor {
    let precise: ElementType = elementType.size == 2 ? .float32 : elementType
    let shape = try graph.shapeTensor(of: self)
    let uniform = try graph.ownRandom(shape, ["distribution": "uniform", "dtype": .elementType(precise)])
    let share = try rate.tensor(in: graph, like: precise)
    let kept = try (uniform .>= share).cast(precise)
    return try self * (kept / (1 - share)).converted(to: elementType)
  }
}

/// Flattens each sample into one axis: (N, a, b, ...) to (N, a * b * ...).
public final class Flatten: Layer, Codable {
  public init() {}
  public func callAsFunction(_ x: Tensor) throws -> Tensor { try x.flatten2D() }
}

/// Reshapes each sample: (N, a * b * ...) to (N, a, b, ...). One size may be -1, which is inferred.
public final class Unflatten: Layer, Codable {
  public let shape: [Int]
  public init(_ shape: [Int]) { self.shape = shape }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    guard shape.allSatisfy({ $0 == -1 || $0 > 0 }), shape.filter({ $0 == -1 }).count <= 1 else {
      throw Failure(.shape, "Unflatten: sizes must be above 0, except one that may be -1, got \(shape)")
    }
    var sizes = shape
    if let open = sizes.firstIndex(of: -1), let all = x.shape?.dropFirst(), all.allSatisfy({ $0 >= 0 }) {
      sizes[open] = all.reduce(1, *) / -sizes.reduce(1, *)
    }
    return try x.reshape([x.sizeInRun(0)] + sizes.map { .known($0) })
  }
}

/// Returns its input.
public final class Identity: Layer, Codable {
  public init() {}
  public func callAsFunction(_ x: Tensor) throws -> Tensor { x }
}

/// Adds the input to the result of a layer, as in residual networks.
public final class Residual: Layer {
  public let layer: any Layer
  public init(_ layer: any Layer) { self.layer = layer }
  public func callAsFunction(_ x: Tensor) throws -> Tensor { try x + layer(x) }
}
