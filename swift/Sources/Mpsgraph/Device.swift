// Devices, and what holds for the whole process.
import CMpsgraph

/// Where graphs run: "cpu", and "metal" on Apple's machines.
public final class Device: Sendable {
  let handle: Handle

  /// The default device if no name is given.
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

/// The library in this process.
public enum Library {
  public static var version: String { mpsgraph_version().map { String(cString: $0) } ?? "" }

  /// Threads that runs on the CPU use.
  public static func threadCount() throws -> Int {
    var count: Int32 = 0
    try check(mpsgraph_thread_count(&count))
    return Int(count)
  }

  /// 0: as many as the machine has processors.
  public static func setThreadCount(_ count: Int) throws { try check(mpsgraph_set_thread_count(Int32(clamping: count))) }

  /// Bytes of arrays that live now, at most lived, and are kept for the next ones.
  public static func memory() throws -> (live: UInt64, peak: UInt64, cached: UInt64) {
    var statistics = mpsgraph_memory_statistics()
    try check(mpsgraph_get_memory_statistics(&statistics))
    return (statistics.live_bytes, statistics.peak_live_bytes, statistics.cached_bytes)
  }
}
