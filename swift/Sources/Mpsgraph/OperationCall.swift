// The operands and attributes of one operation, as the methods in Operations.swift collect them.
import CMpsgraph

/// A tensor, or a number that becomes a constant with the element type of the other operands.
public protocol TensorLike: Sendable {
  /// Returns the tensor itself, or a constant of rank 0 with this number.
  ///
  /// - Throws: A `Failure` of kind `elementType` if the element type cannot hold the number.
  func tensor(in graph: Graph, like elementType: ElementType) throws -> Tensor
}

extension Tensor: TensorLike {
  public func tensor(in graph: Graph, like elementType: ElementType) throws -> Tensor { self }
}

/// A number that operators convert to a constant with the element type of the tensor.
public protocol Scalar: TensorLike {
  var asDouble: Double { get }
}

extension Scalar {
  public func tensor(in graph: Graph, like elementType: ElementType) throws -> Tensor {
    try graph.constant(self, elementType, shape: [])
  }
}

extension Double: Scalar { public var asDouble: Double { self } }
extension Float: Scalar { public var asDouble: Double { Double(self) } }
extension Int: Scalar { public var asDouble: Double { Double(self) } }

/// A shape: sizes, or an integer tensor that is known when the graph runs.
public protocol ShapeLike: Sendable {
  func shapeTensor(in graph: Graph) throws -> Tensor
}

extension [Int]: ShapeLike {
  public func shapeTensor(in graph: Graph) throws -> Tensor { try graph.constant(NDArray(map { Int32($0) })) }
}

extension Tensor: ShapeLike {
  public func shapeTensor(in graph: Graph) throws -> Tensor { self }
}

package struct OperationCall {
  private enum Operand {
    case tensor(Tensor)
    case mask(Tensor)
    case number(any TensorLike)
    case shape(any ShapeLike)
  }

  private let kind: String
  private let graph: Graph
  private var operands: [Operand] = []
  private var attributes: [String: Attribute] = [:]

  package init(_ kind: String, in graph: Graph) {
    self.kind = kind
    self.graph = graph
  }

  package mutating func operand(_ tensor: Tensor) { operands.append(.tensor(tensor)) }

  /// Adds a bool tensor, whose type does not determine that of numbers.
  package mutating func mask(_ tensor: Tensor) { operands.append(.mask(tensor)) }

  package mutating func number(_ number: any TensorLike) { operands.append(.number(number)) }

  package mutating func list(_ tensors: [Tensor]) { operands += tensors.map { .tensor($0) } }

  /// Adds an operand if it is given. `flag` is the attribute that states whether it is given.
  package mutating func optional(_ tensor: Tensor?, flag: String? = nil) {
    if let tensor { operands.append(.tensor(tensor)) }
    if let flag { attributes[flag] = .bool(tensor != nil) }
  }

  package mutating func shape(_ shape: any ShapeLike) { operands.append(.shape(shape)) }

  package mutating func set(_ name: String, _ value: Attribute) { attributes[name] = value }

  package mutating func set(_ padding: Padding, axes: Int) throws {
    attributes.merge(try padding.attributes(axes, kind)) { $1 }
  }

  package func operation(_ name: String?) throws -> GraphOperation {
    try graph.create(kind, tensors(), attributes, name: name)
  }

  package func tensors(_ name: String?) throws -> [Tensor] { try graph.results(of: operation(name)) }

  package func tensor(_ name: String?) throws -> Tensor { try graph.add(kind, tensors(), attributes, name: name) }

  package func pair(_ name: String?) throws -> (Tensor, Tensor) {
    let results = try tensors(name)
    return (results[0], results[1])
  }

  /// Returns the operands. Numbers become constants with the element type of the first tensor.
  private func tensors() throws -> [Tensor] {
    let elementType = operands.lazy.compactMap { operand -> ElementType? in
      switch operand {
      case .tensor(let tensor): return tensor.elementType
      case .number(let number): return (number as? Tensor)?.elementType
      case .mask, .shape: return nil
      }
    }.first ?? .float32
    return try operands.map { operand in
      switch operand {
      case .tensor(let tensor), .mask(let tensor): return tensor
      case .number(let number): return try number.tensor(in: graph, like: elementType)
      case .shape(let shape): return try shape.shapeTensor(in: graph)
      }
    }
  }
}
