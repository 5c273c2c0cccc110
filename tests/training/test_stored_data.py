"""Test data in files: images in folders, HDF5, tables, and tokens, with every kind of worker, and invalid files."""

import pickle

import mpsgraph as mg
import numpy as np
import pytest

PIL = pytest.importorskip("PIL.Image")
h5py = pytest.importorskip("h5py")
tokenizers = pytest.importorskip("tokenizers")

WAYS = [{}, {"workers": 3}, {"workers": 2, "processes": True}]


def joined(data):
    return [np.concatenate(parts) for parts in zip(*data, strict=True)]


@pytest.fixture
def folder(tmp_path):
    """Write six images of two classes, one in a subfolder; the gray level is 20 times the number in the name."""
    for i, name in enumerate(["b/0.png", "b/1.jpg", "a/2.png", "a/deep/3.bmp", "a/4.PNG", "b/5.png"]):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.fromarray(np.full((4, 6, 3), 20 * i, np.uint8)).save(path)
    (tmp_path / "images" / "a" / "notes.txt").write_text("none")
    (tmp_path / "images" / "stray.png").write_bytes(b"beside the classes")
    return tmp_path / "images"


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_image_folder_reads_images_and_class_names(folder, ways):
    data = mg.data.image_folder(folder)
    assert data.classes == ["a", "b"] and [p.name for p in data.paths[:3]] == ["2.png", "4.PNG", "3.bmp"]
    images, labels = joined(mg.data.loaded(data, 4, shuffle=False, **ways))
    assert images.shape == (6, 4, 6, 3) and images.dtype == np.float32 and labels.dtype == np.int32
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(images[:, 0, 0, 0] * 255, [40, 80, 60, 0, 20, 100], atol=2)  # JPEG compression is lossy.


def test_image_folder_resizes_and_converts_channels(folder):
    for channels, count in (("L", 1), ("RGB", 3), ("RGBA", 4)):
        image, label = mg.data.image_folder(folder, (2, 3), channels)[0]
        assert image.shape == (2, 3, count) and label == 0
    assert (image[..., 3] == 1).all()
    gradient = np.linspace(0, 255, 8, dtype=np.uint8)[None].repeat(8, 0)
    PIL.fromarray(gradient).save(folder / "a" / "0.png")
    image, _ = mg.data.image_folder(folder, 4, "L")[0]
    assert (np.diff(image[..., 0], axis=1) > 0).all() and (np.diff(image[..., 0], axis=0) == 0).all()


def test_invalid_image_folders_raise(folder, tmp_path):
    with pytest.raises(mg.data.DataError, match="is not a folder"):
        mg.data.image_folder(folder / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(mg.data.DataError, match="has no images in folders named after their classes"):
        mg.data.image_folder(tmp_path / "empty")
    whole = (folder / "a" / "2.png").read_bytes()
    for broken in (b"", b"no image", whole[: len(whole) // 2], whole[:20] + b"\0" * 40 + whole[60:]):
        (folder / "a" / "2.png").write_bytes(broken)
        with pytest.raises(mg.data.DataError, match="2.png cannot be read as an image"):
            mg.data.image_folder(folder)[0]
    with pytest.raises(mg.data.DataError, match="2.png"):
        list(mg.data.loaded(mg.data.image_folder(folder), 2, workers=2))
    with pytest.raises(mg.GraphError, match="channels"):
        mg.data.image_folder(folder, channels="CMYK")
    PIL.fromarray(np.zeros((4, 6), np.uint8)).save(folder / "a" / "2.png")
    PIL.fromarray(np.zeros((5, 6), np.uint8)).save(folder / "b" / "0.png")
    with pytest.raises(mg.ShapeError, match="must have the same shape"):
        list(mg.data.loaded(mg.data.image_folder(folder), 6))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as made:
        made["x"], made["y"] = np.arange(30, dtype=np.float32).reshape(10, 3), np.arange(10, dtype=np.int32)
        made["deep/z"], made["short"], made["number"] = np.arange(10.0), np.arange(3), 5
    return path


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_hdf5_datasets_are_read_by_workers(file, ways):
    data = mg.data.hdf5(file, "x", "y", "deep/z")
    # The dataset's file is open when the dataset is sent to the workers.
    assert len(data) == 10 and data[3][0].tolist() == [9, 10, 11]
    x, y, z = joined(mg.data.loaded(data, 4, seed=2, **ways))
    assert x.dtype == np.float32 and y.dtype == np.int32 and sorted(y) == list(range(10)) and y.tolist() != sorted(y)
    assert (x[:, 0] == 3 * y).all() and (z == y).all()
    assert mg.data.hdf5(file, "y")[4] == 4 and pickle.loads(pickle.dumps(data))[2][1] == 2


def test_invalid_hdf5_datasets_raise(file, tmp_path):
    with pytest.raises(mg.data.DataError, match=r"no dataset 'w'; its datasets are deep/z, number, short, x, y"):
        mg.data.hdf5(file, "x", "w")
    with pytest.raises(mg.data.DataError, match="no dataset 'deep'"):
        mg.data.hdf5(file, "deep")
    for names in (("x", "short"), ("number",)):
        with pytest.raises(mg.ShapeError, match="must have equal lengths"):
            mg.data.hdf5(file, *names)
    with pytest.raises(mg.GraphError, match="pass the names of datasets"):
        mg.data.hdf5(file)
    (tmp_path / "other.h5").write_bytes(b"no HDF5")
    for path in (tmp_path / "other.h5", tmp_path / "none.h5"):
        with pytest.raises(mg.data.DataError, match="cannot be read as HDF5"):
            mg.data.hdf5(path, "x")


def test_columns_of_tables_are_read_or_raise():
    table = [{"a": [i, i + 1], "b": float(i), "c": "words"} for i in range(5)]
    b, a = joined(mg.data.loaded(mg.data.columns(table, "b", "a"), 2, shuffle=False))
    assert b.tolist() == [0, 1, 2, 3, 4] and a[4].tolist() == [4, 5]
    assert mg.data.columns(table, "b")[2] == 2.0
    with pytest.raises(mg.GraphError, match="no column 'd'; its columns are a, b, c"):
        mg.data.columns(table, "a", "d")
    with pytest.raises(mg.GraphError, match="must be dicts keyed by column name"):
        mg.data.columns([1, 2], "a")
    with pytest.raises(mg.GraphError, match="pass the names of columns"):
        mg.data.columns(table)


def test_columns_of_arrow_tables_are_read_as_arrays(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": np.arange(20.0).reshape(10, 2).tolist(), "y": list(range(10))})
    table.save_to_disk(tmp_path / "table")
    read = datasets.load_from_disk(tmp_path / "table").with_format("numpy")
    x, y = joined(mg.data.loaded(mg.data.columns(read, "x", "y"), 4, workers=2, seed=1))
    assert sorted(y) == list(range(10)) and (x[:, 0] == 2 * y).all()


def test_tuple_of_datasets_is_read_in_parallel(file):
    x = np.arange(10.0)
    with h5py.File(file) as opened:
        a, b = joined(mg.data.loaded((x, opened["y"]), 3, workers=2))
        assert (a == b).all() and len(a) == 10
        with pytest.raises(mg.ShapeError, match="equal lengths, got 10, 3"):
            mg.data.loaded((x, opened["short"]))
    with pytest.raises(mg.GraphError, match="a tuple must contain datasets"):
        mg.data.loaded((1, 2))


def words():
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2, "[CLS]": 3}, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 3)])
    return made


