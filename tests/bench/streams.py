"""Streamed completions, timed: of one stream alone, of prefixes that are cached, of streams beside
long prompts. For any server of the OpenAI endpoints whose model has SmolLM2's vocabulary: prompts
are token ids, and no two of a run begin alike."""
import os
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import prompts  # noqa: E402
from client import Background, Client  # noqa: E402
from runs import BenchError, percentile  # noqa: E402

PREFIX, END = 1500, 16  # tokens of a prompt whose prefix is cached
LONG = 2000  # of the prompts that come beside streams
STREAM = 2000  # most tokens of each of these
BEGUN = 8  # tokens of a stream before it counts as running
START_S = 120


class Seeds:
    """Every prompt of a run differs from all others."""

    def __init__(self):
        self._next = int(time.time()) % 10_000 * 1_000
        self._lock = threading.Lock()

    def take(self):
        with self._lock:
            self._next += 1
            return self._next


class Endpoint:
    def __init__(self, url, model=None, timeout_s=300):
        """`model`: for servers that want it named."""
        self._client, self._fields = Client(url, timeout_s), {"model": model} if model else {}

    def stream(self, prompt, max_tokens, on_token=None):
        """An Answer with so many tokens, or a BenchError."""
        answer = self._client.send("/v1/completions", {
            **self._fields, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
            "ignore_eos": True, "stream": True}, on_token)
        if not answer.ok or not answer.times:
            raise BenchError(answer.why())
        return answer


def one_stream(endpoint, seeds, requests, prompt=500, tokens=64):
    """One after the other: ms to the first token, and ms per token after it, of each."""
    out = {"ttft_ms": [], "tpot_ms": []}
    for _ in range(requests):
        answer = endpoint.stream(prompts.ids(prompt, seeds.take()), tokens)
        counted = answer.usage["completion_tokens"] if answer.usage else len(answer.times)
        if counted < 2:
            raise BenchError(f"{counted} tokens in place of {tokens}")
        out["ttft_ms"].append(answer.ttft * 1e3)
        out["tpot_ms"].append((answer.times[-1] - answer.times[0]) / (counted - 1) * 1e3)
    return out


def cached_prefix(endpoint, seeds, requests):
    """ms to the first token of a prompt that is new, and of one with its prefix and another end."""
    out = {"cold_ttft_ms": [], "warm_ttft_ms": [], "cached_tokens": []}
    for _ in range(requests):
        prefix = prompts.ids(PREFIX, seeds.take())
        for name in ("cold_ttft_ms", "warm_ttft_ms"):
            answer = endpoint.stream(prefix + prompts.ids(END, seeds.take()), 8)
            out[name].append(answer.ttft * 1e3)
        details = (answer.usage or {}).get("prompt_tokens_details") or {}
        out["cached_tokens"].append(details.get("cached_tokens"))
    return out


class _Stopped(Exception):
    pass


class _Streams:
    """Streams that run until they are told to stop; the first that ends by itself is noticed."""

    def __init__(self, endpoint, seeds, count):
        self._endpoint, self._begun = endpoint, threading.Semaphore(0)
        self._stop, self.ended = threading.Event(), threading.Event()
        self._running = [Background(lambda seed=seeds.take(): self._run(seed))
                         for _ in range(count)]

    def _run(self, seed):
        times, whole = [], True

        def on_token(answer):
            times.append(answer.times[-1])
            if len(times) == BEGUN:
                self._begun.release()
            if self._stop.is_set():
                raise _Stopped
        try:
            self._endpoint.stream(prompts.ids(64, seed), STREAM, on_token)
        except _Stopped:
            whole = False
        finally:
            self.ended.set()
        return times, whole

    def wait_begun(self):
        for _ in self._running:
            if not self._begun.acquire(timeout=START_S):
                raise BenchError(f"the streams have not begun after {START_S} s")

    def stop(self):
        """Of each stream: when tokens came, and whether it had ended by itself."""
        self._stop.set()
        return [each.result() for each in self._running]


def beside(endpoint, seeds, streams, seconds, long_prompts=True):
    """Gaps of so many streams for so long, while long prompts arrive one after the other or none
    does, and ms to the first token of those prompts. Ends when the first stream does."""
    running, ttft = _Streams(endpoint, seeds, streams), []
    try:
        running.wait_begun()
        begin = time.monotonic()
        if not long_prompts:
            running.ended.wait(seconds)
        over = not long_prompts
        while not over:
            ttft.append(endpoint.stream(prompts.ids(LONG, seeds.take()), 1).ttft * 1e3)
            over = time.monotonic() >= begin + seconds or running.ended.is_set()
        end = time.monotonic()
    finally:
        streamed = running.stop()
    end = min([end, *(times[-1] for times, whole in streamed if whole)])
    # Each stream stops with a token after the end: a gap that the last prompt made is seen whole.
    gaps = [(b - a) * 1e3 for times, _ in streamed for a, b in zip(times, times[1:])
            if a <= end and b >= begin]
    if not gaps:
        raise BenchError("the streams had no two tokens in that time")
    return {"gap_max_ms": max(gaps), "gap_p99_ms": percentile(gaps, 0.99),
            "gap_mean_ms": statistics.fmean(gaps), "gaps": len(gaps), "seconds": end - begin,
            "long_ttft_ms": ttft}
