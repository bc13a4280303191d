#!/usr/bin/env python3
"""Writes smollm2_short.txt from smollm2_f32.json.xz: the part that unit tests read.

One prompt is a line `prompt IDS`, then a line per step: `step TOKEN MARGIN ID LOGPROB ID LOGPROB ...`,
the most likely tokens in descending order.
"""
import json
import lzma
import pathlib

MAX_PROMPT = 24
STEPS = 24
TOP = 8


def main() -> None:
    folder = pathlib.Path(__file__).parent
    data = json.loads(lzma.open(folder / "smollm2_f32.json.xz").read())
    lines = []
    for item in data["items"]:
        if len(item["prompt_ids"]) > MAX_PROMPT:
            continue
        lines.append("prompt " + " ".join(map(str, item["prompt_ids"])))
        for step in range(STEPS):
            top = zip(item["top_ids"][step][:TOP], item["top_logprobs"][step][:TOP])
            pairs = " ".join(f"{token} {logprob:.5f}" for token, logprob in top)
            lines.append(f"step {item['greedy_ids'][step]} {item['margin'][step]:.5f} {pairs}")
    (folder / "smollm2_short.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
