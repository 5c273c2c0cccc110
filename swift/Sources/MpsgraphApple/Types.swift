// Apple's descriptors and data types: what operations of graphs take, and what runs take and return.
import Foundation
import Mpsgraph

extension Int {
  /// Creates a size from a number, where Apple's code writes `NSNumber(value:)`.
  public init(value: Int) { self = value }

  /// The number itself, where Apple's code has an `NSNumber`.
  public var intValue: Int { self }
}

extension Tensor {
  public var dataType: ElementType { elementType }
}

/// A device for arrays and runs.
public struct GraphDevice: Sendable {
  public let device: Device?
  public init(mtlDevice: Device?) { device = mtlDevice }
}

/// The options of a 2-D convolution.
public struct Convolution2DDescriptor: Sendable {
  public var strideInX: Int
  public var strideInY: Int
  public var dilationRateInX: Int
  public var dilationRateInY: Int
  public var groups: Int
  public var paddingLeft: Int
  public var paddingRight: Int
  public var paddingTop: Int
  public var paddingBottom: Int
  public var paddingStyle: PaddingStyle
  public var dataLayout: DataLayout
  public var weightsLayout: WeightsLayout

  /// Returns nil if a stride, a dilation rate, or the number of groups is not above 0, or an amount of padding is
  /// negative.
  public init?(
    strideInX: Int, strideInY: Int, dilationRateInX: Int, dilationRateInY: Int, groups: Int, paddingLeft: Int = 0,
    paddingRight: Int = 0, paddingTop: Int = 0, paddingBottom: Int = 0, paddingStyle: PaddingStyle,
    dataLayout: DataLayout, weightsLayout: WeightsLayout
  ) {
    guard [strideInX, strideInY, dilationRateInX, dilationRateInY, groups].allSatisfy({ $0 > 0 }),
      [paddingLeft, paddingRight, paddingTop, paddingBottom].allSatisfy({ $0 >= 0 })
    else { return nil }
    self.strideInX = strideInX
    self.strideInY = strideInY
    self.dilationRateInX = dilationRateInX
    self.dilationRateInY = dilationRateInY
    self.groups = groups
    self.paddingLeft = paddingLeft
    self.paddingRight = paddingRight
    self.paddingTop = paddingTop
    self.paddingBottom = paddingBottom
    self.paddingStyle = paddingStyle
    self.dataLayout = dataLayout
    self.weightsLayout = weightsLayout
  }

  var padding: Padding { paddingStyle.padding([[paddingTop, paddingBottom], [paddingLeft, paddingRight]]) }
  var strides: [Int] { [strideInY, strideInX] }
  var dilations: [Int] { [dilationRateInY, dilationRateInX] }
}

/// The window of 2-D pooling.
public struct Pooling2DDescriptor: Sendable {
  public var kernelWidth: Int
  public var kernelHeight: Int
  public var strideInX: Int
  public var strideInY: Int
  public var dilationRateInX: Int
  public var dilationRateInY: Int
  public var paddingLeft: Int
  public var paddingRight: Int
  public var paddingTop: Int
  public var paddingBottom: Int
  public var paddingStyle: PaddingStyle
  public var dataLayout: DataLayout
  public var ceilMode = false
  public var includeZeroPadToAverage = false

  /// Returns nil if a size of the window, a stride, or a dilation rate is not above 0, or an amount of padding is
  /// negative.
  public init?(
    kernelWidth: Int, kernelHeight: Int, strideInX: Int, strideInY: Int, dilationRateInX: Int = 1,
    dilationRateInY: Int = 1, paddingLeft: Int = 0, paddingRight: Int = 0, paddingTop: Int = 0, paddingBottom: Int = 0,
    paddingStyle: PaddingStyle, dataLayout: DataLayout
  ) {
    guard [kernelWidth, kernelHeight, strideInX, strideInY, dilationRateInX, dilationRateInY].allSatisfy({ $0 > 0 }),
      [paddingLeft, paddingRight, paddingTop, paddingBottom].allSatisfy({ $0 >= 0 })
    else { return nil }
    self.kernelWidth = kernelWidth
    self.kernelHeight = kernelHeight
    self.strideInX = strideInX
    self.strideInY = strideInY
    self.dilationRateInX = dilationRateInX
    self.dilationRateInY = dilationRateInY
    self.paddingLeft = paddingLeft
    self.paddingRight = paddingRight
    self.paddingTop = paddingTop
    self.paddingBottom = paddingBottom
    self.paddingStyle = paddingStyle
    self.dataLayout = dataLayout
  }

