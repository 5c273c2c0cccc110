"""Test loaders: equal batches for any number of worker threads or processes, resuming, and errors in datasets."""

import threading
import time

import mpsgraph as mg
import numpy as np
import pytest


class Samples:
    """A dataset of (array, index) pairs; reading the sample `broken` raises."""

    def __init__(self, count=11, broken=None):
        self.count, self.broken = count, broken

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.broken:
            raise KeyError(f"sample {index} is broken")
        return np.full(3, index, np.float32), index


def shifted(sample, generator):
    return sample[0] + np.float32(generator.integers(100)), sample[1]


WAYS = [{}, {"workers": 1}, {"workers": 3, "prefetch": 1}, {"workers": 2, "processes": True}]


def batches_of(data):
    return [(x.tolist(), y.tolist()) for x, y in data]


@pytest.mark.parametrize("ways", WAYS[1:], ids=str)
def test_worker_count_does_not_change_the_batches(ways):
    options = {"batch_size": 3, "seed": 5, "transform": shifted}
    alone, by_workers = mg.data.loaded(Samples(), **options), mg.data.loaded(Samples(), **options, **ways)
    epochs = [batches_of(alone), batches_of(alone)]
    assert epochs == [batches_of(by_workers), batches_of(by_workers)] and epochs[0] != epochs[1]
    assert sorted(i for _, y in epochs[0] for i in y) == list(range(11))


def test_loader_yields_samples_in_batch_order():
    arrays = np.arange(11.0), np.arange(11)
    wanted = [y.tolist() for _, y in mg.data.batches(arrays, 4, seed=3)]
    assert [y.tolist() for _, y in mg.data.loaded(Samples(), 4, seed=3, workers=2)] == wanted


@pytest.mark.parametrize("ways", WAYS[:3], ids=str)
def test_loader_resumes_with_the_next_batch(ways):
    whole, begun = mg.data.loaded(Samples(), 2, **ways), mg.data.loaded(Samples(), 2, **ways)
    wanted = batches_of(whole) + batches_of(whole)
    source = iter(begun)
    next(source), next(source)  # Prefetched batches must not count as consumed.
    state = begun.state_dict()
    source.close()
    resumed = mg.data.loaded(Samples(), 2, **ways)
    resumed.load_state_dict(state)
    assert batches_of(resumed) + batches_of(resumed) == wanted[2:]


@pytest.mark.parametrize("ways", [WAYS[2], WAYS[3]], ids=str)
def test_worker_exception_is_raised_at_its_batch(ways):
    data = iter(mg.data.loaded(Samples(broken=4), 2, shuffle=False, **ways))
    assert [next(data)[1].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(KeyError, match="sample 4 is broken"):
        next(data)


def test_closing_a_loader_ends_its_threads():
    before = threading.active_count()
    source = iter(mg.data.loaded(Samples(100), 2, workers=4))
    next(source)
    assert threading.active_count() > before
    source.close()
    assert threading.active_count() == before


def test_loader_workers_read_concurrently():
    class Slow(Samples):
        def __getitem__(self, index):
            time.sleep(0.02)
            return super().__getitem__(index)

    began = time.perf_counter()
    assert len(batches_of(mg.data.loaded(Slow(32), 1, workers=16))) == 32
    assert time.perf_counter() - began < 0.02 * 32 / 2


def test_loader_reads_dict_samples_and_memory_maps(tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (6, 2))
    stored[:] = np.arange(12).reshape(6, 2)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(np.concatenate(list(mg.data.loaded(x, 4, shuffle=False))), stored)

    class Named(Samples):
        def __getitem__(self, index):
            return {"image": stored[index], "label": index}

    batch = next(iter(mg.data.loaded(Named(6), 4, shuffle=False)))
    assert batch["image"].shape == (4, 2) and batch["label"].tolist() == [0, 1, 2, 3]


def test_trainer_fits_from_a_loader():
    trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(11)), metrics=())
    history = trainer.fit(
        mg.data.loaded(Samples(), 4, workers=2, transform=lambda s, _: (s[0], np.int32(s[1]))), epochs=2, progress=False
    )
    assert len(history.loss) == 6 and np.isfinite(history.loss).all()


