// Operations of neural networks with Apple's names.
import Mpsgraph

extension Graph {
  /// 2-D convolution of images. The size of the kernel and the number of output channels follow from the weights.
  public func convolution2D(
    _ source: Tensor, weights: Tensor, descriptor: Convolution2DDescriptor, name: String? = nil
  ) -> Tensor {
    orStop {
      try source.convolution2D(
        weights, strides: descriptor.strides, dilations: descriptor.dilations, groups: descriptor.groups,
        padding: descriptor.padding, dataLayout: descriptor.dataLayout, weightsLayout: descriptor.weightsLayout, name: name)
    }
  }

  /// Transposed 2-D convolution, described by the corresponding convolution.
  public func convolutionTranspose2D(
    _ source: Tensor, weights: Tensor, outputShape: [Int], descriptor: Convolution2DDescriptor, name: String? = nil
  ) -> Tensor {
    orStop {
      try source.convolutionTranspose2D(
        weights, outputShape: outputShape, strides: descriptor.strides, dilations: descriptor.dilations,
        groups: descriptor.groups, padding: descriptor.padding, dataLayout: descriptor.dataLayout,
        weightsLayout: descriptor.weightsLayout, name: name)
    }
  }

  /// The largest element of each window.
  public func maxPooling2D(withSourceTensor source: Tensor, descriptor: Pooling2DDescriptor, name: String? = nil)
    -> Tensor
  {
    orStop {
      try source.maxPooling2D(
        descriptor.kernel, strides: descriptor.strides, padding: descriptor.padding, dilations: descriptor.dilations,
        dataLayout: descriptor.dataLayout, ceilMode: descriptor.ceilMode, name: name)
    }
  }

  /// The mean of each window.
  public func avgPooling2D(withSourceTensor source: Tensor, descriptor: Pooling2DDescriptor, name: String? = nil)
    -> Tensor
  {
    orStop {
      try source.avgPooling2D(
        descriptor.kernel, strides: descriptor.strides, padding: descriptor.padding, dilations: descriptor.dilations,
        dataLayout: descriptor.dataLayout, ceilMode: descriptor.ceilMode,
        includeZeroPadToAverage: descriptor.includeZeroPadToAverage, name: name)
    }
  }

  /// Matrix product.
  public func matrixMultiplication(primary: Tensor, secondary: Tensor, name: String? = nil) -> Tensor {
    orStop { try primary.matrixMultiplication(secondary, name: name) }
  }

  /// x where x is above 0, otherwise alpha * x.
  public func leakyReLU(with tensor: Tensor, alpha: Double, name: String? = nil) -> Tensor {
    orStop { try tensor.leakyRelu(alpha: alpha, name: name) }
  }

  /// Probabilities that sum to 1 along an axis.
  public func softMax(with tensor: Tensor, axis: Int, name: String? = nil) -> Tensor {
    orStop { try tensor.softmax(axis: axis, name: name) }
  }

  /// Cross-entropy of logits and labels. The spelling of `reuctionType` is that of Apple's SDK.
  public func softMaxCrossEntropy(
    _ source: Tensor, labels: Tensor, axis: Int, reuctionType: Reduction, name: String? = nil
  ) -> Tensor {
    orStop { try source.softmaxCrossEntropy(labels, axis: axis, reduction: reuctionType, name: name) }
  }

  /// Zeroes random elements at the given rate and scales the others so that the expected value is unchanged.
  public func dropout(_ tensor: Tensor, rate: Double, name: String? = nil) -> Tensor {
    orStop { try withMode(.training) { try Dropout(rate)(tensor) } }
  }

  /// Long short-term memory. Returns the states, and, as the descriptor requests, cells and gates.
  public func LSTM(
    _ source: Tensor, recurrentWeight: Tensor, inputWeight: Tensor?, bias: Tensor?, initState: Tensor?,
    initCell: Tensor?, descriptor: LSTMDescriptor, name: String? = nil
  ) -> [Tensor] {
    orStop {
      try source.lstm(
        recurrentWeight, inputWeight: inputWeight, bias: bias, initState: initState, initCell: initCell,
        reverse: descriptor.reverse, bidirectional: descriptor.bidirectional, forgetGateLast: descriptor.forgetGateLast,
        inputGateActivation: descriptor.inputGateActivation, forgetGateActivation: descriptor.forgetGateActivation,
        cellGateActivation: descriptor.cellGateActivation, outputGateActivation: descriptor.outputGateActivation,
        activation: descriptor.activation, produceCell: descriptor.produceCell, training: descriptor.training, name: name)
    }
  }