  var kernel: [Int] { [kernelHeight, kernelWidth] }
  var strides: [Int] { [strideInY, strideInX] }
  var dilations: [Int] { [dilationRateInY, dilationRateInX] }
  var padding: Padding { paddingStyle.padding([[paddingTop, paddingBottom], [paddingLeft, paddingRight]]) }
}

extension PaddingStyle {
  func padding(_ explicit: [[Int]]) -> Padding {
    switch self {
    case .TF_VALID: return .valid
    case .TF_SAME: return .same
    case .ONNX_SAME_LOWER: return .sameLower
    case .EXPLICIT: return .explicit(explicit)
    }
  }
}

/// The activations and the direction of an LSTM.
public final class LSTMDescriptor {
  public var inputGateActivation = GateActivation.sigmoid
  public var forgetGateActivation = GateActivation.sigmoid
  public var cellGateActivation = GateActivation.tanh
  public var outputGateActivation = GateActivation.sigmoid
  public var activation = GateActivation.tanh
  public var reverse = false
  public var bidirectional = false
  public var produceCell = false
  public var training = false
  public var forgetGateLast = false
  public init() {}
}

/// The element type and shape of a new array.
public struct NDArrayDescriptor: Sendable {
  public let dataType: ElementType
  public let shape: [Int]
  public init(dataType: ElementType, shape: [Int]) {
    self.dataType = dataType
    self.shape = shape
  }
}

extension NDArray {
  /// Creates an array of zeros.
  public convenience init(device: Device?, descriptor: NDArrayDescriptor) {
    self.init(sharing: orStop { try NDArray(zeros: TensorType(descriptor.dataType, descriptor.shape)) })
  }

  /// Copies all elements out of the array, in row-major order. Strides must be nil.
  public func readBytes(_ buffer: UnsafeMutableRawPointer, strideBytes: UnsafeMutablePointer<Int>?) {
    precondition(strideBytes == nil, "readBytes: strideBytes must be nil: elements are copied in row-major order")
    orStop { try read(into: UnsafeMutableRawBufferPointer(start: buffer, count: byteCount)) }
  }

  /// Copies all elements into the array, in row-major order. Strides must be nil.
  public func writeBytes(_ buffer: UnsafeRawPointer, strideBytes: UnsafeMutablePointer<Int>?) {
    precondition(strideBytes == nil, "writeBytes: strideBytes must be nil: elements are copied in row-major order")
    orStop { try write(from: UnsafeRawBufferPointer(start: buffer, count: byteCount)) }
  }
}

/// The value of a tensor in a run.
public struct TensorData: Sendable {
  private let array: NDArray

  public init(_ array: NDArray) { self.array = array }

  /// Creates an array with a copy of the bytes.
  public init(device: GraphDevice, data: Data, shape: [Int], dataType: ElementType) {
    array = orStop { try NDArray(data: data, type: TensorType(dataType, shape)) }
  }

  public var shape: [Int] { array.type.shape ?? [] }
  public var dataType: ElementType { array.type.elementType }

  /// Returns the array.
  public func mpsndarray() -> NDArray { array }
}

/// The values of tensors, as runs take and return them.
public typealias TensorDataDictionary = [Tensor: TensorData]

/// A point of a run at which an event is signaled.
public enum ExecutionStage: Sendable {
  case completed
}

/// What happens around an asynchronous run.
public final class ExecutionDescriptor {
  /// What the handlers receive: the results, or an error.
  public typealias Handler = (TensorDataDictionary, (any Error)?) -> Void

  /// Called when the run has ended, on a thread of the library, as in MPSGraph.
  public var completionHandler: Handler?
  /// Called when the run has been submitted.
  public var scheduledHandler: Handler?
  /// Whether `runAsync` returns only when the run has ended.
  public var waitUntilCompleted = false
  var waits: [(event: SharedEvent, value: UInt64)] = []
  var signals: [(event: SharedEvent, value: UInt64)] = []

  public init() {}

  /// Makes the run wait until the event has reached a value.
  public func wait(for event: SharedEvent, value: UInt64) { waits.append((event, value)) }

  /// Raises the event to a value when the run has completed.
  public func signal(_ event: SharedEvent, atExecutionEvent stage: ExecutionStage, value: UInt64) {
    signals.append((event, value))
  }
}

/// A handler that moves to a thread of the library.
struct MovedHandler: @unchecked Sendable {
  let call: ExecutionDescriptor.Handler
}

extension Device {
  /// Creates an event. Events do not belong to a device.
  public func makeSharedEvent() -> SharedEvent? { orStop { try SharedEvent() } }

  /// Creates a queue of this device.
  public func makeCommandQueue() -> CommandQueue? { orStop { try CommandQueue(device: self) } }
}

/// Returns the default device.
public func CreateSystemDefaultDevice() -> Device? { orStop { try Device() } }
