// Devices, arrays over external memory, and errors.
import Foundation
import XCTest

@testable import Mpsgraph

final class LibraryTests: XCTestCase {
  func testVersionAndDevices() throws {
    XCTAssertTrue(Library.version.first?.isNumber ?? false, Library.version)
    XCTAssertTrue(try Device.names().contains("cpu"))
    XCTAssertEqual(try Device("cpu").name(), "cpu")
    XCTAssertThrowsError(try Device("abacus")) { XCTAssertTrue("\($0)".contains("abacus"), "\($0)") }
  }

  func testThreadCount() throws {
    try Library.setThreadCount(1)
    XCTAssertEqual(try Library.threadCount(), 1)
    try Library.setThreadCount(0)
    XCTAssertGreaterThanOrEqual(try Library.threadCount(), 1)
    XCTAssertThrowsError(try Library.setThreadCount(-1))
  }

  func testValuesComeBack() throws {
    let array = try NDArray([1, 2, 3, 4, 5, 6] as [Float], shape: [2, 3])
    XCTAssertEqual(array.type, try TensorType(.float32, [2, 3]))
    XCTAssertEqual(try array.values(Float.self), [1, 2, 3, 4, 5, 6])
    XCTAssertEqual(try NDArray(scalar: 7 as Int64).value(Int64.self), 7)
    XCTAssertEqual(try NDArray([true, false]).values(Bool.self), [true, false])
    XCTAssertEqual(try NDArray(zeros: TensorType(.float64, [0, 4])).values(Double.self), [])
  }

  func testDataIsNotCopied() throws {
    var held: NDArray?
    var bytes = Data((0..<4096).map { UInt8(truncatingIfNeeded: $0) })
    let original = bytes
    held = try NDArray(data: bytes, type: TensorType(.uint8, [64, 64]))
    let source = bytes.withUnsafeBytes { $0.baseAddress }
    try held!.withUnsafeBufferPointer(of: UInt8.self) { XCTAssertEqual(UnsafeRawPointer($0.baseAddress), source) }
    bytes[0] = 200  // writing copies the data
    XCTAssertEqual(try held!.values(UInt8.self), Array(original))
    let out = try held!.data()
    XCTAssertEqual(out.withUnsafeBytes { $0.baseAddress }, source)
    held = nil  // the data retains the memory
    XCTAssertEqual(out, original)
    for size in [0, 1, 14, 15, 64, 65] {
      let few = try NDArray(data: original.prefix(size), type: TensorType(.uint8, [size]))
      XCTAssertEqual(try few.values(UInt8.self), Array(original.prefix(size)))
    }
    XCTAssertThrowsError(try NDArray(data: original, type: TensorType(.float64, [64, 64]))) {
      XCTAssertTrue("\($0)".contains("4096"), "\($0)")
    }
  }

  func testMemoryOfTheApplicationIsSeen() throws {
    let memory = UnsafeMutableBufferPointer<Int32>.allocate(capacity: 3)
    defer { memory.deallocate() }
    memory.update(repeating: 1)
    let array = try NDArray(over: memory, shape: [3])
    memory[1] = 5
    XCTAssertEqual(try array.values(Int32.self), [1, 5, 1])
    XCTAssertThrowsError(try NDArray(over: memory, shape: [4]))
  }

  func testErrorsHaveKindAndWords() throws {
    XCTAssertThrowsError(try NDArray([1 as Float]).values(Double.self)) {
      XCTAssertEqual(($0 as? Failure)?.kind, .elementType)
    }
    XCTAssertThrowsError(try TensorType(.float32, [Int](repeating: 1, count: 17))) {
      XCTAssertEqual(($0 as? Failure)?.kind, .invalidArgument)
    }
    XCTAssertThrowsError(try Graph(package: URL(fileURLWithPath: "/no such.mpsgraph"))) {
      XCTAssertEqual(($0 as? Failure)?.kind, .package)
      XCTAssertTrue("\($0)".contains("no such"), "\($0)")
    }
    XCTAssertThrowsError(try Graph(text: "nonsense"))
    let graph = try Graph()
    let x = try graph.placeholder(TensorType(.float32, [2, 3]), name: "x")
    XCTAssertThrowsError(try graph.add("matrix_multiplication", [x, x])) {
      XCTAssertEqual(($0 as? Failure)?.kind, .shape)
    }
    XCTAssertThrowsError(try graph.add("no_such_kind", [x]))
    XCTAssertThrowsError(try x.read()) { XCTAssertTrue("\($0)".contains("variable"), "\($0)") }
  }
}
