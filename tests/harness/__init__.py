"""What the tests of operations share: cases, element types, running, gradients by differences. No test stands here."""
