// The code of WWDC20 10677, "Build customized ML models with the Metal Performance Shaders Graph".
//
// Only the names of types differ from Apple's: MPSGraph is Graph, MPSGraphTensor is Tensor, MPSGraphTensorData is
// TensorData, and NSNumber is Int. The comments name the part of the talk that each piece of code is from.
import Foundation
import Mpsgraph
import MpsgraphApple
import XCTest

// "Custom compute function: GeLU", step 2: write out the operations.
extension Graph {
  func gelu(tensor: Tensor) -> Tensor {
    let ones = constant(1.0, shape: [1], dataType: .float32)
    let half = constant(0.5, shape: [1], dataType: .float32)
    let sqrtHalf = squareRoot(with: half, name: nil)
    let scaled = multiplication(sqrtHalf, tensor, name: nil)
    let halved = multiplication(half, tensor, name: nil)
    let errorFunction = erf(with: scaled, name: nil)
    let shifted = addition(errorFunction, ones, name: nil)
    return multiplication(halved, shifted, name: nil)
  }
}

private func data(_ floats: [Float], shape: [Int]) -> TensorData {
  TensorData(
    device: GraphDevice(mtlDevice: nil), data: floats.withUnsafeBytes { Data($0) }, shape: shape, dataType: .float32)
}

private func floats(_ data: TensorData) -> [Float] {
  var values = [Float](repeating: 0, count: data.shape.reduce(1, *))
  data.mpsndarray().readBytes(&values, strideBytes: nil)
  return values
}

final class WWDC20Tests: XCTestCase {
  // "Custom compute function: GeLU", steps 1 and 3: inputs and execution.
  func testCustomGelu() {
    let graph = Graph()
    let inputTensor = graph.placeholder(shape: [2, 3], dataType: .float32, name: nil)
    let geluTensor = graph.gelu(tensor: inputTensor)
    let inputTensorData = data([-2, -1, 0, 1, 2, 3], shape: [2, 3])
    let fetch = graph.run(
      feeds: [inputTensor: inputTensorData],
      targetTensors: [geluTensor],
      targetOperations: nil)

    for (got, x) in zip(floats(fetch[geluTensor]!), [-2, -1, 0, 1, 2, 3] as [Double]) {
      let errorFunction: Double = erf(x / 2.squareRoot())
      XCTAssertEqual(Double(got), x / 2 * (1 + errorFunction), accuracy: 1e-6)
    }
  }

  // "Placeholders": sizes and ranks that are known only in a run.
  func testDynamicShapes() {
    let graph = Graph()
    let rows = graph.placeholder(shape: [-1, 3], dataType: .float32, name: nil)
    let unknown = graph.placeholder(shape: nil, dataType: .float32, name: nil)
    let (first, second) = (graph.gelu(tensor: rows), graph.square(with: unknown, name: nil))
    XCTAssertNil(unknown.shape)
    let fetch = graph.run(
      feeds: [rows: data([0, 0, 0], shape: [1, 3]), unknown: data([3, 4], shape: [2])],
      targetTensors: [first, second],
      targetOperations: nil)
    XCTAssertEqual(fetch[first]!.shape, [1, 3])
    XCTAssertEqual(floats(fetch[second]!), [9, 16])
  }

  // "Automatic differentiation": the gradient of a logarithm is the reciprocal.
  func testGradientOfLogarithm() {
    let graph = Graph()
    let x = graph.placeholder(shape: [2], dataType: .float32, name: nil)
    let y = graph.logarithm(with: x, name: nil)
    let gradients = graph.gradients(of: y, with: [x], name: nil)
    let fetch = graph.run(feeds: [x: data([2, 4], shape: [2])], targetTensors: [gradients[x]!], targetOperations: nil)
    XCTAssertEqual(floats(fetch[gradients[x]!]!), [0.5, 0.25])
  }

