// The Swift code of WWDC22, "Accelerate machine learning with Metal": shared events, LSTM, and shape operations.
//
// Only the names of types differ from Apple's. Where the notes destructure an array in a `let`, which is not Swift, the
// results are taken by index.
import Foundation
import Mpsgraph
import MpsgraphApple
import XCTest

final class WWDC22Tests: XCTestCase {
  private func data(_ floats: [Float], shape: [Int]) -> TensorData {
    TensorData(
      device: GraphDevice(mtlDevice: nil), data: floats.withUnsafeBytes { Data($0) }, shape: shape, dataType: .float32)
  }

  private func floats(_ data: TensorData) -> [Float] {
    var values = [Float](repeating: 0, count: data.shape.reduce(1, *))
    data.mpsndarray().readBytes(&values, strideBytes: nil)
    return values
  }

  // "Using shared events"
  func testSharedEvents() {
    let (computeGraph, postProcessGraph) = (Graph(), Graph())
    let input0Tensor = computeGraph.placeholder(shape: [2], dataType: .float32, name: nil)
    let input1Tensor = computeGraph.placeholder(shape: [2], dataType: .float32, name: nil)
    let finalTensor = computeGraph.addition(input0Tensor, input1Tensor, name: nil)
    let post0Tensor = postProcessGraph.placeholder(shape: [2], dataType: .float32, name: nil)
    let post1Tensor = postProcessGraph.placeholder(shape: [2], dataType: .float32, name: nil)
    let postTensor = postProcessGraph.multiplication(post0Tensor, post1Tensor, name: nil)
    let (input0, input1) = (data([1, 2], shape: [2]), data([10, 20], shape: [2]))
    let commandQueue1 = CreateSystemDefaultDevice()!.makeCommandQueue()!
    let commandQueue2 = CreateSystemDefaultDevice()!.makeCommandQueue()!

    let executionDescriptor = ExecutionDescriptor()
    let event = CreateSystemDefaultDevice()!.makeSharedEvent()!
    executionDescriptor.signal(event, atExecutionEvent: .completed, value: 1)

    let fetch = computeGraph.runAsync(
      with: commandQueue1,
      feeds: [
        input0Tensor: input0,
        input1Tensor: input1,
      ],
      targetTensors: [finalTensor],
      targetOperations: nil,
      executionDescriptor: executionDescriptor)

    let executionDescriptor2 = ExecutionDescriptor()
    executionDescriptor2.wait(for: event, value: 1)
    let done = DispatchSemaphore(value: 0)
    executionDescriptor2.completionHandler = { _, error in
      XCTAssertNil(error)
      done.signal()
    }

    let fetch2 = postProcessGraph.runAsync(
      with: commandQueue2,
      feeds: [
        post0Tensor: fetch[finalTensor]!,
        post1Tensor: input1,
      ],
      targetTensors: [postTensor],
      targetOperations: nil,
      executionDescriptor: executionDescriptor2)
    done.wait()
    XCTAssertEqual(floats(fetch2[postTensor]!), [110, 440])
  }

  // "LSTM"
  func testLSTM() {
    let graph = Graph()
    let inputTensor = graph.constant(100, shape: [2, 1, 4], dataType: .float32)
    let recurrentWeightsTensor = graph.constant(0, shape: [4, 1], dataType: .float32)

    let descriptor = LSTMDescriptor()

    descriptor.inputGateActivation = .sigmoid
    descriptor.forgetGateActivation = .sigmoid
    descriptor.cellGateActivation = .tanh
    descriptor.outputGateActivation = .sigmoid
    descriptor.activation = .tanh
    descriptor.bidirectional = false
    descriptor.training = true

    let lstm = graph.LSTM(
      inputTensor,
      recurrentWeight: recurrentWeightsTensor,
      inputWeight: nil,
      bias: nil,
      initState: nil,
      initCell: nil,
      descriptor: descriptor,
      name: nil)
    let fetch = graph.run(feeds: [:], targetTensors: lstm, targetOperations: nil)
    XCTAssertEqual(floats(fetch[lstm[1]]!), [1, 2])  // the cell adds 1 at each step
  }

  // "ExpandDims", "Squeeze", "Split", "Stack"
  func testShapes() {
    let graph = Graph()
    let inputTensor = graph.placeholder(shape: [4, 2], dataType: .float32, name: nil)
    // Expand the input tensor dimensions, 4x2 -> 4x1x2
    let expandedTensor = graph.expandDims(
      inputTensor,
      axis: 1,
      name: nil)
    // Squeeze the input tensor dimensions, 4x1x2 -> 4x2
    let squeezedTensor = graph.squeeze(
      expandedTensor,
      axis: 1,
      name: nil)
    // Split the tensor in two, 4x2 -> (2x2, 2x2)
    let splits = graph.split(
      squeezedTensor,
      numSplits: 2,
      axis: 0,
      name: nil)
    // Stack the tensor back together, (2x2, 2x2) -> 2x2x2
    let stackedTensor = graph.stack(
      splits,
      axis: 0,
      name: nil)
    XCTAssertEqual(expandedTensor.shape, [4, 1, 2])
    XCTAssertEqual(squeezedTensor.shape, [4, 2])
    XCTAssertEqual(stackedTensor.shape, [2, 2, 2])
    let values = (0..<8).map { Float($0) }
    let fetch = graph.run(
      feeds: [inputTensor: data(values, shape: [4, 2])], targetTensors: [stackedTensor], targetOperations: nil)
    XCTAssertEqual(floats(fetch[stackedTensor]!), values)
  }

  // "Coordinate along axis": a range from 3 in steps of 4
  func testRange() {
    let graph = Graph()
    // 1. Set coordTensor = [0,1,2,3,4,5] along 0 axis
    let coordTensor = graph.coordinate(alongAxis: 0, withShape: [6], name: nil)

    // 2. Multiply by a stride 4 and add an offset 3
    let strideTensor = graph.constant(4.0, dataType: .int32)
    let offsetTensor = graph.constant(3.0, dataType: .int32)
    let stridedTensor = graph.multiplication(strideTensor, coordTensor, name: nil)
    let rangeTensor = graph.addition(offsetTensor, stridedTensor, name: nil)

    // 3. Compute the result = [3, 7, 11, 15, 19, 23]
    let descriptor = ExecutionDescriptor()
    descriptor.waitUntilCompleted = true
    let fetch = graph.runAsync(
      feeds: [:],
      targetTensors: [rangeTensor],
      targetOperations: nil, executionDescriptor: descriptor)
    var values = [Int32](repeating: 0, count: 6)
    fetch[rangeTensor]!.mpsndarray().readBytes(&values, strideBytes: nil)
    XCTAssertEqual(values, [3, 7, 11, 15, 19, 23])
  }

  // "Hamming distance"
  func testHammingDistance() {
    let graph = Graph()
    let primaryTensor = graph.placeholder(
      shape: [3, 4],
      dataType: .uint32,
      name: nil)
    let secondaryTensor = graph.placeholder(
      shape: [1, 4],
      dataType: .uint32,
      name: nil)

    // The hamming distance shape will be 3x1
    let distance = graph.HammingDistance(
      primary: primaryTensor,
      secondary: secondaryTensor,
      resultDataType: .uint16,
      name: nil)
    XCTAssertEqual(distance.shape, [3, 1])
    XCTAssertEqual(distance.dataType, .uint16)
  }
}
