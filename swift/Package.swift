// swift-tools-version: 6.0
// mpsgraph for Swift: a thin layer over the C API in include/mpsgraph/mpsgraph.h.
//
// On Linux, pkg-config finds the library (set PKG_CONFIG_PATH, see README.md). On Apple platforms it is an XCFramework,
// which make_xcframework.sh builds from this repository on a Mac.
import PackageDescription

#if os(Linux)
let library = Target.systemLibrary(name: "CMpsgraph", pkgConfig: "mpsgraph")
#else
let library = Target.binaryTarget(name: "CMpsgraph", path: "build/CMpsgraph.xcframework")
#endif

// The application needs SwiftUI. Its logic and the terminal program are built and tested on all systems.
#if os(Linux)
let application: [Target] = []
#else
let application: [Target] = [
  .executableTarget(
    name: "DrawADigitApp", dependencies: ["DrawADigitCore"], path: "Examples/DrawADigit/App")
]
#endif

let package = Package(
  name: "mpsgraph",
  platforms: [.macOS("13.3"), .iOS("16.4")],
  products: [
    .library(name: "Mpsgraph", targets: ["Mpsgraph"]),
    .library(name: "MpsgraphApple", targets: ["MpsgraphApple"]),
  ],
  targets: [
    library,
    .target(name: "Mpsgraph", dependencies: ["CMpsgraph"]),
    .target(name: "MpsgraphApple", dependencies: ["Mpsgraph"]),
    .target(name: "DrawADigitCore", dependencies: ["Mpsgraph"], path: "Examples/DrawADigit/Core"),
    .executableTarget(
      name: "draw-a-digit", dependencies: ["DrawADigitCore"], path: "Examples/DrawADigit/Terminal"),
    .testTarget(
      name: "MpsgraphTests", dependencies: ["Mpsgraph"], resources: [.copy("Packages"), .copy("Vectors")]),
    .testTarget(name: "TalkTests", dependencies: ["MpsgraphApple"]),
    .testTarget(
      name: "DrawADigitTests", dependencies: ["DrawADigitCore", "draw-a-digit"],
      resources: [.copy("Digits"), .copy("strokes.json")]),
    .testTarget(name: "PageTests", dependencies: ["Mpsgraph"]),
  ] + application
)
