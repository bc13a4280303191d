"""One generated request a number: what is sent, how, and what must come back."""

import random
from dataclasses import dataclass, field

import fields
import framing
from fields import C, DETOKENIZE, TOKENIZE, X
from framing import Message, Sender
from mutations import is_json_object, mutated
from scenes import scene_of

POSTS = (C, C, C, X, X, X, TOKENIZE, DETOKENIZE)
OBJECTS = {C: "text_completion", X: "chat.completion"}
GETS = ("/v1/models", "/v1/models/smollm2-135m-instruct", "/health", "/livez", "/readyz", "/metrics",
        "/metrics/targets", "/tokenizer_info", "/baton/status")
OTHERS = ("/", "/v1", "/v1/models/none", "/v1//models/", "//v1/models", "/v1/embeddings", "/baton/requests/x",
          "/baton/requests/", "/baton/requests/" + "a" * 300, "/v1/chat/completions/", "/../etc/passwd",
          "/v1/%6dodels", "/%00", "/%ff%fe", "/v1/models/%2e%2e", "/v1/models?x=1&y=%20", "/favicon.ico",
          "/metrics/", "/v1/models/" + "%F0%9F%99%82" * 50, "/healthz", "/?" + "a=b&" * 400)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "FOO", "get", "PROPFIND")


@dataclass
class Expect:
    method: str = "POST"
    identity: str | None = None  # the x-request-id that comes back
    statuses: set | None = None
    param: str | None = None
    object: str = ""
    closes: bool = False


@dataclass
class Case:
    kind: str
    pieces: list  # of bytes, sent one after the other
    pause: float = 0.0  # seconds between them
    expect: list | None = None  # an Expect for each answer; None: any number of well-formed ones
    leave: int | None = None  # close after so many bytes of the answers
    reset: bool = False  # close by a reset
    bare: bool = False  # without TLS, where the port speaks it
    tags: set = field(default_factory=set)


def pieces_of(rng, data):
    """Now and then a few pieces with time between them."""
    if len(data) > 200_000 or rng.random() < 0.8:
        return [data], 0.0
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)]) if a < b], rng.choice((0, 0, 0.002))


def post(rng, sender, path, body, **expected):
    message = framing.good(rng, Message("POST", path, body, sender))
    return message, Expect("POST", sender.identity, object=OBJECTS.get(path, ""), **expected)


def case_good(rng, sender):
    path = rng.choice(POSTS)
    body = fields.good_body(rng, path)
    message, expect = post(rng, sender, path, framing.dumps(body), statuses={200, 400})
    return one(rng, "good", message, expect)


def case_wrong_field(rng, sender):
    path = rng.choice((C, X))
    body, name = fields.wrong_body(rng, path)
    message, expect = post(rng, sender, path, framing.dumps(body), statuses={400}, param=name)
    return one(rng, f"wrong {name}", message, expect)


def case_mutated(rng, sender):
    path = rng.choice(POSTS)
    data = mutated(rng, fields.good_body(rng, path))
    statuses = {200, 400, 404} if is_json_object(data) in (True, None) else {400}
    message, expect = post(rng, sender, path, data, statuses=statuses)
    return one(rng, "mutated", message, expect)


def case_raw(rng, sender):
    data = rng.randbytes(rng.choice((0, 1, 2, 16, 100, 5000)))
    statuses = {200, 400, 404} if is_json_object(data) else {400}
    message, expect = post(rng, sender, rng.choice(POSTS), data, statuses=statuses)
    return one(rng, "raw body", message, expect)


def one(rng, kind, message, expect):
    """A request in good framing, and what its header asks for beyond its body."""
    expect.closes = message.closes
    if message.refusal:
        expect.statuses, expect.param = {message.refusal}, None
    if len(message.body or b"") > message.sender.scene.most_body:
        expect.statuses, expect.param, expect.closes = {413, message.refusal}, None, True
    pieces, pause = pieces_of(rng, message.data)
    return Case(kind, pieces, pause, [expect])


def case_paths(rng, sender):
    method, path = rng.choice(METHODS), rng.choice((*GETS, *GETS, *OTHERS, *POSTS))
    message = framing.good(rng, Message(method, path, b"", sender))
    statuses = {200, 204, 400, 404, 405, 415}
    if path.endswith("/baton/requests/" + "a" * 300):
        statuses.add(414)
    return one(rng, "paths", message, Expect(method, sender.identity, statuses))


