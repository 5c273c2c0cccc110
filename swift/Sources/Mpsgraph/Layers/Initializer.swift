// Initial values of parameters, with the rules and names of the Python package.
import Foundation

/// A rule for the first values of a parameter.
public enum Initializer: Codable, Hashable, Sendable {
  public enum Fan: String, Codable, Sendable {
    case input
    case output
    case average
  }

  public enum Distribution: String, Codable, Sendable {
    case truncatedNormal
    case normal
    case uniform
  }

  case constant(Double)
  case uniform(minimum: Double, maximum: Double)
  case normal(mean: Double, standardDeviation: Double)
  /// A normal distribution truncated at two standard deviations.
  case truncatedNormal(mean: Double, standardDeviation: Double)
  /// Values with variance gain / fan, which preserves the scale of signals through layers.
  case varianceScaling(gain: Double, fan: Fan, distribution: Distribution)
  /// A matrix with orthonormal rows or columns, times a gain. All axes but the last form the rows.
  case orthogonal(gain: Double)
  /// The values of another rule for each gate: the first axis consists of the rows of several matrices.
  indirect case eachGate(Initializer, count: Int)

  public static let zeros = Initializer.constant(0)
  public static let ones = Initializer.constant(1)
  /// Uniform within sqrt(6 / (inputs + outputs)): the default of most layers.
  public static let glorotUniform = Initializer.varianceScaling(gain: 1, fan: .average, distribution: .uniform)
  public static let glorotNormal = Initializer.varianceScaling(gain: 1, fan: .average, distribution: .truncatedNormal)
  /// Uniform within sqrt(6 / inputs), for layers before a ReLU.
  public static let heUniform = Initializer.varianceScaling(gain: 2, fan: .input, distribution: .uniform)
  public static let heNormal = Initializer.varianceScaling(gain: 2, fan: .input, distribution: .truncatedNormal)

  /// Returns the values of a parameter in row-major order.
  func values(_ shape: [Int], fans: (Double, Double)?, using random: inout SplitMix64) throws -> [Double] {
    let count = shape.reduce(1, *)
    switch self {
    case .constant(let value): return [Double](repeating: value, count: count)
    case .uniform(let minimum, let maximum):
      return (0..<count).map { _ in minimum + (maximum - minimum) * random.unit() }
    case .normal(let mean, let deviation):
      return (0..<count).map { _ in mean + deviation * random.normal() }
    case .truncatedNormal(let mean, let deviation):
      return (0..<count).map { _ in
        var drawn = random.normal()
        while abs(drawn) > 2 { drawn = random.normal() }
        return mean + deviation * drawn
      }
    case .varianceScaling(let gain, let fan, let distribution):
      let (inputs, outputs) = try fans ?? Self.fans(of: shape)
      let size = max(1, fan == .input ? inputs : fan == .output ? outputs : (inputs + outputs) / 2)
      let deviation = (gain / size).squareRoot()
      let rule: Initializer
      switch distribution {
      case .uniform: rule = .uniform(minimum: -deviation * 3.squareRoot(), maximum: deviation * 3.squareRoot())
      case .normal: rule = .normal(mean: 0, standardDeviation: deviation)
      // The deviation of a standard normal truncated at two standard deviations.
      case .truncatedNormal: rule = .truncatedNormal(mean: 0, standardDeviation: deviation / 0.87962566103423978)
      }
      return try rule.values(shape, fans: fans, using: &random)
    case .orthogonal(let gain):
      guard shape.count >= 2, let columns = shape.last else {
        throw Failure(.shape, "an orthogonal initializer needs at least two axes, got \(shape)")
      }
      return Self.orthogonal(count / columns, columns, using: &random).map { $0 * gain }
    case .eachGate(let rule, let gates):
      let rows = [shape[0] / gates] + shape.dropFirst()
      return try (0..<gates).flatMap { _ in try rule.values(rows, fans: fans, using: &random) }
    }
  }

  private static func fans(of shape: [Int]) throws -> (Double, Double) {
    guard shape.count >= 2 else {
      throw Failure(.shape, "a scaled initializer needs at least two axes or explicit fans, got \(shape)")
    }
    let window = shape.dropLast(2).reduce(1, *)
    return (Double(window * shape[shape.count - 2]), Double(window * shape[shape.count - 1]))
  }

  /// Orthonormalizes random vectors by the Gram-Schmidt process, applied twice for accuracy.
  private static func orthogonal(_ rows: Int, _ columns: Int, using random: inout SplitMix64) -> [Double] {
    let (length, count) = (max(rows, columns), min(rows, columns))
    var basis: [[Double]] = []
    while basis.count < count {
      var vector = (0..<length).map { _ in random.normal() }
      for _ in 0..<2 {
        for other in basis {
          let share = zip(vector, other).reduce(0) { $0 + $1.0 * $1.1 }
          for i in 0..<length { vector[i] -= share * other[i] }
        }
        let norm = vector.reduce(0) { $0 + $1 * $1 }.squareRoot()
        for i in 0..<length { vector[i] /= norm }
      }
      basis.append(vector)
    }
    return (0 ..< rows * columns).map { index in
      let (row, column) = (index / columns, index % columns)
      return rows >= columns ? basis[column][row] : basis[row][column]
    }
  }
}

extension SplitMix64 {
  /// A number in [0, 1).
  fileprivate mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

  /// A standard normal number (Box and Muller).
  fileprivate mutating func normal() -> Double {
    (-2 * log(1 - unit())).squareRoot() * cos(2 * Double.pi * unit())
  }
}

extension [Double] {
  /// Returns the numbers as an array of the given type.
  func array(_ shape: [Int], as elementType: ElementType, in graph: Graph) throws -> NDArray {
    switch elementType {
    case .float32: return try NDArray(map { Float($0) }, shape: shape)
    case .float64: return try NDArray(self, shape: shape)
    default:
      let constant = try graph.constant(NDArray(map { Float($0) }, shape: shape))
      return try graph.run(graph.add("cast", [constant], ["dtype": .elementType(elementType)]))
    }
  }
}
