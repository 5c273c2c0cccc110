// Compiled graphs: run and waited for, run with async and await, or encoded into command buffers (CommandQueue.swift).
import CMpsgraph

/// A compiled graph. It keeps its graph and may run on several threads.
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

  /// Runs, waits, and gives new arrays.
  public func run(_ inputs: [NDArray]) throws -> [NDArray] {
    var results = [OpaquePointer?](repeating: nil, count: outputTypes.count)
    try withHandles(inputs) { given, count in
      try check(mpsgraph_executable_run(handle.pointer, given, count, &results, results.count))
    }
    return try adopt(results)
  }

  /// Runs, waits, and writes into `results`: writable, and of the outputs' types.
  public func run(_ inputs: [NDArray], into results: [NDArray]) throws {
    try withHandles(inputs) { given, count in
      var written: [OpaquePointer?] = results.map { $0.handle.pointer }
      try withExtendedLifetime(results) {
        try check(mpsgraph_executable_run(handle.pointer, given, count, &written, written.count))
      }
    }
  }

  /// Runs on the library's threads and resumes when it is done. A run that has started is not interrupted.
  public func run(_ inputs: [NDArray]) async throws -> [NDArray] {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<[NDArray], any Error>) in
      let waiting = Unmanaged.passRetained(Waiting(continuation))
      do {
        // The library keeps the arrays until the run has ended; of the execution nothing more is needed.
        _ = try withHandles(inputs) { given, count in
          try Handle {
            mpsgraph_executable_run_async(
              handle.pointer, given, count, nil, 0, nil, completed, waiting.toOpaque(), $0)
          }
        }
      } catch {
        waiting.takeRetainedValue().continuation.resume(throwing: error)  // then nobody else is told
      }
    }
  }
}

private final class Waiting: Sendable {
  let continuation: CheckedContinuation<[NDArray], any Error>
  init(_ continuation: CheckedContinuation<[NDArray], any Error>) { self.continuation = continuation }
}

/// The C interface's completion: once, after success and failure alike; `results` are the run's own.
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

/// Arrays that a run made, each with a count that is taken over.
func adopt(_ results: [OpaquePointer?]) throws -> [NDArray] {
  try results.map { Handle(adopting: $0!) }.map { try NDArray($0) }
}