class Words:
    """Sequences of 1 to 9 steps, labeled by whether they are long."""

    def __init__(self):
        self.sequences = [np.full((1 + i % 9, 3), i / 30, np.float32) for i in range(30)]
        self.labels = np.array([len(s) > 4 for s in self.sequences], np.int32)

    def __len__(self):
        return 30

    def __getitem__(self, index):
        padded = np.zeros((9, 3), np.float32)
        padded[: len(self.sequences[index])] = self.sequences[index]
        return padded, self.labels[index]


WORDS = Words()


def noisy(sample, generator):
    return sample[0] + generator.normal(0, 0.1, sample[0].shape).astype(np.float32), sample[1]


SOURCES = {
    "arrays": lambda: mg.data.batches((np.stack([WORDS[i][0] for i in range(30)]), WORDS.labels), 4),
    "loaded": lambda: mg.data.loaded(WORDS, 4, workers=2, transform=noisy),
    "in processes": lambda: mg.data.loaded(WORDS, 4, workers=1, processes=True, transform=noisy),
    "bucketed": lambda: mg.data.bucketed((WORDS.sequences, WORDS.labels), 4, boundaries=(3, 6, 9)),
}


@pytest.mark.parametrize(
    "source, steps_per_epoch",
    [(source, steps) for source in SOURCES for steps in (None, 5) if (source, steps) != ("in processes", 5)],
)
def test_trainer_resumes_a_loader_within_an_epoch(source, steps_per_epoch, tmp_path):
    """Steps, epoch means, and weights of an interrupted fit equal those of an uninterrupted one."""

    class Interrupt(mg.training.callbacks.Callback):
        saves = True

        def on_step_end(self, trainer, step, values):
            if step == 6:
                trainer.save(tmp_path / "saved")
                raise KeyboardInterrupt

    def made():
        layers = Mean(), mg.nn.Linear(8), mg.nn.Dropout(0.2), mg.nn.Linear(2)
        return mg.Trainer(mg.nn.Sequential(*layers), optimizer=mg.optim.Adam(0.01), seed=2)

    options = {"steps_per_epoch": steps_per_epoch, "progress": False}
    whole, first, second = made(), made(), made()
    whole.fit(SOURCES[source](), epochs=3, **options)
    with pytest.raises(KeyboardInterrupt):
        first.fit(SOURCES[source](), epochs=3, callbacks=[Interrupt()], **options)
    second.load(tmp_path / "saved")
    second.fit(SOURCES[source](), epochs=3 - second.history.epoch, **options)
    assert second.history.steps == whole.history.steps and second.history.epochs == whole.history.epochs
    for path, value in whole.weights().items():
        np.testing.assert_array_equal(second.weights()[path], value)


class Mean(mg.nn.Module):
    def forward(self, x):
        return x.graph.squeeze(x.graph.mean(x, 1), 1)


def test_invalid_loader_arguments_raise():
    with pytest.raises(mg.GraphError, match="must have __len__ and __getitem__"):
        mg.data.loaded(iter([1, 2]))
    with pytest.raises(mg.GraphError, match="pass the number of processes"):
        mg.data.loaded(Samples(), processes=True)
    with pytest.raises(mg.ShapeError, match="must have the same shape"):
        list(mg.data.loaded([np.zeros(2), np.zeros(3)], 2))
    with pytest.raises(mg.ShapeError, match="the same number of items"):
        list(mg.data.loaded([(1, 2), (1,)], 2, shuffle=False))
    with pytest.raises(mg.ShapeError, match="the same keys"):
        list(mg.data.loaded([{"a": 1}, {"b": 1}], 2, shuffle=False))
