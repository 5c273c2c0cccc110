// Compiled graphs, which run synchronously, with async and await, or in command buffers (CommandQueue.swift).
import CMpsgraph

/// A compiled graph. It retains its graph and may run on several threads.
public final class Executable: Sendable {
  let handle: Handle
  public let inputTypes: [TensorType]
  public let outputTypes: [TensorType]

  init(_ handle: Handle) throws {
    self.handle = handle
    var inputs = 0
    var outputs = 0
    try check(mpsgraph_executable_input_count(handle.pointer, &inputs))
    try check(mpsgraph_executable_output_count(handle.pointer, &outputs))
    inputTypes = try (0..<inputs).map { index in
      var type = mpsgraph_type()
      try check(mpsgraph_executable_input_type(handle.pointer, index, &type))
      return try TensorType(type)
    }
    outputTypes = try (0..<outputs).map { index in
      var type = mpsgraph_type()
      try check(mpsgraph_executable_output_type(handle.pointer, index, &type))
      return try TensorType(type)
    }
  }

  /// Runs the graph, waits, and returns new arrays.
  public func run(_ inputs: [NDArray]) throws -> [NDArray] {
    var results = [OpaquePointer?](repeating: nil, count: outputTypes.count)
    try withHandles(inputs) { given, count in
      try check(mpsgraph_executable_run(handle.pointer, given, count, &results, results.count))
    }
    return try adopt(results)
  }

  /// Runs the graph, waits, and writes into `results`, which must be writable and have the outputs' types.
  public func run(_ inputs: [NDArray], into results: [NDArray]) throws {
    try withHandles(inputs) { given, count in
      var written: [OpaquePointer?] = results.map { $0.handle.pointer }
      try withExtendedLifetime(results) {
        try check(mpsgraph_executable_run(handle.pointer, given, count, &written, written.count))
      }
    }
  }

  /// Runs the graph on the library's threads and resumes when it completes. A run that has started cannot be
  /// interrupted.
  public func run(_ inputs: [NDArray]) async throws -> [NDArray] {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<[NDArray], any Error>) in
      let waiting = Unmanaged.passRetained(Waiting(continuation))
      do {
        // The library retains the arrays until the run ends, so the execution object can be discarded.
        _ = try withHandles(inputs) { given, count in
          try Handle {
            mpsgraph_executable_run_async(
              handle.pointer, given, count, nil, 0, nil, completed, waiting.toOpaque(), $0)
          }
        }
      } catch {
        // the completion function is not called in this case
        waiting.takeRetainedValue().continuation.resume(throwing: error)
      }
    }
  }
}

private final class Waiting: Sendable {
  let continuation: CheckedContinuation<[NDArray], any Error>
  init(_ continuation: CheckedContinuation<[NDArray], any Error>) { self.continuation = continuation }
}

/// The completion function of the C API, called exactly once, after success or failure. `results` are the run's arrays.
private func completed(
  context: UnsafeMutableRawPointer?, status: mpsgraph_status, message: UnsafePointer<CChar>?,
  results: UnsafePointer<OpaquePointer?>?, count: Int
) {
  guard let context else { return }
  let continuation = Unmanaged<Waiting>.fromOpaque(context).takeRetainedValue().continuation
  continuation.resume(
    with: Result {
      if let failed = failure(status, message) { throw failed }
      return try UnsafeBufferPointer(start: results, count: count).map { try NDArray(Handle(retaining: $0!)) }
    })
}

/// Wraps arrays created by a run and takes ownership of their references.
func adopt(_ results: [OpaquePointer?]) throws -> [NDArray] {
  try results.map { Handle(adopting: $0!) }.map { try NDArray($0) }
}
