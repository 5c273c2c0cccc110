"""Test bucketed batches of sequences: every sample occurs once, is padded at the end, and the order can be resumed."""

import mpsgraph as mg
import numpy as np
import pytest

LENGTHS = [3, 17, 5, 8, 9, 1, 30, 16, 2, 7]


def words():
    return [np.full(n, i + 1, np.int32) for i, n in enumerate(LENGTHS)]


def made(**options):
    return mg.data.bucketed((words(), np.arange(10)), 2, **options)


def test_each_sample_occurs_once_padded_to_its_bucket():
    seen, shapes = [], set()
    data = made(with_lengths=True)
    assert data.boundaries.tolist() == [8, 16, 32]
    for x, y, lengths in data:
        shapes.add(x.shape[1])
        for row, label, length in zip(x, y, lengths, strict=True):
            assert length == LENGTHS[label] and length <= x.shape[1] and (length > 8) == (x.shape[1] > 8)
            assert (row[:length] == label + 1).all() and not row[length:].any()
            seen.append(int(label))
    assert sorted(seen) == list(range(10)) and shapes == {8, 16, 32} and len(data) == 3 + 1 + 1


def test_bucket_order_depends_on_seed_and_epoch():
    one, two, other = made(seed=1), made(seed=1), made(seed=2)
    first, second = [y.tolist() for _, y in one], [y.tolist() for _, y in one]
    assert first == [y.tolist() for _, y in two] and first != second
    assert first != [y.tolist() for _, y in other]
    plain = [y.tolist() for _, y in made(shuffle=False)]
    assert plain == [[0, 2], [3, 5], [8, 9], [4, 7], [1, 6]]


def test_bucketed_batches_resume_with_the_next_batch():
    whole, begun = made(), made()
    labels = [y.tolist() for _, y in whole] + [y.tolist() for _, y in whole]
    source = iter(begun)
    next(source), next(source)
    resumed = made()
    resumed.load_state_dict(begun.state_dict())
    assert [y.tolist() for _, y in resumed] + [y.tolist() for _, y in resumed] == labels[2:]


def test_drop_last_drops_incomplete_buckets():
    sizes = [len(y) for _, y in made(drop_last=True, boundaries=(4, 40))]
    assert sizes == [2] * len(made(drop_last=True, boundaries=(4, 40))) and len(sizes) == 1 + 3


def test_per_step_labels_are_padded_like_inputs():
    tags, short = [w * 10 for w in words()], [np.arange(i + 1.0) for i in range(10)]
    for x, tag, own in mg.data.bucketed((words(), tags, short), 3, padding=-1):
        np.testing.assert_array_equal(np.where(x < 0, -1, x * 10), tag)
        assert own.dtype == np.float64
        assert own.max() + 1 == own.shape[1] and (own[:, 0] == 0).all(), (
            "padding must end at the longest sequence of the batch"
        )


def test_model_accepts_bucketed_batches_of_every_length():
    model = mg.nn.Sequential(
        mg.nn.Embedding(12, 4, mask_zero=True),
        mg.nn.LSTM(4),
        lambda x: x.graph.squeeze(x.graph.mean(x, 1), 1),
        mg.nn.Linear(10),
    )  # fmt: skip
    g = mg.Graph()
    x = g.placeholder((-1, -1), mg.int32)
    y = model(x)
    for fed, _ in made():
        assert g.run({x: fed}, y).shape == (len(fed), 10)


def test_invalid_bucket_arguments_raise():
    with pytest.raises(mg.ShapeError, match="30 steps, more than the last boundary, 16"):
        made(boundaries=(8, 16))
    with pytest.raises(mg.ShapeError, match="boundaries must be increasing"):
        made(boundaries=(8, 8, 40))
    with pytest.raises(mg.ShapeError, match="arrays or lists with as many items"):
        mg.data.bucketed((words(), np.arange(9)), 2)
    with pytest.raises(mg.ShapeError, match="must start with a list of sequences"):
        mg.data.bucketed((np.zeros((4, 3)), np.arange(4)), 2)
    with pytest.raises(mg.ShapeError, match="must have the same dtype"):
        mg.data.bucketed(([np.zeros(3), np.zeros(2, np.int32)], np.arange(2)), 2)
    with pytest.raises(mg.DTypeError, match="padding"):
        made(padding=0.5)
    with pytest.raises(mg.ShapeError, match="seed"):
        made(seed=1).load_state_dict(made(seed=2).state_dict())
