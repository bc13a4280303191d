"""The layout of pods: each program in a network, pid, IPC and mount namespace of its own, with its
own small /dev/shm, one cluster file and one key for all, and two routers behind one name. Needs root
and iproute2. The test moves into a network namespace of its own, so that nothing outside changes."""

import base64
import ctypes
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import prompts
from client import Client
from cluster import BIN, MODEL, descendants, generate, run_briefly, wait_until
from prompts import ROOT

CLONE_NEWNET = 0x40000000
NAME = "baton-routers"
ADDRESSES = {"r0": "10.77.0.11", "r1": "10.77.0.12", "p0": "10.77.0.21", "d0": "10.77.0.31",
             "d1": "10.77.0.32", "x0": "10.77.0.41"}
FILE = """
cluster: {{key_file: {folder}/key}}
model: {{path: {model}}}
router: {{listen: "0.0.0.0:8000", control: "tcp://0.0.0.0:7800", allow_keyless: true,
          local_prefill: never}}
workers: {{routers: ["tcp://baton-routers:7800"]}}
prefill:
  - {{name: p0, listen: "0.0.0.0:0", http: "0.0.0.0:9000", kv_cache: 200blocks}}
decode:
  - {{name: d0, listen: "0.0.0.0:0", http: "0.0.0.0:9000", kv_cache: 200blocks}}
  - {{name: d1, listen: "0.0.0.0:0", http: "127.0.0.1:9000", kv_cache: 200blocks}}
transfer: {{transports: [ucx-posix, ucx-tcp], devices: [eth0]}}
"""
# In the pod: what a container runtime does. The program becomes the pid namespace's first process.
INSIDE = """
set -e
mount -t proc proc /proc
mount -t tmpfs -o size=64m tmpfs /dev/shm
mount --bind "$1/hosts" /etc/hosts
until ip link show eth0 >/dev/null 2>&1; do read -rt 0.02 <> <(:) || true; done
ip link set lo up
ip address add "$2/24" dev eth0
ip link set eth0 up
shift 2
exec "$@"
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


class Pod:
    """One program in namespaces of its own."""

    # The kernel removes the cards of a dead pod some time after it: no name is used twice.
    _numbers = itertools.count()

    def __init__(self, folder, name, program, *args):
        self.name, self._log = name, os.path.join(folder, name + ".log")
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", "--pid", "--ipc", "--mount", "--fork", "--kill-child", "bash",
                 "-c", INSIDE, "pod", folder, ADDRESSES[name], os.path.join(BIN, program),
                 "--config", os.path.join(folder, "cluster.yaml"), *args],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        pid = str(self._process.pid)
        ours = os.readlink("/proc/thread-self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{pid}/ns/net") != ours, "a network namespace")
        outside = f"veth-{next(self._numbers)}-{name}"
        # A pod that comes back at its address must not wait for others to forget its old card.
        card = "02:00:" + ":".join(f"{int(part):02x}" for part in ADDRESSES[name].split("."))
        ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "address", card, "netns",
           pid)
        ip("link", "set", outside, "master", "pods", "up")

    def program(self):
        return descendants(self._process.pid)[-1]

    def signal(self, number):
        os.kill(self.program(), number)

    def wait(self, timeout=20):
        return self._process.wait(timeout)

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()  # and with it its child
            self._process.wait()

    def log(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()


class Namespaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise AssertionError("this test needs root: it makes namespaces")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise AssertionError(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        ip("link", "set", "lo", "up")
        # Without an address of its own a bridge takes the lowest of its ports', and changes it when a
        # pod goes: others then send to the old one for seconds.
        ip("link", "add", "pods", "address", "02:00:00:00:00:01", "type", "bridge")
        ip("address", "add", "10.77.0.1/24", "dev", "pods")
        ip("link", "set", "pods", "up")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder, self.pods = folder.name, {}
        self.addCleanup(self.stop_all)
        self.write("key", base64.b64encode(bytes(range(32))).decode(), 0o600)
        self.write("other_key", base64.b64encode(bytes(range(1, 33))).decode(), 0o600)
        self.write("hosts", "127.0.0.1 localhost\n" +
                   "".join(f"{ADDRESSES[router]} {NAME}\n" for router in ("r0", "r1")))
        self.write("cluster.yaml", FILE.format(folder=self.folder, model=MODEL))

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)

    def stop_all(self):
        for pod in self.pods.values():
            pod.stop()
        if self._outcome.result.failures or self._outcome.result.errors:
            for pod in self.pods.values():
                print(f"---- {pod.name}\n{pod.log()[-4000:]}")

    def start(self, name, program, *args):
        if program != "baton-router":
            args = ("--set", f"worker.advertise={ADDRESSES[name]}:0", *args)
        self.pods[name] = Pod(self.folder, name, program, *args)
        return self.pods[name]

    def url(self, router):
        return f"http://{ADDRESSES[router]}:8000"

    def status(self, router):
        done = run_briefly(["baton", "status", "--url", self.url(router), "--json"])
        return json.loads(done.stdout) if done.returncode == 0 else {"workers": [], "links": []}

    def workers(self, router):
        return sorted(worker["name"] for worker in self.status(router)["workers"])

    def wait_workers(self, router, names, timeout=30.0):
        wait_until(lambda: self.workers(router) == names, f"{router} has {names}", timeout)

    def check_refusal_without_tcp(self):
        """No shared /dev/shm and no ucx-tcp: everybody is told what to do."""
        d0 = self.start("d0", "baton-decode", "--name", "d0", "--set",
                        "transfer.transports=ucx-posix")
        self.wait_workers("r0", ["d0", "p0"])
        answer = Client(self.url("r0")).completion(self.prompt, 4)
        advice = "p0 and d0 share no /dev/shm (their pid namespaces differ); name ucx-tcp in " \
                 "transfer.transports, and their network in transfer.devices"
        self.assertIn(advice, json.dumps(answer.error))
        self.assertIn(advice, d0.log())
        self.assertIn(advice, self.pods["p0"].log())
        print(f"client: {answer.status} {answer.error['message']}")
        d0.signal(signal.SIGTERM)
        self.assertEqual(d0.wait(), 0)

    def check_serves(self, router):
        answer = Client(self.url(router)).completion(self.prompt, 16, ignore_eos=True)
        self.assertTrue(answer.ok, answer.why())
        self.assertEqual(answer.ids, self.expected)
        self.assertEqual(answer.trace["transport"], "ucx-tcp")

    def check_wrong_key(self):
        stranger = self.start("x0", "baton-prefill", "--name", "p0", "--set", "worker.name=x0",
                              "--set", f"cluster.key_file={self.folder}/other_key")
        wait_until(lambda: stranger.log().count("cluster key does not match") >= 2,
                   "the stranger says that its key does not match")
        for router in ("r0", "r1"):
            wait_until(lambda: "cluster key does not match" in self.pods[router].log(),
                       f"{router} says that a key does not match")
            self.assertEqual(self.workers(router), ["d0", "d1", "p0"])
        stranger.stop()

    def check_dead_worker(self):
        """Its HTTP address is loopback: its pid there is another process's here."""
        killed = time.monotonic()
        self.pods["d1"].signal(signal.SIGKILL)
        for router in ("r0", "r1"):
            self.wait_workers(router, ["d0", "p0"], 5)
        print(f"both routers miss d1 {time.monotonic() - killed:.2f} s after its death")

    def test_pods(self):
        begun = time.monotonic()
        self.prompt = prompts.ids(200, seed=3)
        routers = {name: self.start(name, "baton-router") for name in ("r0", "r1")}
        self.start("p0", "baton-prefill")
        self.check_refusal_without_tcp()
        self.start("d0", "baton-decode", "--name", "d0")
        self.start("d1", "baton-decode", "--name", "d1")
        self.expected = generate(self.prompt, 16, ignore_eos=True)["tokens"]
        for router in routers:
            self.wait_workers(router, ["d0", "d1", "p0"])
            self.check_serves(router)
        links = wait_until(lambda: self.status("r1")["links"], "links in the status")
        self.assertEqual({link["transport"] for link in links}, {"ucx-tcp"})
        self.check_wrong_key()
        self.check_dead_worker()
        routers["r0"].signal(signal.SIGTERM)
        self.assertEqual(routers["r0"].wait(), 0)
        self.check_serves("r1")
        for name in ("p0", "d0"):
            self.pods[name].signal(signal.SIGTERM)
        for name in ("p0", "d0"):
            self.assertEqual(self.pods[name].wait(), 0)
        print(f"{time.monotonic() - begun:.0f} s")
