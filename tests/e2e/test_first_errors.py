"""Each row of docs/first_errors.md: a machine, a model or a moment that is not right, and the exact
line that says so. Machines are made up by namespaces (places.py), so this needs root."""

import contextlib
import http.server
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import gguf_files
import prompts
from client import Background, Client
from cluster import BIN, MODEL, alive, descendants, shm_files, shm_files_in_use, wait_until
from places import ROOT, Place, copy_checkout, group_files, installed_without
from ports import free_port

ROW = re.compile(r"^\| ([^|]+) \| (`+) ?(.+?) ?\2 \|", re.M)


def read_rows():
    with open(os.path.join(ROOT, "docs", "first_errors.md")) as file:
        return {row[0]: row[2] for row in ROW.findall(file.read()) if row[0] != "situation"}


ROWS = read_rows()


def pattern_of(line):
    parts = re.split(r"<[^>]*>", line)
    return re.compile(".+?".join(re.escape(part) for part in parts) + "$")


def shown(situation, output):
    return any(pattern_of(ROWS[situation]).match(line) for line in output.splitlines())


def cpu(flags):
    return f"processor\t: 0\nflags\t\t: fpu sse2 {flags}\n\n"


class FirstErrors(unittest.TestCase):
    def says(self, situation, output):
        self.assertTrue(shown(situation, output), f"\"{ROWS[situation]}\" is not in:\n{output}")

    def run_in(self, place, command, cwd=ROOT, env=(), status=1):
        environment = {key: value for key, value in os.environ.items()
                       if not key.lower().endswith("_proxy")}
        done = subprocess.run(command, cwd=cwd, preexec_fn=place.enter, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              env={**environment, "PATH": place.path, **dict(env)})
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def start(self, place, command, cwd=ROOT):
        running = Running(place, command, cwd)
        self.addCleanup(running.end)
        return running

    def serve(self, place, *args, env=(), status=1):
        """`./dev serve` in a checkout without a build."""
        return self.run_in(place, ["./dev", "serve", "--port", "0", *args], place.checkout(), env,
                           status)