def simple(rng, sender):
    """A request with one certain answer: for pipelines."""
    kind = rng.random()
    if kind < 0.4:
        path = rng.choice(("/livez", "/v1/models", "/tokenizer_info"))
        return Message("GET", path, None, sender), Expect("GET", sender.identity, {200})
    if kind < 0.6:
        body = framing.dumps({"prompt": fields.text(rng), "max_tokens": 2, "stream": rng.random() < 0.5})
        return (Message("POST", C, body, sender),
                Expect("POST", sender.identity, {200}, object=OBJECTS[C]))
    if kind < 0.8:
        body, name = fields.wrong_body(rng, C)
        return (Message("POST", C, framing.dumps(body), sender),
                Expect("POST", sender.identity, {400}, param=name))
    return Message("GET", "/nothing", None, sender), Expect("GET", sender.identity, {404})


def case_pipeline(rng, sender):
    data, expects = b"", []
    for i in range(rng.randint(2, 6)):
        message, expect = simple(rng, Sender(f"{sender.identity}-{i}", sender.scene))
        data += framing.plain(message, chunked=rng.random() < 0.3, rng=rng)
        expects.append(expect)
    pieces, pause = pieces_of(rng, data)
    return Case("pipeline", pieces, pause, expects)


def case_hostile(rng, sender):
    """Framing that must be refused, because readers on the way may read it otherwise."""
    name, data, statuses = framing.hostile(rng)
    expect = Expect("POST", None, statuses, closes=True)
    pieces, pause = pieces_of(rng, data)
    return Case(f"hostile {name}", pieces, pause, [expect], tags={"refused"})


def case_odd(rng, sender):
    """Framing that may be taken or refused."""
    name, data = framing.odd(rng)
    return Case(f"odd {name}", [data])


def case_flipped(rng, sender):
    """A right request with changed bytes anywhere."""
    message, _ = simple(rng, sender)
    data = bytearray(framing.plain(message, chunked=rng.random() < 0.5, rng=rng))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place]
        else:
            data[place:place] = rng.choice((b"\r", b"\n", b"\r\n", b"\x00", b" ", b":", b"\xff", b"0", b"f"))
    return Case("flipped", [bytes(data)])


