// Sizes, padding, and layouts of windows, as convolution and pooling layers take them.

/// One size for all axes of a window, or one for each axis: `3` or `[3, 5]` (height, width).
public struct Sizes: Codable, Hashable, Sendable, ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral {
  public let values: [Int]

  public init(_ values: [Int]) { self.values = values }
  public init(integerLiteral value: Int) { values = [value] }
  public init(arrayLiteral elements: Int...) { values = elements }

  /// Returns one size for each of `axes` axes.
  func each(_ axes: Int, _ what: String) throws -> [Int] {
    let sizes = values.count == 1 ? [Int](repeating: values[0], count: axes) : values
    guard sizes.count == axes, sizes.allSatisfy({ $0 > 0 }) else {
      throw Failure(.shape, "\(what) must be one size above 0, or \(axes) of them, got \(values)")
    }
    return sizes
  }
}

/// The padding of a window.
public enum Padding: Codable, Hashable, Sendable {
  /// No padding (`TF_VALID`).
  case valid
  /// As much as keeps the size with a stride of 1, with the extra element at the end (`TF_SAME`).
  case same
  /// As `same`, with the extra element at the start (`ONNX_SAME_LOWER`).
  case sameLower
  /// [before, after] for each axis of the window.
  case explicit([[Int]])

  /// Returns the attributes of an operation whose windows have the given number of axes.
  func attributes(_ axes: Int, _ what: String) throws -> [String: Attribute] {
    let none = [Int](repeating: 0, count: 2 * axes)
    switch self {
    case .valid: return ["padding_style": "TF_VALID", "padding": .integers(none)]
    case .same: return ["padding_style": "TF_SAME", "padding": .integers(none)]
    case .sameLower: return ["padding_style": "ONNX_SAME_LOWER", "padding": .integers(none)]
    case .explicit(let sides):
      guard sides.count == axes, sides.allSatisfy({ $0.count == 2 }) else {
        throw Failure(.shape, "\(what): explicit padding must be [before, after] for each of \(axes) axes, got \(sides)")
      }
      return ["padding_style": "EXPLICIT", "padding": .integers(sides.flatMap { $0 })]
    }
  }
}

extension DataLayout {
  /// Whether channels come last. For sequences and volumes, `NHWC` and `NCHW` stand for all axes of the window.
  func channelsLast(_ layer: String) throws -> Bool {
    switch self {
    case .NHWC, .NDHWC: return true
    case .NCHW, .NCDHW: return false
    default: throw Failure(.invalidArgument, "\(layer): dataLayout must be NHWC or NCHW, got \(rawValue)")
    }
  }

  /// Returns the index of the channel axis of `x`.
  func channelAxis(_ x: Tensor, _ layer: String) throws -> Int {
    let rank = try x.requireRank(2...16, in: layer, "(batch, ..., channels), of known rank")
    return try channelsLast(layer) ? rank - 1 : 1
  }
}

extension Tensor {
  /// Reshapes a vector with one element for each channel so that it broadcasts to `x`.
  func alongChannels(of x: Tensor, axis: Int) throws -> Tensor {
    let behind = (x.shape?.count ?? 1) - 1 - axis
    return behind > 0 ? try reshape([-1] + [Int](repeating: 1, count: behind)) : self
  }
}
