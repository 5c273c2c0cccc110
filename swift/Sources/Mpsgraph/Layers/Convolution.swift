// Convolution layers over one to three axes. Channels come last by default.

/// A convolution over `axes` axes: sequences, images, or volumes. Use `Conv1d`, `Conv2d`, or `Conv3d`.
public class Convolution: Layer, Codable {
  fileprivate class var axes: Int { 2 }
  fileprivate final var axes: Int { type(of: self).axes }
  fileprivate final var name: String { "\(type(of: self))" }

  fileprivate final var isLast: Bool { get throws { try dataLayout.channelsLast(name) } }

  fileprivate final func layoutName(_ axes: Int) throws -> String {
    try (isLast ? ["NWC", "NHWC", "NDHWC"] : ["NCW", "NCHW", "NCDHW"])[axes - 1]
  }

  public final let outChannels: Int
  public final let kernelSize: Sizes
  public final let strides: Sizes
  public final let padding: Padding
  public final let dilations: Sizes
  public final let groups: Int
  public final let inChannels: Int?
  public final let dataLayout: DataLayout
  /// The filters: (kernel..., inputs / groups, outputs), or (outputs, inputs / groups, kernel...) for channels first.
  public final let weight: Parameter
  public final let bias: Parameter?

  /// - Parameters:
  ///   - outChannels: The number of filters.
  ///   - kernelSize: The size of the window: one number, or one for each axis.
  ///   - strides: The step between windows.
  ///   - padding: The padding of the input.
  ///   - dilations: The spacing between kernel elements.
  ///   - groups: The number of groups into which the channels are split.
  ///   - bias: Whether to add a bias to each output channel.
  ///   - inChannels: The expected number of input channels. By default, it is inferred from the first input.
  ///   - dataLayout: Whether channels come last (`NHWC`) or first (`NCHW`).
  public init(
    _ outChannels: Int, _ kernelSize: Sizes, strides: Sizes = 1, padding: Padding = .valid, dilations: Sizes = 1,
    groups: Int = 1, bias: Bool = true, inChannels: Int? = nil, dataLayout: DataLayout = .NHWC,
    weightInitializer: Initializer = .glorotUniform
  ) {
    self.outChannels = outChannels
    self.kernelSize = kernelSize
    self.strides = strides
    self.padding = padding
    self.dilations = dilations
    self.groups = groups
    self.inChannels = inChannels
    self.dataLayout = dataLayout
    weight = Parameter("weight", weightInitializer)
    self.bias = bias ? Parameter("bias") : nil
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    _ = try x.requireRank(axes + 2 ... axes + 2, in: name, layoutName(axes))
    let inputs = try channels(of: x)
    guard groups > 0, inputs % groups == 0, outChannels % groups == 0 else {
      throw Failure(
        .shape, "\(name): \(inputs) input and \(outChannels) output channels must be divisible by groups, got \(groups)")
    }
    let weight = try self.weight(x, inputs / groups, outChannels)
    let kind = axes == 3 ? "convolution3d" : "convolution2d"
    return try biased(convolve(kind, x, weight, ["groups": .integer(groups)]), outChannels)
  }

  fileprivate final func channels(of x: Tensor) throws -> Int {
    try x.size(of: isLast ? -1 : -1 - axes, in: name, expected: inChannels)
  }

  fileprivate final func weight(_ x: Tensor, _ inputs: Int, _ outputs: Int) throws -> Tensor {
    let kernel = try kernelSize.each(axes, "\(name): kernelSize")
    let window = Double(kernel.reduce(1, *))
    return try weight(
      in: x.graph, shape: isLast ? kernel + [inputs, outputs] : [outputs, inputs] + kernel,
      elementType: x.elementType, fans: (window * Double(inputs), window * Double(outputs)))
  }

