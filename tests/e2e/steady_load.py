"""Clients that ask the same few requests again and again, each for an answer that is known."""

import collections
import http.client
import json
import random
import threading
import time
import urllib.parse

import prompts
from client import Background


def distinct_requests(seed, longest=50):
    """Streams of different lengths, seeds, penalties and stop strings, and several choices."""
    dice = random.Random(seed)
    out = []
    for i in range(12):
        body = {"prompt": prompts.ids(dice.randrange(5, 300), seed=seed + i),
                "max_tokens": dice.randrange(8, longest), "temperature": 0, "ignore_eos": i % 3 > 0,
                "stream": i % 4 > 0}
        if i % 2:
            body |= {"temperature": 0.8, "seed": 17 * i, "top_k": 50, "frequency_penalty": 0.3}
        if i % 3 == 1:
            body |= {"n": 2, "temperature": 0.9, "seed": i}
        if i % 4 == 2:
            body |= {"stop": [" the", "\n\n"], "min_tokens": 4}
        out.append(body)
    return out


class Refused(Exception):
    """The router does not take requests, and said so before it began one: a client, or what stands
    before the routers, goes to another."""


def ask(url, body, timeout=60):
    """(texts, finish reasons, completion tokens) of one answer; raises what was wrong with it."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        try:
            connection.connect()
        except ConnectionRefusedError as error:
            raise Refused(str(error)) from None
        if body.get("stream"):
            body = {**body, "stream_options": {"include_usage": True}}
        connection.request("POST", "/v1/completions", body=json.dumps(body),
                           headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read().decode()
            if response.status == 503 and "shutting down" in text:
                if response.headers["Connection"] != "close":
                    raise AssertionError(f"a router that drains keeps its connections: {text}")
                raise Refused(text)
            raise AssertionError(f"status {response.status}: {text}")
        return _streamed(response) if body.get("stream") else _whole(response)
    finally:
        connection.close()


def _whole(response):
    body = json.loads(response.read())
    choices = sorted(body["choices"], key=lambda choice: choice["index"])
    return ([c["text"] for c in choices], [c["finish_reason"] for c in choices],
            body["usage"]["completion_tokens"])


def _streamed(response):
    texts, finishes, usages, done = collections.defaultdict(str), {}, [], 0
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            done += 1
            continue
        event = json.loads(line[6:])
        if event.get("error"):
            raise AssertionError(f"in a stream: {event['error']}")
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
            if choice["finish_reason"]:
                if choice["index"] in finishes:
                    raise AssertionError(f"two finish reasons: {event}")
                finishes[choice["index"]] = choice["finish_reason"]
        if event.get("usage"):
            usages.append(event["usage"]["completion_tokens"])
    if done != 1 or len(usages) != 1 or sorted(finishes) != sorted(texts):
        raise AssertionError(f"a stream ended with {done} [DONE], usages {usages}, {finishes}")
    return ([texts[i] for i in sorted(texts)], [finishes[i] for i in sorted(finishes)], usages[0])


class SteadyLoad:
    """Runs inside a `with` block; leaving it waits for the answers under way and judges.

    `urls` gives the routers that a client may try, best first; an answer that never comes, comes
    broken or differs from the one without trouble is a failure.
    """

    def __init__(self, urls, bodies, expected, clients=4):
        self._urls, self._bodies, self._expected = urls, bodies, expected
        self._clients = clients
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._next = 0
        self.answered = collections.Counter()  # by router
        self.refused = 0
        self.slowest = 0.0
        self.failures = []

    @staticmethod
    def expect(url, bodies):
        return [ask(url, body) for body in bodies]

    def _one(self, index):
        began = time.monotonic()
        end = began + 10
        while True:
            for url in self._urls():
                try:
                    got = ask(url, self._bodies[index])
                except Refused:
                    with self._lock:
                        self.refused += 1
                    continue
                with self._lock:
                    self.answered[url] += 1
                    self.slowest = max(self.slowest, time.monotonic() - began)
                if got != self._expected[index]:
                    raise AssertionError(f"{got} instead of {self._expected[index]}")
                return
            if time.monotonic() > end:
                raise AssertionError("no router takes requests")
            time.sleep(0.02)

    def _client(self):
        while not self._over.is_set():
            with self._lock:
                index = self._next % len(self._bodies)
                self._next += 1
            try:
                self._one(index)
            except (AssertionError, OSError, http.client.HTTPException) as error:
                with self._lock:
                    self.failures.append(f"request {index}: {type(error).__name__}: {error}")

    def __enter__(self):
        self._threads = [Background(self._client) for _ in range(self._clients)]
        return self

    def __exit__(self, kind, value, trace):
        self._over.set()
        for thread in self._threads:
            thread.result(timeout=90)
        if self.failures:
            raise AssertionError(f"{len(self.failures)} of {self._next} requests failed:\n" +
                                 "\n".join(self.failures[:10]))

    def total(self):
        return sum(self.answered.values())

    def wait_more(self, count, timeout=30):
        """So many more answers have come: the cluster serves."""
        target, end = self.total() + count, time.monotonic() + timeout
        while self.total() < target:
            if time.monotonic() > end:
                raise AssertionError(f"only {self.total()} answers, {target} wanted")
            time.sleep(0.02)
