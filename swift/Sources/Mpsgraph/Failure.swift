// What can go wrong: the C interface's status and message as an error of Swift's.
import CMpsgraph

/// An error of the library. It says what was expected, what came, and what to do.
public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The kinds of errors; the numbers are those of `mpsgraph_status`.
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

/// The error of a status; nil where it is none. `message` is this thread's last one if not given.
func failure(_ status: mpsgraph_status, _ message: UnsafePointer<CChar>? = nil) -> Failure? {
  if status == 0 { return nil }
  let words = message ?? mpsgraph_error_message()
  return Failure(Failure.Kind(rawValue: status) ?? .internal, words.map { String(cString: $0) } ?? "")
}

func check(_ status: mpsgraph_status) throws {
  if let failed = failure(status) { throw failed }
}

/// A text that the library writes into a buffer: its length first, then the text.
func text(_ write: (UnsafeMutablePointer<CChar>?, Int, UnsafeMutablePointer<Int>?) -> mpsgraph_status) throws -> String {
  var length = 0
  try check(write(nil, 0, &length))
  var buffer = [CChar](repeating: 0, count: length + 1)
  try check(write(&buffer, buffer.count, nil))
  return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// A counted object of the library, released with the last reference to this one.
///
/// Objects of the library may be used from several threads (docs/c.md), so that all that hold one are Sendable.
final class Handle: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes the count over that `make` returns.
  init(_ make: (UnsafeMutablePointer<OpaquePointer?>) -> mpsgraph_status) throws {
    var made: OpaquePointer?
    try check(make(&made))
    guard let made else { throw Failure(.internal, "the library said that all went well, and gave no object") }
    pointer = made
  }

  init(adopting pointer: OpaquePointer) { self.pointer = pointer }

  /// Another reference to an object that somebody else holds.
  init(retaining pointer: OpaquePointer) throws {
    try check(mpsgraph_retain(UnsafeMutableRawPointer(pointer)))
    self.pointer = pointer
  }

  deinit { _ = mpsgraph_release(UnsafeMutableRawPointer(pointer)) }
}
