"""The programs of a cluster, each started on its own as a service manager does it: at fixed addresses,
so that one that comes back is found where it was, and with as many routers as asked for."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile

import metrics
from client import Client
from cluster import BIN, MODEL, alive, shm_files, shm_files_in_use, wait_until
from ports import free_port
from prompts import ROOT

HOST = "127.0.0.1"


class Daemons:
    """`workers` are names such as p0 and d1, `routers` such as r0; those of `later` are known to the
    workers and not started yet.

    Leaving the `with` block stops routers, then workers, and checks as Cluster does. After an
    exception the logs are printed.
    """

    def __init__(self, workers=("p0", "p1", "d0", "d1"), routers=("r0",), later=(), settings=None,
                 blocks=400):
        self._folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.routers, self.workers = list(routers), list(workers)
        self.port = {name: free_port() for name in [*routers, *workers]}
        self.control = {name: free_port() for name in routers}
        self.transfer = {name: free_port() for name in workers}
        self._later = set(later)
        self._processes, self._logs = {}, {}
        entry = lambda name: {"name": name, "kv_cache": f"{blocks}blocks",
                              "http": f"{HOST}:{self.port[name]}",
                              "listen": f"{HOST}:{self.transfer[name]}"}
        config = {"model": {"path": MODEL},
                  "router": {"local_prefill": "never"},
                  "workers": {"routers": [self._control(name) for name in routers]},
                  "prefill": [entry(name) for name in workers if name.startswith("p")],
                  "decode": [entry(name) for name in workers if name.startswith("d")]}
        for key, value in (settings or {}).items():
            section, name = key.split(".")
            config[section][name] = value
        self._config = os.path.join(self._folder.name, "cluster.yaml")
        with open(self._config, "w") as file:
            json.dump(config, file)  # which is YAML, too

    def _control(self, router):
        return f"tcp://{HOST}:{self.control[router]}"

    def __enter__(self):
        self._shm_before = shm_files()
        try:
            for name in [*self.routers, *self.workers]:
                if name not in self._later:
                    self.start(name)
            self.wait_ready(*[name for name in self.routers if name not in self._later])
        except BaseException:
            self._fail()
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                try:
                    self._stop_all()
                    return
                except BaseException:
                    self._fail()
                    raise
            self._fail()
        finally:
            self._folder.cleanup()

    # ---- one program

    def start(self, name, programs=BIN):
        if name in self.routers:
            command = [os.path.join(programs, "baton-router"), "--config", self._config,
                       "--set", f"router.listen={HOST}:{self.port[name]}",
                       "--set", f"router.control={self._control(name)}"]
        else:
            program = "baton-prefill" if name.startswith("p") else "baton-decode"
            command = [os.path.join(programs, program), "--config", self._config, "--name", name]
        self._logs.setdefault(name, os.path.join(self._folder.name, name + ".log"))
        with open(self._logs[name], "ab") as log:
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL,
                                                     stdout=log, stderr=subprocess.STDOUT)

    def pid(self, name):
        return self._processes[name].pid

    def terminate(self, name):
        self._processes[name].send_signal(signal.SIGTERM)

    def kill(self, name):
        self._processes[name].kill()
        self._processes[name].wait()

    def wait_exit(self, name, timeout=40):
        try:
            status = self._processes[name].wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} still runs {timeout} s after SIGTERM") from None
        if status != 0:
            raise AssertionError(f"{name} ended with {status}")

    def restart(self, name, programs=BIN):
        """SIGTERM, the end of the drain, and the next life at the same address."""
        self.terminate(name)
        self.wait_exit(name)
        self.start(name, programs)
        self.wait_ready(name)

    # ---- looking inside

    def url(self, name):
        return f"http://{HOST}:{self.port[name]}"

    def client(self, router="r0", timeout=60):
        return Client(self.url(router), timeout)

    def ready(self, name):
        try:
            return Client(self.url(name), 5).request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def wait_live(self, name):
        def live():
            try:
                return Client(self.url(name), 5).request("GET", "/livez")[0] == 200
            except OSError:
                return False
        wait_until(live, f"{name} live")

    def wait_ready(self, *names, timeout=30):
        for name in names:
            wait_until(lambda: self.ready(name), f"{name} ready", timeout)

    def status(self, router="r0"):
        return json.loads(self.client(router).request("GET", "/baton/status")[2])

    def wait_workers(self, router="r0", names=None, timeout=30):
        """The router has these workers, ready."""
        wanted = set(self.workers if names is None else names)

        def all_there():
            have = {w["name"] for w in self.status(router)["workers"] if w["state"] == "ready"}
            return wanted == have
        wait_until(all_there, f"{router} has {sorted(wanted)}", timeout)

    def scrape(self, name):
        return metrics.scrape(self.url(name) + "/metrics")

    def held_blocks(self):
        return {name: {state: count for state, count in self.scrape(name).blocks().items()
                       if count and state not in ("free", "cached")} for name in self.workers}

    def wait_blocks_free(self, timeout=20.0):
        wait_until(lambda: not any(self.held_blocks().values()), "all blocks free", timeout)

    def log(self, name):
        with open(self._logs[name], errors="replace") as file:
            return file.read()

    # ---- the end

    def _stop_all(self):
        for group in (self.routers, self.workers):
            running = [name for name in group
                       if name in self._processes and self._processes[name].poll() is None]
            for name in running:
                self.terminate(name)
            for name in running:
                self.wait_exit(name)
        left = [p.pid for p in self._processes.values() if alive(p.pid)]
        new = shm_files() - self._shm_before - shm_files_in_use()
        if left or new:
            raise AssertionError(f"left behind: processes {left}, files in /dev/shm {sorted(new)}")

    def _fail(self):
        for name, process in self._processes.items():
            tail = "\n".join(self.log(name).splitlines()[-60:])
            print(f"---- {name}\n{tail}")
            process.kill()
            process.wait()
