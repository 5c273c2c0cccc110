// Errors: the status and message of the C API as a Swift error.
import CMpsgraph

/// An error of the library. Its message states what was expected, what was received, and how to fix it.
public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The kinds of errors. Raw values are those of `mpsgraph_status`.
  public enum Kind: Int32, Sendable {
    case invalidArgument = 1
    case invalidHandle = 2
    case bufferTooSmall = 3
    case shape = 4
    case outOfRange = 5
    case elementType = 6
    case graph = 7
    case package = 8
    case unsupported = 9
    case device = 10
    case timeout = 11
    case outOfMemory = 12
    case `internal` = 13
    case checkFailed = 14
  }

  public let kind: Kind
  public let message: String

  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }

  public var description: String { "\(kind): \(message)" }
}

/// Returns the error for a status, or nil for success. Without `message`, uses the last message of this thread.
func failure(_ status: mpsgraph_status, _ message: UnsafePointer<CChar>? = nil) -> Failure? {
  if status == 0 { return nil }
  let words = message ?? mpsgraph_error_message()
  return Failure(Failure.Kind(rawValue: status) ?? .internal, words.map { String(cString: $0) } ?? "")
}

func check(_ status: mpsgraph_status) throws {
  if let failed = failure(status) { throw failed }
}

/// Returns a string that the library writes in two calls: first its length, then the characters.
func text(_ write: (UnsafeMutablePointer<CChar>?, Int, UnsafeMutablePointer<Int>?) -> mpsgraph_status) throws -> String {
  var length = 0
  try check(write(nil, 0, &length))
  var buffer = [CChar](repeating: 0, count: length + 1)
  try check(write(&buffer, buffer.count, nil))
  return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// A reference-counted object of the library, released with the last reference to this instance.
///
/// The library's objects may be used from several threads (docs/c.md), so everything that holds one is Sendable.
final class Handle: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes ownership of the reference that `make` returns.
  init(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws {
    var made: OpaquePointer?
    try check(make(&made))
    guard let made else { throw Failure(.internal, "the library reported success but returned no object") }
    pointer = made
  }

  init(adopting pointer: OpaquePointer) { self.pointer = pointer }

  /// Adds a reference to an object that is owned elsewhere.
  init(retaining pointer: OpaquePointer) throws {
    try check(mpsgraph_retain(UnsafeMutableRawPointer(pointer)))
    self.pointer = pointer
  }

  deinit { _ = mpsgraph_release(UnsafeMutableRawPointer(pointer)) }
}