def test_texts_are_tokenized(tmp_path):
    texts = ["the cat", "the dog and the cat", ""]
    found = mg.data.tokenized(texts, words())
    assert [f.tolist() for f in found] == [[3, 1, 2], [3, 1, 0, 0, 1, 2], [3]] and found[2].dtype == np.int32
    words().save(str(tmp_path / "tokenizer.json"))
    again = mg.data.tokenized(iter(texts), tmp_path / "tokenizer.json", 3, special_tokens=False)
    assert [f.tolist() for f in again] == [[1, 2], [1, 0, 0], []] and again[2].dtype == np.int32
    lengths = [lengths for *_, lengths in mg.data.bucketed((found,), 2, shuffle=False, with_lengths=True)]
    assert np.concatenate(lengths).tolist() == [3, 6, 1]

    class Plain:  # A tokenizer with the interface of those in transformers.
        def encode(self, text, add_special_tokens=True):
            return [len(word) for word in text.split()]

    assert mg.data.tokenized(["a bcd"], Plain())[0].tolist() == [1, 3]
    (tmp_path / "other.json").write_text("{}")
    for path in ("other.json", "none.json"):
        with pytest.raises(mg.data.DataError, match="cannot be read as a tokenizer"):
            mg.data.tokenized(texts, tmp_path / path)
    with pytest.raises(mg.GraphError, match="texts must be strings"):
        mg.data.tokenized("the cat", words())
    with pytest.raises(mg.GraphError, match="texts must be strings, got 3"):
        mg.data.tokenized(iter(["a", 3]), words())
    with pytest.raises(mg.GraphError, match="tokenizer must be a path or have an encode method"):
        mg.data.tokenized(texts, 3)


def test_token_windows_overlap_and_shift_labels_by_one(tmp_path):
    np.arange(11, dtype=np.uint16).tofile(tmp_path / "tokens")
    data = mg.data.windows(np.memmap(tmp_path / "tokens", np.uint16), 4, 3)
    assert len(data) == 3 and [x[0] for x, _ in (data[i] for i in range(3))] == [0, 3, 6]
    x, y = joined(mg.data.loaded(data, 2, workers=2))
    assert x.dtype == np.int32 and (y == x + 1).all() and y.max() == 10
    assert len(mg.data.windows([np.arange(3), np.arange(2)], 2)) == 2
    with pytest.raises(mg.ShapeError, match=r"length 11 needs a 1-D array of at least 12 tokens, got shape \(11,\)"):
        mg.data.windows(np.arange(11), 11)
    with pytest.raises(mg.DTypeError, match="integers"):
        mg.data.windows(np.arange(11.0), 2)
