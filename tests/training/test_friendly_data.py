"""Test the data, names, and results that trainers accept and return beyond arrays of the exact dtype and shape."""

import copy
import pickle
import warnings

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X @ np.float32([[1], [-2], [3], [-4]]) + 1
CLASSES = (Y[:, 0] > 1).astype(np.int32)


def weights_after(x, y, loss="mse", outputs=1, **options):
    trainer = mg.Trainer(nn.Linear(outputs), loss, mg.optim.SGD(0.1), seed=3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(x, y, epochs=2, batch_size=4, progress=False)
        trainer.evaluate(x, y)
        trainer.predict(x)
    return trainer.weights()


def test_lists_columns_and_other_shapes_of_targets_train_alike():
    expected = weights_after(X, Y)
    for x, y in (
        (X, Y[:, 0]),
        (X.tolist(), Y.tolist()),
        (X.astype(np.float64), Y[:, 0].astype(np.float64)),
        (X, Y[:, 0].tolist()),
    ):
        np.testing.assert_equal(weights_after(x, y), expected)
    classes = weights_after(X, CLASSES, "cross_entropy", 2)
    for labels in (CLASSES[:, None], CLASSES.tolist(), CLASSES.astype(np.int64)):
        np.testing.assert_equal(weights_after(X, labels, "cross_entropy", 2), classes)
    binary = weights_after(X, CLASSES[:, None].astype(np.float32), "binary_cross_entropy_with_logits")
    np.testing.assert_equal(weights_after(X, CLASSES, "binary_cross_entropy_with_logits"), binary)


def test_labels_of_other_widths_after_the_first_batch_are_converted():
    lists = CLASSES.tolist()
    trainer = mg.Trainer(nn.Linear(2), seed=1)
    trainer.fit(X, CLASSES.astype(np.int64), epochs=1, validation_data=(X.tolist(), lists), progress=False)
    expected = trainer.evaluate(X, CLASSES.astype(np.int64))
    for labels in (lists, CLASSES, CLASSES.astype(np.uint8), CLASSES.astype(np.int16)):
        assert trainer.evaluate(X, labels) == expected
        before = trainer.step
        trainer.train_step(X, labels)
        assert trainer.step == before + 1 and trainer.evaluate(X, labels) != expected
        expected = trainer.evaluate(X, labels)
    narrow = mg.Trainer(nn.Linear(2), seed=1)
    narrow.train_step(X, CLASSES.astype(np.int8))
    with pytest.raises(mg.DTypeError, match="labels are int64, but were int8 in earlier batches"):
        narrow.evaluate(X, CLASSES.astype(np.int64) + 300)
    regression = mg.Trainer(nn.Linear(1), "mse", seed=1)
    regression.fit(X, Y.astype(np.float64), epochs=1, validation_data=(X, Y), progress=False)
    assert regression.evaluate(X, Y) == regression.evaluate(X, Y.tolist())


def test_lists_of_samples_raise_with_remedy():
    with pytest.raises(mg.ShapeError, match=r"got shapes \(4,\), \(4,\), \(4,\), \(4,\), \.\.\.: .*np\.stack"):
        mg.Trainer(nn.Linear(2)).fit(list(X), list(CLASSES), epochs=1, progress=False)


def test_pandas_tables_and_columns_train_like_arrays():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X.astype(np.float64), columns=list("abcd")).assign(y=Y[:, 0], word="w")
    found = weights_after(table[list("abcd")], table["y"])
    np.testing.assert_equal(found, weights_after(X, Y))
    with pytest.raises(mg.DTypeError, match="must be numeric, got an array of object: convert"):
        weights_after(table, table["y"])


def test_float64_inputs_are_converted_with_one_warning():
    trainer = mg.Trainer(nn.Linear(1), "mse")
    with pytest.warns(UserWarning, match="inputs are float64, and are converted") as noticed:
        for _ in range(2):
            trainer.train_step(X.astype(np.float64), Y)
            trainer.evaluate(X.astype(np.float64), Y)
            trainer.predict(X.astype(np.float64))
    assert len(noticed) == 1
    wide = mg.Trainer(nn.Linear(1), "mse", dtype="float64")
    wide.train_step(X.astype(np.float64), Y)
    assert wide.weights()["weight"].dtype == np.float64


