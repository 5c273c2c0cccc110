// The application's logic as a terminal program: it reads drawings from a script, and learns from them.
//
//   draw-a-digit RESOURCES SCRIPT [PASSES [SAVED.mpsgraph]]
//
// SCRIPT is a JSON file with a list of {"digit": 7, "drawing": {"side": 280, "strokes": [[{"x": 1, "y": 2}, ...]]}}. The
// program prints how it recognizes each drawing, takes a step for each drawing PASSES times (5 by default), prints the
// predictions again, and saves the classifier.
import DrawADigitCore
import Foundation

func predictions(_ classifier: DigitClassifier, _ script: [LabeledDrawing]) async throws -> String {
  var right = 0
  var found: [String] = []
  for one in script {
    let probabilities = try await classifier.probabilities(of: one.drawing)
    let best = probabilities.indices.max { probabilities[$0] < probabilities[$1] } ?? 0
    right += best == one.digit ? 1 : 0
    found.append("\(one.digit): \(best) (\(Int((100 * probabilities[one.digit]).rounded()))%)")
  }
  return "\(right) of \(script.count) right; " + found.joined(separator: ", ")
}

let arguments = CommandLine.arguments
guard 3...5 ~= arguments.count, let passes = arguments.count > 3 ? Int(arguments[3]) : 5, passes >= 0 else {
  FileHandle.standardError.write(Data("usage: draw-a-digit RESOURCES SCRIPT [PASSES [SAVED.mpsgraph]]\n".utf8))
  exit(2)
}
do {
  let classifier = try DigitClassifier(resources: URL(fileURLWithPath: arguments[1]))
  let script = try LabeledDrawing.script(at: URL(fileURLWithPath: arguments[2]))
  print("before: \(try await predictions(classifier, script))")
  for pass in 0..<passes {
    var last = 0.0
    for drawing in script { last = try await classifier.learn(drawing)["loss"] ?? .nan }
    print("pass \(pass + 1): loss \((last * 1000).rounded() / 1000)")
  }
  print("after: \(try await predictions(classifier, script))")
  if arguments.count > 4 { try await classifier.save(to: URL(fileURLWithPath: arguments[4])) }
  print("steps: \(try await classifier.stepCount())")
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
