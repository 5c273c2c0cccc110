// Ordered and concurrent work: queues, command buffers, shared events.
import CMpsgraph

/// A queue whose command buffers run one after the other, in the order in which they are committed.
public final class CommandQueue: Sendable {
  let handle: Handle

  public init(device: Device? = nil) throws {
    handle = try Handle { mpsgraph_queue_create(device?.handle.pointer, $0) }
  }
}

/// A list of encoded runs, which `commit` submits together.
public final class CommandBuffer: Sendable {
  let handle: Handle

  public init(_ queue: CommandQueue) throws {
    handle = try Handle { mpsgraph_command_buffer_create(queue.handle.pointer, $0) }
  }

  /// Encodes a run, which fills `results` before the command buffer completes.
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

  /// Encodes a run and returns its results, whose contents are valid once the command buffer has completed.
  public func encode(_ executable: Executable, _ inputs: [NDArray]) throws -> [NDArray] {
    var results = [OpaquePointer?](repeating: nil, count: executable.outputTypes.count)
    try withHandles(inputs) { given, count in
      try check(
        mpsgraph_command_buffer_encode(handle.pointer, executable.handle.pointer, given, count, &results, results.count))
    }
    return try adopt(results)
  }

  /// Adds a function to be called on a thread of the library when the command buffer has ended, with the failure, if any.
  public func addCompletedHandler(_ handler: @escaping @Sendable (Failure?) -> Void) throws {
    let kept = Unmanaged.passRetained(Handler(handler))
    let status = mpsgraph_command_buffer_add_completion(
      handle.pointer,
      { context, status, message, _, _ in
        guard let context else { return }
        Unmanaged<Handler>.fromOpaque(context).takeRetainedValue().call(failure(status, message))
      }, kept.toOpaque())
    if status != 0 { kept.release() }  // the function will not be called
    try check(status)
  }

  /// Submits the command buffer and resumes when it has completed.
  public func commitAndWait() async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      let waiting = Locked<CheckedContinuation<Void, any Error>?>(continuation)
      // Both the completion and a failure to submit may resume the task; only the first does.
      @Sendable func resume(_ failed: (any Error)?) {
        guard let waited = waiting.withLock({ state in
          defer { state = nil }
          return state
        }) else { return }
        if let failed { waited.resume(throwing: failed) } else { waited.resume() }
      }
      do {
        try addCompletedHandler { resume($0) }
        try commit()
      } catch {
        resume(error)
      }
    }
  }

  /// Makes everything encoded afterwards wait until the event has reached `value`.
  public func wait(for event: SharedEvent, value: UInt64) throws {
    try check(mpsgraph_command_buffer_wait_for_event(handle.pointer, event.handle.pointer, value))
  }

  /// Signals the event after everything encoded before has run.
  public func signal(_ event: SharedEvent, value: UInt64) throws {
    try check(mpsgraph_command_buffer_signal_event(handle.pointer, event.handle.pointer, value))
  }

  public func commit() throws { try check(mpsgraph_command_buffer_commit(handle.pointer)) }

  /// Waits until the command buffer completes. After `seconds`, throws a `Failure` of kind `timeout`; nil waits
  /// forever.
  public func wait(seconds: Double? = nil) throws { try check(mpsgraph_command_buffer_wait(handle.pointer, seconds ?? -1)) }
}

private final class Handler: Sendable {
  let call: @Sendable (Failure?) -> Void
  init(_ call: @escaping @Sendable (Failure?) -> Void) { self.call = call }
}

/// A counter that only increases, for which command buffers and threads can wait.
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
