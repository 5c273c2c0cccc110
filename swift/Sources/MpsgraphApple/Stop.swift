// Apple's methods do not throw: like MPSGraph, they stop the program with a message if an argument is wrong.
import Mpsgraph

/// Returns the result of `body`, or stops the program with the message of its failure.
func orStop<R>(_ body: () throws -> R) -> R {
  do {
    return try body()
  } catch {
    fatalError("\(error)")
  }
}
