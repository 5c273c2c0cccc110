// Packages written by Python (Tests/make_packages.py): running, training, saving, and loading them.
import Foundation
import XCTest

@testable import Mpsgraph

/// Python's results for the same packages.
private struct Expected: Decodable {
  let x: [Float]
  let labels: [Int32]
  let scores: [Float]
  let w2: [Float]
  let losses: [Double]
  let predicted: [Float]
}

final class PackageTests: XCTestCase {
  private let packages = Bundle.module.resourceURL!.appendingPathComponent("Packages")
  private var directory: URL!
  private var expected: Expected!

  override func setUpWithError() throws {
    directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let json = try Data(contentsOf: packages.appendingPathComponent("expected.json"))
    expected = try JSONDecoder().decode(Expected.self, from: json)
  }

  override func tearDownWithError() throws { try FileManager.default.removeItem(at: directory) }

  private func trainer() throws -> Trainer { try Trainer(package: packages.appendingPathComponent("training.mpsgraph")) }

  private func batch() throws -> [String: NDArray] {
    ["inputs": try NDArray(expected.x, shape: [12, 4]), "labels": try NDArray(expected.labels)]
  }

  private func assertClose(_ found: [Float], _ wanted: [Float], line: UInt = #line) {
    XCTAssertEqual(found.count, wanted.count, line: line)
    for (a, b) in zip(found, wanted) { XCTAssertEqual(a, b, accuracy: 1e-4 * max(1, abs(b)), line: line) }
  }

  func testModelRuns() throws {
    let graph = try Graph(package: packages.appendingPathComponent("classifier.mpsgraph"))
    XCTAssertEqual(try graph.tensors(.input).map { $0.name }, ["x"])
    XCTAssertEqual(try graph.tensors(.output).map { $0.name }, ["scores"])
    XCTAssertEqual(try graph.find(.input, "x").type, try TensorType(.float32, [-1, 4]))
    let executable = try graph.compile([TensorType(.float32, [12, 4])])
    let x = expected.x.withUnsafeBytes { Data($0) }
    let result = try executable.run([NDArray(data: x, type: TensorType(.float32, [12, 4]))])[0]
    XCTAssertEqual(result.type, try TensorType(.float32, [12, 3]))
    assertClose(try result.values(Float.self), expected.scores)
  }

  func testVariablesAreReadAndSaved() throws {
    let graph = try Graph(package: packages.appendingPathComponent("classifier.mpsgraph"))
    let w2 = try graph.find(.parameter, "w2")
    XCTAssertEqual(try w2.read().values(Float.self), expected.w2)
    try w2.write(NDArray(zeros: w2.type))
    let saved = directory.appendingPathComponent("zeros.mpsgraph")
    try graph.save(to: saved)
    try w2.write(NDArray(expected.w2, shape: [8, 3]))
    try graph.loadState(from: saved)
    XCTAssertEqual(try w2.read().values(Float.self), [Float](repeating: 0, count: 24))
  }

  func testTenStepsGoOnWherePythonStopped() throws {
    let trainer = try trainer()
    XCTAssertEqual(trainer.inputNames, ["inputs", "labels"])
    XCTAssertEqual(trainer.resultNames.first, "loss")
    XCTAssertEqual(try trainer.stepCount(), 3)
    for wanted in expected.losses {
      XCTAssertEqual(try trainer.step(batch())["loss"]!, wanted, accuracy: 1e-4)
    }
    XCTAssertEqual(try trainer.stepCount(), 13)
    assertClose(try trainer.predict([batch()["inputs"]!])[0].values(Float.self), expected.predicted)
  }

  func testSavedStateGoesOnBitForBit() async throws {
    let trainer = try trainer()
    for _ in 0..<5 { _ = try await trainer.step(batch()) }
    let saved = directory.appendingPathComponent("five.mpsgraph")
    try trainer.save(to: saved)
    let other = try Trainer(package: saved)
    XCTAssertEqual(try other.stepCount(), 8)
    for _ in 0..<5 {
      let (one, two) = (try await trainer.step(batch()), try await other.step(batch()))
      XCTAssertEqual(one, two)
    }
    for (one, two) in zip(try trainer.graph.tensors(.parameter), try other.graph.tensors(.parameter)) {
      XCTAssertEqual(one.name, two.name)
      XCTAssertEqual(try one.tensor.read().data(), try two.tensor.read().data(), one.name)
    }
    try trainer.loadState(from: saved)
    XCTAssertEqual(try trainer.stepCount(), 8)
  }

  func testLearningRateIsSet() throws {
    let trainer = try trainer()
    XCTAssertGreaterThan(try trainer.learningRate(), 0.01)
    try trainer.setLearningRate(0.001)
    XCTAssertEqual(try trainer.learningRate(), 0.001, accuracy: 1e-9)
  }

  func testWrongBatchesAreRefused() throws {
    let trainer = try trainer()
    XCTAssertThrowsError(try trainer.step(["inputs": NDArray(expected.x, shape: [12, 4])])) { XCTAssertTrue($0 is Failure) }
    XCTAssertThrowsError(
      try trainer.step(["inputs": NDArray(expected.x, shape: [12, 4]), "targets": NDArray(expected.labels)])
    ) { XCTAssertTrue("\($0)".contains("labels"), "\($0)") }
    XCTAssertThrowsError(
      try trainer.step(["inputs": NDArray(expected.x, shape: [4, 12]), "labels": NDArray(expected.labels)]))
    XCTAssertEqual(try trainer.stepCount(), 3)
  }
}
