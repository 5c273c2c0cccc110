// The classifier and its data, loaded from the application's resources, which make_resources.py writes.
import Foundation
import Mpsgraph

/// The state that both tabs show. Steps and predictions run on the trainer's thread; published properties change on the
/// main thread.
@MainActor
final class DigitModel: ObservableObject {
  static let batchSize = 40

  struct Point: Identifiable {
    let id: Int  // number of the step
    let loss: Double
  }

  @Published private(set) var losses: [Point] = []
  @Published private(set) var accuracy: Double?
  @Published private(set) var isTraining = false
  @Published private(set) var problem: String?

  private let trainer: Trainer?
  private let images: Data  // n x 28 x 28 bytes
  private let labels: Data  // n bytes
  private var training: Task<Void, Never>?

  init() {
    do {
      let resources = Bundle.main.resourceURL!
      images = try Data(contentsOf: resources.appendingPathComponent("digits.images"))
      labels = try Data(contentsOf: resources.appendingPathComponent("digits.labels"))
      trainer = try Trainer(package: resources.appendingPathComponent("digits.mpsgraph"))
    } catch {
      (images, labels, trainer) = (Data(), Data(), nil)
      problem = "\(error)"
    }
  }

  func startOrStop(steps: Int = 300) {
    if let training {
      training.cancel()
      return
    }
    isTraining = true
    training = Task {
      await train(steps)
      isTraining = false
      training = nil
    }
  }

  private func train(_ steps: Int) async {
    guard let trainer else { return }
    do {
      for _ in 0..<steps where !Task.isCancelled {
        let numbers = try await trainer.step(batch())
        losses.append(Point(id: losses.count, loss: numbers["loss"]!))
        accuracy = numbers["accuracy"]
      }
    } catch {
      problem = "\(error)"
    }
  }

  private func batch() throws -> [String: NDArray] {
    let chosen = (0..<Self.batchSize).map { _ in Int.random(in: 0..<labels.count) }
    let pixels = chosen.flatMap { digit in images[digit * 784..<(digit + 1) * 784].map { Float($0) / 255 } }
    return [
      "inputs": try NDArray(pixels, shape: [Self.batchSize, 28, 28, 1]),
      "labels": try NDArray(chosen.map { Int32(labels[$0]) }),
    ]
  }

  /// Returns the probability of each digit for 784 gray levels between 0 (paper) and 1 (ink).
  func probabilities(of pixels: [Float]) async -> [Double]? {
    guard let trainer else { return nil }
    do {
      let scores = try await trainer.predict([NDArray(pixels, shape: [1, 28, 28, 1])])[0].values(Float.self)
      let largest = scores.max() ?? 0
      let exponentials = scores.map { exp(Double($0 - largest)) }
      return exponentials.map { $0 / exponentials.reduce(0, +) }
    } catch {
      problem = "\(error)"
      return nil
    }
  }
}
