// Custom operations: described by the application, loaded from a library, and a library that is missing.
import CMpsgraph
import Foundation
import XCTest

@testable import Mpsgraph

final class CustomOperationTests: XCTestCase {
  /// The description and everything it points to must live until the process exits. Applications would define it in C.
  private func square() -> UnsafePointer<mpsgraph_custom_operation> {
    let made = UnsafeMutablePointer<mpsgraph_custom_operation>.allocate(capacity: 1)
    made.initialize(to: mpsgraph_custom_operation())
    made.pointee.name = UnsafePointer(strdup("swift.square"))
    made.pointee.key = UnsafePointer(strdup("1"))
    made.pointee.operand_count = 1
    made.pointee.kernel = { call in
      let call = call!.pointee, type = call.site.pointee.operand_types[0]
      let x = call.operands[0]!.assumingMemoryBound(to: Float.self)
      let y = call.results[0]!.assumingMemoryBound(to: Float.self)
      for i in 0..<Int(type.dims.0) { y[i] = x[i] * x[i] }
      return 0
    }
    return UnsafePointer(made)
  }

  private func run(_ name: String, _ values: [String: Attribute] = [:], on numbers: [Float]) throws -> [Float] {
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [-1]), name: "x")
    let y = try graph.add("custom", [x], values.merging(["operation": .string(name)]) { old, _ in old })
    try graph.setName("y", .output, of: y)
    return try graph.compile([TensorType(.float32, [numbers.count])]).run([NDArray(numbers)])[0].values(Float.self)
  }

  func testAnOperationOfTheApplications() throws {
    XCTAssertThrowsError(try run("swift.square", on: [1])) {
      XCTAssertEqual(($0 as? Failure)?.kind, .graph)
      XCTAssertTrue("\($0)".contains("swift.square"), "\($0)")
    }
    try CustomOperations.register(square())
    XCTAssertEqual(try run("swift.square", on: [1, -2, 3]), [1, 4, 9])
    XCTAssertThrowsError(try run("swift.square", ["factor": 2.0], on: [1])) {
      XCTAssertTrue("\($0)".contains("factor"), "\($0)")
    }
    var nameless = mpsgraph_custom_operation()
    XCTAssertThrowsError(try CustomOperations.register(&nameless)) { XCTAssertEqual(($0 as? Failure)?.kind, .graph) }
  }

  func testWhatIsNoLibrary() throws {
    XCTAssertThrowsError(try CustomOperations.load(library: URL(fileURLWithPath: "/no such.so"))) {
      XCTAssertEqual(($0 as? Failure)?.kind, .graph)
      XCTAssertTrue("\($0)".contains("no such"), "\($0)")
    }
  }

  #if os(Linux)
  /// The library is compiled here as an application's build would, with the headers that pkg-config finds.
  func testALibrary() throws {
    let settings = ProcessInfo.processInfo.environment["PKG_CONFIG_PATH"] ?? ""
    let include = try XCTUnwrap(
      settings.split(separator: ":").map { "\($0)/../../include" }.first {
        FileManager.default.fileExists(atPath: $0 + "/mpsgraph/custom_operation.h")
      }, "PKG_CONFIG_PATH must lead to the headers of mpsgraph; see swift/README.md")
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let (source, library) = (directory.appendingPathComponent("twice.c"), directory.appendingPathComponent("libtwice.so"))
    let text = """
      #include <mpsgraph/custom_operation.h>
      static int32_t twice(const mpsgraph_custom_call* call) {
        const float* x = call->operands[0];
        float* y = call->results[0];
        for (int64_t i = 0; i < call->site->operand_types[0].dims[0]; ++i) y[i] = 2 * x[i];
        return 0;
      }
      static const mpsgraph_custom_operation operations[] = {
        {.name = "swift.twice", .key = "1", .operand_count = 1, .kernel = twice}};
      MPSGRAPH_CUSTOM_OPERATIONS(operations)
      """
    try text.write(to: source, atomically: true, encoding: .utf8)
    let compiler = Process()
    compiler.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    compiler.arguments = ["cc", "-shared", "-fPIC", "-I", include, source.path, "-o", library.path]
    try compiler.run()
    compiler.waitUntilExit()
    XCTAssertEqual(compiler.terminationStatus, 0)
    try CustomOperations.load(library: library)
    XCTAssertEqual(try run("swift.twice", on: [1, -2]), [2, -4])
  }
  #endif
}
