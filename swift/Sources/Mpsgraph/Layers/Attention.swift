// Multi-head attention.

/// Multi-head scaled dot-product attention between linear projections.
///
/// Data has the shape (batch, length, features). The projections are the layers `query`, `key`, `value`, and `output`.
public final class MultiHeadAttention: Layer, Codable {
  public let embedDim: Int
  public let numHeads: Int
  public let dropout: Double
  public let query: Linear
  public let key: Linear
  public let value: Linear
  public let output: Linear

  /// - Parameters:
  ///   - embedDim: The number of output features, a multiple of `numHeads`.
  ///   - numHeads: The number of heads.
  ///   - dropout: In training, the fraction of attention weights that is dropped.
  ///   - bias: Whether the projections have biases.
  public init(_ embedDim: Int, _ numHeads: Int, dropout: Double = 0, bias: Bool = true) {
    self.embedDim = embedDim
    self.numHeads = numHeads
    self.dropout = dropout
    query = Linear(embedDim, bias: bias)
    key = Linear(embedDim, bias: bias)
    value = Linear(embedDim, bias: bias)
    output = Linear(embedDim, bias: bias)
  }

  /// Applies self-attention.
  public func callAsFunction(_ x: Tensor) throws -> Tensor { try callAsFunction(x, key: nil) }

  /// Applies attention from `x` to other sequences.
  ///
  /// - Parameters:
  ///   - x: The queries, (N, L, features).
  ///   - key: The keys, (N, S, features). By default, the queries.
  ///   - value: The values, (N, S, features). By default, the keys.
  ///   - mask: A tensor that broadcasts to (N, heads, L, S): bool, where true excludes a key, or floating-point, added to
  ///     the scores.
  ///   - causal: Whether to exclude keys after the query.
  public func callAsFunction(
    _ x: Tensor, key: Tensor?, value: Tensor? = nil, mask: Tensor? = nil, causal: Bool = false
  ) throws -> Tensor {
    guard numHeads > 0, embedDim % numHeads == 0 else {
      throw Failure(
        .shape, "MultiHeadAttention: embedDim must be divisible by numHeads, got \(embedDim) and \(numHeads)")
    }
    try requireRate(dropout, "MultiHeadAttention")
    let keys = key ?? x
    let q = try heads(query(x))
    let rate = x.graph.mode == .training ? dropout : 0
    let joined = try q.scaledDotProductAttention(
      heads(self.key(keys)), value: heads(self.value(value ?? keys)),
      scale: 1 / Double(embedDim / numHeads).squareRoot(), mask: mask.map { try added($0, to: q) },
      state: rate > 0 ? x.graph.drawnRandomState() : nil, causal: causal, dropout: rate
    ).transpose([0, 2, 1, 3])
    return try output(joined.reshape([joined.sizeInRun(0), joined.sizeInRun(1), .known(embedDim)]))
  }

  /// Splits features into heads: (N, length, embedDim) to (N, heads, length, embedDim / heads).
  private func heads(_ x: Tensor) throws -> Tensor {
    _ = try x.requireRank(3...3, in: "MultiHeadAttention", "(batch, length, features)")
    let sizes = [try x.sizeInRun(0), try x.sizeInRun(1), .known(numHeads), .known(embedDim / numHeads)]
    return try x.reshape(sizes).transpose([0, 2, 1, 3])
  }

  /// Returns a mask as numbers to add to the scores.
  private func added(_ mask: Tensor, to like: Tensor) throws -> Tensor {
    guard mask.elementType == .bool else { return try mask.converted(to: like.elementType) }
    let excluded = try like.graph.constant(-Double.infinity, like.elementType)
    return try mask.select(excluded, whenFalse: 0.0)
  }
}

extension Graph {
  /// Returns a random state whose key is new in each run.
  fileprivate func drawnRandomState() throws -> Tensor {
    let key = try ownRandom(
      constant(NDArray([2 as Int32])),
      [
        "distribution": "uniform", "dtype": .elementType(.int32), "min_integer": .integer(Int(Int32.min)),
        "max_integer": .integer(1 << 31),
      ])
    return try concat([constant(NDArray([1, 0, 0, 0, 0] as [Int32])), key], axis: 0)
  }
}