  /// Adds the operation. A sequence is an image of one row.
  fileprivate final func convolve(
    _ kind: String, _ x: Tensor, _ weight: Tensor, _ others: [String: Attribute], shape: [RunSize]? = nil
  ) throws -> Tensor {
    let row = [try isLast ? 1 : 2]
    let windowAxes = max(axes, 2)
    func of2(_ sizes: Sizes, _ what: String) throws -> Attribute {
      .integers((axes == 1 ? [1] : []) + (try sizes.each(axes, "\(name): \(what)")))
    }
    var padding = self.padding
    if axes == 1, case .explicit(let sides) = padding { padding = .explicit([[0, 0]] + sides) }
    let attributes: [String: Attribute] = [
      "strides": try of2(strides, "strides"), "dilations": try of2(dilations, "dilations"),
      "data_layout": .string(try layoutName(windowAxes)),
      "weights_layout": .string(try (isLast ? ["HWIO", "DHWIO"] : ["OIHW", "OIDHW"])[windowAxes - 2]),
    ]
    let all = attributes.merging(try padding.attributes(windowAxes, name)) { $1 }.merging(others) { $1 }
    guard axes == 1 else { return try x.apply(kind, [weight] + (shape.map { [try x.graph.shape($0)] } ?? []), all) }
    let filters = try weight.expandDims([isLast ? 0 : 2])
    return try x.expandDims(row).apply(kind, [filters], all).squeeze(axes: row)
  }

  fileprivate final func biased(_ y: Tensor, _ outputs: Int) throws -> Tensor {
    guard let bias else { return y }
    let values = try bias(in: y.graph, shape: [outputs], elementType: y.elementType)
    return try y + values.alongChannels(of: y, axis: isLast ? axes + 1 : 1)
  }
}

/// A convolution over sequences (N, W, channels).
public final class Conv1d: Convolution { override class var axes: Int { 1 } }

/// A convolution over images (N, H, W, channels).
public final class Conv2d: Convolution {}

/// A convolution over volumes or video (N, D, H, W, channels).
public final class Conv3d: Convolution { override class var axes: Int { 3 } }

/// A convolution over images that filters each channel separately. The filters have the shape (kernel..., channels,
/// multiplier), and `outChannels` is the multiplier: the number of output channels for each input channel.
public final class DepthwiseConv2d: Convolution {
  public convenience init(
    _ kernelSize: Sizes, channelMultiplier: Int = 1, strides: Sizes = 1, padding: Padding = .valid, dilations: Sizes = 1,
    bias: Bool = true, dataLayout: DataLayout = .NHWC
  ) {
    self.init(
      channelMultiplier, kernelSize, strides: strides, padding: padding, dilations: dilations, bias: bias,
      dataLayout: dataLayout)
  }

  public override func callAsFunction(_ x: Tensor) throws -> Tensor {
    _ = try x.requireRank(4...4, in: name, layoutName(2))
    let channels = try channels(of: x)
    let weight = try self.weight(x, channels, outChannels)
    return try biased(convolve("depthwise_convolution2d", x, weight, [:]), channels * outChannels)
  }
}

/// A transposed convolution over images, which enlarges them by the strides. The options are those of the corresponding
/// convolution; the filters have the shape (kernel..., outputs / groups, inputs).
public final class ConvTranspose2d: Convolution {
  public override func callAsFunction(_ x: Tensor) throws -> Tensor {
    _ = try x.requireRank(4...4, in: name, layoutName(2))
    let inputs = try channels(of: x)
    guard groups > 0, inputs % groups == 0, outChannels % groups == 0 else {
      throw Failure(
        .shape, "\(name): \(inputs) input and \(outChannels) output channels must be divisible by groups, got \(groups)")
    }
    let weight = try self.weight(x, outChannels / groups, inputs)
    let first = try isLast ? 1 : 2
    let (kernel, strides) = (try kernelSize.each(2, name), try self.strides.each(2, name))
    let dilations = try self.dilations.each(2, name)
    var sizes = try (0..<4).map { try x.sizeInRun($0) }
    sizes[try isLast ? 3 : 1] = .known(outChannels)
    for i in 0..<2 {
      var more = (kernel[i] - 1) * dilations[i] + 1 - strides[i]
      switch padding {
      case .same, .sameLower: more = 0
      case .explicit(let sides) where sides.count == 2: more -= sides[i].reduce(0, +)
      default: break
      }
      switch sizes[first + i] {
      case .known(let size): sizes[first + i] = .known(size * strides[i] + more)
      case .computed(let size): sizes[first + i] = .computed(try size * Double(strides[i]) + Double(more))
      }
    }
    let y = try convolve("convolution_transpose2d", x, weight, ["groups": .integer(groups)], shape: sizes)
    return try biased(y, outChannels)
  }
}
