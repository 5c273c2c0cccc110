"""Test examples/two_queues.py: frames are correct with a shared event and incorrect without it."""

import mpsgraph as mg
import numpy as np
import pytest
import two_queues

SIZE, FRAMES = 256, 12


@pytest.fixture(scope="module")
def scene() -> tuple[two_queues.Pipeline, np.ndarray]:
    frames, background = two_queues.video(FRAMES, SIZE)
    return two_queues.Pipeline(SIZE, background), frames


def test_motion_mask_covers_moving_pixels(scene):
    pipeline, frames = scene
    mask = pipeline.compute.run([frames[3], pipeline.background])[0].numpy()
    moves = np.abs(frames[3] - pipeline.background) > 0.1
    assert mask.min() >= 0 and mask.max() == 1
    assert mask[moves].min() > 0.2 and mask[~moves].mean() < 0.05
    tinted = pipeline.post_process.run([frames[3], mask])[0].numpy()
    np.testing.assert_allclose(tinted, frames[3] * (1 - mask) + mask * np.float32(two_queues.COLOUR), atol=1e-6)


def test_frames_are_correct_with_a_shared_event(scene):
    pipeline, frames = scene
    for _ in range(3):
        event = mg.SharedEvent()
        tinted, runs = two_queues.recorded(pipeline, frames, event)
        assert pipeline.judge(frames, tinted) == ["right"] * FRAMES
        assert event.signaled_value == FRAMES
        for (made, length), (used, _) in zip(runs["mask"], runs["tinted"], strict=True):
            assert used >= made + length, "the second queue must start after the first one has ended"


def test_frames_are_incorrect_without_a_shared_event(scene):
    """The first graph takes longer than launching the second one. Three attempts allow for a machine that stalls."""
    pipeline, frames = scene
    tries = [pipeline.judge(frames, pipeline.side_by_side(frames, None)) for _ in range(3)]
    assert all(len(verdicts) == FRAMES and set(verdicts) <= set(two_queues.KINDS) for verdicts in tries)
    assert min(verdicts.count("right") for verdicts in tries) <= FRAMES // 2


def test_evaluation_distinguishes_stale_and_torn_masks(scene):
    pipeline, frames = scene
    masks = [mask.numpy() for mask in pipeline.in_turn(frames)[0]]
    torn = masks[3].copy()
    torn[:, : SIZE // 2] = masks[1][:, : SIZE // 2]
    taken = [masks[0], masks[1], masks[0], torn]
    tinted = [pipeline.post_process.run([f, m])[0].numpy() for f, m in zip(frames, taken, strict=False)]
    assert pipeline.judge(frames[:4], tinted) == ["right", "right", "stale", "torn"]


def test_two_queues_figure_is_drawn(scene, tmp_path):
    from matplotlib.image import imread

    pipeline, frames = scene
    tinted, runs = two_queues.recorded(pipeline, frames[:3], mg.SharedEvent())
    two_queues.draw(tmp_path / "two_queues.png", [tinted[-1]] * 2, [["right"] * 3] * 2, [runs] * 2)
    assert imread(tmp_path / "two_queues.png").shape[0] > 500
