// Arrays: owned by the library, or views of the application's memory without a copy.
import CMpsgraph
import Foundation

/// A row-major array of numbers. An array over your memory reflects what you write there, and runs write into it.
public final class NDArray: Sendable {
  let handle: Handle
  /// The type; all dimensions are known.
  public let type: TensorType

  init(_ handle: Handle) throws {
    self.handle = handle
    var type = mpsgraph_type()
    try check(mpsgraph_array_type(handle.pointer, &type))
    self.type = try TensorType(type)
  }

  /// Creates a reference to the same array.
  package init(sharing other: NDArray) {
    handle = other.handle
    type = other.type
  }

  /// Creates an array of zeros.
  public convenience init(zeros type: TensorType) throws {
    var c = type.c
    try self.init(Handle { mpsgraph_array_create(&c, $0) })
  }

  /// Creates an array with a copy of `values`. Without a shape, the result is a vector.
  public convenience init<T: Element>(_ values: [T], shape: [Int]? = nil) throws {
    try self.init(zeros: TensorType(T.elementType, shape ?? [values.count]))
    try values.withUnsafeBytes { try check(mpsgraph_array_write(handle.pointer, $0.baseAddress, $0.count)) }
  }

  /// Creates an array of rank 0 with one number.
  public convenience init<T: Element>(scalar value: T) throws { try self.init([value], shape: []) }

  /// Creates a read-only array over the bytes of `data` without a copy. The bytes live as long as the array.
  ///
  /// Only data of a few bytes, which has no separate memory, is copied.
  public convenience init(data: Data, type: TensorType) throws {
    let held = Unmanaged.passRetained(Bytes(data))
    let bytes = held.takeUnretainedValue().pointer
    let release: mpsgraph_deleter = { _, context in
      if let context { Unmanaged<Bytes>.fromOpaque(context).release() }
    }
    var c = type.c
    do {
      let start = UnsafeMutableRawPointer(mutating: bytes.baseAddress)
      try self.init(Handle {
        mpsgraph_array_from_memory(&c, nil, start, bytes.count, 0, release, held.toOpaque(), $0)
      })
    } catch {
      held.release()  // the library only calls the deleter for arrays that it created
      throw error
    }
  }

  /// Creates an array over memory that must outlive the array and all runs that use it. Runs write into it if it is a
  /// result.
  public convenience init<T: Element>(over memory: UnsafeMutableBufferPointer<T>, shape: [Int]) throws {
    var c = try TensorType(T.elementType, shape).c
    let bytes = memory.count * MemoryLayout<T>.stride
    try self.init(Handle { mpsgraph_array_from_memory(&c, nil, memory.baseAddress, bytes, 1, nil, nil, $0) })
  }

  /// Creates a read-only array over memory that must outlive the array and all runs that use it.
  public convenience init<T: Element>(over memory: UnsafeBufferPointer<T>, shape: [Int]) throws {
    var c = try TensorType(T.elementType, shape).c
    let bytes = memory.count * MemoryLayout<T>.stride
    let start = UnsafeMutablePointer(mutating: memory.baseAddress)
    try self.init(Handle { mpsgraph_array_from_memory(&c, nil, start, bytes, 0, nil, nil, $0) })
  }

  /// The number of bytes of all elements.
  public var byteCount: Int { (type.count ?? 0) * type.elementType.size }

  /// Copies all elements, in row-major order, into memory of exactly `byteCount` bytes.
  public func read(into memory: UnsafeMutableRawBufferPointer) throws {
    try check(mpsgraph_array_read(handle.pointer, memory.baseAddress, memory.count))
  }

  /// Sets all elements, in row-major order, from memory of exactly `byteCount` bytes.
  public func write(from memory: UnsafeRawBufferPointer) throws {
    try check(mpsgraph_array_write(handle.pointer, memory.baseAddress, memory.count))
  }

  private func memory() throws -> UnsafeRawBufferPointer {
    var start: UnsafeMutableRawPointer?
    var bytes = 0
    try check(mpsgraph_array_data(handle.pointer, &start, &bytes))
    return UnsafeRawBufferPointer(start: start, count: bytes)
  }

  /// Calls `body` with the array's memory, without a copy. Throws a `Failure` of kind `elementType` if the element type
  /// differs.
  public func withUnsafeBufferPointer<T: Element, R>(
    of element: T.Type = T.self, _ body: (UnsafeBufferPointer<T>) throws -> R
  ) throws -> R {
    guard T.elementType == type.elementType else {
      throw Failure(.elementType, "expected an array of \(T.elementType), got \(type.elementType)")
    }
    return try withExtendedLifetime(self) { try body(memory().bindMemory(to: T.self)) }
  }

  /// Returns a copy of the elements.
  public func values<T: Element>(_ element: T.Type = T.self) throws -> [T] {
    try withUnsafeBufferPointer(of: T.self) { Array($0) }
  }

  /// Returns the element of an array with a single element.
  public func value<T: Element>(_ element: T.Type = T.self) throws -> T {
    try withUnsafeBufferPointer(of: T.self) { elements in
      guard elements.count == 1 else { throw Failure(.shape, "expected an array with one element, got \(type)") }
      return elements[0]
    }
  }

  /// Returns the array's bytes without a copy. The data retains the array.
  public func data() throws -> Data {
    let bytes = try memory()
    guard let start = bytes.baseAddress, bytes.count > 0 else { return Data() }
    let kept = handle
    return Data(
      bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count,
      deallocator: .custom { _, _ in withExtendedLifetime(kept) {} })
  }
}

/// Data at a fixed address.
///
/// Data of more than a few bytes refers to memory that is shared until an owner writes to it and then receives a copy.
/// As long as this object holds the data, the memory is neither moved nor changed. Smaller data is stored in the
/// reference itself.
private final class Bytes {
  let pointer: UnsafeRawBufferPointer
  private let data: Data
  private let small: UnsafeMutableRawBufferPointer?

  init(_ data: Data) {
    self.data = data
    if data.count > 64 {
      small = nil
      pointer = data.withUnsafeBytes { $0 }
    } else {
      let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(data.count, 1), alignment: 16)
      data.withUnsafeBytes { copy.copyMemory(from: $0) }
      small = copy
      pointer = UnsafeRawBufferPointer(rebasing: copy.prefix(data.count))
    }
  }

  deinit { small?.deallocate() }
}

/// Calls `body` with the handles of `arrays`, which are valid during the call.
func withHandles<R>(_ arrays: [NDArray], _ body: (UnsafePointer<OpaquePointer?>?, Int) throws -> R) rethrows -> R {
  let pointers: [OpaquePointer?] = arrays.map { $0.handle.pointer }
  return try withExtendedLifetime(arrays) {
    try pointers.withUnsafeBufferPointer { try body($0.baseAddress, $0.count) }
  }
}
