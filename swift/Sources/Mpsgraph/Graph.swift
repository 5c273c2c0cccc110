// Graphs: opened from a package, read from text, or built operation by operation.
import CMpsgraph
import Foundation

/// A value of a graph. It keeps its graph.
public struct Tensor: @unchecked Sendable {
  let pointer: OpaquePointer
  public let graph: Graph

  /// The type, as far as the graph knows it.
  public func type() throws -> TensorType {
    var type = mpsgraph_type()
    try check(mpsgraph_tensor_type(pointer, &type))
    return try TensorType(type)
  }

  public func name() throws -> String { try text { mpsgraph_tensor_name(pointer, $0, $1, $2) } }

  /// A variable's value of now, copied. `Failure` of kind `graph` where the tensor is no variable.
  public func read() throws -> NDArray { try NDArray(Handle { mpsgraph_variable_read(pointer, $0) }) }

  /// Sets a variable; the type must be its own.
  public func write(_ value: NDArray) throws { try check(mpsgraph_variable_write(pointer, value.handle.pointer)) }
}

/// An operation of a graph, for those without a result, as an assignment. It keeps its graph.
public struct Operation: @unchecked Sendable {
  let pointer: OpaquePointer
  public let graph: Graph
}

/// A graph of operations on a device. It is built by one thread at a time, and may run on many.
public final class Graph: Sendable {
  let handle: Handle

  /// An empty one; the default device if none is named.
  public init(device: Device? = nil) throws {
    handle = try Handle { mpsgraph_graph_create(device?.handle.pointer, $0) }
  }

  /// A package, as `mpsgraph.save` in Python writes it.
  public init(package: URL, device: Device? = nil) throws {
    handle = try Handle { mpsgraph_graph_open(package.path, device?.handle.pointer, $0) }
  }

  /// The textual form.
  public init(text: String, device: Device? = nil) throws {
    handle = try Handle { mpsgraph_graph_from_text(text, text.utf8.count, device?.handle.pointer, $0) }
  }

  init(_ handle: Handle) { self.handle = handle }

  public func text() throws -> String { try Mpsgraph.text { mpsgraph_graph_text(handle.pointer, $0, $1, $2) } }

  /// Writes a package: inputs and outputs that have names, and all variables with their values of now.
  public func save(to package: URL) throws { try check(mpsgraph_graph_save(handle.pointer, package.path)) }

  /// Sets the variables that a package has to its values: all of them, or none where one does not fit.
  public func loadState(from package: URL) throws { try check(mpsgraph_graph_load_state(handle.pointer, package.path)) }

  // MARK: what has a name

  /// What tensors are to an application; the numbers are those of `mpsgraph_role`.
  public enum Role: Int32, Sendable {
    case input = 0
    case output = 1
    case parameter = 2
    case trainable = 3
  }

  /// Names and tensors in their order. Parameters are all variables, trainable ones those that a package names.
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

  public func findOperation(_ name: String) throws -> Operation {
    try operation { mpsgraph_graph_find_operation(handle.pointer, name, $0) }
  }

  /// Gives a placeholder a name as input, or a tensor one as output; a name that exists is moved.
  public func setName(_ name: String, _ role: Role, of tensor: Tensor) throws {
    try check(mpsgraph_graph_set_name(handle.pointer, role.rawValue, name, tensor.pointer))
  }

  // MARK: building

  /// The single result of a new operation, by its kind, operands and attributes, as docs/operations.md lists them.
  public func add(_ kind: String, _ inputs: [Tensor] = [], _ values: [String: Attribute] = [:], name: String? = nil)
    throws -> Tensor
  {
    let attributes = try attributes(values)
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    return try tensor {
      mpsgraph_graph_add(handle.pointer, kind, pointers, pointers.count, attributes.pointer, name, $0)
    }
  }

  /// A new operation, with as many results as its kind has.
  public func create(_ kind: String, _ inputs: [Tensor] = [], _ values: [String: Attribute] = [:], name: String? = nil)
    throws -> Operation
  {
    let attributes = try attributes(values)
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    return try operation {
      mpsgraph_operation_create(handle.pointer, kind, pointers, pointers.count, attributes.pointer, name, $0)
    }
  }

  public func results(of operation: Operation) throws -> [Tensor] {
    var count = 0
    try check(mpsgraph_operation_output_count(operation.pointer, &count))
    return try (0..<count).map { index in try tensor { mpsgraph_operation_output(operation.pointer, index, $0) } }
  }