  // "Training": the digit classifier, with convolution, bias, ReLU, reshape, softmax, cross-entropy, and SGD, run
  // synchronously and then with two runs in flight.
  func testTrainingNetwork() {
    let numClasses = 2
    let graph = Graph()
    let sourcePlaceholderTensor = graph.placeholder(shape: [-1, 8, 8, 1], dataType: .float32, name: nil)
    let labelsPlaceholderTensor = graph.placeholder(shape: [-1, numClasses], dataType: .float32, name: nil)

    // "Variables" and "Convolution layer"
    let convDesc = Convolution2DDescriptor(
      strideInX: 1,
      strideInY: 1,
      dilationRateInX: 1,
      dilationRateInY: 1,
      groups: 1,
      paddingStyle: .TF_SAME,
      dataLayout: .NHWC,
      weightsLayout: .HWIO)!
    let convWeights = (0..<3 * 3 * 4).map { (i: Int) -> Float in Float((i * 7) % 5 - 2) / 10 }
    let convWeightsTensor = graph.variable(
      with: convWeights.withUnsafeBytes { Data($0) }, shape: [3, 3, 1, 4], dataType: .float32, name: nil)
    let convBiasTensor = graph.variable(with: Data(count: 4 * 4), shape: [4], dataType: .float32, name: nil)
    let convTensor = graph.convolution2D(
      sourcePlaceholderTensor, weights: convWeightsTensor, descriptor: convDesc, name: nil)
    let biasTensor = graph.addition(convTensor, convBiasTensor, name: nil)
    let reLUTensor = graph.reLU(with: biasTensor, name: nil)
    let reshapeTensor = graph.reshape(reLUTensor, shape: [-1, 8 * 8 * 4], name: nil)

    // The fully connected layer reads its weights explicitly: "the readVariable operation".
    let fcWeightsTensor = graph.variable(
      with: Data(count: 8 * 8 * 4 * numClasses * 4), shape: [8 * 8 * 4, numClasses], dataType: .float32, name: nil)
    let fcTensor = graph.matrixMultiplication(
      primary: reshapeTensor, secondary: graph.read(fcWeightsTensor, name: nil), name: nil)
    let softmaxTensor = graph.softMax(with: fcTensor, axis: -1, name: nil)

    // "Loss"
    let lossTensor = graph.softMaxCrossEntropy(
      fcTensor, labels: labelsPlaceholderTensor, axis: -1, reuctionType: .sum, name: nil)

    // "Gradients" and "Update variables"
    let variables = [convWeightsTensor, convBiasTensor, fcWeightsTensor]
    let gradTensors = graph.gradients(of: lossTensor, with: variables, name: nil)
    let lambdaTensor = graph.constant(0.01, shape: [1], dataType: .float32)
    var targetOps = [GraphOperation]()
    for variable in variables {
      let updateTensor = graph.stochasticGradientDescent(
        learningRate: lambdaTensor, values: variable, gradient: gradTensors[variable]!, name: nil)
      targetOps += [graph.assign(variable, tensor: updateTensor, name: nil)]
    }

    // A batch: horizontal and vertical lines.
    var images = [Float](repeating: 0, count: 8 * 64)
    var labels: [Float] = []
    for image in 0..<8 {
      for place in 0..<8 { images[64 * image + (image % 2 == 0 ? 8 * image + place : 8 * place + image)] = 1 }
      labels += image % 2 == 0 ? [1, 0] : [0, 1]
    }
    let feeds = [
      sourcePlaceholderTensor: data(images, shape: [8, 8, 8, 1]),
      labelsPlaceholderTensor: data(labels, shape: [8, numClasses]),
    ]

    // "Training loop"
    var losses: [Float] = []
    for _ in 0..<30 {
      let fetch = graph.run(feeds: feeds, targetTensors: [lossTensor], targetOperations: targetOps)
      losses += floats(fetch[lossTensor]!)
    }
    XCTAssertEqual(losses[0], 8 * log(2), accuracy: 1e-4)

    // "Asynchronous execution" with double buffering
    let doubleBufferingSemaphore = DispatchSemaphore(value: 2)
    let queue = CreateSystemDefaultDevice()!.makeCommandQueue()!
    let finished = DispatchGroup()
    for _ in 0..<30 {
      doubleBufferingSemaphore.wait()
      finished.enter()
      let executionDesc = ExecutionDescriptor()
      executionDesc.completionHandler = { results, error in
        XCTAssertNil(error)
        XCTAssertEqual(results.count, 1)
        doubleBufferingSemaphore.signal()
        finished.leave()
      }
      graph.runAsync(
        with: queue,
        feeds: feeds,
        targetTensors: [lossTensor],
        targetOperations: targetOps,
        executionDescriptor: executionDesc)
    }
    finished.wait()

    let fetch = graph.run(feeds: feeds, targetTensors: [softmaxTensor, lossTensor], targetOperations: nil)
    XCTAssertLessThan(floats(fetch[lossTensor]!)[0], losses[29])
    let probabilities = floats(fetch[softmaxTensor]!)
    for image in 0..<8 { XCTAssertGreaterThan(probabilities[2 * image + image % 2], 0.5, "image \(image)") }
  }

