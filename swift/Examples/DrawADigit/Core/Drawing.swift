// A drawn digit: strokes of a pen, and the script of drawings that the terminal program reads.
import Foundation
import Mpsgraph

/// Strokes in a square, from the upper left corner.
public struct Drawing: Codable, Hashable, Sendable {
  public struct Point: Codable, Hashable, Sendable {
    public let x: Double
    public let y: Double

    public init(x: Double, y: Double) {
      self.x = x
      self.y = y
    }
  }

  /// The side of the square in the unit of the points.
  public let side: Double
  public var strokes: [[Point]]

  public init(side: Double, strokes: [[Point]] = []) {
    self.side = side
    self.strokes = strokes
  }

  public var isEmpty: Bool { strokes.allSatisfy { $0.isEmpty } }

  /// Returns 28 x 28 gray levels between 0 (paper) and 1 (ink), with the ink centered and scaled.
  public var pixels: [Float] { Raster.pixels(of: strokes.map { $0.map { (x: $0.x, y: $0.y) } }, side: side) }
}

/// A drawing, and the digit that it shows.
public struct LabeledDrawing: Codable, Hashable, Sendable {
  public let digit: Int
  public let drawing: Drawing

  public init(digit: Int, drawing: Drawing) {
    self.digit = digit
    self.drawing = drawing
  }

  /// Reads a script: a JSON file with a list of labeled drawings.
  ///
  /// - Throws: A `Failure` of kind `invalidArgument` that names the file if it cannot be read.
  public static func script(at file: URL) throws -> [LabeledDrawing] {
    do {
      return try JSONDecoder().decode([LabeledDrawing].self, from: Data(contentsOf: file))
    } catch {
      throw Failure(.invalidArgument, "\(file.path) must be a JSON list of labeled drawings: \(error)")
    }
  }
}
