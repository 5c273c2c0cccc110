// Arrays: the library's own, or over memory of the application's, which is not copied.
import CMpsgraph
import Foundation

/// A row-major array of numbers. Arrays over your memory see what you write there, and a run writes there.
public final class NDArray: Sendable {
  let handle: Handle
  /// The type, with every dimension known.
  public let type: TensorType

  init(_ handle: Handle) throws {
    self.handle = handle
    var type = mpsgraph_type()
    try check(mpsgraph_array_type(handle.pointer, &type))
    self.type = try TensorType(type)
  }

  /// Of zeros.
  public convenience init(zeros type: TensorType) throws {
    var c = type.c
    try self.init(Handle { mpsgraph_array_create(&c, $0) })
  }

  /// A copy of `values`; the shape is that of a vector if none is given.
  public convenience init<T: Element>(_ values: [T], shape: [Int]? = nil) throws {
    try self.init(zeros: TensorType(T.elementType, shape ?? [values.count]))
    try values.withUnsafeBytes { try check(mpsgraph_array_write(handle.pointer, $0.baseAddress, $0.count)) }
  }

  /// One number.
  public convenience init<T: Element>(scalar value: T) throws { try self.init([value], shape: []) }

  /// Over the bytes of `data`, not copied and never written; they live as long as the array.
  ///
  /// Data of a few bytes have no memory of their own, which alone are copied.
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
      held.release()  // the library calls the deleter only of an array that it made
      throw error
    }
  }

  /// Over memory that must outlive the array and all runs with it. It is written when it is a run's result.
  public convenience init<T: Element>(over memory: UnsafeMutableBufferPointer<T>, shape: [Int]) throws {
    var c = try TensorType(T.elementType, shape).c
    let bytes = memory.count * MemoryLayout<T>.stride
    try self.init(Handle { mpsgraph_array_from_memory(&c, nil, memory.baseAddress, bytes, 1, nil, nil, $0) })
  }

  /// The same memory, read only.
  public convenience init<T: Element>(over memory: UnsafeBufferPointer<T>, shape: [Int]) throws {
    var c = try TensorType(T.elementType, shape).c
    let bytes = memory.count * MemoryLayout<T>.stride
    let start = UnsafeMutablePointer(mutating: memory.baseAddress)
    try self.init(Handle { mpsgraph_array_from_memory(&c, nil, start, bytes, 0, nil, nil, $0) })
  }

  private func memory() throws -> UnsafeRawBufferPointer {
    var start: UnsafeMutableRawPointer?
    var bytes = 0
    try check(mpsgraph_array_data(handle.pointer, &start, &bytes))
    return UnsafeRawBufferPointer(start: start, count: bytes)
  }

  /// The array's own memory, without a copy. `Failure` of kind `elementType` for another type of element.
  public func withUnsafeBufferPointer<T: Element, R>(
    of element: T.Type = T.self, _ body: (UnsafeBufferPointer<T>) throws -> R
  ) throws -> R {
    guard T.elementType == type.elementType else {
      throw Failure(.elementType, "the array is of \(type.elementType), asked for was \(T.elementType)")
    }
    return try withExtendedLifetime(self) { try body(memory().bindMemory(to: T.self)) }
  }

  /// A copy of the elements.
  public func values<T: Element>(_ element: T.Type = T.self) throws -> [T] {
    try withUnsafeBufferPointer(of: T.self) { Array($0) }
  }

  /// The single element of an array that has one.
  public func value<T: Element>(_ element: T.Type = T.self) throws -> T {
    try withUnsafeBufferPointer(of: T.self) { elements in
      guard elements.count == 1 else { throw Failure(.shape, "one element was asked for, the array is \(type)") }
      return elements[0]
    }
  }

  /// The array's bytes, not copied: the data keeps the array.
  public func data() throws -> Data {
    let bytes = try memory()
    guard let start = bytes.baseAddress, bytes.count > 0 else { return Data() }
    let kept = handle
    return Data(
      bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count,
      deallocator: .custom { _, _ in withExtendedLifetime(kept) {} })
  }
}

/// Data at a place that stays.
///
/// Beyond a few bytes Data are a reference to memory, which is shared until one of its owners writes, who then gets a
/// copy: while this one holds it, the memory is neither moved nor changed. What fits into the reference lies in it.
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

/// The handles of `arrays` for the time of `body`.
func withHandles<R>(_ arrays: [NDArray], _ body: (UnsafePointer<OpaquePointer?>?, Int) throws -> R) rethrows -> R {
  let pointers: [OpaquePointer?] = arrays.map { $0.handle.pointer }
  return try withExtendedLifetime(arrays) {
    try pointers.withUnsafeBufferPointer { try body($0.baseAddress, $0.count) }
  }
}
