// Operations of the application's own: kernels that are described in C, or come in a shared library.
import CMpsgraph
import Foundation

/// Kernels of yours, which graphs and packages have as operations of kind `custom`, by their name:
/// `graph.add("custom", [x], ["operation": "softshrink", "lambd": 0.5])`.
///
/// They belong to the process, and are there before a package that needs them is opened.
public enum CustomOperations {
  /// All that a shared library describes: one that Python compiled, or one of yours. It stays loaded.
  ///
  /// `Failure` of kind `graph` where there is no such library, or none of custom operations.
  public static func load(library: URL) throws { try check(mpsgraph_custom_load(library.path)) }

  /// One that C describes (`mpsgraph/custom_operation.h`). What it points to must live as long as the process; one of
  /// the same name and key is replaced.
  ///
  /// `Failure` of kind `graph` where the description is no good.
  public static func register(_ operation: UnsafePointer<mpsgraph_custom_operation>) throws {
    try check(mpsgraph_custom_register(operation))
  }
}