class Machine(FirstErrors):
    def test_another_system(self):
        with Place(files={"/usr/lib/os-release": "ID=ubuntu\nVERSION_ID=\"22.04\"\n"}) as place:
            began = time.monotonic()
            output = self.serve(place)
            self.assertLess(time.monotonic() - began, 1.0)
        self.says("another system", output)
        self.assertIn("this is ubuntu 22.04;", output)

    def test_arm(self):
        with Place(programs={"uname": "echo aarch64"}) as place:
            self.says("an ARM CPU", self.serve(place))

    def test_speed_to_expect(self):
        # What comes next, fetching the model, fails at once.
        no_index = {"python3": "exit 1"}
        for situation, flags in (("no AVX2", "avx"), ("no AVX-512", "avx avx2"),
                                 ("no AMX", "avx2 avx512f avx512bw")):
            with Place(files={"/proc/cpuinfo": cpu(flags)}, programs=no_index) as place:
                output = self.serve(place)
            self.says(situation, output)
            self.assertEqual(len(re.findall(r"; expect about .* tokens/s", output)), 1, output)
        with Place(files={"/proc/cpuinfo": cpu("avx2 avx512bw amx_bf16")}, programs=no_index,
                   cpus={min(os.sched_getaffinity(0))}) as place:
            output = self.serve(place)
            self.assertNotIn("expect about", output)
            self.says("one CPU", output)

    def test_amx_refused(self):
        """On a CPU with AMX the worker says so; on any other the filter is still what refuses."""
        with open("/proc/cpuinfo") as file:
            has_amx = "amx_bf16" in file.read()
        ask = ("import ctypes; libc = ctypes.CDLL(None, use_errno=True);"
               "print(libc.syscall(158, 0x1023, 18), ctypes.get_errno())")
        # Without a router the worker loads its model, says what it is, and waits.
        with Place(tiles=False) as place, tempfile.TemporaryFile("w+") as log:
            self.assertEqual(self.run_in(place, ["python3", "-c", ask], status=0), "-1 1\n")
            worker = subprocess.Popen(
                [os.path.join(BIN, "baton-decode"), "--config", "deploy/colocated.yaml", "--set",
                 f"model.path={MODEL}", "--set", "worker.kv_cache=8blocks", "--set",
                 f"workers.routers=tcp://127.0.0.1:{free_port()}"],
                cwd=ROOT, stdout=log, stderr=log, preexec_fn=place.enter)

            def text():
                log.seek(0)
                return log.read()
            try:
                wait_until(lambda: "ready" in text(), "the worker's ready line", 40)
            finally:
                worker.kill()
                worker.wait()
            if has_amx:
                self.assertIn(ROWS["AMX refused"], text())
            self.assertNotIn("isa=amx", text())

    def test_too_little_disk(self):
        with Place() as place:
            folder = os.path.join(place.folder, "small")
            os.mkdir(folder)
            place.tmpfs[folder] = "100m"
            enter = place.enter

            def enter_and_copy():
                enter()
                copy_checkout(os.path.join(folder, "checkout"))
            place.enter = enter_and_copy
            output = self.run_in(place, ["bash", "-c", f"cd {folder}/checkout && ./dev serve"])
        self.says("too little disk", output)

    def test_too_little_memory_to_build(self):
        for version in (1, 2):
            with Place(**group_files(version, 1 << 30, 1 << 29)) as place:
                output = self.serve(place)
            self.says("too little memory to build", output)
            self.assertIn("dev: 512 MB of memory are free", output)

    def test_too_little_memory_to_serve(self):
        for version in (1, 2):
            with Place(**group_files(version, 400 << 20, 100 << 20)) as place:
                output = self.run_in(place, [os.path.join(BIN, "baton"), "up", "deploy/local.yaml",
                                             "--port", "0", "--model", MODEL])
            self.says("too little memory to serve", output)
            self.assertRegex(output, r"300 MiB are available \(p0 weights \d+ \+ KV pool 64 \+ "
                                     r"rest \d+; d0 weights \d+ \+ KV pool 64 \+ rest \d+; "
                                     r"router 48\)")
            self.assertEqual(len(output.splitlines()), 1, output)
        with Place(**group_files(2, 200 << 20, 100 << 20)) as place:
            output = self.run_in(place, [os.path.join(BIN, "baton-decode"), "--set",
                                         f"model.path={MODEL}", "--config", "deploy/local.yaml"])
        self.assertRegex(output, r"this worker needs \d+ MiB of memory, 100 MiB are available "
                                 r"\(d0 weights \d+ \+ KV pool 64 \+ rest \d+\); ")

    def test_small_shared_memory(self):
        with Place(tmpfs={"/dev/shm": "16m"}) as place:
            output = self.run_in(place, [os.path.join(BIN, "baton"), "up", "deploy/local.yaml",
                                         "--port", "0", "--model", MODEL])
        self.says("a small /dev/shm", output)
        with Place(tmpfs={"/dev/shm": "16m"}) as place:
            self.says("a small /dev/shm before the build", self.serve(place))


