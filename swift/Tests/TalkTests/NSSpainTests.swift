// The code of "Training DNNs on iOS with Metal Performance Shaders Graph" (NSSpain XI): ResNet-50 for 32 x 32 images.
//
// Names of types differ from Apple's: MPSGraph is Graph, MPSGraphTensor is Tensor, MPSGraphOperation is GraphOperation,
// MPSGraphTensorData is TensorData, MPSNDArray is NDArray, and NSNumber is Int. Besides, the slides abbreviate or
// misspell what does not compile with Apple's framework either, and is written out here: `weightTensors` is a variable;
// `relu` and `softmax` are `reLU` and `softMax`; arrays are filled with `writeBytes`; the batch is a tensor data; the
// end of `getRandomData` is missing; and the parts that say `...` are filled in. Comments name the slides.
import Foundation
import Mpsgraph
import MpsgraphApple
import XCTest

let gDevice = CreateSystemDefaultDevice()

// Slide "Weight Initialization: helper functions"
func getRandomData(numValues: Int, minimum: Float, maximum: Float) -> [Float] {
  return (1...numValues).map { _ in Float.random(in: minimum..<maximum) }
}

extension Sequence where Element == Int {
  var totalElements: Int {
    self.reduce(1) { $0 * $1.intValue }
  }
}

// Slide "Weight Initialization: helper functions", variables
extension Array where Element == Float {
  var data: Data {
    self.withUnsafeBytes { pointer in
      Data(bytes: pointer.baseAddress!, count: count * 4)
    }
  }

  func variableTensor(graph: Graph, shape: [Int]) -> Tensor {
    assert(shape.totalElements == count)

    return graph.variable(with: data, shape: shape, dataType: .float32, name: nil)
  }
}

// Slide "Weight Initialization: helper functions", Glorot's limit
extension Graph {
  func uniformWeights(shape: [Int], value: Float) -> Tensor {
    return [Float](repeating: value, count: shape.totalElements)
      .variableTensor(graph: self, shape: shape)
  }

  func randomWeights(shape: [Int], fanIn: Int, fanOut: Int) -> Tensor {
    // Calculate GlorotUniform limit
    let limit = sqrt(6 / Float(fanIn + fanOut))
    return getRandomData(numValues: shape.totalElements, minimum: -limit, maximum: limit)
      .variableTensor(graph: self, shape: shape)
  }
}

private final class ResNet {
  let graph: Graph
  let batchSize: Int
  // Slide "Create Graph: setup inputs"
  var weightTensors = [Tensor]()
  let inputPlaceholder: Tensor
  let isTrainingPlaceholder: Tensor
  let outputPlaceholder: Tensor
  let output: Tensor
  let loss: Tensor
  var updateOps = [GraphOperation]()

  // Slides "Putting it all together" and "Training the network: gradients"
  init(batchSize: Int, blocks: [(stride: Int, filters: (Int, Int), count: Int)]) {
    self.batchSize = batchSize
    graph = Graph()
    inputPlaceholder = graph.placeholder(shape: [batchSize, 32, 32, 3], dataType: .float32)
    isTrainingPlaceholder = graph.placeholder(shape: [1], dataType: .bool)
    outputPlaceholder = graph.placeholder(shape: [batchSize, 10], dataType: .float32)
    let layers = Layers(graph: graph, isTrainingPlaceholder: isTrainingPlaceholder)
    var x = layers.conv2D(inputPlaceholder, filters: 2, kernelSize: (7, 7))
    x = layers.batchNormalization(x)
    x = graph.reLU(with: x, name: nil)
    x = layers.maxPooling2D(x, kernelSize: (3, 3), strideSize: (2, 2))

    for (stride, filters, count) in blocks {
      x = layers.convBlock(x, stride: stride, filters: filters)
      for _ in 1..<count { x = layers.identityBlock(x, stride: 1, filters: filters) }
    }

    x = layers.avgPooling2D(x, kernelSize: (2, 2), padding: .TF_SAME)
    let dataSize = x.shape![1...].totalElements
    x = graph.reshape(x, shape: [batchSize, dataSize as Int], name: nil)
    x = layers.fullyConnected(x, outputFeatures: 10)
    output = graph.softMax(with: x, axis: -1, name: nil)

    var loss = graph.softMaxCrossEntropy(
      x,
      labels: outputPlaceholder,
      axis: -1,
      reuctionType: .sum,
      name: nil)
    loss = graph.division(loss, graph.constant(Double(batchSize), dataType: .float32), name: nil)
    self.loss = loss
    weightTensors = layers.weightTensors
    // Compute partial derivatives for each weight
    let gradients = graph.gradients(of: loss, with: weightTensors, name: nil)
    let learningRate = graph.constant(0.01, dataType: .float32)
    // Update each weight
    for (key, value) in gradients {
      let newValue = graph.stochasticGradientDescent(
        learningRate: learningRate, values: key, gradient: value, name: nil)
      updateOps.append(graph.assign(key, tensor: newValue, name: nil))
    }
  }

