// Draw a digit, as in Apple's WWDC20 talk: one tab trains a classifier and plots its loss; in the other, the classifier
// recognizes the digit that you draw, and learns it if you say which digit it is.
import SwiftUI

@main
struct DrawADigitApp: App {
  @StateObject private var model = DigitModel()

  var body: some Scene {
    WindowGroup {
      TabView {
        TrainingView(model: model).tabItem { Label("Training", systemImage: "chart.xyaxis.line") }
        DrawingView(model: model).tabItem { Label("Draw", systemImage: "pencil.and.scribble") }
      }
    }
  }
}
