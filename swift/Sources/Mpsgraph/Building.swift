// What layers need to know while a graph is being built: the mode, and a source of initial values.
import Foundation

/// Whether layers build their variant for training or for inference.
public enum Mode: String, Codable, Sendable {
  case training
  case inference
}

/// The state of a graph under construction.
struct Building: Sendable {
  var mode = Mode.inference
  let seed: UInt64
  var random: SplitMix64
  /// The number of random states that operations of this graph own.
  var randomStates = 0

  init(seed: UInt64?) {
    self.seed = seed ?? UInt64.random(in: 0 ... UInt64(UInt32.max))
    random = SplitMix64(state: self.seed)
  }
}

/// A value that several threads may access.
final class Locked<Value: Sendable>: @unchecked Sendable {
  private var value: Value
  private let lock = NSLock()

  init(_ value: Value) { self.value = value }

  func withLock<R>(_ body: (inout Value) throws -> R) rethrows -> R {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}

/// A small generator of random numbers, for initial values that are the same for the same seed (Steele et al., 2014).
struct SplitMix64: RandomNumberGenerator, Sendable {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

extension Graph {
  /// The mode in which layers that are called now build their operations. It is `inference` outside of
  /// `withMode(.training)`.
  public var mode: Mode { building.withLock { $0.mode } }

  /// Calls `body` with the given mode: dropout and batch normalization differ between training and inference.
  public func withMode<R>(_ mode: Mode, _ body: () throws -> R) rethrows -> R {
    let before = building.withLock { state in
      defer { state.mode = mode }
      return state.mode
    }
    defer { building.withLock { $0.mode = before } }
    return try body()
  }

  /// Adds a variable with the state of a random operation: [1, four counter words, two key words], as Philox uses it.
  func ownRandomState() throws -> Tensor {
    let (seed, count) = building.withLock { state in
      defer { state.randomStates += 1 }
      return (state.seed, state.randomStates)
    }
    let words = [
      1, 0, 0, Int32(truncatingIfNeeded: count), Int32(truncatingIfNeeded: count >> 32),
      Int32(truncatingIfNeeded: seed), Int32(truncatingIfNeeded: seed >> 32),
    ]
    return try variable(NDArray(words), name: "random_state")
  }

  /// Returns random values that differ from run to run, because every run that uses them also advances their state.
  func ownRandom(_ shape: Tensor, _ attributes: [String: Attribute]) throws -> Tensor {
    let state = try ownRandomState()
    let drawn = try results(of: create("random", [shape, state], attributes))
    let update = try assign(state, drawn[1])
    return try controlDependency(on: [update]) { try add("identity", [drawn[0]], name: "random") }
  }

  /// Returns a tensor with the shape of `x`: a constant if all sizes are known.
  func shapeTensor(of x: Tensor) throws -> Tensor {
    if let shape = x.shape, x.type.count != nil { return try constant(NDArray(shape.map { Int32($0) })) }
    return try x.shapeOf()
  }
}