def test_ambiguous_data_is_refused_with_a_remedy():
    for x, y, words in (
        (X, np.zeros(8, np.float32), "cross_entropy.*integers"),
        ([[1.0, 2.0], [3.0]], [1, 2], "rows of a list must have equal lengths"),
        ([["a"]], [1], "DTypeError|array"),
    ):
        with pytest.raises(mg.Error, match=words):
            mg.Trainer(nn.Linear(2)).fit(x, y, progress=False)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("adam", "Adam"),
        ("SGD", "SGD"),
        ("RMSprop", "RMSProp"),
        ("adamw", "AdamW"),
        ("ada_delta", "AdaDelta"),
        ("Lion", "Lion"),
    ],
)
def test_optimizers_have_names(name, kind):
    trainer = mg.Trainer(nn.Linear(1), "mse", optimizer=name)
    assert type(trainer.optimizer).__name__ == kind
    trainer.optimizer = "sgd"
    assert type(trainer.optimizer).__name__ == "SGD"


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("mae", "mean_absolute_error"), ("MSELoss", "mse"), ("l1_loss", "l1"), ("L1Loss", "l1"),
        ("mape", "mean_absolute_percentage_error"),
        ("CrossEntropyLoss", "cross_entropy"), ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"),
        ("binary_crossentropy", "binary_cross_entropy"), ("categorical_crossentropy", "categorical_cross_entropy"),
        ("NLLLoss", "nll"), ("SmoothL1Loss", "smooth_l1"), ("HuberLoss", "huber"), ("logcosh", "log_cosh"),
        ("KLDivLoss", "kl_divergence"),
    ],
)  # fmt: skip
def test_losses_have_names_of_other_libraries(name, same):
    assert nn.losses.loss_named(name) is nn.losses.LOSSES[same]


def test_sparse_categorical_crossentropy_takes_probabilities():
    shares = np.float32([[0.25, 0.75], [0.5, 0.5]])
    g = mg.Graph()
    loss = nn.losses.loss_named("sparse_categorical_crossentropy")(g.constant(shares), g.constant([1, 0]))
    assert g.run({}, loss).item() == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)


def test_metrics_have_names_of_other_libraries():
    trainer = mg.Trainer(nn.Linear(6), metrics=["acc", "top_5_accuracy", "sparse_top_k_categorical_accuracy"])
    labels = np.arange(8, dtype=np.int32) % 6
    found = trainer.evaluate(X, labels)
    scores = trainer.predict(X)
    assert found["acc"] == pytest.approx((scores.argmax(1) == labels).mean())
    top = np.mean([label in np.argsort(-row)[:5] for row, label in zip(scores, labels, strict=True)])
    assert found["top_5_accuracy"] == found["sparse_top_k_categorical_accuracy"] == pytest.approx(top)
    regression = mg.Trainer(nn.Linear(1), "mse", metrics=["mae", "rmse", "r2"])
    found = regression.evaluate(X, Y[:, 0])
    error = regression.predict(X)[:, 0] - Y[:, 0]
    assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert found["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mg.Trainer(nn.Linear(1), optimizer="adem"), "did you mean 'adam'.*sgd, adam, adamw"),
        (lambda: mg.Trainer(nn.Linear(1), "cros_entropy"), "did you mean 'cross_entropy'.*pass one of"),
        (lambda: mg.Trainer(nn.Linear(1), metrics=["acuracy"]), "did you mean 'accuracy'.*top_5_accuracy"),
    ],
)
def test_unknown_names_list_all_and_suggest(make, words):
    with pytest.raises(mg.GraphError, match=words):
        make()


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool", "complex64"])
def test_ndarrays_can_be_pickled_and_copied(dtype):
    g = mg.Graph()
    array = g.run({}, g.cast(g.constant([[0.0, 1.0], [2.0, 3.5]]), dtype))
    for other in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array)):
        assert isinstance(other, mg.NDArray) and (other.dtype, other.shape) == (array.dtype, array.shape)
        assert other.tolist() == array.tolist()


def test_step_results_can_be_pickled():
    trainer = mg.Trainer(nn.Linear(2))
    result = trainer.train_step(X, CLASSES)
    other = pickle.loads(pickle.dumps(result))
    assert other.done and other.values == result.values and float(other) == float(result)
    assert pickle.loads(pickle.dumps(other)).values == result.values


def test_history_smooths_without_lag():
    from mpsgraph.training.history import smoothed

    line = np.linspace(3, 1, 50)
    np.testing.assert_allclose(smoothed(line, 0.9), line, atol=1e-9)
    noise = np.random.default_rng(0).normal(size=200)
    assert smoothed(noise, 0.9).std() < 0.5 * noise.std()
    step = np.r_[np.zeros(50), np.ones(50)]
    found = smoothed(step, 0.9)
    assert abs(np.interp(0.5, found, np.arange(100)) - 49.5) < 0.6
    broken = line.copy()
    broken[10] = np.nan
    assert np.isfinite(smoothed(broken, 0.9)).all()


def test_prediction_of_one_row_follows_weights_settings_and_devices():
    trainer = mg.Trainer(nn.Sequential(nn.Linear(3), nn.Dropout(0.5), nn.Linear(1)), "mse")
    row = X[:1]
    for _ in range(3):
        state = {path: value.astype(np.float64) for path, value in trainer.weights().items()} if trainer.step else None
        found = [trainer.predict(row) for _ in range(3)]
        if state:
            expected = (row @ state["0.weight"] + state["0.bias"]) @ state["2.weight"] + state["2.bias"]
            np.testing.assert_allclose(found[2], expected, rtol=1e-5)
        np.testing.assert_array_equal(found[0], found[2])
        trainer.train_step(X, Y).wait()
    trainer.model[2] = nn.Linear(1, bias=False)
    trainer.predict(row)
    assert "2.bias" not in trainer.weights()
