"""Requests as bytes: framed as HTTP/1.1 wants it, in all the ways that it allows, and otherwise."""

import json
import zlib
from dataclasses import dataclass

from scenes import KEY, ORIGIN, OTHER_KEY, Scene


def hash_of(text):
    return zlib.crc32(text.encode())


@dataclass
class Sender:
    identity: str  # x-request-id
    scene: Scene

    def headers(self):
        out = [(b"x-request-id", self.identity.encode())]
        if self.scene.keyed:
            key = OTHER_KEY if hash_of(self.identity) % 4 == 0 else KEY  # one that may set a priority
            out.append((b"Authorization", b"Bearer " + key.encode()))
        return out


@dataclass
class Message:
    method: str
    path: str
    body: bytes | None  # None: no body
    sender: Sender
    data: bytes = b""  # as written
    closes: bool = False  # the connection ends with the answer
    refusal: int = 0  # the status that its header alone leads to


def dumps(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def chunks(rng, body, extensions=True):
    out = []
    at = 0
    while at < len(body):
        size = rng.choice((1, 2, 7, 100, 65536)) if len(out) < 4000 else len(body)
        piece = body[at:at + size]
        at += len(piece)
        number = f"{len(piece):{rng.choice(('x', 'X', '04x'))}}".encode()
        if extensions and rng.random() < 0.1:
            number += rng.choice((b";a", b";a=b", b';a="b c"', b";" + b"a" * 300))
        out += [number, b"\r\n", piece, b"\r\n"]
    out.append(b"0\r\n")
    if extensions and rng.random() < 0.1:
        out.append(b"X-Trailer: a\r\n")
    out.append(b"\r\n")
    return b"".join(out)


def write(message, headers, body, version=b"HTTP/1.1", target=None):
    target = message.path.encode() if target is None else target
    lines = [message.method.encode() + b" " + target + b" " + version]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def plain(message, rng, chunked=False):
    """Without anything that may be left out."""
    headers = [(b"Host", b"a"), *message.sender.headers()]
    body = message.body
    if body is None:
        return write(message, headers, b"")
    if chunked:
        return write(message, [*headers, (b"Transfer-Encoding", b"chunked")],
                     chunks(rng, body, extensions=False))
    return write(message, [*headers, (b"Content-Length", str(len(body)).encode())], body)


MORE = (
    (b"Content-Type", b"application/json"), (b"Content-Type", b"application/json; charset=utf-8"),
    (b"Content-Type", b"text/plain"), (b"Content-Type", b"application/x-www-form-urlencoded"),
    (b"Content-Type", b""), (b"Content-Type", b'application/json; charset="UTF-8"'),
    (b"Accept", b"*/*"), (b"Accept", b"text/event-stream"), (b"Accept-Encoding", b"gzip, deflate, br"),
    (b"Authorization", b"Bearer "), (b"Authorization", b"Bearer a b"), (b"Authorization", b"Basic YTpi"),
    (b"Authorization", b"x" * 3000), (b"Cookie", b"a=b; c=\xc3\xa9"), (b"User-Agent", b""),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"X-Forwarded-For", b"127.0.0.1, ::1"), (b"Range", b"bytes=0-1"), (b"If-None-Match", b"*"),
    (b"Upgrade", b"websocket"), (b"Upgrade", b"h2c"), (b"TE", b"trailers"), (b"Trailer", b"X-Trailer"),
    (b"Expect", b"100-continue"), (b"Content-MD5", b"\xff\xfe"), (b"X-" + b"a" * 200, b"b" * 200),
    (b"Content-Encoding", b"identity"), (b"Keep-Alive", b"timeout=5, max=1000"), (b"Max-Forwards", b"0"),
)
REFUSED = (
    ((b"Content-Encoding", b"gzip"), 415), ((b"Content-Type", b"application/json; charset=utf-16"), 415),
    ((b"Content-Type", b"text/html; charset=latin1"), 415), ((b"Expect", b"200-ok"), 417),
    ((b"Transfer-Encoding", b"gzip, chunked"), 501),
)
OPEN = {"/health", "/livez", "/readyz"}
POSTS = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}


