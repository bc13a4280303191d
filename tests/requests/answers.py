"""A server whose answers are generated: what Baton's own clients make of right and wrong ones."""

import json
import random
import socket
import subprocess
import threading

MODELS = json.dumps({"object": "list", "data": [{"id": "a", "object": "model", "created": 1, "owned_by": "b",
                                                 "max_model_len": 4096}]}).encode()
STATUS = json.dumps({"workers": [], "links": []}).encode()


def _event(text, finish=None):
    return b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "a", "choices": [
        {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]}).encode()


def _events(rng):
    end = rng.choice((b"\n\n", b"\n\n", b"\r\n\r\n"))
    events = [_event("a" * rng.randrange(9)) for _ in range(rng.randrange(12))]
    if rng.random() < 0.7:
        events.append(_event("", "length"))
    if rng.random() < 0.6:
        events.append(b'data: {"object":"text_completion","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14}}')
    for _ in range(rng.choice((0, 0, 1, 2))):
        events.insert(rng.randrange(len(events) + 1), rng.choice((
            b": a comment", b"event: other" + end[:len(end) // 2] + b"data: 1", b"data:", b"data: {", b"retry: 5", b"id: 7",
            b"data: [1]", b'data: {"error":{"message":"no","type":"a","param":null,"code":null}}', b"\xff\xfe", b"data: null",
            b"data: " + b"[" * 3000, b"data: " + b"a" * 200_000, b'data: {"choices":[{"index":-1}]}', b"data: \xc0")))
    return end.join([*events, b"data: [DONE]", b""])


def _chunked(rng, body):
    out = b""
    while body:
        size = rng.choice((1, 7, 100, 65536))
        out += b"%x%s\r\n%s\r\n" % (len(body[:size]), rng.choice((b"", b"", b";a=b")), body[:size])
        body = body[size:]
    return out + b"0\r\n" + rng.choice((b"", b"", b"X-Trailer: a\r\n")) + b"\r\n"


GOOD = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        + b"\n\n".join([_event("a"), _event("b", "length"), b"data: [DONE]", b""]))


def answer(rng, path):
    """The bytes of one answer, and whether the connection ends with it."""
    kind = b"application/json"
    status = rng.choice((b"200 OK",) * 9 + (b"500 Internal", b"429 Too Many", b"404 Not Found", b"204 No Content", b"302 Found"))
    if b"/v1/models" in path:
        status, body = b"200 OK", MODELS
    elif b"status" in path:
        body = STATUS
    else:
        kind, body = rng.choice(((b"text/event-stream", _events(rng)),) * 5 + ((kind, b'{"choices":[]}'), (kind, b"{")))
    head = b"HTTP/1.%d %s\r\nContent-Type: %s\r\n" % (rng.choice((1, 1, 1, 0)), status, kind)
    form = rng.random()
    if form < 0.5:
        data = head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(rng, body)
    elif form < 0.8:
        data = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        data = head + b"Connection: close\r\n\r\n" + body
    if rng.random() < 0.1:
        data = b"HTTP/1.1 100 Continue\r\n\r\n" + data
    if b"/v1/models" in path or rng.random() < 0.7:
        return data, b"Connection: close" in head + data[:200] or b"HTTP/1.0" in data[:100]
    place = rng.randrange(len(data))
    return rng.choice((data[:place], data[:place] + rng.randbytes(3) + data[place:], data[:place] + data[place + 1:],
                       data.replace(b"HTTP/1", b"HTTQ", 1), data.replace(b"Content-", b"Content -", 1),
                       data.replace(b"\r\n\r\n", b"\r\nA: " + b"a" * 300_000 + b"\r\n\r\n", 1), b"")), True


class Server:
    """Answers each request as a seed says, in pieces; the first completions are right."""

    def __init__(self, seed):
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.served = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                connection.settimeout(10)
                while head := self._request(connection):
                    with self._lock:
                        self.served += 1
                        rng = random.Random(self._rng.random())
                        first = self.served < 8
                    data, ends = answer(rng, head.split(b" ", 2)[1])
                    if first and b"completions" in head:
                        data, ends = GOOD, True
                    while data:
                        size = rng.choice((len(data), 1000, 50))
                        connection.sendall(data[:size])
                        data = data[size:]
                    if ends or rng.random() < 0.2:
                        return
            except OSError:
                pass

    @staticmethod
    def _request(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        left = int(length[0].split(b":")[1]) - len(body) if length else 0
        while left > 0:
            left -= len(connection.recv(65536)) or left
        return head


def try_clients(program, seed, requests=300, rounds=12):
    """Runs `baton` against such a server; what it did that it must not do. It may fail, in words."""
    load = ["bench", "serve", "--concurrency", "8", "--requests", str(requests), "--input", "10", "--output", "8",
            "--warmup", "0", "--request-timeout", "5", "--json"]
    problems = []
    with Server(seed) as server:
        for command in (load, *[["status"], ["status", "--json"], ["chat"], ["explain", "a"]] * rounds):
            done = subprocess.run([program, *command, "--url", server.url], input="hello\nagain\n", text=True,
                                  capture_output=True, timeout=120)
            words = done.stderr.strip()
            if done.returncode not in (0, 1) or (done.returncode == 1) != (words != "") or len(words) > 4000:
                problems.append(f"baton {' '.join(command[:2])} (seed {seed}) ended with {done.returncode}: {words[-500:]!r}")
        if server.served < requests:
            problems.append(f"{server.served} requests were sent, not {requests}")
    return problems
