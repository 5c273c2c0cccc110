// The training tab: start, stop, and the loss of each step.
import Charts
import SwiftUI

struct TrainingView: View {
  @ObservedObject var model: DigitModel

  var body: some View {
    VStack(spacing: 16) {
      Text("Loss").font(.headline)
      Chart(model.losses) { point in
        LineMark(x: .value("Step", point.id), y: .value("Loss", point.loss))
      }
      .chartXAxisLabel("Step")
      .frame(minHeight: 240)
      HStack {
        Button(model.isTraining ? "Stop" : "Train 300 steps") { model.startOrStop() }
          .buttonStyle(.borderedProminent)
        if let accuracy = model.accuracy { Text("Accuracy of the last batch: \(accuracy, format: .percent)") }
      }
      if let problem = model.problem { Text(problem).foregroundStyle(.red) }
    }
    .padding()
  }
}