class RightsAndNetwork(FirstErrors):
    def test_no_root_and_no_sudo(self):
        without = {"/var/lib/dpkg/status": installed_without("ninja-build", "libucx-dev")}
        if os.path.exists("/usr/bin/sudo"):
            without["/usr/bin/sudo"] = ""
        with Place(files=without, nobody=True) as place:
            output = self.serve(place, "--model", self.empty_model(place))
        self.says("no root and no sudo", output)
        self.assertIn("--no-install-recommends libucx-dev ninja-build\n", output)

    def empty_model(self, place):
        path = os.path.join(place.folder, "some.gguf")
        gguf_files.write(path, [])
        return path

    def test_proxy(self):
        # sudo drops the environment; apt-get tells what it has and fails.
        programs = {
            "sudo": 'while [[ $1 == -* ]]; do shift; done\n[ $# = 0 ] && exit 0\n'
                    'exec env -i PATH="$PATH" "$@"',
            "apt-get": 'echo "E: http_proxy is $http_proxy, no_proxy is $no_proxy,'
                       ' frontend is $DEBIAN_FRONTEND"; exit 100'}
        proxy = {"http_proxy": "http://proxy.test:3128", "no_proxy": "127.0.0.1"}
        with Place(files={"/var/lib/dpkg/status": installed_without("ninja-build")},
                   programs=programs, nobody=True) as place:
            checkout = place.checkout()
            os.mkdir(os.path.join(checkout, "build"))
            os.chmod(os.path.join(checkout, "build"), 0o777)
            output = self.run_in(place, ["./dev", "serve", "--port", "0", "--model",
                                         self.empty_model(place)], checkout, proxy)
        self.says("a proxy", output)
        self.says("packages missing offline", output)
        self.assertIn("E: http_proxy is http://proxy.test:3128, no_proxy is 127.0.0.1, "
                      "frontend is noninteractive", output)

    def test_proxy_of_pip(self):
        asked = []

        class Proxy(http.server.BaseHTTPRequestHandler):
            def refuse(self):
                asked.append(self.requestline)
                self.send_error(403)
            do_CONNECT = do_GET = refuse

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with Place() as place:
            output = self.run_in(place, ["deploy/model/fetch.sh", f"{place.folder}/m.gguf"],
                                 env={"http_proxy": url, "https_proxy": url})
            self.assertEqual(sorted(os.listdir(place.folder)), ["bin"], "nothing half-written")
        server.shutdown()
        server.server_close()
        self.assertTrue(asked, "pip asked the proxy")
        self.says("model missing offline", output)

    def test_model_missing_offline(self):
        with Place(offline=True) as place:
            output = self.serve(place)
            self.says("model missing offline", output)
            self.assertEqual(os.listdir(os.path.join(place.folder, "checkout", "models")), [])

    def test_port_in_use(self):
        with socket.socket() as occupied, Place() as place:
            occupied.bind(("127.0.0.1", 0))
            occupied.listen()
            output = self.run_in(place, ["./dev", "serve", "--port",
                                         str(occupied.getsockname()[1])], place.checkout())
        self.says("port in use", output)

    def test_two_set_ups_take_turns(self):
        with Place(offline=True, programs={"python3": "exit 1"}) as place:
            checkout = place.checkout()
            os.mkdir(os.path.join(checkout, "build"))
            holder = subprocess.Popen(["flock", "build/.lock", "cat"], cwd=checkout,
                                      stdin=subprocess.PIPE)
            wait_until(lambda: os.path.exists(os.path.join(checkout, "build/.lock")), "the lock")
            second = self.start(place, ["./dev", "serve", "--port", "0"], checkout)
            wait_until(lambda: shown("two set-ups at once", second.text()), "its line")
            holder.communicate()
            self.assertEqual(second.wait(), 1)
            self.says("model missing offline", second.text())