  // Slides "Training the network: provide input data" and "handle results"
  func run(_ inputFloats: [Float], _ labelFloats: [Float], isTraining flag: UInt8, update: Bool) -> (Float, [Float]) {
    var inputFloats = inputFloats
    let inputData = NDArray(
      device: gDevice,
      descriptor: NDArrayDescriptor(
        dataType:
          .float32, shape: [batchSize, 32, 32, 3]))
    inputData.writeBytes(&inputFloats, strideBytes: nil)
    let batchInput = TensorData(inputData)
    var labelFloats = labelFloats
    let labelData = NDArray(device: gDevice, descriptor: NDArrayDescriptor(dataType: .float32, shape: [batchSize, 10]))
    labelData.writeBytes(&labelFloats, strideBytes: nil)
    let batchLabels = TensorData(labelData)

    // Indicate we are training
    let isTraining = TensorData(
      device: GraphDevice(mtlDevice: gDevice),
      data: Data(bytes: [flag], count: 1),
      shape: [1],
      dataType: .bool)

    var (lossFloat, outputFloat) = (Float(0), [Float](repeating: 0, count: 10 * batchSize))
    let done = DispatchSemaphore(value: 0)
    let desc = ExecutionDescriptor()
    desc.completionHandler = { [loss, output] results, error in
      XCTAssertNil(error)
      results[loss]!.mpsndarray().readBytes(&lossFloat, strideBytes: nil)
      results[output]!.mpsndarray().readBytes(&outputFloat, strideBytes: nil)
      done.signal()
    }
    // Run graph with inputs and targets
    graph.runAsync(
      feeds: [
        inputPlaceholder: batchInput,
        isTrainingPlaceholder: isTraining,
        outputPlaceholder: batchLabels,
      ],
      targetTensors: [loss, output],
      targetOperations: update ? updateOps : nil,
      executionDescriptor: desc)
    done.wait()
    return (lossFloat, outputFloat)
  }
}

private final class Layers {
  let graph: Graph
  let isTrainingPlaceholder: Tensor
  var weightTensors = [Tensor]()

  init(graph: Graph, isTrainingPlaceholder: Tensor) {
    self.graph = graph
    self.isTrainingPlaceholder = isTrainingPlaceholder
  }

  // Slide "Building Layers: maxPooling2D"
  func maxPooling2D(
    _ input: Tensor, kernelSize: (width: Int, height: Int), strideSize: (width: Int, height: Int),
    padding: PaddingStyle = .TF_VALID
  ) -> Tensor {
    let descriptor = Pooling2DDescriptor(
      kernelWidth: kernelSize.width,
      kernelHeight: kernelSize.height,
      strideInX: strideSize.width,
      strideInY: strideSize.height,
      // Padding style is taken from TensorFlow
      paddingStyle: padding,
      // Data layout is batch / height / width / channels
      dataLayout: .NHWC)!

    return graph.maxPooling2D(withSourceTensor: input, descriptor: descriptor, name: nil)
  }

  func avgPooling2D(_ input: Tensor, kernelSize: (width: Int, height: Int), padding: PaddingStyle) -> Tensor {
    let descriptor = Pooling2DDescriptor(
      kernelWidth: kernelSize.width, kernelHeight: kernelSize.height, strideInX: kernelSize.width,
      strideInY: kernelSize.height, paddingStyle: padding, dataLayout: .NHWC)!
    return graph.avgPooling2D(withSourceTensor: input, descriptor: descriptor, name: nil)
  }

