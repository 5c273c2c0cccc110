// The state that the tabs show. The classifier works on its own threads; published properties change on the main thread.
import DrawADigitCore
import Foundation
import SwiftUI

@MainActor
final class DigitModel: ObservableObject {
  struct Point: Identifiable {
    let id: Int  // number of the step
    let loss: Double
  }

  @Published private(set) var losses: [Point] = []
  @Published private(set) var accuracy: Double?
  @Published private(set) var isTraining = false
  @Published private(set) var problem: String?

  private let classifier: DigitClassifier?
  private var training: Task<Void, Never>?

  init() {
    do {
      classifier = try DigitClassifier(resources: Bundle.main.resourceURL ?? URL(fileURLWithPath: "."))
    } catch {
      classifier = nil
      problem = "\(error)"
    }
  }

  /// Trains on scanned digits, or stops training.
  func startOrStop(steps: Int = 300) {
    if let training {
      training.cancel()
      return
    }
    isTraining = true
    training = Task {
      for _ in 0..<steps where !Task.isCancelled { await step { try await $0.trainOnScans() } }
      isTraining = false
      training = nil
    }
  }

  /// Takes a training step with a drawing of the user.
  func learn(_ drawing: Drawing, digit: Int) async {
    await step { try await $0.learn(LabeledDrawing(digit: digit, drawing: drawing)) }
  }

  /// Returns the probability of each digit, or nil if something failed.
  func probabilities(of drawing: Drawing) async -> [Double]? {
    do {
      return try await classifier?.probabilities(of: drawing)
    } catch {
      problem = "\(error)"
      return nil
    }
  }

  private func step(_ take: (DigitClassifier) async throws -> [String: Double]) async {
    guard let classifier else { return }
    do {
      let numbers = try await take(classifier)
      losses.append(Point(id: losses.count, loss: numbers["loss"] ?? .nan))
      accuracy = numbers["accuracy"]
    } catch {
      problem = "\(error)"
      training?.cancel()
    }
  }
}
