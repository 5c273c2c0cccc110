// Learning rates that change from step to step.
import Foundation

/// A learning rate, constant or depending on the step. A literal is a constant rate: `Adam(0.001)`.
public indirect enum Schedule: Codable, Hashable, Sendable, ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
  case constant(Double)
  /// rate * factor^floor(step / every)
  case step(rate: Double, every: Int, factor: Double)
  /// rate * factor^(step / every)
  case exponential(rate: Double, every: Int, factor: Double)
  /// From rate to final along half a cosine over `steps`, then constant.
  case cosine(rate: Double, steps: Int, final: Double)
  /// From rate to final along a straight line over `steps`, then constant.
  case linear(rate: Double, steps: Int, final: Double)
  /// Linear warm-up over `steps` to the initial rate of another schedule, which follows.
  case warmUp(Schedule, steps: Int)

  public init(floatLiteral value: Double) { self = .constant(value) }
  public init(integerLiteral value: Int) { self = .constant(Double(value)) }

  /// Returns the rate of a step, counted from 0.
  public func callAsFunction(_ step: Int) -> Double {
    switch self {
    case .constant(let rate): return rate
    case .step(let rate, let every, let factor): return rate * pow(factor, Double(step / every))
    case .exponential(let rate, let every, let factor): return rate * pow(factor, Double(step) / Double(every))
    case .cosine(let rate, let steps, let final):
      return final + (rate - final) * (1 + cos(Double.pi * min(Double(step) / Double(steps), 1))) / 2
    case .linear(let rate, let steps, let final):
      return final + (rate - final) * (1 - min(Double(step) / Double(steps), 1))
    case .warmUp(let schedule, let steps):
      return step < steps ? schedule(0) * Double(step + 1) / Double(steps) : schedule(step - steps)
    }
  }

  /// Throws a `Failure` of kind `invalidArgument` if a rate is not a number of at least 0, or a number of steps is not
  /// above 0.
  public func check() throws {
    func rates(_ values: Double...) throws {
      for value in values where !(value >= 0 && value.isFinite) {
        throw Failure(.invalidArgument, "a learning rate and its factor must be numbers of at least 0, got \(value)")
      }
    }
    func steps(_ count: Int) throws {
      guard count > 0 else { throw Failure(.invalidArgument, "a schedule's number of steps must be above 0, got \(count)") }
    }
    switch self {
    case .constant(let rate): try rates(rate)
    case .step(let rate, let every, let factor), .exponential(let rate, let every, let factor):
      try rates(rate, factor)
      try steps(every)
    case .cosine(let rate, let count, let final), .linear(let rate, let count, let final):
      try rates(rate, final)
      try steps(count)
    case .warmUp(let schedule, let count):
      try schedule.check()
      try steps(count)
    }
  }
}
