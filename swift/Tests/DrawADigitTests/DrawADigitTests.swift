// The logic of the application: recognizing and learning drawings, in the process and as the terminal program.
import Foundation
import Mpsgraph
import XCTest

@testable import DrawADigitCore

final class DrawADigitTests: XCTestCase {
  private let resources = Bundle.module.resourceURL!.appendingPathComponent("Digits")
  private let strokes = Bundle.module.resourceURL!.appendingPathComponent("strokes.json")

  private func script() throws -> [LabeledDrawing] {
    try LabeledDrawing.script(at: strokes)
  }

  func testLearnsADigitThatItDidNotKnow() async throws {
    let classifier = try DigitClassifier(resources: resources)
    let nine = try script()[3]
    let before = try await classifier.probabilities(of: nine.drawing)
    XCTAssertEqual(before.count, 10)
    XCTAssertEqual(before.reduce(0, +), 1, accuracy: 1e-6)
    XCTAssertLessThan(before[9], 0.1)  // the classifier was trained on 0 to 8
    let start = try await classifier.stepCount()
    for _ in 0..<10 { _ = try await classifier.learn(nine) }
    let after = try await classifier.probabilities(of: nine.drawing)
    XCTAssertGreaterThan(after[9], 0.5)
    let steps = try await classifier.stepCount()
    XCTAssertEqual(steps - start, 10)
  }

  func testSavedClassifierKeepsWhatItLearned() async throws {
    let classifier = try DigitClassifier(resources: resources)
    let nine = try script()[3]
    for _ in 0..<5 { _ = try await classifier.learn(nine) }
    let copy = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: copy) }
    try FileManager.default.copyItem(at: resources, to: copy)
    try await classifier.save(to: copy.appendingPathComponent("digits.mpsgraph"))
    let (one, other) = (
      try await classifier.probabilities(of: nine.drawing),
      try await DigitClassifier(resources: copy).probabilities(of: nine.drawing)
    )
    XCTAssertEqual(one, other)
  }

  func testTrainingOnScansLowersTheLoss() async throws {
    let classifier = try DigitClassifier(resources: resources, learningRate: 0.05)
    var losses: [Double] = []
    for _ in 0..<40 { losses.append(try await classifier.trainOnScans()["loss"] ?? .nan) }
    XCTAssertLessThan(losses.suffix(10).reduce(0, +), losses.prefix(10).reduce(0, +))
  }

  func testWrongDrawingsAreRefused() async throws {
    let classifier = try DigitClassifier(resources: resources)
    let drawing = try script()[0].drawing
    for wrong in [LabeledDrawing(digit: 10, drawing: drawing), LabeledDrawing(digit: 1, drawing: Drawing(side: 280))] {
      do {
        _ = try await classifier.learn(wrong)
        XCTFail("a wrong drawing must throw")
      } catch { XCTAssertEqual((error as? Failure)?.kind, .invalidArgument) }
    }
  }

  func testPixelsAreCentered() {
    let pixels = Drawing(side: 100, strokes: [[.init(x: 10, y: 10), .init(x: 10, y: 60)]]).pixels
    XCTAssertEqual(pixels.count, 784)
    XCTAssertEqual(pixels[14 * 28 + 13], 1, accuracy: 1e-5)  // a vertical line in the middle
    XCTAssertEqual(pixels[14 * 28 + 2], 0)
  }

  #if os(Linux) || os(macOS)
  private func terminal(_ arguments: [String]) throws -> (status: Int32, output: String, errors: String) {
    let process = Process()
    process.executableURL = Bundle.module.bundleURL.deletingLastPathComponent().appendingPathComponent("draw-a-digit")
    process.arguments = arguments
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = errors
    try process.run()
    let (written, complaints) = (
      output.fileHandleForReading.readDataToEndOfFile(), errors.fileHandleForReading.readDataToEndOfFile()
    )
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: written, as: UTF8.self), String(decoding: complaints, as: UTF8.self))
  }

  func testTerminalProgramLearnsTheScript() throws {
    let saved = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mpsgraph")
    defer { try? FileManager.default.removeItem(at: saved) }
    let done = try terminal([resources.path, strokes.path, "8", saved.path])
    XCTAssertEqual(done.status, 0, done.errors)
    let lines = done.output.split(separator: "\n")
    guard lines.count == 11 else { return XCTFail("expected 11 lines, got \(done.output)") }
    XCTAssertFalse(lines[0].contains("5 of 5 right"), done.output)
    XCTAssertTrue(lines[9].hasPrefix("after: 5 of 5 right"), done.output)
    XCTAssertEqual(lines[10], "steps: 140")  // 100 before, 8 passes over 5 drawings
    XCTAssertEqual(try Trainer(package: saved).stepCount(), 140)
  }

  func testTerminalProgramReportsMissingResources() throws {
    let done = try terminal(["/no such folder", strokes.path])
    XCTAssertEqual(done.status, 1)
    XCTAssertTrue(done.errors.contains("no such folder"), done.errors)
    XCTAssertEqual(try terminal([]).status, 2)
  }
  #endif
}
