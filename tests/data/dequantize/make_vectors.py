#!/usr/bin/env python3
"""Writes one file of blocks and their exact f32 values per tensor type, from the gguf package.

  pip install gguf==0.19.0
  tests/data/dequantize/make_vectors.py

TYPE.bin, little endian: u32 elements (one row), the row's bytes, f32 [elements]. The first blocks are
random bits with tame scales; the last ones have hostile scales: zero, -0, the smallest subnormal, the
largest finite, infinity, NaN, negative.
"""
import pathlib
import struct

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K",
         "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "MXFP4"]
# Where a block keeps its f16 scales.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "IQ4_XS": [0]}
HOSTILE = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xBC00]
TAME_BLOCKS = 4


def blocks(rng, type_name: str, size: int) -> np.ndarray:
    raw = rng.integers(0, 256, (TAME_BLOCKS + len(HOSTILE), size), dtype=np.uint8)
    for offset in SCALES[type_name]:
        tame = rng.normal(0, 0.01, TAME_BLOCKS).astype(np.float16).view(np.uint16)
        scales = np.concatenate([tame, np.roll(np.array(HOSTILE, np.uint16), offset // 2)])
        raw[:, offset : offset + 2] = scales.astype("<u2").view(np.uint8).reshape(-1, 2)
    return raw.reshape(1, -1)


def mxfp4_blocks(rng, size: int) -> np.ndarray:
    raw = rng.integers(0, 256, (64, size), dtype=np.uint8)
    # Exponents beyond these are taken as the nearer one of them (docs/formats.md).
    raw[:, 0] = np.concatenate([[2, 3, 229, 230], rng.integers(2, 231, 60)])
    return raw.reshape(1, -1)


def plain(rng, type_name: str) -> np.ndarray:
    if type_name == "F32":
        values = rng.normal(0, 1, 60).astype("<f4").view("<u4")
        hostile = np.array([0, 1 << 31, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000], "<u4")
        return np.concatenate([values, hostile]).view(np.uint8).reshape(1, -1)
    bits = rng.integers(0, 1 << 16, 200).astype("<u2")  # includes infinities, NaN and subnormals
    return np.concatenate([bits, np.array(HOSTILE, "<u2")]).view(np.uint8).reshape(1, -1)


def main() -> None:
    folder = pathlib.Path(__file__).parent
    rng = np.random.default_rng(7)
    for type_name in TYPES:
        quant = gguf.GGMLQuantizationType[type_name]
        _, size = gguf.GGML_QUANT_SIZES[quant]
        if type_name == "MXFP4":
            raw = mxfp4_blocks(rng, size)
        else:
            raw = blocks(rng, type_name, size) if type_name in SCALES else plain(rng, type_name)
        source = raw.view({"F32": "<f4", "F16": "<f2"}.get(type_name, np.uint8))
        with np.errstate(all="ignore"):
            values = gguf.dequantize(source, quant).astype("<f4").reshape(-1)
        data = struct.pack("<I", values.size) + raw.tobytes() + values.tobytes()
        (folder / f"{type_name.lower()}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
