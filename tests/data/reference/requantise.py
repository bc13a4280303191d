#!/usr/bin/env python3
"""Writes a llama GGUF file again in another tensor type; record_llama.py beside it makes a reference
for `baton bench quality` of what this writes. llama.cpp's llama-quantize does the same, better.

  pip install gguf==0.19.0
  tests/data/reference/requantise.py models/smollm2-135m-instruct-q4_1.gguf Q5_1 OUT_FOLDER

Types: F16, BF16, Q8_0, Q5_0, Q5_1, Q4_0, IQ4_NL, and Q4_K_M, in which rows that are no multiple of 256
fall back to Q5_0 and Q8_0 as llama.cpp's tool does it. K types and IQ4_NL are quantised by rounding
to the range of each block, which is coarser than that tool.
"""
import pathlib
import sys

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def halves(values):
    return np.ascontiguousarray(values.astype(np.float16)).view(np.uint8).reshape(-1, 2)


def q4_k(rows):
    x = rows.reshape(-1, 8, 32)
    low = np.minimum(x.min(2), 0)
    scale, offset = (x.max(2) - low) / 15, -low
    d = (scale.max(1) / 63).astype(np.float16).astype(np.float32)
    m = (offset.max(1) / 63).astype(np.float16).astype(np.float32)
    sc = np.clip(np.round(scale / np.maximum(d, 1e-9)[:, None]), 0, 63).astype(np.uint8)
    mn = np.clip(np.round(offset / np.maximum(m, 1e-9)[:, None]), 0, 63).astype(np.uint8)
    step = np.maximum(d[:, None] * sc, 1e-9)[:, :, None]
    q = np.clip(np.round((x + (m[:, None] * mn)[:, :, None]) / step), 0, 15).astype(np.uint8)
    s = np.zeros((len(x), 12), np.uint8)
    s[:, 0:4] = sc[:, 0:4] | (sc[:, 4:8] >> 4) << 6
    s[:, 4:8] = mn[:, 0:4] | (mn[:, 4:8] >> 4) << 6
    s[:, 8:12] = (sc[:, 4:8] & 15) | (mn[:, 4:8] & 15) << 4
    qs = (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(x), 128)
    return np.concatenate([halves(d), halves(m), s, qs], 1).reshape(len(rows), -1)


def q6_k(rows):
    x = rows.reshape(-1, 16, 16)
    scale = np.abs(x).max(2) / 31
    d = (scale.max(1) / 127).astype(np.float16).astype(np.float32)
    sc = np.clip(np.round(scale / np.maximum(d, 1e-9)[:, None]), 0, 127).astype(np.int8)
    step = np.maximum(d[:, None] * sc, 1e-9)[:, :, None]
    q = (np.clip(np.round(x / step), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    ql = np.concatenate([(q[:, :, 0:2] & 15) | (q[:, :, 2:4] & 15) << 4], 1).reshape(len(x), 128)
    h = q >> 4
    qh = (h[:, :, 0] | h[:, :, 1] << 2 | h[:, :, 2] << 4 | h[:, :, 3] << 6).reshape(len(x), 64)
    return np.concatenate([ql, qh, sc.view(np.uint8), halves(d)], 1).reshape(len(rows), -1)


def iq4_nl(rows):
    x = rows.reshape(-1, 32)
    peak = x[np.arange(len(x)), np.abs(x).argmax(1)]
    d = (peak / -127).astype(np.float16).astype(np.float32)
    q = np.abs(x[:, :, None] / np.where(d == 0, 1, d)[:, None, None] - IQ4).argmin(2).astype(np.uint8)
    return np.concatenate([halves(d), q[:, :16] | q[:, 16:] << 4], 1).reshape(len(rows), -1)


OWN = {Q.Q4_K: q4_k, Q.Q6_K: q6_k, Q.IQ4_NL: iq4_nl}


def type_for(name, columns, wanted):
    if wanted != "Q4_K_M":
        return Q[wanted]
    if "token_embd" in name:
        return Q.Q6_K if columns % 256 == 0 else Q.Q8_0
    if "attn_v" in name or "ffn_down" in name:
        return Q.Q6_K if columns % 256 == 0 else Q.Q8_0
    return Q.Q4_K if columns % 256 == 0 else Q.Q5_0


def main():
    source, wanted, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    reader = gguf.GGUFReader(source)
    name = f"smollm2-{wanted.lower()}"
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind,
                                 field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        exact = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.tensor_type
        raw = tensor.data
        if exact.ndim == 2:
            kind = type_for(tensor.name, exact.shape[1], wanted)
            raw = OWN[kind](exact) if kind in OWN else gguf.quantize(exact, kind)
        writer.add_tensor(tensor.name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{name}.gguf: written")


if __name__ == "__main__":
    main()
