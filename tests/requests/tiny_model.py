"""A tiny model with another chat template and a longer context: the file with two keys changed."""

import struct

STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip_value(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.skip_value(inner)
        else:
            self.at += SIZES[kind]


def _text(value):
    return struct.pack("<Q", len(value)) + value


def write(source, target, template, context):
    """`source` with this chat template and context length, as `target`."""
    with open(source, "rb") as file:
        data = file.read()
    reader = _Reader(data)
    reader.at = 8
    tensors, keys = reader.number("<Q"), reader.number("<Q")
    out = [data[:reader.at]]
    for _ in range(keys):
        begin = reader.at
        key, kind = reader.text(), reader.number("<I")
        reader.skip_value(kind)
        if key == b"tokenizer.chat_template":
            out.append(_text(key) + struct.pack("<I", kind) + _text(template.encode()))
        elif key.endswith(b".context_length"):
            out.append(_text(key) + struct.pack("<II", kind, context))
        else:
            out.append(data[begin:reader.at])
    begin = reader.at
    for _ in range(tensors):
        reader.text()
        dimensions = reader.number("<I")
        reader.at += 8 * dimensions + 12
    out.append(data[begin:reader.at])
    header = b"".join(out)
    with open(target, "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT))
        file.write(data[reader.at + -reader.at % ALIGNMENT:])
