#!/usr/bin/env python3
"""Writes the vectors of this folder: random quantised blocks and what the gguf package makes of them.

Usage: python make_quants.py   (needs gguf and numpy; checked with gguf 0.19)

A file <type>.bin is, little endian: u32 elements, the blocks of the type, elements * f32. The codes
are random bytes, the f16 scales random finite values with denormals among them, so every bit of a
block matters.
"""

import pathlib

import gguf
import numpy as np

# Block bytes and the offsets of the f16 fields inside a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "F16": [0], "BF16": [], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
ELEMENTS = 1024


def random_halves(rng, count):
    bits = (rng.integers(0, 2, count) << 15) | (rng.integers(0, 20, count) << 10)
    return (bits | rng.integers(0, 1024, count)).astype("<u2")


def main():
    rng = np.random.default_rng(20240229)
    here = pathlib.Path(__file__).parent
    for name, offsets in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = ELEMENTS // block_elements
        data = rng.integers(0, 256, (blocks, block_bytes), dtype=np.uint8)
        for offset in offsets:
            data[:, offset:offset + 2] = random_halves(rng, blocks).view(np.uint8).reshape(blocks, 2)
        if name == "BF16":
            data[:, 1] &= 0xBF  # exponents below 128: finite
        if name == "MXFP4":
            data[:, 0] = rng.integers(2, 231, blocks)  # the exponents that Baton reads as they are
        values = gguf.quants.dequantize(data.reshape(1, -1), kind).astype("<f4").reshape(-1)
        assert values.size == ELEMENTS and np.isfinite(values).all(), name
        path = here / f"{name.lower()}.bin"
        path.write_bytes(np.array([ELEMENTS], "<u4").tobytes() + data.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
