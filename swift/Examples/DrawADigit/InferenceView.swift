// The inference tab: a square to draw in, and the probability of each digit.
import SwiftUI

struct InferenceView: View {
  static let side = 280.0

  @ObservedObject var model: DigitModel
  @State private var strokes: [[CGPoint]] = []
  @State private var isDrawing = false
  @State private var probabilities: [Double]?

  var body: some View {
    VStack(spacing: 16) {
      Canvas { context, _ in
        for stroke in strokes {
          var path = Path()
          path.addLines(stroke)
          context.stroke(path, with: .color(.white), style: StrokeStyle(lineWidth: 20, lineCap: .round, lineJoin: .round))
        }
      }
      .frame(width: Self.side, height: Self.side)
      .background(.black)
      .gesture(
        DragGesture(minimumDistance: 0)
          .onChanged { drag in
            if !isDrawing { strokes.append([]) }
            isDrawing = true
            strokes[strokes.count - 1].append(drag.location)
          }
          .onEnded { _ in
            isDrawing = false
            classify()
          })
      if let probabilities {
        HStack(alignment: .bottom) {
          ForEach(0..<10) { digit in
            VStack {
              Rectangle().frame(width: 16, height: max(1, 120 * probabilities[digit]))
              Text("\(digit)").bold(probabilities[digit] == probabilities.max())
            }
          }
        }
        .frame(height: 160, alignment: .bottom)
      }
      Button("Clear") {
        strokes = []
        probabilities = nil
      }
    }
    .padding()
  }

  private func classify() {
    let points = strokes.map { stroke in stroke.map { (x: Double($0.x), y: Double($0.y)) } }
    let pixels = Raster.pixels(of: points, side: Self.side)
    Task { probabilities = await model.probabilities(of: pixels) }
  }
}
