// Recurrent layers, stacked and optionally bidirectional, with PyTorch's parameter names, shapes, and gate order.

/// The options and parameters that recurrent layers share. Use `RNN`, `LSTM`, or `GRU`.
///
/// Layer k has `weight_ih_lk` (gates * hidden, inputs), `weight_hh_lk` (gates * hidden, hidden), `bias_ih_lk`, and
/// `bias_hh_lk` (gates * hidden); the reverse direction has the same names with the suffix `_reverse`. Inputs have the
/// shape (batch, time, features), or (time, batch, features) if `batchFirst` is false.
public class Recurrent: Layer, Codable {
  fileprivate class var gates: Int { 1 }

  public final let hiddenSize: Int
  public final let numLayers: Int
  public final let batchFirst: Bool
  public final let dropout: Double
  public final let bidirectional: Bool
  public final let bias: Bool
  fileprivate final let parameters: [Parameter]

  /// - Parameters:
  ///   - hiddenSize: The number of units.
  ///   - numLayers: The number of stacked layers.
  ///   - bias: Whether there are biases.
  ///   - batchFirst: Whether inputs are (batch, time, features).
  ///   - dropout: In training, the fraction of elements dropped between layers.
  ///   - bidirectional: Whether to also run over the sequence in reverse.
  public init(
    _ hiddenSize: Int, numLayers: Int = 1, bias: Bool = true, batchFirst: Bool = true, dropout: Double = 0,
    bidirectional: Bool = false
  ) {
    self.hiddenSize = hiddenSize
    self.numLayers = numLayers
    self.bias = bias
    self.batchFirst = batchFirst
    self.dropout = dropout
    self.bidirectional = bidirectional
    let gates = Self.gates
    parameters = (0..<numLayers).flatMap { layer in
      (bidirectional ? ["", "_reverse"] : [""]).flatMap { way in
        let weights = [
          Parameter("weight_ih_l\(layer)\(way)", .eachGate(.glorotUniform, count: gates)),
          Parameter("weight_hh_l\(layer)\(way)", .eachGate(.orthogonal(gain: 1), count: gates)),
        ]
        return weights + (bias ? ["bias_ih", "bias_hh"] : []).map { Parameter("\($0)_l\(layer)\(way)") }
      }
    }
  }

  /// Returns the states of the last layer at all steps.
  public func callAsFunction(_ x: Tensor) throws -> Tensor { try through(x, initial: []).states }

  fileprivate final var directions: Int { bidirectional ? 2 : 1 }

  /// Runs all layers and returns the states of the last one, and the final states of all layers by kind.
  fileprivate final func through(_ x: Tensor, initial: [Tensor]) throws -> (states: Tensor, finals: [Tensor]) {
    let name = "\(type(of: self))"
    guard hiddenSize > 0, numLayers > 0 else {
      throw Failure(.shape, "\(name): hiddenSize and numLayers must be above 0, got \(hiddenSize) and \(numLayers)")
    }
    try requireRate(dropout, name)
    _ = try x.requireRank(3...3, in: name, batchFirst ? "(batch, time, features)" : "(time, batch, features)")
    var y = batchFirst ? try x.transpose([1, 0, 2]) : x
    var finals: [[Tensor]] = []
    for layer in 0..<numLayers {
      if layer > 0, dropout > 0, x.graph.mode == .training { y = try y.droppedOut(dropout) }
      let rows = layer * directions ..< (layer + 1) * directions
      let given = try initial.map { state in
        try x.graph.concat(rows.map { try state.slice(0, from: $0, count: 1).squeeze(axes: [0]) }, axis: -1)
      }
      let results = try oneLayer(y, layer, given)
      y = results[0]
      finals.append(try results.map(lastStep))
    }
    let states = batchFirst ? try y.transpose([1, 0, 2]) : y
    return (states, try finals[0].indices.map { kind in try x.graph.concat(finals.map { $0[kind] }, axis: 0) })
  }

  /// Returns the final states (directions, N, hidden); that of the reverse direction is at step 0.
  private func lastStep(_ states: Tensor) throws -> Tensor {
    let last = try states.slice(0, from: -1, count: 1)
    guard bidirectional else { return last }
    let first = try states.slice(0, from: 0, count: 1)
    return try states.graph.concat(
      [last.slice(2, from: 0, count: hiddenSize), first.slice(2, from: hiddenSize, count: hiddenSize)], axis: 0)
  }

  /// Adds the operation of one layer: hidden states, and cell states for layers that have them.
  fileprivate func oneLayer(_ x: Tensor, _ layer: Int, _ initial: [Tensor]) throws -> [Tensor] {
    throw Failure(.unsupported, "Recurrent is only a base class: use RNN, LSTM, or GRU")
  }