  /// Something that is fed; an input by its name, too.
  public func placeholder(_ type: TensorType, name: String) throws -> Tensor {
    let made = try add("placeholder", [], ["type": .type(type)], name: name)
    try setName(name, .input, of: made)
    return made
  }

  public func variable(_ value: NDArray, name: String) throws -> Tensor {
    try add("variable", [], ["value": .data(value)], name: name)
  }

  public func constant(_ value: NDArray) throws -> Tensor { try add("constant", [], ["value": .data(value)]) }

  public func assign(_ variable: Tensor, _ value: Tensor) throws -> Operation { try create("assign", [variable, value]) }

  /// d(of)/d(each of the others), in their order.
  public func gradients(of loss: Tensor, withRespectTo tensors: [Tensor]) throws -> [Tensor] {
    let pointers: [OpaquePointer?] = tensors.map { $0.pointer }
    var made = [OpaquePointer?](repeating: nil, count: tensors.count)
    try check(mpsgraph_graph_gradients(loss.pointer, pointers, pointers.count, &made))
    return made.map { Tensor(pointer: $0!, graph: self) }
  }

  // MARK: control flow

  /// The results of `then` or of `otherwise`, which have the same types.
  public func `if`(
    _ predicate: Tensor, then: @escaping () throws -> [Tensor], otherwise: @escaping () throws -> [Tensor]
  ) throws -> [Tensor] {
    try withBlocks("if", [predicate], [([], { _ in try then() }), ([], { _ in try otherwise() })])
  }

  /// `body(index, values)` for each index from `lower` to before `upper`; the last values.
  public func `for`(
    _ lower: Tensor, _ upper: Tensor, _ step: Tensor, initial: [Tensor],
    body: @escaping (_ index: Tensor, _ values: [Tensor]) throws -> [Tensor]
  ) throws -> [Tensor] {
    let types = try [lower.type()] + initial.map { try $0.type() }
    return try withBlocks(
      "for", [lower, upper, step] + initial, [(types, { try body($0[0], Array($0.dropFirst())) })])
  }

  /// `before` gives a predicate and values; while it holds, `after` makes of them what `before` is given next.
  public func `while`(
    initial: [Tensor], before: @escaping (_ values: [Tensor]) throws -> (predicate: Tensor, values: [Tensor]),
    after: @escaping (_ values: [Tensor]) throws -> [Tensor]
  ) throws -> [Tensor] {
    let types = try initial.map { try $0.type() }
    var handedOn: [TensorType] = []
    return try withBlocks(
      "while", initial,
      [
        (
          types,
          { arguments in
            let (predicate, values) = try before(arguments)
            handedOn = try values.map { try $0.type() }
            return [predicate] + values
          }
        ),
        (nil, after),
      ],
      later: { handedOn })
  }

  /// An operation with blocks: the types of each one's arguments (nil: those that `later` knows by then), its content.
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
          let results = try block.content(arguments.map { Tensor(pointer: $0!, graph: self) })
          let pointers: [OpaquePointer?] = results.map { $0.pointer }
          try check(mpsgraph_graph_end_block(handle.pointer, pointers, pointers.count))
        } catch {
          _ = mpsgraph_graph_abandon_block(handle.pointer)  // the one that is open
          throw error
        }
        ended += 1
      }
    } catch {
      if ended > 0 { _ = mpsgraph_graph_abandon_block(handle.pointer) }  // those that nothing will take
      throw error
    }
    let pointers: [OpaquePointer?] = inputs.map { $0.pointer }
    let made = try operation {
      mpsgraph_operation_create_with_blocks(handle.pointer, kind, pointers, pointers.count, nil, nil, blocks.count, $0)
    }
    return try results(of: made)
  }

  // MARK: compiling

  /// The inputs and outputs that have names, in their order. `types` has one for each input; without, all are known.
  public func compile(_ types: [TensorType] = []) throws -> Executable {
    let c = types.map { $0.c }
    return try Executable(Handle { mpsgraph_graph_compile(handle.pointer, c.isEmpty ? nil : c, c.count, $0) })
  }

  /// Any feeds, targets, and operations that run with them.
  public func compile(
    feeds: [(tensor: Tensor, type: TensorType)], targets: [Tensor], operations: [Operation] = []
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

  private func tensor(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> Tensor {
    Tensor(pointer: try belonging(make), graph: self)
  }

  private func operation(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> Operation {
    Operation(pointer: try belonging(make), graph: self)
  }

  /// Of the graph's own objects, which need no release.
  private func belonging(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws -> OpaquePointer {
    var made: OpaquePointer?
    try check(make(&made))
    guard let made else { throw Failure(.internal, "the library said that all went well, and gave nothing") }
    return made
  }
}