  // "GAN": convolution transpose, batch normalization, dropout, and both losses in one run.
  func testGenerativeAdversarialNetwork() {
    let graph = Graph()
    let random = graph.placeholder(shape: [2, 4, 4, 2], dataType: .float32, name: nil)
    let real = graph.placeholder(shape: [2, 8, 8, 1], dataType: .float32, name: nil)

    func variable(_ shape: [Int], _ value: (Int) -> Float) -> Tensor {
      let values = (0..<shape.reduce(1, *)).map(value)
      return graph.variable(with: values.withUnsafeBytes { Data($0) }, shape: shape, dataType: .float32, name: nil)
    }
    let convDesc = Convolution2DDescriptor(
      strideInX: 2, strideInY: 2, dilationRateInX: 1, dilationRateInY: 1, groups: 1, paddingStyle: .TF_SAME,
      dataLayout: .NHWC, weightsLayout: .HWIO)!

    // "Generator"
    let generatorWeights = variable([3, 3, 1, 2]) { i in Float(i % 3) / 4 }
    let (gamma, beta) = (variable([1]) { _ in 1 }, variable([1]) { _ in 0 })
    let grown = graph.convolutionTranspose2D(
      random, weights: generatorWeights, outputShape: [2, 8, 8, 1], descriptor: convDesc, name: nil)
    let mean = graph.mean(of: grown, axes: [0, 1, 2], name: nil)
    let variance = graph.variance(of: grown, mean: mean, axes: [0, 1, 2], name: nil)
    let fake = graph.normalize(
      grown, mean: mean, variance: variance, gamma: gamma, beta: beta, epsilon: 0.001, name: nil)

    // "Discriminator"
    let discriminatorWeights = variable([64, 1]) { i in Float(i % 5 - 2) / 50 }
    func discriminator(_ images: Tensor) -> Tensor {
      let dropped = graph.dropout(images, rate: 0.25, name: nil)
      let flat = graph.reshape(dropped, shape: [2, 64], name: nil)
      return graph.sigmoid(
        with: graph.matrixMultiplication(primary: flat, secondary: discriminatorWeights, name: nil), name: nil)
    }
    func crossEntropy(_ probability: Tensor) -> Tensor {
      let logarithm = graph.logarithm(with: probability, name: nil)
      return graph.negative(with: graph.reductionSum(with: logarithm, axes: [0, 1], name: nil), name: nil)
    }

    // "Training": gradients for the variables of one network at a time, and both updates in one run.
    let one = graph.constant(1, dataType: .float32)
    let fakeness = graph.subtraction(one, discriminator(fake), name: nil)
    let discriminatorLoss = graph.addition(crossEntropy(discriminator(real)), crossEntropy(fakeness), name: nil)
    let generatorLoss = crossEntropy(discriminator(fake))
    let rate = graph.constant(0.05, dataType: .float32)
    var updates: [GraphOperation] = []
    for (loss, variables) in [
      (discriminatorLoss, [discriminatorWeights]), (generatorLoss, [generatorWeights, gamma, beta]),
    ] {
      for (variable, gradient) in graph.gradients(of: loss, with: variables, name: nil) {
        let value = graph.stochasticGradientDescent(learningRate: rate, values: variable, gradient: gradient, name: nil)
        updates.append(graph.assign(variable, tensor: value, name: nil))
      }
    }
    XCTAssertEqual(updates.count, 4)
    let noise = (0..<64).map { (i: Int) -> Float in Float((i * 37) % 11) / 11 }
    let halves = (0..<128).map { (i: Int) -> Float in i % 8 < 4 ? 1 : 0 }
    let feeds = [random: data(noise, shape: [2, 4, 4, 2]), real: data(halves, shape: [2, 8, 8, 1])]
    let variables = [discriminatorWeights, generatorWeights, gamma, beta]
    let before = graph.run(feeds: [:], targetTensors: variables, targetOperations: nil).mapValues(floats)
    for _ in 0..<5 {
      let fetch = graph.run(
        feeds: feeds, targetTensors: [discriminatorLoss, generatorLoss], targetOperations: updates)
      XCTAssertTrue(floats(fetch[discriminatorLoss]!)[0].isFinite)
      XCTAssertTrue(floats(fetch[generatorLoss]!)[0].isFinite)
    }
    let after = graph.run(feeds: [:], targetTensors: variables, targetOperations: nil).mapValues(floats)
    for variable in variables { XCTAssertNotEqual(before[variable], after[variable]) }
  }
}
