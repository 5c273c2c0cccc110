"""Two graphs on two queues, where one uses the other's result: a race, and the event that prevents it.

After "Accelerate machine learning with Metal" (WWDC22): a compute graph finds what moves in each frame of a video, and
a post-processing graph tints it. The mask is passed in memory that both share, and the host does not wait in between.
Without a shared event, the second graph uses whatever mask is in memory.
Run: python examples/two_queues.py [--frames 40] [--size 320] [--output DIR]; page: docs/examples/two_queues.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph._optional import require

IN_FLIGHT = 2  # Frames, and mask buffers: one mask is used while the next is computed.
SMOOTHINGS, WINDOW = 4, 9
COLOUR = 0.95, 0.35, 0.1
KINDS, NAMES, WAITING = ("right", "stale", "torn"), ("mask", "tinted"), "wait for event"
SHOWN, FRAME_COLOURS = 8, ("#31688e", "#35b779", "#b5651d", "#7b4fa3")  # Frames in the timeline.


def video(frames: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate frames (frames, 1, size, size, 1) of a circling disc, and the background without it, from 0 to 1."""
    y, x = np.mgrid[:size, :size].astype(np.float32) / size
    background = 0.4 + 0.1 * np.sin(40 * x) * np.sin(40 * y)
    turn = 2 * np.pi * np.arange(frames)[:, None, None] / 20
    disc = np.hypot(x - 0.5 - 0.3 * np.cos(turn), y - 0.5 - 0.3 * np.sin(turn)) < 0.13
    shown = np.where(disc, 0.75, background).astype(np.float32)
    return shown[:, None, :, :, None], background[None, :, :, None]


class Pipeline:
    """The two compiled graphs, a queue for each, and the memory between them."""

    def __init__(self, size: int, background: np.ndarray) -> None:
        self.background, self.queues = background, (mg.CommandQueue(), mg.CommandQueue())
        self.masks = [mg.NDArray((1, size, size, 1)) for _ in range(IN_FLIGHT)]
        shape = (1, size, size, 1)

        g = self.compute_graph = mg.Graph()
        frame, still = g.placeholder(shape, name="frame"), g.placeholder(shape, name="background")
        window = g.constant(1 / WINDOW**2, (WINDOW, WINDOW, 1, 1))
        mask = g.absolute(frame - still)
        for _ in range(SMOOTHINGS):
            mask = g.convolution2d(mask, window, padding="TF_SAME")
        mask = g.minimum(mask * 6.0, 1.0, name="mask")
        self.compute = g.compile({frame: shape, still: shape}, [mask])

        g = self.post_process_graph = mg.Graph()
        frame, mask = g.placeholder(shape, name="frame"), g.placeholder(shape, name="mask")
        tinted = g.addition(frame * (1.0 - mask), mask * g.constant(COLOUR), name="tinted")
        self.post_process = g.compile({frame: shape, mask: shape}, [tinted])

    def in_turn(self, frames: np.ndarray) -> tuple[list[mg.NDArray], list[np.ndarray]]:
        """Return the correct masks and tinted frames, by running one graph after the other."""
        masks = [self.compute.run([frame, self.background])[0] for frame in frames]
        return masks, [self.post_process.run(pair)[0].numpy() for pair in zip(frames, masks, strict=True)]

    def side_by_side(self, frames: np.ndarray, event: mg.SharedEvent | None) -> list[np.ndarray]:
        """Return the tinted frames, with each graph on its own queue; the event, if any, counts finished masks."""
        for mask in self.masks:
            mask.numpy()[:] = 0
        running: list[tuple[Any, ...]] = []
        for number, frame in enumerate(frames):
            for execution in running[number - IN_FLIGHT] if number >= IN_FLIGHT else ():
                execution.wait()  # The mask's memory is free again, with or without an event.
            mask = self.masks[number % IN_FLIGHT]
            makes, uses = mg.ExecutionDescriptor(), mg.ExecutionDescriptor()
            if event:
                makes.signal_event(event, number + 1)
                uses.wait_for_event(event, number + 1)
            first = self.compute.run_async(
                [frame, self.background], results=[mask], descriptor=makes, queue=self.queues[0]
            )
            second = self.post_process.run_async([frame, mask], descriptor=uses, queue=self.queues[1])
            running.append((first, second))
        return [second.results[0].numpy() for _, second in running]

    def judge(self, frames: np.ndarray, tinted: list[np.ndarray]) -> list[str]:
        """Classify each frame: "right", "stale" (with the previous mask in memory), or "torn" (with parts of both)."""
        masks, right = self.in_turn(frames)
        before = [np.zeros_like(self.background)] * IN_FLIGHT + masks
        verdicts = []
        for frame, old, wanted, seen in zip(frames, before, right, tinted, strict=False):
            stale = self.post_process.run([frame, old])[0].numpy()
            kind = 0 if np.array_equal(seen, wanted) else 1 if np.array_equal(seen, stale) else 2
            verdicts.append(KINDS[kind])
        return verdicts


