// Training steps as an asynchronous sequence.

/// What a training step returns.
public struct StepResult: Sendable, Hashable {
  /// The number of the step in this sequence, counted from 1.
  public let step: Int
  /// The loss before the update.
  public let loss: Double
  /// The loss and the metrics by name.
  public let numbers: [String: Double]
}

/// The results of training steps, one for each batch. The sequence ends with the batches, or when its task is cancelled.
public struct TrainingSteps<Batches: AsyncSequence>: AsyncSequence where Batches.Element == [String: NDArray] {
  public typealias Element = StepResult

  let trainer: Trainer
  let batches: Batches

  public struct AsyncIterator: AsyncIteratorProtocol {
    let trainer: Trainer
    var batches: Batches.AsyncIterator
    var count = 0

    public mutating func next() async throws -> StepResult? {
      guard !Task.isCancelled, let batch = try await batches.next() else { return nil }
      let numbers = try await trainer.step(batch)
      count += 1
      return StepResult(step: count, loss: numbers[trainer.resultNames[0]] ?? .nan, numbers: numbers)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(trainer: trainer, batches: batches.makeAsyncIterator())
  }
}

/// The elements of a sequence, without waiting.
public struct AsyncElements<Base: Sequence>: AsyncSequence {
  public typealias Element = Base.Element

  let base: Base

  public struct AsyncIterator: AsyncIteratorProtocol {
    var base: Base.Iterator
    public mutating func next() async -> Base.Element? { base.next() }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(base: base.makeIterator()) }
}

extension Trainer {
  /// Takes a step for each batch, and returns the results as they become available:
  ///
  /// ```swift
  /// for try await result in trainer.steps(batches) { print(result.step, result.loss) }
  /// ```
  public func steps<Batches: AsyncSequence>(_ batches: Batches) -> TrainingSteps<Batches>
  where Batches.Element == [String: NDArray] {
    TrainingSteps(trainer: self, batches: batches)
  }

  /// Takes a step for each batch of a sequence.
  public func steps<Batches: Sequence>(_ batches: Batches) -> TrainingSteps<AsyncElements<Batches>>
  where Batches.Element == [String: NDArray] {
    TrainingSteps(trainer: self, batches: AsyncElements(base: batches))
  }
}
