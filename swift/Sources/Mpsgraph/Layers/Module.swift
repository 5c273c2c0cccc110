// Modules: parts of a model that own parameters, and the parameters themselves.

/// A part of a model: an object with parameters and other modules in its stored properties.
///
/// A model is a class whose properties are layers. Calling it adds its operations to the graph of its input, and the
/// first call creates its variables, with input sizes inferred from the input:
///
/// ```swift
/// final class Classifier: Layer {
///   let hidden = Linear(64)
///   let output = Linear(10)
///
///   func callAsFunction(_ x: Tensor) throws -> Tensor { try output(hidden(x).relu()) }
/// }
/// ```
///
/// The parameters of this model are "hidden.weight", "hidden.bias", "output.weight", and "output.bias". Names, layouts,
/// and defaults of layers are those of the Python package `mpsgraph.nn`.
public protocol Module: AnyObject {}

/// A module that maps one tensor to one tensor.
public protocol Layer: Module {
  /// Adds the layer's operations to the graph of `x` and returns their result.
  func callAsFunction(_ x: Tensor) throws -> Tensor
}

/// A module that names its children itself, rather than after its properties.
public protocol ModuleContainer: Module {
  var children: [(name: String, module: any Module)] { get }
}

/// A variable of a module, which its first use creates.
///
/// A custom layer declares its parameters as properties and calls `callAsFunction(in:shape:)` in its own
/// `callAsFunction`:
///
/// ```swift
/// final class Scale: Layer {
///   let factor = Parameter("factor", .ones)
///
///   func callAsFunction(_ x: Tensor) throws -> Tensor { try x * factor(in: x.graph, shape: [x.size(of: -1)]) }
/// }
/// ```
///
/// Encoding a parameter writes its name and initializer, not its values: `Module.state()` returns those.
public final class Parameter: Codable {
  public let name: String
  /// The rule for the first values.
  public let initializer: Initializer
  /// Whether training changes the parameter. Statistics such as moving averages are not trainable.
  public var isTrainable: Bool
  /// The variable, once a call of the module has created it.
  public private(set) var variable: Tensor?
  /// The path of the parameter in its model, such as "hidden.weight", under which the graph stores the variable.
  var path: String?
  /// A value that was set before the variable exists.
  private var pending: NDArray?

  public init(_ name: String, _ initializer: Initializer = .zeros, isTrainable: Bool = true) {
    self.name = name
    self.initializer = initializer
    self.isTrainable = isTrainable
  }

  private enum CodingKeys: CodingKey { case name, initializer, isTrainable }

  /// Returns the variable, which the first call creates.
  ///
  /// - Parameters:
  ///   - graph: The graph that owns the variable.
  ///   - shape: The shape; all sizes must be known.
  ///   - fans: The number of inputs and outputs of one unit, for scaled initializers. By default, they are derived from
  ///     the shape.
  /// - Throws: A `Failure` of kind `graph` if the parameter is already in another graph, or of kind `shape` if it already
  ///   has another shape.
  public func callAsFunction(
    in graph: Graph, shape: [Int], elementType: ElementType = .float32, fans: (Double, Double)? = nil
  ) throws -> Tensor {
    if let variable {
      guard variable.graph === graph else {
        throw Failure(
          .graph, "parameter '\(path ?? name)' already belongs to another graph: create a new model for each graph")
      }
      guard variable.shape == shape else {
        throw Failure(
          .shape,
          "parameter '\(path ?? name)' has shape \(variable.shape ?? []), but this call needs \(shape): use a separate "
            + "layer for inputs of another size")
      }
      return variable
    }
    let type = try TensorType(elementType, shape)
    guard shape.allSatisfy({ $0 > 0 }) else {
      throw Failure(.shape, "parameter '\(path ?? name)' must have known sizes above 0, got \(shape)")
    }
    if let pending, pending.type != type {
      throw Failure(.shape, "parameter '\(path ?? name)' must be \(type), but the loaded value is \(pending.type)")
    }
    let value = try pending ?? graph.building.withLock { state in
      try initializer.values(shape, fans: fans, using: &state.random)
    }.array(shape, as: elementType, in: graph)
    let made = try graph.variable(value, name: path ?? name)
    pending = nil
    variable = made
    return made
  }

  /// Returns a copy of the current value.
  ///
  /// - Throws: A `Failure` of kind `graph` if the parameter has no value yet.
  public func value() throws -> NDArray {
    if let variable { return try variable.read() }
    if let pending { return pending }
    throw Failure(.graph, "parameter '\(path ?? name)' has no value yet: call the model with an input first")
  }

  /// Sets the value. If the variable does not exist yet, it starts with this value.
  public func set(_ value: NDArray) throws {
    if let variable { try variable.write(value) } else { pending = value }
  }
}

extension Module {
  /// The modules that this one contains, with the names of the properties that hold them.
  private var namedChildren: [(name: String, module: any Module)] {
    if let container = self as? any ModuleContainer { return container.children }
    return properties.flatMap { name, value in modules(in: value, name) }
  }

  /// The parameters in properties of this module itself.
  private var ownParameters: [Parameter] { properties.flatMap { parameters(in: $0.value) } }

