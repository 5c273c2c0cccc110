// Graphs: opened from a package, parsed from text, or built operation by operation.
import CMpsgraph
import Foundation

/// A graph of operations on a device. Only one thread may build it at a time, but many may run it.
public final class Graph: Sendable {
  let handle: Handle
  let building: Locked<Building>

  /// Creates an empty graph on the given device, or on the default device.
  ///
  /// - Parameter seed: Determines the initial weights of layers and the random numbers of dropout. By default, the
  ///   system's random numbers provide a seed.
  public init(device: Device? = nil, seed: UInt64? = nil) throws {
    handle = try Handle { mpsgraph_graph_create(device?.handle.pointer, $0) }
    building = Locked(Building(seed: seed))
  }

  /// Opens a package written by `mpsgraph.save` in Python.
  public init(package: URL, device: Device? = nil) throws {
    handle = try Handle { mpsgraph_graph_open(package.path, device?.handle.pointer, $0) }
    building = Locked(Building(seed: nil))
  }

  /// Parses the textual form of a graph.
  public init(text: String, device: Device? = nil) throws {
    handle = try Handle { mpsgraph_graph_from_text(text, text.utf8.count, device?.handle.pointer, $0) }
    building = Locked(Building(seed: nil))
  }

  /// Creates a reference to the same graph.
  package init(sharing other: Graph) {
    handle = other.handle
    building = other.building
  }

  init(_ handle: Handle) {
    self.handle = handle
    building = Locked(Building(seed: nil))
  }

  public func text() throws -> String { try Mpsgraph.text { mpsgraph_graph_text(handle.pointer, $0, $1, $2) } }

  /// Writes a package with the named inputs and outputs and the current values of all variables.
  public func save(to package: URL) throws { try check(mpsgraph_graph_save(handle.pointer, package.path)) }

  /// Sets the variables to the values in a package. If a value differs in type from its variable, no variable changes.
  public func loadState(from package: URL) throws { try check(mpsgraph_graph_load_state(handle.pointer, package.path)) }

  // MARK: names

  /// The role of a tensor in the application. Raw values are those of `mpsgraph_role`.
  public enum Role: Int32, Sendable {
    case input = 0
    case output = 1
    case parameter = 2
    case trainable = 3
  }

  /// Returns the names and tensors with a role, in order. The parameters are all variables. The trainable tensors are
  /// those that a package marks as trainable, and all variables that the application created.
  public func tensors(_ role: Role) throws -> [(name: String, tensor: Tensor)] {
    try (0..<count(role)).map { index in
      let tensor = try tensor { mpsgraph_graph_tensor_at(handle.pointer, role.rawValue, index, $0) }
      return (try Mpsgraph.text { mpsgraph_graph_name_at(handle.pointer, role.rawValue, index, $0, $1, $2) }, tensor)
    }
  }

  func count(_ role: Role) throws -> Int {
    var count = 0
    try check(mpsgraph_graph_tensor_count(handle.pointer, role.rawValue, &count))
    return count
  }

  public func find(_ role: Role, _ name: String) throws -> Tensor {
    try tensor { mpsgraph_graph_find(handle.pointer, role.rawValue, name, $0) }
  }

  public func findOperation(_ name: String) throws -> GraphOperation {
    try operation { mpsgraph_graph_find_operation(handle.pointer, name, $0) }
  }

  /// Names a placeholder as an input, or a tensor as an output. If the name is already used in this role, it moves to
  /// this tensor.
  public func setName(_ name: String, _ role: Role, of tensor: Tensor) throws {
    try check(mpsgraph_graph_set_name(handle.pointer, role.rawValue, name, tensor.pointer))
  }

  // MARK: building