class Model(FirstErrors):
    def up(self, path):
        with Place() as place:
            output = self.run_in(place, [os.path.join(BIN, "baton"), "up", "deploy/local.yaml",
                                         "--port", "0", "--model", path])
        self.assertEqual(len(output.splitlines()), 1, output)
        return output

    def test_wrong_files(self):
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            def path(name, content=None):
                where = os.path.join(folder, name)
                if content is not None:
                    with open(where, "wb") as file:
                        file.write(content)
                return where
            os.mkdir(path("checkout"))
            path("checkout/model.safetensors", b"")
            header = b'{"__metadata__":{}}     '
            path("model.safetensors", len(header).to_bytes(8, "little") + header)
            gguf_files.write(path("mamba.gguf"),
                             [("general.architecture", gguf_files.STRING, "mamba")])
            gguf_files.write(path("experts.gguf"),
                             [("general.architecture", gguf_files.STRING, "llama"),
                              ("llama.expert_count", gguf_files.U32, 8)])
            gguf_files.write(path("big-00001-of-00003.gguf"),
                             [("general.architecture", gguf_files.STRING, "llama"),
                              ("split.no", gguf_files.U32, 0),
                              ("split.count", gguf_files.U32, 3)])
            path("pointer.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
            path("page.gguf", b"<!DOCTYPE html>\n<html>")
            with open(MODEL, "rb") as whole:
                path("cut.gguf", whole.read(20_000_000))
            gguf_files.write_large_llama(path("large.gguf"))
            for situation, name in (("a safetensors folder, incomplete", "checkout"),
                                    ("a safetensors file", "model.safetensors"),
                                    ("another architecture", "mamba.gguf"),
                                    ("experts, soft-caps and the like", "experts.gguf"),
                                    ("a split model, incomplete", "big-00001-of-00003.gguf"),
                                    ("a pointer file", "pointer.gguf"),
                                    ("a web page", "page.gguf"),
                                    ("a cut file", "cut.gguf"),
                                    ("a model larger than memory", "large.gguf")):
                self.says(situation, self.up(path(name)))

    def test_before_the_build(self):
        with Place() as place:
            self.says("no such model", self.serve(place, "--model", "no/such.gguf"))
        with Place() as place:
            page = os.path.join(place.folder, "page.gguf")
            with open(page, "w") as file:
                file.write("<html>")
            self.says("another file before the build", self.serve(place, "--model", page))


class Running:
    """A command that is looked at while it runs; Ctrl-C goes to its process group, as from a
    terminal."""

    def __init__(self, place, command, cwd=ROOT):
        self._log = tempfile.TemporaryFile("w+")
        environment = {key: value for key, value in os.environ.items()
                       if not key.lower().endswith("_proxy")}
        self.process = subprocess.Popen(
            command, cwd=cwd, preexec_fn=place.enter, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env={**environment, "PATH": place.path})

    def text(self):
        self._log.seek(0)
        return self._log.read()

    def wait_for(self, words, timeout=90):
        def there():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}:\n{self.text()}")
            return words in self.text()
        wait_until(there, words, timeout)

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, timeout=40):
        return self.process.wait(timeout)

    def end(self):
        """Whatever a failed test has left."""
        if self.process.poll() is None:
            for pid in [*descendants(self.process.pid), self.process.pid]:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


