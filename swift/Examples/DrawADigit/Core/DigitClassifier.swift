// The classifier: predictions, training on scanned digits, and training on what the user draws.
import Foundation
import Mpsgraph

/// A trainable classifier of digits, with the scanned digits of the application's resources. Steps run one after the
/// other on a thread of the trainer.
public actor DigitClassifier {
  public static let batchSize = 40

  public enum Resource: String, CaseIterable {
    case model = "digits.mpsgraph"
    case images = "digits.images"
    case labels = "digits.labels"
  }

  private let trainer: Trainer
  private let images: Data  // n x 28 x 28 bytes
  private let labels: Data  // n bytes
  private var drawn: [LabeledDrawing] = []
  private var random: SplitMix

  /// Opens the resources in a folder, which make_resources.py writes.
  ///
  /// - Parameters:
  ///   - learningRate: The rate of all steps. It replaces the schedule of the package, which has ended.
  ///   - seed: Determines the order of the scanned digits.
  public init(resources: URL, learningRate: Double = 0.02, seed: UInt64 = 0) throws {
    trainer = try Trainer(package: resources.appendingPathComponent(Resource.model.rawValue))
    try trainer.setLearningRate(learningRate)
    images = try Data(contentsOf: resources.appendingPathComponent(Resource.images.rawValue))
    labels = try Data(contentsOf: resources.appendingPathComponent(Resource.labels.rawValue))
    random = SplitMix(state: seed)
    guard !labels.isEmpty, images.count == labels.count * Raster.size * Raster.size else {
      throw Failure(
        .package, "digits.images must have 784 bytes for each of the \(labels.count) labels, got \(images.count) bytes")
    }
  }

  /// Returns the probability of each digit.
  public func probabilities(of drawing: Drawing) async throws -> [Double] {
    let input = try NDArray(drawing.pixels, shape: [1, Raster.size, Raster.size, 1])
    let scores = try await trainer.predict([input])[0].values(Float.self)
    let largest = scores.max() ?? 0
    let exponentials = scores.map { exp(Double($0 - largest)) }
    let sum = exponentials.reduce(0, +)
    return exponentials.map { $0 / sum }
  }

  /// Takes a step on scanned digits and returns its results, "loss" and the metrics.
  public func trainOnScans() async throws -> [String: Double] {
    try await trainer.step(batch(drawings: []))
  }

  /// Adds a drawing to those that the user has labeled, and takes a step.
  ///
  /// Half of the batch consists of the newest drawings, the latest one most often; the other half is scanned digits, so
  /// that the classifier does not forget them.
  public func learn(_ drawing: LabeledDrawing) async throws -> [String: Double] {
    guard 0...9 ~= drawing.digit, !drawing.drawing.isEmpty else {
      throw Failure(
        .invalidArgument, "a labeled drawing needs a digit from 0 to 9 and at least one point, got digit \(drawing.digit)")
    }
    drawn.append(drawing)
    let half = Self.batchSize / 2
    let recent = Array(drawn.suffix(half).reversed())
    let repeats = (0..<half).map { $0 % 2 == 0 ? recent[0] : recent[($0 / 2) % recent.count] }
    return try await trainer.step(batch(drawings: repeats))
  }

  /// Saves the classifier and its training state as a package, which `init(resources:)` and Python can open.
  public func save(to package: URL) throws { try trainer.save(to: package) }

  public func stepCount() throws -> Int { try trainer.stepCount() }

  /// Returns a batch of the given drawings, filled up with scanned digits.
  private func batch(drawings: [LabeledDrawing]) throws -> [String: NDArray] {
    let size = Raster.size * Raster.size
    var pixels = drawings.flatMap { $0.drawing.pixels }
    var digits = drawings.map { Int32($0.digit) }
    while digits.count < Self.batchSize {
      let scan = Int(random.next() % UInt64(labels.count))
      pixels += images[scan * size..<(scan + 1) * size].map { Float($0) / 255 }
      digits.append(Int32(labels[scan]))
    }
    return [
      "inputs": try NDArray(pixels, shape: [Self.batchSize, Raster.size, Raster.size, 1]), "labels": try NDArray(digits),
    ]
  }
}

/// A small generator, so that the same seed gives the same batches.
struct SplitMix: Sendable {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