  /// Returns a layer's parameters of one kind, such as "weight_ih", one for each direction.
  fileprivate final func of(_ layer: Int, _ kind: String, _ x: Tensor, _ columns: [Int]) throws -> [Tensor] {
    try parameters.filter { $0.name == "\(kind)_l\(layer)" || $0.name == "\(kind)_l\(layer)_reverse" }.map { parameter in
      let fans = columns.first.map { (Double($0), Double(hiddenSize)) }
      return try parameter(
        in: x.graph, shape: [type(of: self).gates * hiddenSize] + columns, elementType: x.elementType, fans: fans)
    }
  }

  /// Returns recurrent and input weights in the layout of the graph's operations.
  fileprivate final func weights(_ layer: Int, _ x: Tensor) throws -> (recurrent: Tensor, input: Tensor) {
    let inputs = try x.size(of: -1, in: "\(type(of: self))")
    let input = try x.graph.concat(of(layer, "weight_ih", x, [inputs]), axis: 0)
    let recurrent = try of(layer, "weight_hh", x, [hiddenSize])
    return (try recurrent.count == 2 ? x.graph.stacked(recurrent) : recurrent[0], input)
  }

  /// Returns the sum of both biases, or nil.
  fileprivate final func summedBias(_ layer: Int, _ x: Tensor) throws -> Tensor? {
    guard bias else { return nil }
    let pairs = zip(try of(layer, "bias_ih", x, []), try of(layer, "bias_hh", x, []))
    return try x.graph.concat(pairs.map { try $0 + $1 }, axis: 0)
  }
}

/// Elman layers: h[t] = tanh(x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh).
public final class RNN: Recurrent {
  override fileprivate func oneLayer(_ x: Tensor, _ layer: Int, _ initial: [Tensor]) throws -> [Tensor] {
    let (recurrent, input) = try weights(layer, x)
    return try x.singleGateRnn(
      recurrent, inputWeight: input, bias: summedBias(layer, x), initState: initial.first, activation: .tanh,
      bidirectional: bidirectional)
  }

  /// Returns the states at all steps and the final state (layers * directions, N, hidden), from an initial one.
  public func callAsFunction(_ x: Tensor, state: Tensor?) throws -> (states: Tensor, state: Tensor) {
    let (states, finals) = try through(x, initial: state.map { [$0] } ?? [])
    return (states, finals[0])
  }
}

/// Long short-term memory layers, with the gates in the order input, forget, cell, output.
public final class LSTM: Recurrent {
  override fileprivate class var gates: Int { 4 }

  override fileprivate func oneLayer(_ x: Tensor, _ layer: Int, _ initial: [Tensor]) throws -> [Tensor] {
    let (recurrent, input) = try weights(layer, x)
    return try x.lstm(
      recurrent, inputWeight: input, bias: summedBias(layer, x), initState: initial.first,
      initCell: initial.count > 1 ? initial[1] : nil, bidirectional: bidirectional, produceCell: true)
  }

  /// Returns the states at all steps, and the final hidden and cell states (layers * directions, N, hidden), from
  /// initial ones.
  public func callAsFunction(_ x: Tensor, state: (hidden: Tensor, cell: Tensor)?) throws -> (
    states: Tensor, hidden: Tensor, cell: Tensor
  ) {
    let (states, finals) = try through(x, initial: state.map { [$0.hidden, $0.cell] } ?? [])
    return (states, finals[0], finals[1])
  }
}

/// Gated recurrent unit layers, with the reset gate applied after the matrix product, and the gates in the order reset,
/// update, candidate.
public final class GRU: Recurrent {
  override fileprivate class var gates: Int { 3 }

  override fileprivate func oneLayer(_ x: Tensor, _ layer: Int, _ initial: [Tensor]) throws -> [Tensor] {
    let (recurrent, input) = try weights(layer, x)
    let (summed, apart) = try biases(layer, x)
    return try x.gru(
      recurrent, inputWeight: input, bias: summed, initState: initial.first, secondaryBias: apart,
      bidirectional: bidirectional, resetGateFirst: true, resetAfter: true)
  }

  /// Returns the two biases of the graph's operation. For the reset and update gates, the input and recurrent biases are
  /// summed. For the candidate they stay separate, because the reset gate scales only the recurrent one.
  private func biases(_ layer: Int, _ x: Tensor) throws -> (Tensor?, Tensor?) {
    guard bias else { return (nil, nil) }
    var (summed, apart): ([Tensor], [Tensor]) = ([], [])
    for (input, state) in zip(try of(layer, "bias_ih", x, []), try of(layer, "bias_hh", x, [])) {
      let parts = try state.split([2 * hiddenSize, hiddenSize])
      summed.append(try input + parts[0].pad([0], right: [hiddenSize]))
      apart.append(parts[1])
    }
    return (try x.graph.concat(summed, axis: 0), try x.graph.concat(apart, axis: 0))
  }

  /// Returns the states at all steps and the final state (layers * directions, N, hidden), from an initial one.
  public func callAsFunction(_ x: Tensor, state: Tensor?) throws -> (states: Tensor, state: Tensor) {
    let (states, finals) = try through(x, initial: state.map { [$0] } ?? [])
    return (states, finals[0])
  }
}