  // Slides "Building Layers: conv2D"
  func conv2D(
    _ sourceTensor: Tensor, filters: Int, kernelSize: (width: Int, height: Int),
    strideSize: (width: Int, height: Int) = (2, 2), padding: PaddingStyle = .TF_VALID, name: String? = nil
  ) -> Tensor {
    let desc = Convolution2DDescriptor(
      strideInX: strideSize.width,
      strideInY: strideSize.height,
      dilationRateInX: 1,
      dilationRateInY: 1,
      groups: 1,
      paddingStyle: padding,
      dataLayout: .NHWC,
      // Weights order is height / width / input / output
      weightsLayout: .HWIO)!

    let fanIn = sourceTensor.shape!.totalElements
    // Use `output` calculated from kernel size and stride
    let output = (
      width: (sourceTensor.shape![2] - kernelSize.width) / strideSize.width + 1,
      height: (sourceTensor.shape![1] - kernelSize.height) / strideSize.height + 1
    )
    let fanOut = sourceTensor.shape![0].intValue * output.width * output.height * filters
    // Randomly initialize weights
    let convWeights = graph.randomWeights(
      shape: [kernelSize.height, kernelSize.width, sourceTensor.shape![3], filters],
      fanIn: fanIn,
      fanOut: fanOut)
    weightTensors += [convWeights]

    return graph.convolution2D(sourceTensor, weights: convWeights, descriptor: desc, name: name)
  }

  static func addMovingVariable(_ graph: Graph, newValue: Tensor, existingValue: Tensor) -> GraphOperation {
    let momentum = graph.constant(0.99, dataType: .float32)
    let rest = graph.constant(0.01, dataType: .float32)
    let moved = graph.addition(
      graph.multiplication(existingValue, momentum, name: nil), graph.multiplication(newValue, rest, name: nil), name: nil)
    return graph.assign(existingValue, tensor: moved, name: nil)
  }

  // Slides "Building Layers: batchNormalization"
  func batchNormalization(_ input: Tensor) -> Tensor {
    let outputFeatures = input.shape![3].intValue
    let beta = graph.uniformWeights(shape: [outputFeatures as Int], value: 0)
    let gamma = graph.uniformWeights(shape: [outputFeatures as Int], value: 1)
    weightTensors += [beta, gamma]

    let shape = [1, 1, 1, Int(value: outputFeatures)]
    let movingMean = graph.uniformWeights(shape: shape, value: 0)
    let movingVar = graph.uniformWeights(shape: shape, value: 1)

    return graph.if(
      isTrainingPlaceholder,
      then: {
        // Calculate mean and variance
        let axes: [Int] = [0, 1, 2]
        let mean = self.graph.mean(of: input, axes: axes, name: nil)
        let variance = self.graph.variance(of: input, mean: mean, axes: axes, name: nil)
        // Update parameters
        let meanAssign = Self.addMovingVariable(self.graph, newValue: mean, existingValue: movingMean)
        let varAssign = Self.addMovingVariable(self.graph, newValue: variance, existingValue: movingVar)
        // Perform normalization
        return self.graph.controlDependency(
          with: [meanAssign, varAssign],
          dependentBlock: {
            return [
              self.graph.normalize(
                input, mean: mean, variance: variance, gamma: gamma,
                beta:
                  beta, epsilon: 0.001, name: nil)
            ]
          }, name: nil)
      },
      else: {
        return [
          self.graph.normalize(
            input, mean: movingMean, variance: movingVar, gamma: gamma, beta: beta, epsilon: 0.001, name: nil)
        ]
      }, name: nil)[0]
  }

