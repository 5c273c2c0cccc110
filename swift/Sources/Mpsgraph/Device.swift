// Devices and process-wide settings.
import CMpsgraph

/// A device on which graphs run: "cpu", or "metal" on Apple platforms.
public final class Device: Sendable {
  let handle: Handle

  /// Opens the named device, or the default device if the name is nil.
  public init(_ name: String? = nil) throws { handle = try Handle { mpsgraph_device_open(name, $0) } }

  public func name() throws -> String { try text { mpsgraph_device_name(handle.pointer, $0, $1, $2) } }

  public func description() throws -> String { try text { mpsgraph_device_description(handle.pointer, $0, $1, $2) } }

  /// The names of all devices of this machine.
  public static func names() throws -> [String] {
    var count = 0
    try check(mpsgraph_device_count(&count))
    return try (0..<count).map { index in try text { mpsgraph_device_name_at(index, $0, $1, $2) } }
  }
}

/// Settings and statistics of the library in this process.
public enum Library {
  public static var version: String { mpsgraph_version().map { String(cString: $0) } ?? "" }

  /// The number of threads used by runs on the CPU.
  public static func threadCount() throws -> Int {
    var count: Int32 = 0
    try check(mpsgraph_thread_count(&count))
    return Int(count)
  }

  /// Sets the number of threads; 0 means one per processor.
  public static func setThreadCount(_ count: Int) throws { try check(mpsgraph_set_thread_count(Int32(clamping: count))) }

  /// The number of bytes in live arrays, their peak, and the bytes cached for new arrays.
  public static func memory() throws -> (live: UInt64, peak: UInt64, cached: UInt64) {
    var statistics = mpsgraph_memory_statistics()
    try check(mpsgraph_get_memory_statistics(&statistics))
    return (statistics.live_bytes, statistics.peak_live_bytes, statistics.cached_bytes)
  }
}
