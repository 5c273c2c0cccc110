// Converts strokes to images like those in the training data: 28 x 28 gray levels, with the ink centered and scaled to
// the same size.

public enum Raster {
  public static let size = 28

  /// Returns gray levels between 0 (paper) and 1 (ink), row by row. `strokes` are points in a square with the given
  /// side.
  public static func pixels(of strokes: [[(x: Double, y: Double)]], side: Double) -> [Float] {
    let all = strokes.flatMap { $0 }
    guard let first = all.first else { return [Float](repeating: 0, count: size * size) }
    let (left, right) = all.reduce((first.x, first.x)) { (min($0.0, $1.x), max($0.1, $1.x)) }
    let (top, bottom) = all.reduce((first.y, first.y)) { (min($0.0, $1.y), max($0.1, $1.y)) }
    // The longer side fills 20 of the 28 pixels; a dot stays a dot.
    let scale = 20 / max(right - left, bottom - top, side / 4)
    let centre = Double(size) / 2
    func place(_ point: (x: Double, y: Double)) -> (x: Double, y: Double) {
      (centre + (point.x - (left + right) / 2) * scale, centre + (point.y - (top + bottom) / 2) * scale)
    }
    var pixels = [Float](repeating: 0, count: size * size)
    for stroke in strokes {
      let points = stroke.map(place)
      for (a, b) in zip(points, points.dropFirst().isEmpty ? points[...] : points.dropFirst()) {
        for row in 0..<size {
          for column in 0..<size {
            let distance = Self.distance((Double(column) + 0.5, Double(row) + 0.5), a, b)
            let ink = Float(min(1, max(0, 1.8 - distance)))  // a pen 2.6 pixels wide with a soft edge
            pixels[row * size + column] = max(pixels[row * size + column], ink)
          }
        }
      }
    }
    return pixels
  }

  /// Returns the distance of a point from the line segment between `a` and `b`.
  private static func distance(_ p: (Double, Double), _ a: (x: Double, y: Double), _ b: (x: Double, y: Double)) -> Double {
    let (dx, dy) = (b.x - a.x, b.y - a.y)
    let length = dx * dx + dy * dy
    let along = length == 0 ? 0 : min(1, max(0, ((p.0 - a.x) * dx + (p.1 - a.y) * dy) / length))
    let (x, y) = (p.0 - a.x - along * dx, p.1 - a.y - along * dy)
    return (x * x + y * y).squareRoot()
  }
}
