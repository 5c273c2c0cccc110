// Normalization layers. They differ in the axes over which statistics are computed. Half-precision inputs are normalized
// in float32, and the result is rounded once.

extension Tensor {
  fileprivate var widened: Tensor { get throws { elementType.size == 2 ? try cast(.float32) : self } }

  func normalized(_ mean: Tensor, _ variance: Tensor, _ gamma: Tensor?, _ beta: Tensor?, epsilon: Double) throws -> Tensor {
    try normalization(mean: mean, variance: variance, gamma: gamma?.widened, beta: beta?.widened, epsilon: epsilon)
  }
}

/// Batch normalization: normalizes each channel over the batch, then scales and shifts it.
///
/// In training, the statistics are those of the batch, and the moving averages advance: moving = momentum * moving +
/// (1 - momentum) * batch. In inference, the moving averages are used.
public final class BatchNorm: Layer, Codable {
  public let momentum: Double
  public let epsilon: Double
  public let dataLayout: DataLayout
  public let gamma: Parameter?
  public let beta: Parameter?
  public let movingMean: Parameter
  public let movingVariance: Parameter

  public init(
    momentum: Double = 0.9, epsilon: Double = 1e-3, scale: Bool = true, center: Bool = true,
    dataLayout: DataLayout = .NHWC
  ) {
    self.momentum = momentum
    self.epsilon = epsilon
    self.dataLayout = dataLayout
    gamma = scale ? Parameter("gamma", .ones) : nil
    beta = center ? Parameter("beta") : nil
    movingMean = Parameter("moving_mean", isTrainable: false)
    movingVariance = Parameter("moving_variance", .ones, isTrainable: false)
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let axis = try dataLayout.channelAxis(x, "BatchNorm")
    let channels = [try x.size(of: axis, in: "BatchNorm")]
    let (graph, wide) = (x.graph, try x.widened)
    let scale = try gamma?(in: graph, shape: channels, elementType: x.elementType).alongChannels(of: x, axis: axis)
    let shift = try beta?(in: graph, shape: channels, elementType: x.elementType).alongChannels(of: x, axis: axis)
    let mean = try movingMean(in: graph, shape: channels, elementType: wide.elementType)
    let variance = try movingVariance(in: graph, shape: channels, elementType: wide.elementType)
    guard graph.mode == .training else {
      return try wide.normalized(
        mean.alongChannels(of: x, axis: axis), variance.alongChannels(of: x, axis: axis), scale, shift, epsilon: epsilon
      ).converted(to: x.elementType)
    }
    let axes = (0..<(x.shape ?? []).count).filter { $0 != axis }
    let ofBatch = try wide.mean(axes: axes)
    let spread = try wide.variance(mean: ofBatch, axes: axes)
    func advanced(_ moving: Tensor, _ batch: Tensor) throws -> Tensor {
      try moving * momentum + batch.reshape(channels) * (1 - momentum)
    }
    let updates = [
      try graph.assign(mean, advanced(mean, ofBatch)), try graph.assign(variance, advanced(variance, spread)),
    ]
    return try graph.controlDependency(on: updates) {
      try wide.normalized(ofBatch, spread, scale, shift, epsilon: epsilon)
    }.converted(to: x.elementType)
  }
}

/// Layer normalization: normalizes each sample over its last axes.
public final class LayerNorm: Layer, Codable {
  public let axes: Int
  public let epsilon: Double
  public let gamma: Parameter?
  public let beta: Parameter?

  /// - Parameter axes: The number of last axes to normalize over.
  public init(axes: Int = 1, epsilon: Double = 1e-5, scale: Bool = true, center: Bool = true) {
    self.axes = axes
    self.epsilon = epsilon
    gamma = scale ? Parameter("gamma", .ones) : nil
    beta = center ? Parameter("beta") : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let last = try lastAxes(of: x, axes, "LayerNorm")
    let shape = try last.map { try x.size(of: $0, in: "LayerNorm") }
    let wide = try x.widened
    let mean = try wide.mean(axes: last)
    return try wide.normalized(
      mean, wide.variance(mean: mean, axes: last), gamma?(in: x.graph, shape: shape, elementType: x.elementType),
      beta?(in: x.graph, shape: shape, elementType: x.elementType), epsilon: epsilon
    ).converted(to: x.elementType)
  }
}

private func lastAxes(of x: Tensor, _ count: Int, _ layer: String) throws -> [Int] {
  guard let rank = x.shape?.count, 1...max(1, rank) ~= count, rank > 0 else {
    throw Failure(.shape, "\(layer): axes must be a number of last axes of the input, got \(count) for \(x.type)")
  }
  return Array(rank - count ..< rank)
}

