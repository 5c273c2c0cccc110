// Operators of tensors, and the methods that layers share.

extension Tensor {
  /// Adds an operation on this tensor and others to the graph.
  package func apply(_ kind: String, _ others: [Tensor] = [], _ attributes: [String: Attribute] = [:]) throws -> Tensor {
    try graph.add(kind, [self] + others, attributes)
  }

  private func apply(_ kind: String, _ other: Double) throws -> Tensor {
    try apply(kind, [other.tensor(in: graph, like: elementType)])
  }

  private static func apply(_ kind: String, _ number: Double, _ x: Tensor) throws -> Tensor {
    try number.tensor(in: x.graph, like: x.elementType).apply(kind, [x])
  }

  // MARK: arithmetic. A number becomes a constant with the element type of the tensor. Numbers are Double, also as
  // integer literals, because generic operators would slow down the compiler in all code that imports this module.

  public static func + (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("addition", [b]) }
  public static func + (a: Tensor, b: Double) throws -> Tensor { try a.apply("addition", b) }
  public static func + (a: Double, b: Tensor) throws -> Tensor { try apply("addition", a, b) }

  public static func - (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("subtraction", [b]) }
  public static func - (a: Tensor, b: Double) throws -> Tensor { try a.apply("subtraction", b) }
  public static func - (a: Double, b: Tensor) throws -> Tensor { try apply("subtraction", a, b) }

  public static func * (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("multiplication", [b]) }
  public static func * (a: Tensor, b: Double) throws -> Tensor { try a.apply("multiplication", b) }
  public static func * (a: Double, b: Tensor) throws -> Tensor { try apply("multiplication", a, b) }

  public static func / (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("division", [b]) }
  public static func / (a: Tensor, b: Double) throws -> Tensor { try a.apply("division", b) }
  public static func / (a: Double, b: Tensor) throws -> Tensor { try apply("division", a, b) }

  public static prefix func - (a: Tensor) throws -> Tensor { try a.apply("negative") }
  public static prefix func ! (a: Tensor) throws -> Tensor { try a.apply("not") }

  // MARK: comparisons of elements, with a bool tensor as the result. `==` compares whether two tensors are the same.

  public static func .< (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("less_than", [b]) }
  public static func .< (a: Tensor, b: Double) throws -> Tensor { try a.apply("less_than", b) }
  public static func .<= (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("less_than_or_equal_to", [b]) }
  public static func .<= (a: Tensor, b: Double) throws -> Tensor { try a.apply("less_than_or_equal_to", b) }
  public static func .> (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("greater_than", [b]) }
  public static func .> (a: Tensor, b: Double) throws -> Tensor { try a.apply("greater_than", b) }
  public static func .>= (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("greater_than_or_equal_to", [b]) }
  public static func .>= (a: Tensor, b: Double) throws -> Tensor { try a.apply("greater_than_or_equal_to", b) }
  public static func .== (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("equal", [b]) }
  public static func .== (a: Tensor, b: Double) throws -> Tensor { try a.apply("equal", b) }
  public static func .!= (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("not_equal", [b]) }
  public static func .!= (a: Tensor, b: Double) throws -> Tensor { try a.apply("not_equal", b) }

  public static func .& (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("logical_and", [b]) }
  public static func .| (a: Tensor, b: Tensor) throws -> Tensor { try a.apply("logical_or", [b]) }

  // MARK: shapes

  /// Returns the matrix product. Leading axes are batch axes and broadcast.
  public func matmul(_ other: Tensor) throws -> Tensor { try apply("matrix_multiplication", [other]) }

  /// Returns part of an axis: `count` elements from `start`. Negative starts count from the end.
  public func slice(_ axis: Int, from start: Int, count: Int) throws -> Tensor {
    let rank = try requireRank(1...16, in: "slice", "of known rank")
    let last = axis < 0 ? axis + rank : axis
    guard 0..<rank ~= last, count > 0 else {
      throw Failure(.outOfRange, "slice: expected an axis of \(type) and a count above 0, got axis \(axis), count \(count)")
    }
    // Bits of the masks mark axes that are kept whole, and an end that is the end of the axis.
    let others = (0..<rank).reduce(0) { $1 == last ? $0 : $0 | 1 << $1 }
    let end = start + count
    return try apply(
      "slice", [],
      [
        "starts": .integers((0..<rank).map { $0 == last ? start : 0 }),
        "ends": .integers((0..<rank).map { $0 == last ? end : 0 }),
        "strides": .integers([Int](repeating: 1, count: rank)),
        "start_mask": .integer(others),
        "end_mask": .integer(start < 0 && end == 0 ? others | 1 << last : others),
      ])
  }

  /// Casts the tensor, unless it already has the element type.
  func converted(to elementType: ElementType) throws -> Tensor {
    self.elementType == elementType ? self : try cast(elementType)
  }

  /// Returns the size of an axis: a number if known, otherwise an int32 tensor with one element.
  func sizeInRun(_ axis: Int) throws -> RunSize {
    if let size = shape?[axis], size >= 0 { return .known(size) }
    return .computed(try shapeOf().slice(0, from: axis, count: 1))
  }

  /// Reshapes to sizes of which some may be known only in a run.
  func reshape(_ sizes: [RunSize]) throws -> Tensor { try reshape(graph.shape(sizes)) }
}

/// The size of an axis, which may be known only when the graph runs.
enum RunSize {
  case known(Int)
  case computed(Tensor)
}

extension Graph {
  func shape(_ sizes: [RunSize]) throws -> Tensor {
    var known: [Int32] = []
    for case .known(let size) in sizes { known.append(Int32(size)) }
    if known.count == sizes.count { return try constant(NDArray(known)) }
    let parts = try sizes.map { size in
      switch size {
      case .known(let number): return try constant(NDArray([Int32(number)]))
      case .computed(let tensor): return tensor
      }
    }
    return try concat(parts, axis: 0)
  }
}
