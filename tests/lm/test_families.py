"""Compare all families with Hugging Face's transformers: logits, greedy text, and the losses of ten training steps.

Each model has random weights and the entries of a published config.json, with smaller sizes, from
harness/language_models.py.
"""

import json

import mpsgraph as mg
import numpy as np
import pytest
from harness.language_models import CONFIGURATIONS, ENCODERS
from harness.transformers_models import class_of, logits_of, tokens_of, written

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

DECODERS = [name for name in CONFIGURATIONS if name not in ENCODERS]
LENGTH = 21  # Longer than all windows, and than the lengths from which frequencies change.


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("form", ["published", "current"])
def test_logits_equal_transformers(name, form, tmp_path):
    theirs, entries = written(tmp_path, name)
    if form == "published":  # Otherwise, the file is the one that transformers wrote.
        (tmp_path / "config.json").write_text(json.dumps(entries))
    ours, tokenizer = mg.lm.load(tmp_path)
    tokens = tokens_of(1, (2, LENGTH))
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    assert tokenizer is None and np.ptp(wanted) > 1
    np.testing.assert_allclose(logits_of(ours, tokens), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_text_equals_transformers(name, tmp_path):
    written(tmp_path, name, scale=0.4)
    words = {f"w{i}": i for i in range(96)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    backend.save(str(tmp_path / "tokenizer.json"))
    ours, tokenizer = mg.lm.load(tmp_path)
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    tokenizer.ends, distinct = frozenset(), set()
    for seed, length in enumerate((3, LENGTH)):
        prompt = " ".join(f"w{token}" for token in tokens_of(seed, (length,)))
        given = reader(prompt, return_tensors="pt").input_ids
        theirs = class_of(name).from_pretrained(tmp_path)  # A used model remembers lengths with dynamic scaling.
        with torch.no_grad():
            made = theirs.generate(given, max_new_tokens=25, do_sample=False, eos_token_id=-1, pad_token_id=0)
        wanted = reader.decode(made[0, length:])
        assert mg.lm.generate(ours, tokenizer, prompt, max_tokens=25) == wanted
        distinct.update(wanted.split())
    assert len(distinct) > 5


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_losses_of_ten_training_steps_equal_transformers(name, tmp_path):
    drops = [key for key in CONFIGURATIONS[name] if key.endswith(("dropout", "pdrop", "dropout_prob"))]
    theirs, _ = written(tmp_path, name, **dict.fromkeys(drops, 0.0))
    ours, _ = mg.lm.load(tmp_path)
    trainer = mg.Trainer(ours, optimizer=mg.optim.AdamW(1e-3), metrics=(), dtype="int32")
    optimizer = torch.optim.AdamW(theirs.parameters(), 1e-3)
    theirs.train()
    found, wanted = [], []
    for step in range(10):
        tokens = tokens_of(step % 3, (4, LENGTH + 1))
        x, y = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        found.append(float(trainer.train_step(x, y)))
        logits = theirs(torch.from_numpy(x).long()).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 96), torch.from_numpy(y).long().reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)
    assert wanted[-1] < wanted[0] - 0.1
