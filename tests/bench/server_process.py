"""Starts a server, waits for its first token, and leaves no process of it behind."""
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import prompts  # noqa: E402
from client import Client  # noqa: E402
from cluster import alive, descendants  # noqa: E402
from ports import free_port  # noqa: E402
from runs import BenchError  # noqa: E402
from streams import Endpoint  # noqa: E402

STOP_S = 45
IDLE_SHARE = 0.1  # of a CPU
IDLE_SAMPLE_S = 0.5
IDLE_S = 30


class Baton:
    """`baton up` on a file of deploy/, on ports that it chooses."""
    own = True

    def __init__(self, name, baton, model, file, settings):
        self.name = name
        self._words = [baton, "up", file, "--port", "0", "--set", f"model.path={model}"]
        for setting in settings:
            self._words += ["--set", setting]

    def shown(self):
        return shlex.join(self._words)

    def begin(self, folder):
        """The command to run, and how to find out its address: None as long as there is none."""
        ready = folder / "ready.json"

        def url():
            with contextlib.suppress(OSError, ValueError):
                return json.loads(ready.read_text())["url"]
            return None
        return [*self._words, "--ready-file", str(ready)], url


class Peer:
    """Another server; {port} in its words is where it shall listen, on 127.0.0.1."""
    own = False

    def __init__(self, name, words):
        self.name, self._words = name, words

    def shown(self):
        return shlex.join(self._words)

    def begin(self, _):
        port = free_port()
        return ([word.replace("{port}", str(port)) for word in self._words],
                lambda: f"http://127.0.0.1:{port}")


@dataclasses.dataclass
class Running:
    pid: int
    url: str
    endpoint: Endpoint
    first_token_s: float  # since its start


def last_words(log):
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])[-600:]


def _model(url, timeout_s):
    status, _, body = Client(url, timeout_s).request("GET", "/v1/models")
    if status != 200:
        raise BenchError(f"status {status}")
    return json.loads(body)["data"][0]["id"]


def _first_token(process, url_of, start, deadline_s, seeds):
    """Asks until a token comes: a refused connection and a refusal while it loads are no errors."""
    prompt, model, why = prompts.ids(16, seeds.take()), None, "no address"
    while (left := start + deadline_s - time.monotonic()) > 0:
        if process.poll() is not None:
            raise BenchError(f"ended with {process.returncode}")
        try:
            if url := url_of():
                left = max(left, 1)  # what the last request says is the reason that is told
                model = model or _model(url, left)
                answer = Endpoint(url, model, left).stream(prompt, 1)
                return Running(process.pid, url, Endpoint(url, model), answer.times[0] - start)
        except (OSError, ValueError, LookupError, http.client.HTTPException, BenchError) as error:
            why = error
        time.sleep(0.005)
    raise BenchError(f"no token within {deadline_s:g} s: {why}")


def _stop(process):
    """SIGTERM to the program; what is left of it after a while is killed."""
    family = descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    if process.poll() is None:
        family += descendants(process.pid)
    for pid in family:
        with contextlib.suppress(OSError):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def running(program, folder, deadline_s, seeds):
    """`folder` gets its log. A process group of its own, but the caller's session: a scheduling
    group that the caller was given holds for the server, too."""
    log = folder / "log"
    command, url_of = program.begin(folder)
    with log.open("wb") as out:
        start = time.monotonic()
        try:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, process_group=0)
        except OSError as error:
            raise BenchError(f"{command[0]}: {error}") from error
        try:
            yield _first_token(process, url_of, start, deadline_s, seeds)
        except BenchError as error:
            raise BenchError(f"{error}; its log ends: {last_words(log)}") from error
        finally:
            _stop(process)


def cpu_s(pid):
    """User and system time of the process and all below it."""
    ticks = 0
    for each in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError), open(f"/proc/{each}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_idle(pid):
    """Until what the start left to be done in the background is done; some servers never rest."""
    deadline = time.monotonic() + IDLE_S
    while time.monotonic() < deadline:
        before = cpu_s(pid)
        time.sleep(IDLE_SAMPLE_S)
        if cpu_s(pid) - before <= IDLE_SHARE * IDLE_SAMPLE_S:
            return
