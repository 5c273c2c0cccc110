// Activations, as layers and as methods of tensors. Compositions are fused into one kernel.
import Foundation

/// An activation layer. The static members are the activations: `Activation.relu`, `Activation.gelu`.
public final class Activation: Layer, Codable {
  public enum Kind: Codable, Hashable, Sendable {
    case relu, sigmoid, tanh, gelu, geluTanh, silu, selu, mish, softplus, softsign
    case leakyReLU(alpha: Double)
    case elu(alpha: Double)
    case softmax(axis: Int)
    case logSoftmax(axis: Int)
  }

  public let kind: Kind
  public init(_ kind: Kind) { self.kind = kind }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    switch kind {
    case .relu: return try x.relu()
    case .sigmoid: return try x.sigmoid()
    case .tanh: return try x.tanh()
    case .gelu: return try x.gelu()
    case .geluTanh: return try x.gelu(approximate: true)
    case .silu: return try x.silu()
    case .selu: return try x.elu(alpha: 1.6732632423543772) * 1.0507009873554805
    case .mish: return try x.mish()
    case .softplus: return try x.softplus()
    case .softsign: return try x / (x.absolute() + 1.0)
    case .leakyReLU(let alpha): return try x.leakyRelu(alpha: alpha)
    case .elu(let alpha): return try x.elu(alpha: alpha)
    case .softmax(let axis): return try x.softmax(axis: axis)
    case .logSoftmax(let axis): return try x.logSoftmax(axis: axis)
    }
  }

  public static var relu: Activation { Activation(.relu) }
  public static var sigmoid: Activation { Activation(.sigmoid) }
  public static var tanh: Activation { Activation(.tanh) }
  /// The exact Gaussian error linear unit.
  public static var gelu: Activation { Activation(.gelu) }
  public static var silu: Activation { Activation(.silu) }
  public static var selu: Activation { Activation(.selu) }
  public static var mish: Activation { Activation(.mish) }
  public static var softplus: Activation { Activation(.softplus) }
  public static var softsign: Activation { Activation(.softsign) }
  public static func leakyReLU(alpha: Double = 0.01) -> Activation { Activation(.leakyReLU(alpha: alpha)) }
  public static func elu(alpha: Double = 1) -> Activation { Activation(.elu(alpha: alpha)) }
  public static func softmax(axis: Int = -1) -> Activation { Activation(.softmax(axis: axis)) }
  public static func logSoftmax(axis: Int = -1) -> Activation { Activation(.logSoftmax(axis: axis)) }
}

/// max(x, 0).
public func ReLU() -> Activation { .relu }
/// The exact Gaussian error linear unit.
public func GELU() -> Activation { .gelu }
/// x * sigmoid(x).
public func SiLU() -> Activation { .silu }
/// 1 / (1 + e^-x).
public func Sigmoid() -> Activation { .sigmoid }
public func Tanh() -> Activation { .tanh }
/// Probabilities that sum to 1 along an axis.
public func Softmax(axis: Int = -1) -> Activation { .softmax(axis: axis) }

extension Tensor {
  /// Gaussian error linear unit: x / 2 * (1 + erf(x / sqrt(2))), or its tanh approximation.
  public func gelu(approximate: Bool = false) throws -> Tensor {
    if !approximate { return try self * 0.5 * ((self * 0.5.squareRoot()).erf() + 1.0) }
    let cubic = try self + self * self * self * 0.044715
    return try self * 0.5 * ((cubic * (2 / Double.pi).squareRoot()).tanh() + 1.0)
  }

  /// x * sigmoid(x).
  public func silu() throws -> Tensor { try self * sigmoid() }

  /// x where x > 0, otherwise alpha * (e^x - 1).
  public func elu(alpha: Double = 1) throws -> Tensor {
    let above = try self .> 0.0
    return try above.select(self, whenFalse: above.select(0.0, whenFalse: self).exponentMinusOne() * alpha)
  }

  /// e^x - 1 for x <= 0, without cancellation near 0.
  private func exponentMinusOne() throws -> Tensor {
    let power = try exponent()
    if elementType == .float64 {
      let near = try self .> -1.0
      let lost = try near.select(self, whenFalse: 0.0) - near.select(power, whenFalse: 1.0).logarithm()
      return try (power - 1.0) + power * lost
    }
    let near = try self .> -1.0 / 1024
    let little = try near.select(self, whenFalse: 0.0)
    return try near.select(little * (little * 0.5 + 1.0), whenFalse: power - 1.0)
  }

  /// ln(1 + e^x), which neither overflows nor loses small values.
  public func softplus() throws -> Tensor {
    let above = try self .>= 0.0
    let power = try above.select(-self, whenFalse: self).exponent()
    let onePlus = try power + 1.0
    let rest = try onePlus.logarithm() - ((onePlus - 1.0) - power) / onePlus
    return try above.select(self, whenFalse: 0.0) + rest
  }

  /// x * tanh(softplus(x)).
  public func mish() throws -> Tensor {
    let above = try self .>= 0.0
    let small = try above.select(-self, whenFalse: self).exponent()
    let difference = try above.select(small * 2.0 + 1.0, whenFalse: small * (small + 2.0))
    let rest = try above.select(small * 2.0 * small, whenFalse: 2.0)
    return try self * (difference / (difference + rest))
  }
}
