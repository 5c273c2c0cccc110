// Work in order, beside other work: queues, command buffers, shared events.
import CMpsgraph

/// Command buffers of a queue run one after the other, in the order in which they are committed.
public final class CommandQueue: Sendable {
  let handle: Handle

  public init(device: Device? = nil) throws {
    handle = try Handle { mpsgraph_queue_create(device?.handle.pointer, $0) }
  }
}

/// Runs that are encoded first, and handed over together by `commit`.
public final class CommandBuffer: Sendable {
  let handle: Handle

  public init(_ queue: CommandQueue) throws {
    handle = try Handle { mpsgraph_command_buffer_create(queue.handle.pointer, $0) }
  }

  /// `results` are filled when the buffer is completed.
  public func encode(_ executable: Executable, _ inputs: [NDArray], into results: [NDArray]) throws {
    try withHandles(inputs) { given, count in
      var written: [OpaquePointer?] = results.map { $0.handle.pointer }
      try withExtendedLifetime(results) {
        try check(
          mpsgraph_command_buffer_encode(
            handle.pointer, executable.handle.pointer, given, count, &written, written.count))
      }
    }
  }

  /// What is encoded after this waits until the event has reached `value`.
  public func wait(for event: SharedEvent, value: UInt64) throws {
    try check(mpsgraph_command_buffer_wait_for_event(handle.pointer, event.handle.pointer, value))
  }

  /// Sets the event when all that is encoded before this has run.
  public func signal(_ event: SharedEvent, value: UInt64) throws {
    try check(mpsgraph_command_buffer_signal_event(handle.pointer, event.handle.pointer, value))
  }

  public func commit() throws { try check(mpsgraph_command_buffer_commit(handle.pointer)) }

  /// Until it is completed, or `seconds` are over: `Failure` of kind `timeout`. Without, for ever.
  public func wait(seconds: Double? = nil) throws { try check(mpsgraph_command_buffer_wait(handle.pointer, seconds ?? -1)) }
}

/// A number that only grows, for which command buffers and threads wait.
public final class SharedEvent: Sendable {
  let handle: Handle

  public init() throws { handle = try Handle { mpsgraph_event_create($0) } }

  public func value() throws -> UInt64 {
    var value: UInt64 = 0
    try check(mpsgraph_event_value(handle.pointer, &value))
    return value
  }

  public func signal(_ value: UInt64) throws { try check(mpsgraph_event_signal(handle.pointer, value)) }

  public func wait(for value: UInt64, seconds: Double? = nil) throws {
    try check(mpsgraph_event_wait(handle.pointer, value, seconds ?? -1))
  }
}
