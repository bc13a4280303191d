"""What goes wrong with JSON: values of a tree, and the text that it is written as."""

import copy
import json
import random

DEEP = 100_000
MOST_BYTES = 1_000_000  # of a body in which a list is repeated


class Raw:
    """Stands in a tree for bytes that are written as they are."""

    def __init__(self, data):
        self.data = data


def encode(value, spaces=False):
    """JSON of the tree, in UTF-8."""
    comma, colon = (b" , ", b" :\n") if spaces else (b",", b":")
    if isinstance(value, Raw):
        return value.data
    if isinstance(value, dict):
        return b"{" + comma.join(encode(key) + colon + encode(item, spaces)
                                 for key, item in value.items()) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + comma.join(encode(item, spaces) for item in value) + b"]"
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def long_text(rng):
    unit = rng.choice(("a", "ab ", "\u00e9", "\U0001f642", "\n", " ", "<|im_end|>", "\x00", "(", "\u2028"))
    return unit * rng.choice((100, 1000, 20_000))


SCALARS = (
    None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 5.0, 1e-320, 1e308, 127, 128, 129, 255, 2**31 - 1,
    2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -2**31, -2**63, -2**63 - 1, 10**40, "", "a", "5",
    "null", "true", "\x00", "a\x00b", "\u2028\u0085", "\ufeff", "\U0010ffff", "../../etc/passwd",
    "%s%n", "{{ 7 * 7 }}", "{% for x in range(99999999) %}a{% endfor %}", "<|im_start|>",
    "auto", "required", "json_object", "function", "system", "assistant", "tool",
)
TOKENS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1e99999999", b"0x10", b"01", b"1.",
    b".5", b"+1", b"--1", b"1e", b"-", b"1_000", b"1" + b"0" * 400, b"0." + b"1" * 5000, b"tru",
    b"undefined", b"'a'", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\\x41"', b'"\\u12"',
    b'"\xff\xfe"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b'"a\nb"',
    b'"\x00"', b'"a', b"", b" ", b"[", b"]", b"{", b"}", b"[,]", b"{,}", b"[1,]", b'{"a"}', b'{"a":}',
    b"/* a */ 1", b"// a\n1", b"[" * 70 + b"]" * 70, b"[" * DEEP + b"]" * DEEP, b"[" * DEEP,
    b'{"a":' * 70 + b"1" + b"}" * 70, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
)


def places(tree, path=()):
    """The paths of all values below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def nested(rng):
    value = rng.choice(SCALARS)
    for _ in range(rng.choice((1, 2, 5, 30, 61, 62, 63, 64, 65, 80))):
        value = [value] if rng.random() < 0.5 else {rng.choice(("a", "type", "items", "anyOf")): value}
    return value


def other_value(rng):
    kind = rng.random()
    if kind < 0.55:
        return rng.choice(SCALARS)
    if kind < 0.75:
        return Raw(rng.choice(TOKENS))
    if kind < 0.85:
        return nested(rng)
    if kind < 0.92:
        return long_text(rng)
    return rng.choice(([], {}, [[]], [{}], {"": None}, [None] * 300, {str(i): i for i in range(1500)}))


def change_tree(rng: random.Random, tree):
    """One change to a value, a name or a list of the tree, in place."""
    where = list(places(tree))
    if not where:
        return
    path = rng.choice(where)
    parent, key = at(tree, path[:-1]), path[-1]
    if not isinstance(parent, (dict, list)):
        return  # below something that was changed before
    kind = rng.random()
    if kind < 0.6:
        parent[key] = other_value(rng)
    elif kind < 0.7:
        del parent[key]
    elif kind < 0.8 and isinstance(parent, dict):
        parent[rng.choice((key.upper(), key + "\x00", "", " ", "__proto__", "frob", key * 50))] = parent.pop(key)
    elif kind < 0.9 and isinstance(parent, list):
        times = rng.choice((2, 9, 200))
        if len(encode(tree)) + len(encode(parent)) * times < MOST_BYTES:
            parent[:] = [copy.deepcopy(item) for _ in range(times) for item in parent]
    elif isinstance(parent, dict):
        value = parent[key]
        parent[key] = Raw(encode(value) + b"," + json.dumps(key).encode() + b":" + encode(other_value(rng)))
    else:
        parent.insert(0, other_value(rng))


def change_text(rng: random.Random, data: bytes):
    """One change to the written text."""
    at_byte = rng.randrange(len(data) + 1)
    kind = rng.randrange(12)
    if kind == 0:
        return data[:at_byte]
    if kind == 1:
        return data + rng.choice((b"}", b"{}", b"\x00", b"a", b",", b"\n\n", data, b"\xff"))
    if kind == 2:
        return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b" \n\t", b"\x00", b"[", b")]}',\n")) + data
    if kind == 3:
        return data[:at_byte] + rng.randbytes(rng.randint(1, 8)) + data[at_byte:]
    if kind == 4:
        end = min(len(data), at_byte + rng.randint(1, 20))
        return data[:at_byte] + data[end:]
    if kind == 5:
        end = min(len(data), at_byte + rng.randint(1, 40))
        return data[:end] + data[at_byte:end] * rng.choice((1, 3)) + data[end:]
    if kind == 6:
        return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-7")))
    if kind == 7:
        return data.replace(b'"', rng.choice((b"'", b"", b'\\"')), rng.choice((1, -1)))
    if kind == 8:
        changed = bytearray(data)
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind == 9:
        return data.replace(b":", rng.choice((b"=", b"::", b",")), 1)
    if kind == 10:
        return data.replace(b",", rng.choice((b",,", b";", b", \n\t" * 2000)), 1)
    return rng.choice((b"", b" ", b"null", b"[]", b"5", b'"a"', b"{", b"{}", b"\x00" * 64, b"[" * DEEP,
                       b'{"a":' * DEEP, rng.randbytes(rng.randint(1, 400))))


def mutated(rng: random.Random, body):
    """The body of a request after one to three changes, as bytes."""
    tree = json.loads(json.dumps(body))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change_tree(rng, tree)
    data = encode(tree, spaces=rng.random() < 0.1)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        data = change_text(rng, data) if data else data
    return data


def is_json_object(data: bytes):
    """What RFC 8259 says of it; None where readers may differ (a byte order mark, a lone surrogate)."""
    if data.startswith(b"\xef\xbb\xbf") or b"\\u" in data:
        return None

    def refuse(name):
        raise ValueError(name)
    try:
        return isinstance(json.loads(data.decode("utf-8"), parse_constant=refuse), dict)
    except RecursionError:
        return None
    except ValueError:
        return False