  /// Adds an operation and returns its single result. docs/operations.md lists the operands and attributes of each
  /// kind.
  public func add(_ kind: String, _ inputs: [Tensor] = [], _ values: [String: Attribute] = [:], name: String? = nil)
    throws -> Tensor
  {
    let attributes = try attributes(values)
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    return try tensor {
      mpsgraph_graph_add(handle.pointer, kind, pointers, pointers.count, attributes.pointer, name, $0)
    }
  }

  /// Adds an operation with any number of results.
  public func create(_ kind: String, _ inputs: [Tensor] = [], _ values: [String: Attribute] = [:], name: String? = nil)
    throws -> GraphOperation
  {
    let attributes = try attributes(values)
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    return try operation {
      mpsgraph_operation_create(handle.pointer, kind, pointers, pointers.count, attributes.pointer, name, $0)
    }
  }

  public func results(of operation: GraphOperation) throws -> [Tensor] {
    var count = 0
    try check(mpsgraph_operation_output_count(operation.pointer, &count))
    return try (0..<count).map { index in try tensor { mpsgraph_operation_output(operation.pointer, index, $0) } }
  }

  /// Adds a placeholder. If it has a name, it is also an input with this name.
  public func placeholder(_ type: TensorType, name: String?) throws -> Tensor {
    let made = try add("placeholder", [], ["type": .type(type)], name: name)
    if let name { try setName(name, .input, of: made) }
    return made
  }

  /// Adds a variable, which keeps its value from run to run, with an initial value.
  public func variable(_ value: NDArray, name: String? = nil) throws -> Tensor {
    try add("variable", [], ["value": .data(value)], name: name)
  }

  /// Adds a constant with a copy of the array.
  public func constant(_ value: NDArray, name: String? = nil) throws -> Tensor {
    try add("constant", [], ["value": .data(value)], name: name)
  }

  /// Adds an operation that sets a variable when the graph runs. Pass it to a run as an operation.
  public func assign(_ variable: Tensor, _ value: Tensor) throws -> GraphOperation { try create("assign", [variable, value]) }

  /// Adds the gradients of a tensor with respect to each of `tensors`, and returns them in the same order.
  ///
  /// If `loss` is not a scalar, the gradients are those of the sum of its elements.
  public func gradients(of loss: Tensor, withRespectTo tensors: [Tensor]) throws -> [Tensor] {
    let pointers: [OpaquePointer?] = tensors.map { $0.pointer }
    var made = [OpaquePointer?](repeating: nil, count: tensors.count)
    try check(mpsgraph_graph_gradients(loss.pointer, pointers, pointers.count, &made))
    return try made.map { try Tensor($0!, graph: self) }
  }

  // MARK: control flow

  /// Returns the results of `then` or `otherwise`, which must have the same types.
  public func `if`(
    _ predicate: Tensor, then: @escaping () throws -> [Tensor], otherwise: @escaping () throws -> [Tensor]
  ) throws -> [Tensor] {
    try withBlocks("if", [predicate], [([], { _ in try then() }), ([], { _ in try otherwise() })])
  }

  /// Calls `body(index, values)` for each index from `lower` up to, but not including, `upper`, and returns the last
  /// values.
  public func `for`(
    _ lower: Tensor, _ upper: Tensor, _ step: Tensor, initial: [Tensor],
    body: @escaping (_ index: Tensor, _ values: [Tensor]) throws -> [Tensor]
  ) throws -> [Tensor] {
    let types = [lower.type] + initial.map { $0.type }
    return try withBlocks(
      "for", [lower, upper, step] + initial, [(types, { try body($0[0], Array($0.dropFirst())) })])
  }

  /// Repeats a loop: `before` returns a predicate and values; while the predicate is true, `after` computes the next
  /// input of `before` from the values.
  public func `while`(
    initial: [Tensor], before: @escaping (_ values: [Tensor]) throws -> (predicate: Tensor, values: [Tensor]),
    after: @escaping (_ values: [Tensor]) throws -> [Tensor]
  ) throws -> [Tensor] {
    let types = initial.map { $0.type }
    var handedOn: [TensorType] = []
    return try withBlocks(
      "while", initial,
      [
        (
          types,
          { arguments in
            let (predicate, values) = try before(arguments)
            handedOn = values.map { $0.type }
            return [predicate] + values
          }
        ),
        (nil, after),
      ],
      later: { handedOn })
  }

