// The code of the pages compiles: Pages.swift, which make_pages.py writes, is part of this target.
import XCTest

final class PageTests: XCTestCase {
  func testCodeThatNeedsNoDataRuns() throws {
    try docs_swift_2()
    try docs_swift_3()
    try docs_swift_4()
  }
}
