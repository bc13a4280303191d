"""The clusters that requests are sent to, and what each changes about them."""

import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
from dataclasses import dataclass

from cluster import BIN, MODEL, Cluster, alive, wait_until
from prompts import ROOT

TINY = os.path.join(ROOT, "tests", "data", "models", "tiny_f32.gguf")
KEY, OTHER_KEY = "sk-generated", "sk-of-somebody-else"
ORIGIN = "https://listed.example"
SMALL_BODY = 64 * 1024
SMALL_CROWD = 150
POOLS = ["prefill.*.kv_cache=1000blocks", "decode.*.kv_cache=1000blocks"]


@dataclass(frozen=True)
class Scene:
    title: str
    share: int  # of 100 requests
    settings: tuple
    model: str = TINY
    keyed: bool = False
    tls: bool = False
    most_body: int = 32 << 20
    header_timeout: bool = False  # a short one
    most_connections: int = 0  # a small number
    slack_mib: int = 16  # by which a process may grow: buffers, the pages of its pool


SCENES = (
    Scene("tiny model", 64, (*POOLS,)),
    Scene("keys, origins, log", 16, (*POOLS, f"router.cors_origins=[{ORIGIN}]", "router.metrics_need_key=true",
                                     "router.local_prefill=always", "router.tool_format=hermes",
                                     "router.reasoning=split", "router.slo_ttft=20s"), keyed=True),
    Scene("small limits", 10, ("prefill.*.kv_cache=40blocks", "decode.*.kv_cache=40blocks", "router.local_prefill=never",
                               f"router.max_body={SMALL_BODY // 1024}KiB", "router.tool_format=mistral",
                               "router.io_threads=2", "router.header_timeout=2s",
                               f"router.max_connections={SMALL_CROWD}"), most_body=SMALL_BODY,
          header_timeout=True, most_connections=SMALL_CROWD),
    Scene("TLS", 8, (*POOLS, "router.tool_format=llama3"), tls=True),
    Scene("default model", 2, ("prefill.*.kv_cache=200blocks", "decode.*.kv_cache=200blocks", "model.max_context=512"),
          model=MODEL, slack_mib=160),
)


def scene_of(number):
    """The same for a number whatever the seed."""
    place = number * 37 % 100
    for scene in SCENES:
        if place < scene.share:
            return scene
        place -= scene.share
    raise AssertionError("shares do not add up to 100")


class Programs(Cluster):
    """The three programs of a cluster as an operator starts them who wants TLS."""

    def __init__(self, certificate, key, sets):
        super().__init__(sets=sets, pool=False)
        self._sets, self._files = sets, (certificate, key)
        self._programs = {}

    def __enter__(self):
        ports = [free_port() for _ in range(4)]
        control = f"tcp://127.0.0.1:{ports[1]}"
        common = [*self._sets, f"router.listen=127.0.0.1:{ports[0]}", f"router.control={control}",
                  f"workers.routers={control}", f"prefill.p0.http=127.0.0.1:{ports[2]}",
                  f"decode.d0.http=127.0.0.1:{ports[3]}"]
        own = [f"router.tls_certificate_file={self._files[0]}", f"router.tls_key_file={self._files[1]}"]
        with open(self._log, "wb") as log:
            for role, name, sets in (("router", "router", common + own), ("prefill", "p0", common),
                                     ("decode", "d0", common)):
                arguments = [part for setting in sets for part in ("--set", setting)]
                self._programs[role] = subprocess.Popen(
                    [os.path.join(BIN, f"baton-{role}"), "--config", "deploy/local.yaml", *arguments],
                    cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.url = f"https://127.0.0.1:{ports[0]}"
        urls = {"router": f"{self.url}/metrics", "p0": f"http://127.0.0.1:{ports[2]}/metrics",
                "d0": f"http://127.0.0.1:{ports[3]}/metrics"}
        self.info = {"url": self.url, "processes": [
            {"role": role, "name": name, "pid": self._programs[role].pid, "metrics_url": urls[name]}
            for role, name in (("router", "router"), ("prefill", "p0"), ("decode", "d0"))]}
        try:
            wait_until(lambda: " ready " in self.log_text() and
                       self.log_text().count("worker joined") >= 2, "all programs are ready", 60)
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise
        return self

    def ready_info(self):
        return self.info

    def __exit__(self, kind, value, trace):
        for role in ("router", "prefill", "decode"):
            program = self._programs.get(role)
            if program is not None and program.poll() is None:
                program.terminate() if kind is None else program.kill()
        statuses = {role: program.wait(60) for role, program in self._programs.items()}
        text = self.log_text()
        self._folder.cleanup()
        if kind is not None or any(statuses.values()):
            print(text[-20_000:])
        if kind is None and any(statuses.values()):
            raise AssertionError(f"the programs ended with {statuses}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(folder):
    files = folder / "tls.crt", folder / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=generated", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    return files


@contextlib.contextmanager
def running(scene):
    """The cluster of a scene, and the context of TLS or None."""
    with tempfile.TemporaryDirectory(prefix="baton-requests-") as name:
        folder = pathlib.Path(name)
        sets = [f"model.path={scene.model}", *scene.settings]
        if scene.keyed:
            keys = folder / "keys"
            keys.write_text(f"# of these tests\n{KEY}\n{OTHER_KEY} priority\n", encoding="utf-8")
            keys.chmod(0o600)
            sets += [f"router.api_keys_file={keys}", f"router.request_log={folder / 'requests.jsonl'}"]
        if scene.tls:
            certificate, key = make_certificate(folder)
            with Programs(certificate, key, sets) as cluster:
                yield cluster, ssl.create_default_context(cafile=certificate)
        else:
            with Cluster(sets=sets, pool=False) as cluster:
                yield cluster, None


def same_processes(cluster, pids):
    now = {process["name"]: process["pid"] for process in cluster.processes()}
    return now == pids and all(map(alive, pids.values()))
