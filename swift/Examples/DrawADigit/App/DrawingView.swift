// The drawing tab: a square to draw in, the probability of each digit, and a button for each digit that teaches it.
import DrawADigitCore
import SwiftUI

struct DrawingView: View {
  static let side = 280.0

  @ObservedObject var model: DigitModel
  @State private var drawing = Drawing(side: DrawingView.side)
  @State private var isDrawing = false
  @State private var probabilities: [Double]?

  var body: some View {
    VStack(spacing: 16) {
      Canvas { context, _ in
        for stroke in drawing.strokes {
          var path = Path()
          path.addLines(stroke.map { CGPoint(x: $0.x, y: $0.y) })
          context.stroke(path, with: .color(.white), style: StrokeStyle(lineWidth: 20, lineCap: .round, lineJoin: .round))
        }
      }
      .frame(width: Self.side, height: Self.side)
      .background(.black)
      .gesture(
        DragGesture(minimumDistance: 0)
          .onChanged { drag in
            if !isDrawing { drawing.strokes.append([]) }
            isDrawing = true
            drawing.strokes[drawing.strokes.count - 1].append(.init(x: drag.location.x, y: drag.location.y))
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
        Text("Which digit is it? The classifier learns from your answer.")
        HStack {
          ForEach(0..<10) { digit in
            Button("\(digit)") { teach(digit) }
          }
        }
      }
      Button("Clear") { clear() }
      if let problem = model.problem { Text(problem).foregroundStyle(.red) }
    }
    .padding()
  }

  private func classify() {
    let drawn = drawing
    Task { probabilities = await model.probabilities(of: drawn) }
  }

  private func teach(_ digit: Int) {
    let drawn = drawing
    Task {
      await model.learn(drawn, digit: digit)
      clear()
    }
  }

  private func clear() {
    drawing = Drawing(side: Self.side)
    probabilities = nil
  }
}
