// Attributes of operations. docs/operations.md lists those of each kind of operation.
import CMpsgraph

/// The value of an attribute. Literals can be used directly: `["axes": [0, 1], "keep_dims": true]`.
public enum Attribute: Sendable, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByStringLiteral, ExpressibleByArrayLiteral
{
  case bool(Bool)
  case integer(Int)
  case real(Double)
  case string(String)
  case integers([Int])
  case elementType(ElementType)
  case data(NDArray)
  case type(TensorType)
  case types([TensorType])

  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(integerLiteral value: Int) { self = .integer(value) }
  public init(floatLiteral value: Double) { self = .real(value) }
  public init(stringLiteral value: String) { self = .string(value) }
  public init(arrayLiteral elements: Int...) { self = .integers(elements) }
}

func attributes(_ values: [String: Attribute]) throws -> Handle {
  let made = try Handle { mpsgraph_attributes_create($0) }
  for (name, value) in values { try set(made.pointer, name, value) }
  return made
}

private func set(_ attributes: OpaquePointer, _ name: String, _ value: Attribute) throws {
  switch value {
  case .bool(let flag): try check(mpsgraph_attributes_set_bool(attributes, name, flag ? 1 : 0))
  case .integer(let number): try check(mpsgraph_attributes_set_integer(attributes, name, Int64(number)))
  case .real(let number): try check(mpsgraph_attributes_set_real(attributes, name, number))
  case .string(let words): try check(mpsgraph_attributes_set_string(attributes, name, words))
  case .integers(let numbers):
    try check(mpsgraph_attributes_set_integers(attributes, name, numbers.map { Int64($0) }, numbers.count))
  case .elementType(let type): try check(mpsgraph_attributes_set_dtype(attributes, name, type.rawValue))
  case .data(let array): try check(mpsgraph_attributes_set_data(attributes, name, array.handle.pointer))
  case .type(let type):
    var c = type.c
    try check(mpsgraph_attributes_set_type(attributes, name, &c))
  case .types(let types):
    try check(mpsgraph_attributes_set_types(attributes, name, types.map { $0.c }, types.count))
  }
}