  /// Returns the result of `body`, whose operations run after the given operations.
  public func controlDependency<R>(on operations: [GraphOperation], _ body: () throws -> R) throws -> R {
    let pointers: [OpaquePointer?] = operations.map { $0.pointer }
    try check(mpsgraph_graph_begin_control_dependencies(handle.pointer, pointers, pointers.count))
    let result: R
    do {
      result = try body()
    } catch {
      _ = mpsgraph_graph_end_control_dependencies(handle.pointer)
      throw error
    }
    try check(mpsgraph_graph_end_control_dependencies(handle.pointer))
    return result
  }

  /// Adds an operation with blocks. Each block has the types of its arguments (nil for those that `later` returns) and
  /// a function that builds its content.
  private func withBlocks(
    _ kind: String, _ inputs: [Tensor], _ blocks: [(types: [TensorType]?, content: ([Tensor]) throws -> [Tensor])],
    later: () -> [TensorType] = { [] }
  ) throws -> [Tensor] {
    var ended = 0
    do {
      for block in blocks {
        let types = (block.types ?? later()).map { $0.c }
        var arguments = [OpaquePointer?](repeating: nil, count: types.count)
        try check(mpsgraph_graph_begin_block(handle.pointer, types, types.count, &arguments))
        do {
          let results = try block.content(arguments.map { try Tensor($0!, graph: self) })
          let pointers: [OpaquePointer?] = results.map { $0.pointer }
          try check(mpsgraph_graph_end_block(handle.pointer, pointers, pointers.count))
        } catch {
          _ = mpsgraph_graph_abandon_block(handle.pointer)  // the block that is open
          throw error
        }
        ended += 1
      }
    } catch {
      // the finished blocks, which no operation will use
      if ended > 0 { _ = mpsgraph_graph_abandon_block(handle.pointer) }
      throw error
    }
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    let made = try operation {
      mpsgraph_operation_create_with_blocks(handle.pointer, kind, pointers, pointers.count, nil, nil, blocks.count, $0)
    }
    return try results(of: made)
  }

  // MARK: compiling

  /// Compiles the graph from its named inputs to its named outputs, in order. `types` has one type per input; it may be
  /// empty if all types are known.
  public func compile(_ types: [TensorType] = []) throws -> Executable {
    let c = types.map { $0.c }
    return try Executable(Handle { mpsgraph_graph_compile(handle.pointer, c.isEmpty ? nil : c, c.count, $0) })
  }

  /// Compiles the graph for any feeds, targets, and operations to run with them.
  public func compile(
    feeds: [(tensor: Tensor, type: TensorType)], targets: [Tensor], operations: [GraphOperation] = []
  ) throws -> Executable {
    let fed: [OpaquePointer?] = feeds.map { $0.tensor.pointer }
    let types = feeds.map { $0.type.c }
    let wanted: [OpaquePointer?] = targets.map { $0.pointer }
    let run: [OpaquePointer?] = operations.map { $0.pointer }
    return try Executable(
      Handle {
        mpsgraph_executable_create(
          handle.pointer, fed, types, fed.count, wanted, wanted.count, run, run.count, $0)
      })
  }

  func tensor(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> Tensor {
    try Tensor(belonging(make), graph: self)
  }

  private func operation(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> GraphOperation {
    GraphOperation(pointer: try belonging(make), graph: self)
  }

  /// Returns an object owned by the graph, which needs no release.
  private func belonging(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> OpaquePointer {
    var made: OpaquePointer?
    try check(make(&made))
    guard let made else { throw Failure(.internal, "the library reported success but returned no object") }
    return made
  }
}
