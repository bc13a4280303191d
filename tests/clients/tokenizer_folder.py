"""The tokenizer of the default model as a folder that transformers loads, out of its GGUF file."""

import json
import pathlib
import struct

from cluster import MODEL

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _LIST = 8, 9
_CONTROL = 3  # the kind of tokens like <|im_end|>


class _Reader:
    def __init__(self, file):
        self._file = file

    def unpack(self, form):
        return struct.unpack("<" + form, self._file.read(struct.calcsize("<" + form)))

    def text(self):
        return self._file.read(self.unpack("Q")[0]).decode()

    def value(self, kind):
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            of, count = self.unpack("IQ")
            return [self.value(of) for _ in range(count)]
        return self.unpack(_NUMBERS[kind])[0]


def _metadata(path):
    with open(path, "rb") as file:
        reader = _Reader(file)
        magic, _, _, entries = reader.unpack("4sIQQ")
        assert magic == b"GGUF", path
        return {reader.text(): reader.value(reader.unpack("I")[0]) for _ in range(entries)}


def write(folder):
    """The files that AutoTokenizer.from_pretrained(folder) reads."""
    data = _metadata(MODEL)
    tokens = data["tokenizer.ggml.tokens"]
    assert data["tokenizer.ggml.pre"] == "smollm", data["tokenizer.ggml.pre"]
    special = [{"id": index, "content": token, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True}
               for index, token in enumerate(tokens)
               if data["tokenizer.ggml.token_type"][index] == _CONTROL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    files = {
        "tokenizer.json": {
            "version": "1.0", "added_tokens": special,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Digits", "individual_digits": True}, byte_level]},
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": {token: index for index, token in enumerate(tokens)},
                      "merges": data["tokenizer.ggml.merges"]}},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[data["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[data["tokenizer.ggml.eos_token_id"]],
            "chat_template": data["tokenizer.chat_template"]},
        "config.json": {"model_type": "llama"}}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder
