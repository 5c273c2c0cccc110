// Element types and shapes of arrays and tensors.
import CMpsgraph

/// The type of an array's elements. Raw values are those of `mpsgraph_dtype`.
public enum ElementType: Int32, CaseIterable, Sendable {
  case float32 = 0
  case float16 = 1
  case bfloat16 = 2
  case float64 = 3
  case int8 = 4
  case int16 = 5
  case int32 = 6
  case int64 = 7
  case uint8 = 8
  case uint16 = 9
  case uint32 = 10
  case uint64 = 11
  case bool = 12
  case complex64 = 13
  case complex128 = 14

  /// Whether the type is a signed or unsigned integer type.
  public var isInteger: Bool {
    switch self {
    case .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64: return true
    default: return false
    }
  }

  /// The size of an element in bytes.
  public var size: Int {
    switch self {
    case .int8, .uint8, .bool: return 1
    case .float16, .bfloat16, .int16, .uint16: return 2
    case .float32, .int32, .uint32: return 4
    case .float64, .int64, .uint64, .complex64: return 8
    case .complex128: return 16
    }
  }
}

/// A Swift type whose values have the same memory layout as the elements of an array.
public protocol Element: BitwiseCopyable, Sendable {
  static var elementType: ElementType { get }
}

extension Float: Element { public static var elementType: ElementType { .float32 } }
extension Double: Element { public static var elementType: ElementType { .float64 } }
extension Int8: Element { public static var elementType: ElementType { .int8 } }
extension Int16: Element { public static var elementType: ElementType { .int16 } }
extension Int32: Element { public static var elementType: ElementType { .int32 } }
extension Int64: Element { public static var elementType: ElementType { .int64 } }
extension UInt8: Element { public static var elementType: ElementType { .uint8 } }
extension UInt16: Element { public static var elementType: ElementType { .uint16 } }
extension UInt32: Element { public static var elementType: ElementType { .uint32 } }
extension UInt64: Element { public static var elementType: ElementType { .uint64 } }
extension Bool: Element { public static var elementType: ElementType { .bool } }
#if arch(arm64)
extension Float16: Element { public static var elementType: ElementType { .float16 } }
#endif

/// An element type and a shape. Dimensions may be dynamic (-1), and the whole shape may be unknown (nil).
public struct TensorType: Hashable, Sendable, CustomStringConvertible {
  public let elementType: ElementType
  public let shape: [Int]?

  /// Throws a `Failure` of kind `invalidArgument` for more than 16 dimensions.
  public init(_ elementType: ElementType, _ shape: [Int]?) throws {
    if let shape, shape.count > Int(MPSGRAPH_MAX_RANK) {
      throw Failure(.invalidArgument, "a shape must have at most \(MPSGRAPH_MAX_RANK) dimensions, got \(shape.count)")
    }
    self.elementType = elementType
    self.shape = shape
  }

  /// The number of elements; nil if a dimension is unknown.
  public var count: Int? {
    guard let shape, !shape.contains(where: { $0 < 0 }) else { return nil }
    return shape.reduce(1, *)
  }

  public var description: String {
    let dimensions = shape.map { $0.map { $0 < 0 ? "?" : String($0) }.joined(separator: "x") } ?? "*"
    return "\(elementType)[\(dimensions)]"
  }

  var c: mpsgraph_type {
    var type = mpsgraph_type()
    type.dtype = elementType.rawValue
    type.rank = shape.map { Int32($0.count) } ?? -1
    withUnsafeMutableBytes(of: &type.dims) { bytes in
      let dims = bytes.bindMemory(to: Int64.self)
      for (axis, size) in (shape ?? []).enumerated() { dims[axis] = Int64(size) }
    }
    return type
  }

  init(_ type: mpsgraph_type) throws {
    guard let elementType = ElementType(rawValue: type.dtype) else {
      throw Failure(.unsupported, "element type \(type.dtype) requires a newer version of this Swift package")
    }
    self.elementType = elementType
    shape = type.rank < 0 ? nil : withUnsafeBytes(of: type.dims) { bytes in
      bytes.bindMemory(to: Int64.self).prefix(Int(type.rank)).map { Int($0) }
    }
  }
}
