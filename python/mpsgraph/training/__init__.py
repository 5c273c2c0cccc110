"""Training: the Trainer, what its steps give, the history that it keeps, and checkpoints.

People import `Trainer`, `History`, `StepResult` and `checkpoint` from mpsgraph itself, which loads each at its first
use; so nothing is imported here.
"""