class Interrupted(FirstErrors):
    def test_offline_on_one_cpu_with_little_shared_memory(self):
        """The real thing on a poor machine; the first Ctrl-C ends it well."""
        with Place(offline=True, tmpfs={"/dev/shm": "64m"},
                   cpus={min(os.sched_getaffinity(0))}) as place:
            began = time.monotonic()
            dev = self.start(place, ["./dev", "serve", "--port", "0", "--set",
                                     "router.local_prefill=never"])
            dev.wait_for("try: curl")
            took = time.monotonic() - began
            dev.interrupt()
            self.assertEqual(dev.wait(), 0, dev.text())
        output = dev.text()
        self.says("one CPU", output)
        self.says("offline with packages and model", output)
        self.says("Ctrl-C once", output)
        self.assertIn("over ucx-posix", output)
        self.assertEqual(re.findall(r"^\S+ [WE] .*", output, re.M), [], "no warning")
        answer = output[output.index("> Why is the sky blue?"):output.index("try: curl")]
        self.assertNotRegex(answer, r"(?m)^\d{4}-\d\d-\d\dT", "no log line inside the answer")
        print(f"offline, 1 CPU, 64 MiB of /dev/shm: first answer after {took:.1f} s")

    def test_second_start_and_second_interrupt(self):
        port, shm_before = free_port(), shm_files()
        with Place() as place:
            dev = self.start(place, ["./dev", "serve", "--port", str(port)])
            dev.wait_for("try: curl")
            second = self.run_in(place, ["./dev", "serve", "--port", str(port)])
            self.says("Baton runs already", second)
            begun = threading.Event()
            body = {"prompt": prompts.ids(40, seed=1), "max_tokens": 4000, "ignore_eos": True,
                    "stream": True, "return_token_ids": True}
            stream = Background(lambda: Client(f"http://127.0.0.1:{port}", 60).send(
                "/v1/completions", body, lambda _: begun.set()))
            self.assertTrue(begun.wait(30), "the stream begins")
            children = descendants(dev.process.pid)
            dev.interrupt()
            wait_until(lambda: shown("Ctrl-C twice", dev.text()), "the drain")
            time.sleep(0.2)  # the same wish within 0.1 s counts once
            asked = time.monotonic()
            dev.interrupt()
            self.assertEqual(dev.wait(), 130, dev.text())
            self.assertLess(time.monotonic() - asked, 3.0)
            stream.result()
        self.assertEqual([pid for pid in children if alive(pid)], [])
        self.assertEqual(shm_files() - shm_before - shm_files_in_use(), set())

    def test_while_fetching(self):
        # pip writes and takes its time.
        slow = {"python3": 'while [ "$1" != --dest ]; do shift; done; echo half >"$2/half.whl";'
                           "sleep 30"}
        with Place(programs=slow) as place:
            checkout = place.checkout()
            models = os.path.join(checkout, "models")
            dev = self.start(place, ["./dev", "serve", "--port", "0"], checkout)
            wait_until(lambda: any("half.whl" in files for _, _, files in os.walk(models)), "pip")
            dev.interrupt()
            self.assertEqual(dev.wait(5), 130, dev.text())
            self.says("Ctrl-C while building or fetching", dev.text())
            self.assertEqual(os.listdir(models), [], "nothing half-written")

    def test_while_building(self):
        slow = {"cmake": 'trap "touch $PWD/ended; exit 143" TERM; touch begun; sleep 30 & wait'}
        with Place(programs=slow) as place:
            checkout = place.checkout()
            model = os.path.join(place.folder, "some.gguf")
            gguf_files.write(model, [])
            dev = self.start(place, ["./dev", "serve", "--port", "0", "--model", model], checkout)
            wait_until(lambda: os.path.exists(os.path.join(checkout, "begun")), "cmake")
            dev.interrupt()
            self.assertEqual(dev.wait(5), 130, dev.text())
            self.says("Ctrl-C while building or fetching", dev.text())
            self.assertTrue(os.path.exists(os.path.join(checkout, "ended")), "asked to end")

    def test_while_installing(self):
        slow = {"apt-get": "[[ $* == *--download-only ]] && exit; touch begun; sleep 1; touch done"}
        with Place(files={"/var/lib/dpkg/status": installed_without("ninja-build")},
                   programs=slow) as place:
            checkout = place.checkout()
            model = os.path.join(place.folder, "some.gguf")
            gguf_files.write(model, [])
            dev = self.start(place, ["./dev", "serve", "--port", "0", "--model", model], checkout)
            wait_until(lambda: os.path.exists(os.path.join(checkout, "begun")), "apt-get")
            dev.interrupt()
            self.assertEqual(dev.wait(10), 130, dev.text())
            self.says("Ctrl-C while installing", dev.text())
            self.assertTrue(os.path.exists(os.path.join(checkout, "done")), "it was not cut short")


class Help(unittest.TestCase):
    def help_of(self, *command):
        path = "./dev" if command[0] == "dev" else os.path.join(BIN, command[0])
        done = subprocess.run([path, *command[1:], "--help"], cwd=ROOT, capture_output=True,
                              text=True, timeout=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def commands(self, *command):
        """The command and all below it, as its help lists them."""
        out = [command]
        listed = re.search(r"^Subcommands:\n((?: +\S.*\n)+)", self.help_of(*command), re.M)
        for name in re.findall(r"^  (\S+)", listed[1], re.M) if listed else ():
            out += self.commands(*command, name)
        return out

    def test_every_help_fits_a_screen_and_ends_with_two_examples(self):
        found = [("dev",), *self.commands("baton"), ("baton-router",), ("baton-prefill",),
                 ("baton-decode",)]
        self.assertGreaterEqual(len(found), 12, found)
        for command in found:
            with self.subTest(" ".join(command)):
                lines = self.help_of(*command).rstrip().splitlines()
                self.assertLessEqual(len(lines), 40)
                self.assertLessEqual(max(map(len, lines)), 100)
                self.assertEqual(lines[-3], "examples:", "\n".join(lines[-4:]))
                name = "./dev" if command[0] == "dev" else command[0]
                for example in lines[-2:]:
                    self.assertTrue(example.startswith(f"  {name}"), example)
        print(f"{len(found)} help texts")
