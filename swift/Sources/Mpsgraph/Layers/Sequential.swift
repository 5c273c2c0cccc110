// Layers one after the other, and the configuration of layers as data.
import Foundation

/// Layers one after the other. Its parameters are "0.weight", "0.bias", and so on.
///
/// ```swift
/// let model = Sequential(Flatten(), Linear(64), ReLU(), Dropout(0.5), Linear(10))
/// ```
public final class Sequential: Layer, ModuleContainer, Codable {
  public let layers: [any Layer]

  public init(_ layers: any Layer...) { self.layers = layers }
  public init(_ layers: [any Layer]) { self.layers = layers }

  public func callAsFunction(_ x: Tensor) throws -> Tensor { try layers.reduce(x) { try $1($0) } }

  public var children: [(name: String, module: any Module)] { layers.enumerated().map { ("\($0)", $1) } }

  private struct Entry: Codable {
    let layer: any Layer

    init(_ layer: any Layer) { self.layer = layer }

    private enum CodingKeys: CodingKey { case layer, options }

    init(from decoder: any Decoder) throws {
      let values = try decoder.container(keyedBy: CodingKeys.self)
      let name = try values.decode(String.self, forKey: .layer)
      layer = try LayerTypes.type(named: name).init(from: values.superDecoder(forKey: .options))
    }

    func encode(to encoder: any Encoder) throws {
      var values = encoder.container(keyedBy: CodingKeys.self)
      let name = "\(type(of: layer))"
      _ = try LayerTypes.type(named: name)
      guard let codable = layer as? any Codable else { return }
      try values.encode(name, forKey: .layer)
      try codable.encode(to: values.superEncoder(forKey: .options))
    }
  }

  /// Creates the layers that `encode(to:)` wrote, with new parameters.
  ///
  /// - Throws: A `Failure` of kind `unsupported` if a layer is not one of this package and was not registered.
  public init(from decoder: any Decoder) throws {
    layers = try decoder.singleValueContainer().decode([Entry].self).map { $0.layer }
  }

  /// Writes the options of the layers, without the values of parameters.
  public func encode(to encoder: any Encoder) throws {
    var values = encoder.singleValueContainer()
    try values.encode(layers.map { Entry($0) })
  }
}

/// The layers that a configuration can name.
public enum LayerTypes {
  public typealias ConfigurableLayer = Codable & Layer

  private static let known = Locked<[String: any ConfigurableLayer.Type]>(
    Dictionary(
      uniqueKeysWithValues: ([
        Linear.self, Embedding.self, Dropout.self, Flatten.self, Unflatten.self, Identity.self, Conv1d.self, Conv2d.self,
        Conv3d.self, DepthwiseConv2d.self, ConvTranspose2d.self, MaxPool2d.self, AvgPool2d.self,
        GlobalAveragePooling2d.self, BatchNorm.self, LayerNorm.self, RMSNorm.self, GroupNorm.self, InstanceNorm.self,
        RNN.self, LSTM.self, GRU.self, MultiHeadAttention.self, Activation.self, Sequential.self,
      ] as [any ConfigurableLayer.Type]).map { ("\($0)", $0) }))

  /// Makes a custom layer available to configurations, under the name of its type.
  public static func register(_ type: any ConfigurableLayer.Type) { known.withLock { $0["\(type)"] = type } }

  static func type(named name: String) throws -> any ConfigurableLayer.Type {
    guard let type = known.withLock({ $0[name] }) else {
      throw Failure(
        .unsupported, "a configuration cannot contain the layer '\(name)': make it Codable and call LayerTypes.register")
    }
    return type
  }
}
