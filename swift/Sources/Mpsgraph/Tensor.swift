// Tensors and operations: the values and nodes of a graph.
import CMpsgraph

/// A value in a graph. It retains its graph.
///
/// Operators and methods of tensors add operations to the graph; nothing is computed until the graph runs:
///
/// ```swift
/// let graph = try Graph()
/// let x = try graph.placeholder(TensorType(.float32, [-1, 3]), name: "x")
/// let y = try (2 * x + 1).relu()
/// let results = try graph.run(feeds: [x: NDArray([1, -2, 3] as [Float], shape: [1, 3])], targets: [y])
/// ```
public struct Tensor: Hashable, @unchecked Sendable, CustomStringConvertible {
  let pointer: OpaquePointer
  public let graph: Graph
  /// The element type and the shape, as far as they are known in the graph.
  public let type: TensorType

  init(_ pointer: OpaquePointer, graph: Graph) throws {
    self.pointer = pointer
    self.graph = graph
    var type = mpsgraph_type()
    try check(mpsgraph_tensor_type(pointer, &type))
    self.type = try TensorType(type)
  }

  /// The sizes of the axes, or nil if the rank is unknown. Dynamic sizes are -1.
  public var shape: [Int]? { type.shape }

  public var elementType: ElementType { type.elementType }

  public func name() throws -> String { try text { mpsgraph_tensor_name(pointer, $0, $1, $2) } }

  public var description: String { "Tensor(\(type))" }

  /// Returns a copy of a variable's current value. Throws a `Failure` of kind `graph` if the tensor is not a variable.
  public func read() throws -> NDArray { try NDArray(Handle { mpsgraph_variable_read(pointer, $0) }) }

  /// Sets a variable to a value of the same type.
  public func write(_ value: NDArray) throws { try check(mpsgraph_variable_write(pointer, value.handle.pointer)) }

  public static func == (one: Tensor, other: Tensor) -> Bool { one.pointer == other.pointer }

  public func hash(into hasher: inout Hasher) { hasher.combine(pointer) }
}

/// An operation in a graph, used for operations without results, such as assignments. It retains its graph.
public struct GraphOperation: Hashable, @unchecked Sendable {
  let pointer: OpaquePointer
  public let graph: Graph

  public static func == (one: GraphOperation, other: GraphOperation) -> Bool { one.pointer == other.pointer }

  public func hash(into hasher: inout Hasher) { hasher.combine(pointer) }
}

extension Graph {
  /// Adds a constant with this number everywhere.
  ///
  /// - Parameters:
  ///   - value: The number, which is rounded to the element type.
  ///   - shape: The shape, in which all sizes must be known. By default, the rank is 0.
  /// - Throws: A `Failure` of kind `elementType` if the element type cannot hold the number: integers require a whole
  ///   number in their range.
  public func constant(_ value: some Scalar, _ elementType: ElementType = .float32, shape: [Int] = []) throws -> Tensor {
    var type = try TensorType(elementType, shape).c
    return try tensor { mpsgraph_graph_constant(handle.pointer, value.asDouble, &type, $0) }
  }
}
