"""The clusters that requests are sent to, and what each changes about them."""

import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import urllib.parse
from dataclasses import dataclass

import tiny_model
from cluster import BIN, MODEL, Cluster, alive, wait_until
from ports import free_port
from prompts import ROOT

TINY = os.path.join(ROOT, "tests", "data", "models", "tiny_f32.gguf")
TEMPLATES = os.path.join(ROOT, "tests", "data", "chat_template", "templates")
LONG_CONTEXT = 1536  # tools take many tokens of the tiny vocabulary
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
    template: str = ""  # of tests/data/chat_template; the model's own, which knows no tools
    keyed: bool = False
    tls: bool = False
    @property
    def tiny(self):
        return self.model == TINY

    most_body: int = 32 << 20
    header_timeout: bool = False  # a short one
    most_connections: int = 0  # a small number
    slack_mib: int = 16  # by which a process may grow: buffers, the pages of its pool


SCENES = (
    Scene("tiny model", 64, (*POOLS,)),
    Scene("keys, origins, log", 16, (*POOLS, f"router.cors_origins=[{ORIGIN}]", "router.metrics_need_key=true",
                                     "router.local_prefill=always", "router.slo_ttft=20s"),
          template="qwen3", keyed=True),
    Scene("small limits", 10, ("prefill.*.kv_cache=40blocks", "decode.*.kv_cache=40blocks", "router.local_prefill=never",
                               f"router.max_body={SMALL_BODY // 1024}KiB",
                               "router.io_threads=2", "router.header_timeout=2s",
                               f"router.max_connections={SMALL_CROWD}"), most_body=SMALL_BODY, template="mistral_nemo",
          header_timeout=True, most_connections=SMALL_CROWD),
    Scene("TLS", 8, (*POOLS,), template="llama3_1", tls=True),
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


def make_certificate(folder):
    files = folder / "tls.crt", folder / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=generated", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    return files


@dataclass
class Stage:
    """A cluster that runs, and the files that it reads again."""
    cluster: Cluster
    scene: Scene
    folder: pathlib.Path
    tls: ssl.SSLContext | None = None

    def change_files(self):
        """Another certificate and other keys beside those that go on; before them some that are useless."""
        if self.scene.tls:
            old = ssl.create_default_context(cafile=self.folder / "tls.crt")
            (self.folder / "tls.crt").write_text("no certificate\n", encoding="utf-8")
            self.wait_logged("the TLS certificate stays as it was", old)
            make_certificate(self.folder)
            self.wait_logged("TLS certificate read again", old)
            self.tls = context_of(self.folder)
        if self.scene.keyed:
            write_keys(self.folder, "# none\n")
            self.wait_logged("API keys stay as they were")
            write_keys(self.folder, f"{KEY}\nsk-another\n{OTHER_KEY} priority\n")
            self.wait_logged("API keys read again")

    def wait_logged(self, words, tls=None):
        """Files are looked at when somebody comes, at most once a second."""
        parts = urllib.parse.urlsplit(self.cluster.url)

        def logged():
            with contextlib.suppress(OSError), \
                    socket.create_connection((parts.hostname, parts.port), timeout=5) as plain:
                talk = tls.wrap_socket(plain, server_hostname=parts.hostname) if tls else plain
                talk.sendall(b"GET /v1/models HTTP/1.0\r\nAuthorization: Bearer x\r\n\r\n")
                talk.recv(1000)
            return words in self.cluster.log_text()
        wait_until(logged, words)


def context_of(folder):
    context = ssl.create_default_context(cafile=folder / "tls.crt")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def write_keys(folder, text):
    """As editors do it: another file takes the place of the old one."""
    new = folder / "keys.new"
    new.write_text(text, encoding="utf-8")
    new.chmod(0o600)
    os.replace(new, folder / "keys")


@contextlib.contextmanager
def running(scene):
    """The stage of a scene, with its cluster."""
    with tempfile.TemporaryDirectory(prefix="baton-requests-") as name:
        folder = pathlib.Path(name)
        model = scene.model
        if scene.template:
            model = folder / "model.gguf"
            with open(os.path.join(TEMPLATES, scene.template + ".jinja"), encoding="utf-8") as file:
                tiny_model.write(scene.model, model, file.read(), LONG_CONTEXT)
        sets = [f"model.path={model}", *scene.settings]
        if scene.keyed:
            write_keys(folder, f"# of these tests\n{KEY}\n{OTHER_KEY} priority\n")
            sets += [f"router.api_keys_file={folder / 'keys'}", f"router.request_log={folder / 'requests.jsonl'}"]
        if scene.tls:
            certificate, key = make_certificate(folder)
            with Programs(certificate, key, sets) as cluster:
                yield Stage(cluster, scene, folder, context_of(folder))
        else:
            with Cluster(sets=sets, pool=False) as cluster:
                yield Stage(cluster, scene, folder)


def same_processes(cluster, pids):
    now = {process["name"]: process["pid"] for process in cluster.processes()}
    return now == pids and all(map(alive, pids.values()))