def recorded(pipeline: Pipeline, frames: np.ndarray, event: mg.SharedEvent | None) -> tuple[list[np.ndarray], dict]:
    """Return the tinted frames, and by name the (start, length) in milliseconds of both graphs' runs and the waits."""
    with mg.profiler.profile() as profile:
        tinted = pipeline.side_by_side(frames, event)
    records = [r for r in profile.records if r.category in ("run", "event") and r.shape == "interval"]
    first = min(r.begin for r in records)
    return tinted, {
        name: [(1000 * (r.begin - first), 1000 * r.duration) for r in records if r.name == name]
        for name in (*NAMES, WAITING)
    }


def draw(path: Path, frames: list[np.ndarray], verdicts: list[list[str]], times: list[dict]) -> None:
    """Draw a frame with and without the event, above a timeline of both queues."""
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(12, 7.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.5, 1))
    for column, title in enumerate(("Without an event", "With a shared event")):
        counts = ", ".join(f"{n} {kind}" for kind in KINDS if (n := verdicts[column].count(kind)))
        picture = figure.add_subplot(grid[0, column])
        picture.imshow(frames[column][0])
        picture.set(xticks=[], yticks=[])
        picture.set_title(f"{title}: {counts}", fontweight="bold")
        lanes = figure.add_subplot(grid[1, column])
        for lane, name in enumerate(NAMES):
            for number, (start, length) in enumerate(times[column][name][:SHOWN]):
                lanes.barh(lane, length, 0.7, start, color=FRAME_COLOURS[number % len(FRAME_COLOURS)])
                lanes.text(start + length / 2, lane, str(number), ha="center", va="center", color="white", fontsize=9)
        for start, length in times[column][WAITING][:SHOWN]:
            lanes.barh(1, length, 0.2, start, color="#cccccc")
        lanes.set(yticks=(0, 1), yticklabels=("compute queue", "post-processing queue"), xlabel="milliseconds")
        lanes.invert_yaxis()
        for side in ("top", "right", "left"):
            lanes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--size", type=int, default=320, help="height and width of a frame in pixels")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    if options.frames < 1 or options.size < WINDOW:
        parser.error(
            f"--frames must be at least 1 and --size at least {WINDOW}, got {options.frames} and {options.size}"
        )
    frames, background = video(options.frames, options.size)
    pipeline = Pipeline(options.size, background)
    pipeline.in_turn(frames[:1])  # Runs everything once before the measurement.
    shown, verdicts, times = [], [], []
    for title, event in (("without an event", None), ("with a shared event", mg.SharedEvent())):
        tinted, runs = recorded(pipeline, frames, event)
        shown.append(tinted[-1])
        times.append(runs)
        verdicts.append(pipeline.judge(frames, tinted))
        print(f"{title.capitalize():20}", ", ".join(f"{verdicts[-1].count(kind)} frames {kind}" for kind in KINDS))
    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "two_queues.png", shown, verdicts, times)
    print(f"Picture {options.output / 'two_queues.png'}")


if __name__ == "__main__":
    try:
        main()
    except (mg.Error, ImportError, OSError) as error:
        raise SystemExit(f"two_queues.py: {error}") from error