def good(rng, message):
    """In one of the many ways in which clients and proxies write a request."""
    version, target, body = b"HTTP/1.1", None, message.body or b""
    headers = [(b"Host", rng.choice((b"127.0.0.1", b"localhost:8000", b"example.com", b"[::1]:80"))),
               *message.sender.headers()]
    names = {name for name, _ in headers}
    for name, value in rng.sample(MORE, rng.choice((0, 0, 1, 3, 6))):
        if name not in names:
            headers.append((name, value))
            names.add(name)
    kind = rng.random()
    if kind < 0.06 and b"Expect" not in names:
        version = b"HTTP/1.0"
        message.closes = True
        if rng.random() < 0.5:
            headers.append((b"Connection", b"keep-alive"))
            message.closes = False
    elif kind < 0.12:
        headers.append((b"Connection", rng.choice((b"close", b"Close", b"keep-alive, close"))))
        message.closes = True
    elif kind < 0.18 and message.path.startswith("/v1"):
        target = rng.choice((b"http://a", b"http://a:80", b"HTTP://A")) + message.path.encode()
    elif kind < 0.22 and message.path in POSTS and message.method == "POST":
        (name, value), message.refusal = rng.choice(REFUSED)
        headers = [known for known in headers if known[0] != name] + [(name, value)]
    elif kind < 0.26 and message.path in POSTS and message.method == "POST":
        headers, message.refusal = from_origin(rng, message, headers)
    elif kind < 0.28 and message.sender.scene.keyed and message.path not in OPEN and message.method != "OPTIONS":
        headers, message.refusal = [known for known in headers if known[0] != b"Authorization"], 401
        headers += rng.choice(([], [(b"Authorization", b"Bearer " + KEY[:-1].encode())],
                               [(b"Authorization", b"Basic " + KEY.encode())], [(b"Authorization", b"Bearer")]))
    elif kind < 0.3 and message.sender.scene.keyed:
        headers = [known for known in headers if known[0] != b"Authorization"]
        headers.append((b"Authorization", rng.choice((b"bearer ", b"BEARER ")) + KEY.encode()))
    if message.refusal == 501:
        message.closes = True
    elif version == b"HTTP/1.1" and rng.random() < 0.25:
        headers.append((b"Transfer-Encoding", rng.choice((b"chunked", b"Chunked", b"CHUNKED"))))
        body = chunks(rng, body)
    elif body or rng.random() < 0.5:
        headers.append((b"Content-Length", str(len(body)).encode()))
    message.closes = message.closes or message.refusal == 417
    first = headers.pop(0)
    rng.shuffle(headers)
    headers.insert(rng.randrange(len(headers) + 1), first)
    headers = [(rng.choice((name, name.lower(), name.upper())), value) for name, value in headers]
    message.data = write(message, headers, body, version, target)
    return message


def from_origin(rng, message, headers):
    """Headers of a page, and 415 when its browser would not have asked first."""
    origin = rng.choice((ORIGIN.encode(), b"https://other.example", b"null"))
    kind = rng.choice((b"application/json", b"application/json; charset=utf-8", b"text/plain", None))
    listed = message.sender.scene.keyed and origin == ORIGIN.encode()
    headers = [known for known in headers if known[0] != b"Content-Type"] + [(b"Origin", origin)]
    if kind is not None:
        headers.append((b"Content-Type", kind))
    return headers, 0 if listed or (kind or b"").startswith(b"application/json") else 415


BODY = b'{"prompt":"a","max_tokens":1}'
LENGTH = str(len(BODY)).encode()
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"


