"""A client of the OpenAI endpoints that keeps token ids and the time of every event."""

import http.client
import json
import threading
import time
import urllib.parse
from dataclasses import dataclass, field


@dataclass
class Answer:
    status: int = 0
    headers: dict = field(default_factory=dict)
    ids: list = field(default_factory=list)
    prompt_ids: list = field(default_factory=list)
    text: str = ""
    finish: str | None = None
    usage: dict | None = None
    trace: dict | None = None
    error: dict | None = None
    done: bool = False  # a stream's [DONE], or the whole body
    broken: str = ""  # the connection ended before the answer did
    sent: float = 0.0
    ended: float = 0.0
    # of each streamed token; of each event with one where ids were not asked for
    times: list = field(default_factory=list)

    @property
    def ok(self):
        return self.status == 200 and self.error is None and self.done and self.finish is not None

    @property
    def ttft(self):
        return self.times[0] - self.sent

    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]

    def why(self):
        """One line for a failure message."""
        return (f"status {self.status}, error {self.error}, done {self.done}, "
                f"finish {self.finish}, {len(self.ids)} tokens, {self.broken}")


class Client:
    def __init__(self, url, timeout=300):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.timeout = parts.hostname, parts.port, timeout

    def request(self, method, path, body=None, headers=None):
        """(status, headers, bytes) of one plain request."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
                headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def completion(self, prompt, max_tokens=16, stream=True, **fields):
        """Greedy unless a temperature is given; `prompt` is text or token ids."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": stream,
                "return_token_ids": True, "baton_trace": True, **fields}
        return self.send("/v1/completions", body)

    def chat(self, messages, max_tokens=16, stream=True, **fields):
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0,
                "stream": stream, "return_token_ids": True, "baton_trace": True, **fields}
        return self.send("/v1/chat/completions", body)

    def send(self, path, body, on_token=None):
        if body.get("stream"):
            body = {**body, "stream_options": {"include_usage": True}}
        answer = Answer()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            answer.sent = time.monotonic()
            connection.request("POST", path, body=json.dumps(body),
                               headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            answer.status = response.status
            answer.headers = dict(response.getheaders())
            if response.getheader("Content-Type", "").startswith("text/event-stream"):
                self._read_stream(response, answer, on_token, body.get("return_token_ids"))
            else:
                self._read_whole(response, answer)
        except (OSError, http.client.HTTPException) as error:
            answer.broken = f"{type(error).__name__}: {error}"
        finally:
            answer.ended = time.monotonic()
            connection.close()
        return answer

    @staticmethod
    def _take_choice(answer, choice):
        answer.ids += choice.get("token_ids") or []
        answer.prompt_ids = choice.get("prompt_token_ids") or answer.prompt_ids
        answer.finish = choice.get("finish_reason") or answer.finish

    @staticmethod
    def _tokens(answer, choice, text, with_ids):
        """Without ids as `baton bench serve` counts: a token may have no text, and be the last."""
        if with_ids or choice.get("token_ids"):
            return len(choice.get("token_ids") or [])
        if choice.get("finish_reason"):
            return 1 if text or not answer.times else 0
        return 1 if text or "role" not in choice.get("delta", {}) else 0

    def _read_stream(self, response, answer, on_token, with_ids):
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                answer.done = True
                continue
            event = json.loads(data)
            if event.get("error"):
                answer.error = event["error"]
                continue
            answer.usage = event.get("usage") or answer.usage
            answer.trace = event.get("baton") or answer.trace
            for choice in event.get("choices", []):
                self._take_choice(answer, choice)
                text = choice.get("text") or choice.get("delta", {}).get("content") or ""
                answer.text += text
                now = time.monotonic()
                for _ in range(self._tokens(answer, choice, text, with_ids)):
                    answer.times.append(now)
                    if on_token:
                        on_token(answer)

    def _read_whole(self, response, answer):
        body = json.loads(response.read())
        answer.done = True
        answer.error = body.get("error")
        answer.usage = body.get("usage")
        answer.trace = body.get("baton")
        for choice in body.get("choices", []):
            self._take_choice(answer, choice)
            answer.text += choice.get("text") or choice.get("message", {}).get("content") or ""


def in_parallel(calls, limit=256):
    """Runs the calls on threads of their own, at most `limit` at once; results in order."""
    results = [None] * len(calls)
    room = threading.Semaphore(limit)

    def run(index, call):
        try:
            results[index] = call()
        except BaseException as error:  # told by the caller's assertion
            results[index] = error
        finally:
            room.release()

    threads = []
    for index, call in enumerate(calls):
        room.acquire()
        thread = threading.Thread(target=run, args=(index, call), daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Background:
    """One call on a thread of its own."""

    def __init__(self, call):
        self._result = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call):
        try:
            self._result = call()
        except BaseException as error:  # raised again by result()
            self._result = error

    def running(self):
        return self._thread.is_alive()

    def result(self, timeout=300):
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise AssertionError(f"no end after {timeout} s")
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result