def case_garbage(rng, sender):
    data = rng.choice((
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"EHLO a\r\n", b"\r\n" * 50,
        b"GET / HTTP/0.9\r\n\r\n", b"GET /\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100, rng.randbytes(rng.randint(1, 600)),
        b"GET / HTTP/1.1\n\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"{\"prompt\":\"a\"}",
        b"\x80\x9e\x01\x03\x01", b"*3\r\n$3\r\nSET\r\n"))
    return Case("garbage", [data])


def case_truncated(rng, sender):
    """The client goes away in the middle of its request."""
    message, _ = simple(rng, sender)
    data = framing.plain(message, chunked=rng.random() < 0.5, rng=rng)
    pieces, pause = pieces_of(rng, data[:rng.randrange(1, len(data))])
    return Case("truncated", pieces, pause, leave=0, reset=rng.random() < 0.5)


def case_leaving(rng, sender):
    """The client goes away while it is answered."""
    body = {"prompt": fields.prompt(rng), "max_tokens": rng.choice((1, 50, 400)), "n": rng.choice((1, 1, 3)),
            "stream": rng.random() < 0.7, "ignore_eos": True}
    message = Message("POST", C, framing.dumps(body), sender)
    data = framing.plain(message, rng=rng) * rng.choice((1, 1, 3))
    return Case("leaving", [data], leave=rng.choice((0, 1, 200, 2000)), reset=rng.random() < 0.5)


SHAPES = (
    r'<tool_call>\{"name": "look", "arguments": \{"a": [0-9]\}\}</tool_call>',
    r'<tool_call>\{"name": "other", "arguments": \{\}\}</tool_call>',
    r'[a-z]{3}<tool_call>\{"name": "look", "arguments": \{"a": "[a-z]"\}\}</tool_call>',
    r'\{"name": "look", "parameters": \{"a": [0-9]\}\}; \{"name": "look", "parameters": \{"a": 1\}\}',
    r'\[TOOL_CALLS\]\[\{"name": "look", "arguments": \{"a": [0-9]\}\}\]',
    r'\[TOOL_CALLS\]look\[ARGS\]\{"a": [0-9]\}', r'<tool_ca[a-z]{4}', r'\{"name": "lo[a-z]{3}',
    r'<think>[a-z]{4}</think>[a-z]{3}', r'<think>[a-z ]{30}', r'[a-z]{4}</think>[a-z]{3}', r'(ab|cd|\u00e9){12}',
)


def case_shaped(rng, sender):
    """An answer whose text is known in its form: calls, reasoning, stop strings in it."""
    body = {"guided_regex": rng.choice(SHAPES), "max_tokens": rng.choice((5, 160)), "temperature": 1,
            "stream": rng.random() < 0.6, "n": rng.choice((1, 2)), "return_token_ids": rng.random() < 0.2,
            "stop": rng.choice((None, None, ["b"], ["cd", "abab"], "</"))}
    path = rng.choice((C, X, X))
    if path == X:
        body["messages"] = fields.messages(rng)
        body.update(rng.choice(({}, {"tools": fields.tools(rng)}, {"tools": fields.tools(rng), "logprobs": True},
                                {"functions": [fields.FUNCTION]}, {"include_reasoning": False})))
    else:
        body.update({"prompt": fields.text(rng), "logprobs": rng.choice((None, 2)), "echo": rng.random() < 0.3})
    message, expect = post(rng, sender, path, framing.dumps(body), statuses={200, 400})
    return one(rng, "shaped", message, expect)


def case_twins(rng, sender):
    """The same request at once and streamed."""
    path = rng.choice((C, X))
    body = fields.good_body(rng, path)
    for name in ("best_of", "prompt_logprobs", "stream_options", "priority"):
        body.pop(name, None)
    body.update({"max_tokens": rng.choice((3, 40)), "seed": rng.randrange(1 << 30)})
    body.pop("max_completion_tokens", None)
    if rng.random() < 0.3:
        body["guided_regex"] = rng.choice(SHAPES)
    data, expects = b"", []
    for stream in (False, True):
        twin = Sender(f"{sender.identity}-{stream}", sender.scene)
        data += framing.plain(Message("POST", path, framing.dumps({**body, "stream": stream}), twin), rng)
        expects.append(Expect("POST", twin.identity, {200, 400}, object=OBJECTS[path]))
    return Case("twins", [data], 0.0, expects, tags={"twins"})


def case_slow_reader(rng, sender):
    """More than a connection buffers for a client that reads late."""
    body = {"prompt": fields.text(rng), "max_tokens": 250, "n": 8, "ignore_eos": True, "logprobs": 10,
            "stream": rng.random() < 0.8}
    message, expect = post(rng, sender, C, framing.dumps(body), statuses={200})
    case = one(rng, "slow reader", message, expect)
    case.tags.add("slow")
    return case


def case_continue(rng, sender):
    """A client that sends its body only when it is asked to."""
    message, expect = simple(rng, sender)
    while message.body is None:
        message, expect = simple(rng, sender)
    data = framing.plain(message, rng).replace(b"\r\n", b"\r\nExpect: 100-Continue\r\n", 1)
    at = data.index(b"\r\n\r\n") + 4
    return Case("continue", [data[:at], data[at:]], 0.0, [expect], tags={"continue"})


def case_late(rng, sender):
    """A header that does not come to its end."""
    data = framing.plain(simple(rng, sender)[0], rng)
    return Case("late", [data[:rng.randrange(1, data.index(b"\r\n\r\n"))]], 0.0,
                [Expect("POST", None, {408}, closes=True)])


def case_explain(rng, sender):
    """A completion, and then what the router remembers of it."""
    body = framing.dumps({"prompt": fields.text(rng), "max_tokens": 2, "baton_trace": True})
    asked = Message("POST", C, body, sender)
    path = f"/baton/requests/{sender.identity}"
    data = framing.plain(asked, rng) + framing.plain(
        Message("GET", path, None, Sender(sender.identity + "-explained", sender.scene)), rng)
    return Case("explain", [data], 0.0, [
        Expect("POST", sender.identity, {200}, object=OBJECTS[C]),
        Expect("GET", sender.identity + "-explained", {200})])


def case_handshake(rng, sender):
    """Bytes on a port of TLS that are none, or not all of it."""
    if rng.random() < 0.5:
        message, _ = simple(rng, sender)
        return Case("handshake", [framing.plain(message, rng)], 0.0, [Expect("POST", None, {400}, closes=True)],
                    bare=True, tags={"refused"})
    data = rng.choice((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x16\x03\x01\x00\x05abcde", b"\x15\x03\x03\x00\x02\x02\x28",
                       rng.randbytes(40), b"\x16"))
    return Case("handshake", [data], leave=rng.choice((0, 1)), bare=True, reset=rng.random() < 0.5)


KINDS = ((case_good, 14), (case_wrong_field, 16), (case_mutated, 32), (case_raw, 3), (case_paths, 6),
         (case_pipeline, 5), (case_hostile, 8), (case_odd, 4), (case_flipped, 5), (case_garbage, 2),
         (case_truncated, 2), (case_leaving, 3), (case_explain, 1),
         (case_shaped, 4), (case_slow_reader, 0.2), (case_continue, 1),
         (case_twins, 5))


def make(seed, number):
    """The same case each time, whatever came before it."""
    rng = random.Random(f"{seed}:{number}")
    kind = rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])[0]
    scene = scene_of(number)
    if kind is case_slow_reader and not scene.tiny:
        kind = case_good  # seconds of computing
    if scene.tls and rng.random() < 0.05:
        kind = case_handshake
    if scene.header_timeout and rng.random() < 0.01:
        kind = case_late
    return kind(rng, Sender(f"generated-{number}", scene))