def _post(*headers, body=BODY, line=b"POST /v1/completions HTTP/1.1"):
    lines = [line, b"Host: a", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def hostile(rng):
    """(name, bytes, statuses): refused, and the connection closed."""
    bad, chunked = {400}, b"Transfer-Encoding: chunked"
    long_number = b"9" * rng.choice((19, 20, 21, 50, 400))
    return rng.choice((
        ("length and coding", _post(b"Content-Length: " + LENGTH, chunked, body=b"0\r\n\r\n" + SMUGGLED), bad),
        ("coding and length", _post(chunked, b"Content-Length: 4", body=b"1d\r\n" + BODY + b"\r\n0\r\n\r\n"), bad),
        ("two lengths", _post(b"Content-Length: " + LENGTH, b"Content-Length: 5"), bad),
        ("list of lengths", _post(b"Content-Length: " + LENGTH + b", 5"), bad),
        ("negative length", _post(b"Content-Length: -1"), bad),
        ("signed length", _post(b"Content-Length: +" + LENGTH), bad),
        ("hex length", _post(b"Content-Length: 0x1d"), bad),
        ("spaced length", _post(b"Content-Length: 2 9"), bad),
        ("empty length", _post(b"Content-Length:"), bad),
        ("long length", _post(b"Content-Length: " + long_number), {400, 413}),
        ("large length", _post(b"Content-Length: 99999999999"), {413}),
        ("gzip coding", _post(b"Transfer-Encoding: gzip"), {501, 400}),
        ("twice chunked", _post(chunked, chunked), {501, 400}),
        ("chunked, chunked", _post(b"Transfer-Encoding: chunked, chunked"), {501, 400}),
        ("xchunked", _post(b"Transfer-Encoding: xchunked"), {501, 400}),
        ("chunked, identity", _post(b"Transfer-Encoding: chunked, identity"), {501, 400}),
        ("tab before chunked", _post(b"Transfer-Encoding: \x0bchunked"), {501, 400}),
        ("coding in 1.0", _post(chunked, line=b"POST /v1/completions HTTP/1.0"), {400}),
        ("space before colon", _post(b"Content-Length : " + LENGTH), bad),
        ("folded", _post(b"Content-Length:\r\n " + LENGTH), bad),
        ("folded coding", _post(b"Transfer-Encoding:\r\n chunked"), bad),
        ("name with space", _post(b"Content Length: " + LENGTH), bad),
        ("empty name", _post(b": a"), bad),
        ("no colon", _post(b"Content-Length"), bad),
        ("NUL in value", _post(b"X-A: a\x00b"), bad),
        ("NUL in name", _post(b"X-\x00A: a"), bad),
        ("bare CR in value", _post(b"X-A: a\rb"), bad),
        ("bare LF", b"POST /v1/completions HTTP/1.1\nHost: a\n\n", bad),
        ("mixed ends", _post(b"X-A: a\nContent-Length: " + LENGTH), bad),
        ("no host", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n", bad),
        ("two hosts", _post(b"Host: b"), bad),
        ("version 2", _post(line=b"GET / HTTP/2.0"), {505, 400}),
        ("version 1.2", _post(line=b"GET / HTTP/1.2"), {505, 400}),
        ("version x", _post(line=b"GET / HTTP/x"), {505, 400}),
        ("lower version", _post(line=b"GET / http/1.1"), bad),
        ("no version", _post(line=b"GET /"), bad),
        ("two spaces", _post(line=b"GET  / HTTP/1.1"), bad),
        ("no target", _post(line=b"GET HTTP/1.1"), bad),
        ("method with colon", _post(line=b"GE:T / HTTP/1.1"), bad),
        ("control in target", _post(line=b"GET /\x01 HTTP/1.1"), bad),
        ("broken percent", _post(line=b"GET /%zz HTTP/1.1"), bad),
        ("long target", _post(line=b"GET /" + b"a" * rng.choice((9000, 40_000)) + b" HTTP/1.1"), {414, 431}),
        ("long field", _post(b"X-A: " + b"a" * rng.choice((17_000, 300_000))), {431}),
        ("long name", _post(b"a" * 20_000 + b": b"), {431}),
        ("many fields", _post(*[b"X-%d: a" % i for i in range(3000)]), {431}),
        ("chunk size", _post(chunked, body=b"zz\r\n" + BODY + b"\r\n0\r\n\r\n"), bad),
        ("negative chunk", _post(chunked, body=b"-1\r\n\r\n"), bad),
        ("long chunk size", _post(chunked, body=b"f" * rng.choice((16, 17, 300)) + b"\r\n"), {400, 413}),
        ("large chunk", _post(chunked, body=b"7fffffff\r\naaaa"), {413}),
        ("chunk without end", _post(chunked, body=b"1d\r\n" + BODY + b"XX0\r\n\r\n"), bad),
        ("chunk extension", _post(chunked, body=b"1d;" + b"a" * 100_000), bad),
        ("endless trailers", _post(chunked, body=b"1d\r\n" + BODY + b"\r\n0\r\n" + b"A: b\r\n" * 20_000), bad),
        ("expectation", _post(b"Content-Length: " + LENGTH, b"Expect: 100-continue, x"), {417}),
    ))


def odd(rng):
    """(name, bytes): servers differ, none of it may hurt."""
    chunked = b"Transfer-Encoding: chunked"
    return rng.choice((
        ("equal lengths", _post(b"Content-Length: " + LENGTH, b"Content-Length: " + LENGTH)),
        ("list of equal lengths", _post(b"Content-Length: " + LENGTH + b", " + LENGTH)),
        ("length with zeros", _post(b"Content-Length: 000000000000000000000" + LENGTH)),
        ("length with space", _post(b"Content-Length:  " + LENGTH + b" \t ")),
        ("GET with a body", _post(b"Content-Length: 5", line=b"GET /livez HTTP/1.1", body=b"abcde")),
        ("HEAD with a body", _post(b"Content-Length: 5", line=b"HEAD /livez HTTP/1.1", body=b"abcde")),
        ("POST without length", _post(body=b"")),
        ("CONNECT", _post(line=b"CONNECT a:443 HTTP/1.1", body=b"")),
        ("asterisk", _post(line=b"OPTIONS * HTTP/1.1", body=b"")),
        ("asterisk POST", _post(line=b"POST * HTTP/1.1", body=b"")),
        ("other scheme", _post(line=b"GET ftp://a/b HTTP/1.1", body=b"")),
        ("user in target", _post(line=b"GET http://a:b@c/livez HTTP/1.1", body=b"")),
        ("fragment", _post(line=b"GET /livez#a HTTP/1.1", body=b"")),
        ("no slash", _post(line=b"GET livez HTTP/1.1", body=b"")),
        ("backslash", _post(line=b"GET \\livez HTTP/1.1", body=b"")),
        ("raw target", _post(line=b"GET /\xff\xc3\x28 HTTP/1.1", body=b"")),
        ("empty lines first", b"\r\n\r\n" + _post(b"Content-Length: " + LENGTH)),
        ("empty host", b"GET /livez HTTP/1.1\r\nHost:\r\n\r\n"),
        ("strange host", b"GET /livez HTTP/1.1\r\nHost: a b/c?\r\n\r\n"),
        ("close and keep-alive", _post(b"Content-Length: " + LENGTH, b"Connection: close", b"Connection: keep-alive")),
        ("upgrade", _post(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAAA", body=b"")),
        ("zero chunks", _post(chunked, body=b"000000\r\n\r\n")),
        ("chunk with LF", _post(chunked, body=b"1d\n" + BODY + b"\n0\n\n")),
        ("chunk with space", _post(chunked, body=b"1d \r\n" + BODY + b"\r\n0\r\n\r\n")),
        ("bytes after a close", _post(b"Content-Length: " + LENGTH, b"Connection: close", body=BODY + SMUGGLED)),
        ("expect in 1.0", _post(b"Content-Length: " + LENGTH, b"Expect: 100-continue", line=b"POST /v1/completions HTTP/1.0")),
        ("expect without a body", _post(b"Expect: 100-continue", line=b"GET /livez HTTP/1.1", body=b"")),
        ("two request ids", _post(b"x-request-id: a", b"x-request-id: b", b"Content-Length: " + LENGTH)),
        ("long request id", _post(b"x-request-id: " + b"a" * 5000, b"Content-Length: " + LENGTH)),
        ("odd request id", _post(b"x-request-id: \xff\xfe\x80\t<script>", b"Content-Length: " + LENGTH)),
        ("origin", _post(b"Origin: http://evil", b"Content-Length: " + LENGTH)),
        ("null origin", _post(b"Origin: null", b"Content-Type: application/json", b"Content-Length: " + LENGTH)),
        ("short body", _post(b"Content-Length: 100")),
        ("no end", _post(b"X-A: b", body=b"")[:-2]),
        ("no end of chunks", _post(chunked, body=b"1d\r\n" + BODY + b"\r\n")),
    ))