  // Slide "Identity Block"
  func identityBlock(_ sourceTensor: Tensor, stride: Int, filters: (Int, Int)) -> Tensor {
    let (f1, f2) = filters
    var x = sourceTensor
    x = conv2D(x, filters: f1, kernelSize: (1, 1), strideSize: (1, 1), padding: .TF_VALID)
    x = batchNormalization(x)
    x = graph.reLU(with: x, name: nil)

    x = conv2D(x, filters: f1, kernelSize: (3, 3), strideSize: (1, 1), padding: .TF_SAME)
    x = batchNormalization(x)
    x = graph.reLU(with: x, name: nil)

    x = conv2D(x, filters: f2, kernelSize: (1, 1), strideSize: (1, 1), padding: .TF_VALID)
    x = batchNormalization(x)

    x = graph.addition(x, sourceTensor, name: nil)
    x = graph.reLU(with: x, name: nil)
    return x
  }

  func convBlock(_ sourceTensor: Tensor, stride: Int, filters: (Int, Int)) -> Tensor {
    let (f1, f2) = filters
    var x = conv2D(sourceTensor, filters: f1, kernelSize: (1, 1), strideSize: (stride, stride), padding: .TF_VALID)
    x = batchNormalization(x)
    x = graph.reLU(with: x, name: nil)
    x = conv2D(x, filters: f1, kernelSize: (3, 3), strideSize: (1, 1), padding: .TF_SAME)
    x = batchNormalization(x)
    x = graph.reLU(with: x, name: nil)
    x = conv2D(x, filters: f2, kernelSize: (1, 1), strideSize: (1, 1), padding: .TF_VALID)
    x = batchNormalization(x)
    var skip = conv2D(sourceTensor, filters: f2, kernelSize: (1, 1), strideSize: (stride, stride), padding: .TF_VALID)
    skip = batchNormalization(skip)
    return graph.reLU(with: graph.addition(x, skip, name: nil), name: nil)
  }

  func fullyConnected(_ sourceTensor: Tensor, outputFeatures: Int) -> Tensor {
    let inputs = sourceTensor.shape![1].intValue
    let weights = graph.randomWeights(shape: [inputs, outputFeatures], fanIn: inputs, fanOut: outputFeatures)
    let bias = graph.uniformWeights(shape: [outputFeatures as Int], value: 0)
    weightTensors += [weights, bias]
    return graph.addition(
      graph.matrixMultiplication(primary: sourceTensor, secondary: weights, name: nil), bias, name: nil)
  }
}

final class NSSpainTests: XCTestCase {
  private func batch(_ count: Int) -> (images: [Float], labels: [Float]) {
    var images: [Float] = []
    var labels = [Float](repeating: 0, count: 10 * count)
    for image in 0..<count {
      labels[10 * image + image % 10] = 1
      for element in 0..<32 * 32 * 3 {
        let level = (element / 3 + 7 * image) % 32
        images.append(Float(level) / 32 - 0.5)
      }
    }
    return (images, labels)
  }

  /// The blocks of the slides with narrow filters, so that ten steps take seconds.
  func testNarrowResNetTrains() {
    let network = ResNet(batchSize: 4, blocks: [(1, (4, 8), 3), (2, (8, 16), 4), (2, (16, 32), 2), (2, (32, 64), 3)])
    let (images, labels) = batch(4)
    var losses: [Float] = []
    for _ in 0..<12 { losses.append(network.run(images, labels, isTraining: 1, update: true).0) }
    XCTAssertTrue(losses.allSatisfy { $0.isFinite }, "\(losses)")
    XCTAssertLessThan(losses[11], losses[0])
    // Inference uses the moving averages, so that the results differ and do not depend on the batch.
    let (_, probabilities) = network.run(images, labels, isTraining: 0, update: false)
    for image in 0..<4 {
      XCTAssertEqual(probabilities[10 * image..<10 * image + 10].reduce(0, +), 1, accuracy: 1e-4)
    }
  }

  /// The first two groups of the slides in full width. The others take minutes to initialize without optimization.
  func testFirstGroupsOfTheSlidesRun() {
    let network = ResNet(batchSize: 2, blocks: [(1, (64, 256), 3), (2, (128, 512), 4)])
    XCTAssertEqual(network.updateOps.count, network.weightTensors.count)
    let (images, labels) = batch(2)
    let (loss, probabilities) = network.run(images, labels, isTraining: 1, update: true)
    XCTAssertTrue(loss.isFinite)
    XCTAssertEqual(probabilities.reduce(0, +), 2, accuracy: 1e-4)
  }
}