  // MARK: statistics and reductions

  /// The mean over axes, which keep size 1.
  public func mean(of tensor: Tensor, axes: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.mean(axes: axes, name: name) }
  }

  /// The variance over axes, which keep size 1.
  public func variance(of tensor: Tensor, axes: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.variance(axes: axes, name: name) }
  }

  /// The variance around a mean over axes, which keep size 1.
  public func variance(of tensor: Tensor, mean: Tensor, axes: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.variance(mean: mean, axes: axes, name: name) }
  }

  /// gamma * (x - mean) / sqrt(variance + epsilon) + beta.
  public func normalize(
    _ tensor: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor?, beta: Tensor?, epsilon: Float, name: String? = nil
  ) -> Tensor {
    orStop {
      try tensor.normalization(
        mean: mean, variance: variance, gamma: gamma, beta: beta, epsilon: Double(epsilon), name: name)
    }
  }

  /// The sum over axes, which keep size 1.
  public func reductionSum(with tensor: Tensor, axes: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.reductionSum(axes: axes, name: name) }
  }

  /// The index of the largest element along an axis, which keeps size 1.
  public func reductionArgMaximum(with tensor: Tensor, axis: Int, name: String? = nil) -> Tensor {
    orStop { try tensor.reductionArgMaximum(axis: axis, name: name) }
  }

  // MARK: shapes

  public func reshape(_ tensor: Tensor, shape: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.reshape(shape, name: name) }
  }

  public func transpose(_ tensor: Tensor, permutation: [Int], name: String? = nil) -> Tensor {
    orStop { try tensor.transpose(permutation, name: name) }
  }

  public func expandDims(_ tensor: Tensor, axis: Int, name: String? = nil) -> Tensor {
    orStop { try tensor.expandDims([axis], name: name) }
  }

  public func squeeze(_ tensor: Tensor, axis: Int, name: String? = nil) -> Tensor {
    orStop { try tensor.squeeze(axes: [axis], name: name) }
  }

  /// Splits an axis into equal parts.
  public func split(_ tensor: Tensor, numSplits: Int, axis: Int, name: String? = nil) -> [Tensor] {
    orStop {
      let size = try tensor.size(of: axis)
      guard numSplits > 0, size % numSplits == 0 else {
        throw Failure(.shape, "split: axis \(axis) of \(tensor.type) must be divisible by numSplits, got \(numSplits)")
      }
      return try tensor.split([Int](repeating: size / numSplits, count: numSplits), axis: axis, name: name)
    }
  }

  public func stack(_ tensors: [Tensor], axis: Int, name: String? = nil) -> Tensor {
    orStop { try stacked(tensors, axis: axis, name: name) }
  }

  public func concatTensors(_ tensors: [Tensor], dimension: Int, name: String? = nil) -> Tensor {
    orStop { try concat(tensors, axis: dimension, name: name) }
  }

  public func cast(_ tensor: Tensor, to dataType: ElementType, name: String) -> Tensor {
    orStop { try tensor.cast(dataType, name: name) }
  }

  /// The index of each element along an axis.
  public func coordinate(alongAxis axis: Int, withShape shape: [Int], name: String? = nil) -> Tensor {
    orStop { try coordinateAlongAxis(axis: axis, shape: shape, name: name) }
  }

  public func gather(
    withUpdatesTensor updates: Tensor, indicesTensor: Tensor, axis: Int, batchDimensions: Int, name: String? = nil
  ) -> Tensor {
    orStop { try updates.gather(indicesTensor, axis: axis, batchDimensions: batchDimensions, name: name) }
  }

  /// The number of bits that differ between each row of one matrix and each row of another.
  public func HammingDistance(primary: Tensor, secondary: Tensor, resultDataType: ElementType, name: String? = nil)
    -> Tensor
  {
    orStop { try primary.hammingDistance(secondary, dataType: resultDataType, name: name) }
  }
}
