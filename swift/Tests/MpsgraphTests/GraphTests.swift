// Graphs built by the tests: all ways to run them, and training.
import Foundation
import XCTest

@testable import Mpsgraph

final class GraphTests: XCTestCase {
  /// y = 2 x + 1 for a column of any length.
  private func line() throws -> (graph: Graph, x: Tensor, y: Tensor) {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [-1, 1]), name: "x")
    let slope = try graph.constant(NDArray(scalar: 2 as Float))
    let offset = try graph.constant(NDArray(scalar: 1 as Float))
    let y = try graph.add("addition", [graph.add("multiplication", [x, slope]), offset])
    try graph.setName("y", .output, of: y)
    return (graph, x, y)
  }

  func testRuns() throws {
    let executable = try line().graph.compile([TensorType(.float32, [3, 1])])
    XCTAssertEqual(executable.inputTypes, [try TensorType(.float32, [3, 1])])
    XCTAssertEqual(executable.outputTypes, [try TensorType(.float32, [3, 1])])
    let x = try NDArray([0, 1, 2] as [Float], shape: [3, 1])
    XCTAssertEqual(try executable.run([x])[0].values(Float.self), [1, 3, 5])

    let memory = UnsafeMutableBufferPointer<Float>.allocate(capacity: 3)
    defer { memory.deallocate() }
    memory.update(repeating: 0)
    try executable.run([x], into: [NDArray(over: memory, shape: [3, 1])])
    XCTAssertEqual(Array(memory), [1, 3, 5])

    XCTAssertThrowsError(try executable.run([])) { XCTAssertTrue($0 is Failure) }
    XCTAssertThrowsError(try executable.run([NDArray([0] as [Float], shape: [1, 1])])) { XCTAssertTrue($0 is Failure) }
  }

  func testManyRunsAtOnce() async throws {
    let executable = try line().graph.compile([TensorType(.float32, [1, 1])])
    let sums = try await withThrowingTaskGroup(of: Float.self) { group in
      for number in 0..<64 {
        group.addTask {
          try await executable.run([NDArray([Float(number)], shape: [1, 1])])[0].value(Float.self)
        }
      }
      return try await group.reduce(0, +)
    }
    XCTAssertEqual(sums, 64 * 64)  // the sum of the first 64 odd numbers
  }

  func testAsyncRunThatFails() async throws {
    let executable = try line().graph.compile([TensorType(.float32, [1, 1])])
    do {
      _ = try await executable.run([NDArray([1 as Float, 2], shape: [2, 1])])
      XCTFail("an input with the wrong shape must throw")
    } catch { XCTAssertTrue(error is Failure, "\(error)") }
  }

  func testCommandBuffersWaitForEvents() throws {
    let executable = try line().graph.compile([TensorType(.float32, [1, 1])])
    let (queue, event) = (try CommandQueue(), try SharedEvent())
    let result = try NDArray(zeros: TensorType(.float32, [1, 1]))
    let buffer = try CommandBuffer(queue)
    try buffer.wait(for: event, value: 1)
    try buffer.encode(executable, [NDArray([3 as Float], shape: [1, 1])], into: [result])
    try buffer.signal(event, value: 2)
    try buffer.commit()
    XCTAssertThrowsError(try buffer.wait(seconds: 0.01)) { XCTAssertEqual(($0 as? Failure)?.kind, .timeout) }
    XCTAssertEqual(try result.value(Float.self), 0)
    try event.signal(1)
    try event.wait(for: 2, seconds: 60)
    try buffer.wait()
    XCTAssertEqual(try event.value(), 2)
    XCTAssertEqual(try result.value(Float.self), 7)
  }

  func testGraphAsText() throws {
    let text = try line().graph.text()
    XCTAssertTrue(text.contains("multiplication"), text)
    let again = try Graph(text: text)
    XCTAssertEqual(try again.tensors(.input).map { $0.name }, ["x"])
    XCTAssertEqual(try again.text(), text)
  }

  func testGradientsTrain() async throws {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [-1, 1]), name: "x")
    let target = try graph.placeholder(TensorType(.float32, [-1, 1]), name: "target")
    let slope = try graph.variable(NDArray([0 as Float], shape: [1, 1]), name: "slope")
    let error = try graph.add("subtraction", [graph.add("matrix_multiplication", [x, slope]), target])
    let loss = try graph.add("mean", [graph.add("square", [error])], ["axes": [0, 1]])
    let gradient = try graph.gradients(of: loss, withRespectTo: [slope])[0]
    let rate = try graph.constant(NDArray(scalar: 0.25 as Float))
    let update = try graph.assign(slope, graph.add("stochastic_gradient_descent", [rate, slope, gradient]))
    let trainer = try Trainer(graph, feeds: [x, target], loss: loss, updates: [update])

    let feeds = [try NDArray([1, 2] as [Float], shape: [2, 1]), try NDArray([3, 6] as [Float], shape: [2, 1])]
    var last = try await trainer.step(feeds)
    XCTAssertEqual(last, 22.5)  // (9 + 36) / 2
    for _ in 0..<40 { last = try await trainer.step(feeds) }
    XCTAssertLessThan(last, 1e-9)
    XCTAssertEqual(try slope.read().value(Float.self), 3, accuracy: 1e-4)
    try slope.write(NDArray([5 as Float], shape: [1, 1]))
    last = try await trainer.step(feeds)
    XCTAssertEqual(last, 10)  // (4 + 16) / 2
    XCTAssertThrowsError(try slope.write(NDArray([5 as Float]))) { XCTAssertEqual(($0 as? Failure)?.kind, .shape) }
  }

  func testControlFlow() throws {
    let graph = try Graph()
    let count = try graph.placeholder(TensorType(.int32, []), name: "count")
    let start = try graph.placeholder(TensorType(.float32, []), name: "start")
    let (zero, one) = (try graph.constant(NDArray(scalar: 0 as Int32)), try graph.constant(NDArray(scalar: 1 as Int32)))
    let doubled = try graph.for(zero, count, one, initial: [start]) { _, values in
      [try graph.add("addition", [values[0], values[0]])]
    }[0]
    let limit = try graph.constant(NDArray(scalar: 100 as Float))
    let below = try graph.while(
      initial: [start],
      before: { (try graph.add("less_than", [$0[0], limit]), $0) },
      after: { [try graph.add("addition", [$0[0], $0[0]])] })[0]
    let chosen = try graph.if(
      graph.add("greater_than", [doubled, limit]), then: { [doubled] },
      otherwise: { [try graph.add("negative", [doubled])] })[0]
    let types = [try TensorType(.int32, []), try TensorType(.float32, [])]
    let executable = try graph.compile(
      feeds: [(count, types[0]), (start, types[1])], targets: [doubled, below, chosen])
    let results = try executable.run([NDArray(scalar: 4 as Int32), NDArray(scalar: 3 as Float)])
    XCTAssertEqual(try results.map { try $0.value(Float.self) }, [48, 192, -48])
    XCTAssertThrowsError(try graph.for(zero, count, one, initial: [start]) { _, _ in throw Failure(.graph, "ours") }) {
      XCTAssertEqual($0 as? Failure, Failure(.graph, "ours"))
    }
    XCTAssertEqual(try graph.for(zero, count, one, initial: [start]) { _, values in values }.count, 1)
  }
}
