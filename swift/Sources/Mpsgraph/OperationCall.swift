// The operands and attributes of one operation, as the methods in Operations.swift collect them.
import CMpsgraph

/// Padding of a convolution or pooling operation: a style, or amounts before and after each axis of the window.
public enum Padding: Sendable {
  case style(PaddingStyle)
  case explicit([(before: Int, after: Int)])

  var name: String {
    switch self {
    case .style(let style): return style.rawValue
    case .explicit: return PaddingStyle.EXPLICIT.rawValue
    }
  }

  func amounts(_ axes: Int) -> [Int] {
    switch self {
    case .style: return [Int](repeating: 0, count: 2 * axes)
    case .explicit(let sides): return sides.flatMap { [$0.before, $0.after] }
    }
  }
}

struct OperationCall {
  let kind: String
  let graph: Graph
  private var operands: [Tensor] = []
  private var attributes: [String: Attribute] = [:]

  init(_ kind: String, in graph: Graph) {
    self.kind = kind
    self.graph = graph
  }

  mutating func operand(_ tensor: Tensor) { operands.append(tensor) }

  mutating func list(_ tensors: [Tensor]) { operands += tensors }

  /// Adds an operand if it is given. `flag` is the attribute that states whether it is given.
  mutating func optional(_ tensor: Tensor?, flag: String? = nil) {
    if let tensor { operands.append(tensor) }
    if let flag { attributes[flag] = .bool(tensor != nil) }
  }

  /// Adds a shape as a constant.
  mutating func shape(_ sizes: [Int]) throws {
    operands.append(try graph.constant(NDArray(sizes.map { Int64($0) })))
  }

  mutating func set(_ name: String, _ value: Attribute) { attributes[name] = value }

  func operation(_ name: String?) throws -> Operation { try graph.create(kind, operands, attributes, name: name) }

  func tensors(_ name: String?) throws -> [Tensor] { try graph.results(of: operation(name)) }

  func tensor(_ name: String?) throws -> Tensor { try graph.add(kind, operands, attributes, name: name) }

  func pair(_ name: String?) throws -> (Tensor, Tensor) {
    let results = try tensors(name)
    return (results[0], results[1])
  }
}
