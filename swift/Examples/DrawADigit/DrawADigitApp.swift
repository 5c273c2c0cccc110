// Draw a digit, as in Apple's WWDC20 talk: one tab trains a classifier and plots its loss, the other recognizes the
// digit that you draw.
import SwiftUI

@main
struct DrawADigitApp: App {
  @StateObject private var model = DigitModel()

  var body: some Scene {
    WindowGroup {
      TabView {
        TrainingView(model: model).tabItem { Label("Training", systemImage: "chart.xyaxis.line") }
        InferenceView(model: model).tabItem { Label("Inference", systemImage: "pencil.and.scribble") }
      }
    }
  }
}