/// RMS normalization: divides each sample by the root mean square over its last axes.
public final class RMSNorm: Layer, Codable {
  public let axes: Int
  public let epsilon: Double
  public let gamma: Parameter?

  /// - Parameter axes: The number of last axes to normalize over.
  public init(axes: Int = 1, epsilon: Double = 1e-6, scale: Bool = true) {
    self.axes = axes
    self.epsilon = epsilon
    gamma = scale ? Parameter("gamma", .ones) : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let last = try lastAxes(of: x, axes, "RMSNorm")
    let wide = try x.widened
    let root = try (wide.square().mean(axes: last) + epsilon).reciprocalSquareRoot()
    let y = try wide * root
    guard let gamma else { return try y.converted(to: x.elementType) }
    let shape = try last.map { try x.size(of: $0, in: "RMSNorm") }
    return try (y * gamma(in: x.graph, shape: shape, elementType: x.elementType).widened).converted(to: x.elementType)
  }
}

/// Group normalization: normalizes groups of channels of each sample over all positions.
public final class GroupNorm: Layer, Codable {
  public let groups: Int
  public let epsilon: Double
  public let dataLayout: DataLayout
  public let gamma: Parameter?
  public let beta: Parameter?

  public init(
    _ groups: Int, epsilon: Double = 1e-5, scale: Bool = true, center: Bool = true, dataLayout: DataLayout = .NHWC
  ) {
    self.groups = groups
    self.epsilon = epsilon
    self.dataLayout = dataLayout
    gamma = scale ? Parameter("gamma", .ones) : nil
    beta = center ? Parameter("beta") : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let axis = try dataLayout.channelAxis(x, "GroupNorm")
    let channels = try x.size(of: axis, in: "GroupNorm")
    guard groups > 0, channels % groups == 0 else {
      throw Failure(.shape, "GroupNorm: the number of channels must be divisible by groups, got \(channels) and \(groups)")
    }
    let wide = try x.widened
    let between = (1..<(x.shape ?? []).count).filter { $0 != axis }
    // First over the positions of each channel, then over groups of channels, so that memory is read in order.
    let mean = try overGroups(between.isEmpty ? wide : wide.mean(axes: between), channels)
    let spread = try between.isEmpty ? (wide - mean).square() : wide.variance(mean: mean, axes: between)
    let scale = try gamma?(in: x.graph, shape: [channels], elementType: x.elementType).alongChannels(of: x, axis: axis)
    let shift = try beta?(in: x.graph, shape: [channels], elementType: x.elementType).alongChannels(of: x, axis: axis)
    return try wide.normalized(mean, overGroups(spread, channels), scale, shift, epsilon: epsilon).converted(to: x.elementType)
  }

  /// Replaces the statistic of each channel by the mean over the channel's group.
  private func overGroups(_ statistics: Tensor, _ channels: Int) throws -> Tensor {
    let members = channels / groups
    let means = try statistics.reshape([-1, groups, members]).mean(axes: [2])
    let sizes = Array((statistics.shape ?? []).dropFirst())
    return try means.tile([1, 1, members]).reshape([-1] + sizes)
  }
}

/// Instance normalization: normalizes each channel of each sample over all positions.
public final class InstanceNorm: Layer, Codable {
  public let epsilon: Double
  public let dataLayout: DataLayout
  public let gamma: Parameter?
  public let beta: Parameter?

  public init(epsilon: Double = 1e-5, scale: Bool = false, center: Bool = false, dataLayout: DataLayout = .NHWC) {
    self.epsilon = epsilon
    self.dataLayout = dataLayout
    gamma = scale ? Parameter("gamma", .ones) : nil
    beta = center ? Parameter("beta") : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let rank = try x.requireRank(3...16, in: "InstanceNorm", "(batch, ..., channels), at least 3")
    let axis = try dataLayout.channelAxis(x, "InstanceNorm")
    let between = (1..<rank).filter { $0 != axis }
    let wide = try x.widened
    let mean = try wide.mean(axes: between)
    func along(_ parameter: Parameter?) throws -> Tensor? {
      guard let parameter else { return nil }
      let channels = [try x.size(of: axis, in: "InstanceNorm")]
      return try parameter(in: x.graph, shape: channels, elementType: x.elementType).alongChannels(of: x, axis: axis)
    }
    return try wide.normalized(
      mean, wide.variance(mean: mean, axes: between), along(gamma), along(beta), epsilon: epsilon
    ).converted(to: x.elementType)
  }
}