  private var properties: [(name: String, value: Any)] {
    var found: [(String, Any)] = []
    var mirror: Mirror? = Mirror(reflecting: self)
    while let level = mirror {  // superclasses last
      found += level.children.compactMap { child in child.label.map { ($0, child.value) } }
      mirror = level.superclassMirror
    }
    return found
  }

  /// Returns this module and all that it contains, with their paths: "" for this module.
  public func namedModules(_ prefix: String = "") -> [(path: String, module: any Module)] {
    [(prefix, self)]
      + namedChildren.flatMap { name, module in module.namedModules(prefix.isEmpty ? name : "\(prefix).\(name)") }
  }

  /// Returns all parameters with their paths, such as "hidden.weight". A shared parameter appears once.
  public func namedParameters() -> [(path: String, parameter: Parameter)] {
    var seen = Set<ObjectIdentifier>()
    return namedModules().flatMap { path, module in
      module.ownParameters.compactMap { parameter in
        guard seen.insert(ObjectIdentifier(parameter)).inserted else { return nil }
        return (path.isEmpty ? parameter.name : "\(path).\(parameter.name)", parameter)
      }
    }
  }

  /// Returns the variables that training changes, in the order of `namedParameters()`. They exist once the model has been
  /// called.
  public func trainableVariables() -> [Tensor] {
    namedParameters().compactMap { $0.parameter.isTrainable ? $0.parameter.variable : nil }
  }

  /// Excludes all parameters from training, or includes them again. Statistics are never trained.
  public func freeze(_ frozen: Bool = true) {
    for (_, module) in namedModules() {
      for parameter in module.ownParameters where !parameter.isStatistic { parameter.isTrainable = !frozen }
    }
  }

  /// Returns the values of all parameters by path.
  public func state() throws -> [String: NDArray] {
    try Dictionary(uniqueKeysWithValues: namedParameters().map { ($0.path, try $0.parameter.value()) })
  }

  /// Sets parameters by path, before or after the first call of the model.
  ///
  /// - Throws: A `Failure` of kind `graph` that lists the differences if the paths do not match those of the model, and
  ///   of kind `shape` if a value has the wrong shape.
  public func load(_ values: [String: NDArray]) throws {
    let known = Dictionary(uniqueKeysWithValues: namedParameters().map { ($0.path, $0.parameter) })
    let missing = known.keys.filter { values[$0] == nil }.sorted()
    let unknown = values.keys.filter { known[$0] == nil }.sorted()
    guard missing.isEmpty, unknown.isEmpty else {
      throw Failure(
        .graph,
        "the values do not match the parameters of the model: missing \(missing), unknown \(unknown): pass a value for "
          + "each path of namedParameters()")
    }
    for (path, value) in values { try known[path]?.set(value) }
  }

  /// Names the parameters after their paths, so that the graph stores its variables under these names.
  public func nameParameters() {
    for (path, parameter) in namedParameters() where parameter.variable == nil { parameter.path = path }
  }
}

extension Parameter {
  /// Whether the layer itself, not training, changes the parameter.
  var isStatistic: Bool { name.hasPrefix("moving_") }
}

/// Returns the modules in the value of a property: a module, an optional, an array, or a dictionary of modules.
private func modules(in value: Any, _ name: String) -> [(name: String, module: any Module)] {
  if let module = value as? any Module { return [(name, module)] }
  let mirror = Mirror(reflecting: value)
  switch mirror.displayStyle {
  case .optional: return mirror.children.flatMap { modules(in: $0.value, name) }
  case .collection:
    return mirror.children.enumerated().flatMap { index, child in modules(in: child.value, "\(name).\(index)") }
  case .dictionary:
    let entries = mirror.children.map { Array(Mirror(reflecting: $0.value).children.map { $0.value }) }
    return entries.filter { $0.count == 2 }.sorted { "\($0[0])" < "\($1[0])" }
      .flatMap { modules(in: $0[1], "\(name).\($0[0])") }
  default: return []
  }
}

private func parameters(in value: Any) -> [Parameter] {
  if let parameter = value as? Parameter { return [parameter] }
  let mirror = Mirror(reflecting: value)
  guard mirror.displayStyle == .optional || mirror.displayStyle == .collection else { return [] }
  return mirror.children.flatMap { parameters(in: $0.value) }
}

extension Tensor {
  /// Returns the size of an axis, which must be known. Negative axes count from the end.
  ///
  /// - Throws: A `Failure` of kind `shape` if the axis does not exist or its size is dynamic.
  public func size(of axis: Int) throws -> Int { try size(of: axis, in: "this model") }

  func size(of axis: Int, in layer: String, expected: Int? = nil) throws -> Int {
    guard let shape, -shape.count ..< shape.count ~= axis else {
      throw Failure(.shape, "\(layer): the input has no axis \(axis), got \(type)")
    }
    let size = shape[axis < 0 ? axis + shape.count : axis]
    guard size >= 0, expected == nil || expected == size else {
      let wanted = expected.map { "size \($0)" } ?? "a known size"
      throw Failure(.shape, "\(layer): axis \(axis) of the input must have \(wanted), got \(type)")
    }
    return size
  }

  func requireRank(_ range: ClosedRange<Int>, in layer: String, _ axes: String) throws -> Int {
    guard let rank = shape?.count, range ~= rank else {
      throw Failure(.shape, "\(layer): the input must have axes \(axes), got \(type)")
    }
    return rank
  }
}
