"""Starts a cluster with `baton up`, looks into its processes, and checks that it leaves cleanly."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import client
import metrics
from prompts import ROOT

BIN = os.environ.get("BATON_BIN", os.path.join(ROOT, "build", "release", "bin"))
MODEL = os.path.join(ROOT, "models", "smollm2-135m-instruct-q4_1.gguf")
# Tests that have a long form run it then.
FULL = os.environ.get("BATON_E2E") == "full"
# Pools of tests are small: 800 blocks of 32 tokens are 590 MB.
POOL = ["prefill.*.kv_cache=800blocks", "decode.*.kv_cache=800blocks"]



def wait_until(condition, what, timeout=20.0):
    """Polls until the condition holds; its last value is returned."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.02)


def alive(pid):
    """Whether the process runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def descendants(pid):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry))
    out, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            out.append(child)
            queue.append(child)
    return out


def shm_files():
    """Names in /dev/shm, without those of OpenMP, which no process of Baton uses."""
    with contextlib.suppress(OSError):
        return {name for name in os.listdir("/dev/shm") if not name.startswith("__KMP_")}
    return set()


def shm_files_in_use():
    """Files of /dev/shm that a living process maps: they are somebody's at this moment."""
    out = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/maps") as file:
                out.update(re.findall(r"/dev/shm/(\S+)", file.read()))
    return out


class Cluster:
    """`baton up` on a file of deploy/, with ports of its own.

    Leaving the `with` block stops the cluster and checks: exit status 0, no process left, no new
    file in /dev/shm. After an exception the logs are printed instead.
    """

    def __init__(self, file="deploy/local.yaml", sets=(), args=(), pool=True, ready_s=90):
        self._folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self._ready_file = os.path.join(self._folder.name, "ready.json")
        self._log = os.path.join(self._folder.name, "log")
        settings = [f"model.path={MODEL}", *(POOL if pool else []), *sets]
        # With port 0 the control link gets a port of its own, too.
        self.command = [os.path.join(BIN, "baton"), "up", file, "--port", "0",
                        "--ready-file", self._ready_file]
        for setting in settings:
            self.command += ["--set", setting]
        self.command += list(args)
        self._ready_s = ready_s
        self._process = None

    def __enter__(self):
        self._shm_before = shm_files()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=subprocess.STDOUT,
                                             start_new_session=True)
        try:
            self._wait_ready()
        except BaseException:
            self._fail()
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is not None:
                self._fail()
            elif self._process is not None:
                try:
                    self.stop()
                except BaseException:
                    self._fail()
                    raise
        finally:
            self._folder.cleanup()

    def _wait_ready(self):
        def ready():
            if self._process.poll() is not None:
                raise AssertionError(f"baton up ended with {self._process.returncode}")
            return self.ready_info()
        self.info = wait_until(ready, "the ready file", self._ready_s)
        self.url = self.info["url"]

    def ready_info(self):
        with contextlib.suppress(OSError, ValueError), open(self._ready_file) as file:
            return json.load(file)
        return None

    # ---- looking inside

    @property
    def pid(self):
        return self._process.pid

    def client(self, timeout=300):
        return client.Client(self.url, timeout)

    def processes(self, role=None):
        info = self.ready_info() or self.info
        return [p for p in info["processes"] if role is None or p["role"] == role]

    def process(self, name):
        return next(p for p in self.processes() if p["name"] == name)

    def scrape(self, name=None, role=None):
        """The metrics of one process, or of all of a role together."""
        total = metrics.Scrape("")
        for process in self.processes(role):
            if name is None or process["name"] == name:
                total.samples += metrics.scrape(process["metrics_url"]).samples
        return total

    def busy_blocks(self, without=None):
        """Blocks that are neither free nor cached, by worker; `without` one that is dead."""
        out = {}
        for process in self.processes("prefill") + self.processes("decode"):
            if process["name"] == without:
                continue
            blocks = metrics.scrape(process["metrics_url"]).blocks()
            out[process["name"]] = {state: count for state, count in blocks.items()
                                    if count and state not in ("free", "cached")}
        return out

    def wait_blocks_free(self, timeout=20.0, without=None):
        """No block of any worker stays active, reserved or quarantined once nothing runs."""
        def free():
            busy = self.busy_blocks(without)
            return busy and not any(busy.values())
        try:
            wait_until(free, "all blocks free or cached", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.busy_blocks(without)}") from None

    def pss_kib(self, role=None):
        """Pss of each process."""
        out = {}
        for process in self.processes(role):
            with open(f"/proc/{process['pid']}/smaps_rollup") as file:
                out[process["name"]] = int(re.search(r"^Pss:\s+(\d+)", file.read(), re.M)[1])
        return out

    def log_text(self):
        with open(self._log, errors="replace") as file:
            return file.read()

    # ---- the end

    def signal(self, number=signal.SIGTERM):
        os.kill(self._process.pid, number)

    def wait_exit(self, timeout=45):
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"baton up still runs {timeout} s after the signal") from None

    def stop(self, timeout=45):
        """SIGTERM, and everything that must hold afterwards."""
        children = descendants(self._process.pid)
        if self._process.poll() is None:
            self.signal()
        self.check_gone(children, timeout)

    def check_gone(self, children, timeout=45):
        status = self.wait_exit(timeout)
        self._process = None
        if status != 0:
            raise AssertionError(f"baton up ended with {status}, not 0:\n{self.tail()}")
        left = [pid for pid in children if alive(pid)]
        if left:
            raise AssertionError(f"processes left behind: {left}\n{self.tail()}")
        new = shm_files() - self._shm_before - shm_files_in_use()
        if new:
            raise AssertionError(f"files left in /dev/shm: {sorted(new)}")

    def tail(self, lines=60):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def _fail(self):
        print(f"---- {' '.join(self.command)}\n{self.tail(200)}\n----", file=sys.stderr)
        if self._process is not None:
            for pid in [*descendants(self._process.pid), self._process.pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def generate(prompt_ids, max_tokens, segments=1, isa="auto", ignore_eos=False, model=MODEL):
    """Greedy output of `baton generate`: one process, no network."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="baton-e2e-") as file:
        json.dump(prompt_ids, file)
        file.flush()
        command = [os.path.join(BIN, "baton"), "generate", "--model", model,
                   "--prompt-ids", file.name, "--max-tokens", str(max_tokens), "--isa", isa,
                   "--temperature", "0", "--segments", str(segments), "--json"]
        if ignore_eos:
            command.append("--ignore-eos")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def run_briefly(args, timeout=60):
    """A program that is expected to end by itself."""
    return subprocess.run([os.path.join(BIN, args[0]), *args[1:]], cwd=ROOT, capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)
