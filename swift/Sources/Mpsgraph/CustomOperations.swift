// Custom operations: kernels described in C or contained in a shared library.
import CMpsgraph
import Foundation

/// Custom kernels, which graphs and packages refer to by name in operations of kind `custom`: `graph.add("custom", [x],
/// ["operation": "softshrink", "lambd": 0.5])`.
///
/// Custom operations are registered per process. Register them before opening a package that needs them.
public enum CustomOperations {
  /// Registers all operations in a shared library, whether compiled by Python or by you. The library stays loaded.
  ///
  /// Throws a `Failure` of kind `graph` if the library does not exist or contains no custom operations.
  public static func load(library: URL) throws { try check(mpsgraph_custom_load(library.path)) }

  /// Registers an operation described in C (`mpsgraph/custom_operation.h`). Everything the description points to must
  /// remain valid until the process exits. Replaces an operation with the same name and key.
  ///
  /// Throws a `Failure` of kind `graph` if the description is invalid.
  public static func register(_ operation: UnsafePointer<mpsgraph_custom_operation>) throws {
    try check(mpsgraph_custom_register(operation))
  }
}
