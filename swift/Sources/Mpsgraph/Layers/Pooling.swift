// Pooling layers over images. Strides default to the size of the window.

/// Pooling over images (N, H, W, C). Use `MaxPool2d` or `AvgPool2d`.
public class Pooling: Layer, Codable {
  public final let kernelSize: Sizes
  public final let strides: Sizes?
  public final let padding: Padding
  public final let ceilMode: Bool
  public final let dataLayout: DataLayout

  /// - Parameters:
  ///   - kernelSize: Height and width of the window in pixels; one number means a square.
  ///   - strides: The step between windows. By default, the size of the window.
  ///   - padding: The padding of the input.
  ///   - ceilMode: Whether a last window may extend past the padded input.
  ///   - dataLayout: Whether channels come last (`NHWC`) or first (`NCHW`).
  public init(
    _ kernelSize: Sizes, strides: Sizes? = nil, padding: Padding = .valid, ceilMode: Bool = false,
    dataLayout: DataLayout = .NHWC
  ) {
    self.kernelSize = kernelSize
    self.strides = strides
    self.padding = padding
    self.ceilMode = ceilMode
    self.dataLayout = dataLayout
  }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    let name = "\(type(of: self))"
    _ = try x.requireRank(4...4, in: name, dataLayout.rawValue)
    return try pool(
      x, kernelSize.each(2, "\(name): kernelSize"), (strides ?? kernelSize).each(2, "\(name): strides"))
  }

  fileprivate func pool(_ x: Tensor, _ kernel: [Int], _ strides: [Int]) throws -> Tensor {
    try x.maxPooling2D(kernel, strides: strides, padding: padding, dataLayout: dataLayout, ceilMode: ceilMode)
  }
}

/// The largest element of each window.
public final class MaxPool2d: Pooling {}

/// The mean of each window. Padding does not count.
public final class AvgPool2d: Pooling {
  override fileprivate func pool(_ x: Tensor, _ kernel: [Int], _ strides: [Int]) throws -> Tensor {
    try x.avgPooling2D(kernel, strides: strides, padding: padding, dataLayout: dataLayout, ceilMode: ceilMode)
  }
}

/// The mean of each channel over the whole image: (N, H, W, C) to (N, C).
public final class GlobalAveragePooling2d: Layer, Codable {
  public let dataLayout: DataLayout
  public init(dataLayout: DataLayout = .NHWC) { self.dataLayout = dataLayout }

  public func callAsFunction(_ x: Tensor) throws -> Tensor {
    _ = try x.requireRank(4...4, in: "GlobalAveragePooling2d", dataLayout.rawValue)
    let axes = try dataLayout.channelsLast("GlobalAveragePooling2d") ? [1, 2] : [2, 3]
    return try x.mean(axes: axes).squeeze(axes: axes)
  }
}
