#!/usr/bin/env python3
"""deploy/Dockerfile, instruction by instruction, in fresh Debian root folders; then its result as a
container engine starts it: uid 10001, a read-only root, no capability, no network but loopback, a
/dev/shm of 64 MiB, the model by a read-only volume. It serves, and stops with status 0."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from container import (PATH, ROOT, call, Container, in_namespaces, leave_network, loopback_up,
                       main_process, make_base, stopwatch)
from dockerfile import Builder

DOCKERFILE = ROOT / "deploy/Dockerfile"
MODELS = (ROOT / "models").resolve()
KEY = "key-of-the-image-test"
COMMIT = "0123456789ab"
START_SECONDS = 90
LINK_SECONDS = 20
PORT = 8000  # of a network namespace of its own


def say(text):
    print(f"image: {text}", flush=True)


def cache_folder():
    """The compiler cache of this machine: the build stage finds the release build's objects in it."""
    folder = pathlib.Path(call("ccache", "--get-config", "cache_dir").strip())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Service:
    """The image as a container with its default command."""

    def __init__(self, container, image, log):
        self._log = log
        user, _, group = image.user.partition(":")
        assert user == group, image.user
        # Every prompt crosses /dev/shm, whatever would be faster on this machine.
        words = image.entrypoint + image.command + ["--set", "router.local_prefill=never"]
        self._starter = container.start(*words, env={"PATH": PATH, **image.env}, user=int(user),
                                        stdout=log)
        self.pid = main_process(self._starter)
        if self.pid is None:
            raise AssertionError("the container did not start:\n" + self.output())

    def output(self):
        return pathlib.Path(self._log.name).read_text(encoding="utf-8")

    def wait_until_ready(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._starter.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ask("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.1)
        raise AssertionError("the container did not become ready:\n" + self.output())

    def stop(self):
        """SIGTERM to process 1, as `docker stop` does; the exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self._starter.wait(timeout=60)

    def kill(self):
        if self._starter.poll() is None:
            self._starter.kill()
            self._starter.wait()


def ask(method, path, body=None, key=""):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    try:
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection.request(method, path, body=json.dumps(body) if body else None, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


class ImageTest(unittest.TestCase):
    def setUp(self):
        self.open_containers = self.enterContext(contextlib.ExitStack())

    def open_container(self, name):
        return self.open_containers.enter_context(Container(name))

    def test_the_dockerfile_makes_an_image_that_serves(self):
        seconds = stopwatch()
        make_base()
        say(f"{seconds():6.1f} s  base system")
        builder = Builder(DOCKERFILE, cache_folder(), {"COMMIT": COMMIT}, say)
        container, image = builder.build(self.open_container)
        say(f"{seconds():6.1f} s  all of the build")
        leave_network()
        loopback_up()
        self.prepare_volumes(container)
        self.serve(container, image)
        say(f"{seconds():6.1f} s  in all")

    def prepare_volumes(self, container):
        self.assertEqual(container.inside("/models").stat().st_uid, 0)
        keys = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, keys)
        (keys / "api_keys").write_text(KEY + "\n", encoding="utf-8")
        keys.chmod(0o755)
        container.bind(keys, "/etc/baton/keys", read_only=True)
        container.bind(MODELS, "/models", read_only=True)
        container.tmpfs("/tmp", "mode=1777,size=16m")
        container.mount_sys()
        container.seal()

    def serve(self, container, image):
        log = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".log"))
        service = Service(container, image, log)
        self.addCleanup(service.kill)
        service.wait_until_ready()

        self.assertEqual(status_of(service.pid)["Uid"], ["10001"] * 4)
        self.assertEqual(status_of(service.pid)["NoNewPrivs"], ["1"])
        self.assertEqual(status_of(service.pid)["CapBnd"], ["0" * 16])
        with self.assertRaises(OSError):
            container.inside("/opt/baton/bin/new").touch()
        with self.assertRaises(OSError):
            container.inside("/models/new").touch()

        self.assertEqual(ask("GET", "/v1/models")[0], 401)
        self.assertIn("Paris", self.complete("The capital of France is"))
        self.assertEqual(self.transports(container, image), ["ucx-posix"], service.output())
        self.assertIn(f"commit {COMMIT}", self.run_inside(container, image, "baton", "--version"))
        self.run_inside(container, image, *image.healthcheck)

        self.assertEqual(service.stop(), 0, service.output())
        healthy = subprocess.run(["chroot", container.path, *image.healthcheck],
                                 env={"PATH": PATH}, capture_output=True, check=False)
        self.assertNotEqual(healthy.returncode, 0)

    def complete(self, prompt):
        status, text = ask("POST", "/v1/completions", {
            "model": "smollm2-135m-instruct", "prompt": prompt, "max_tokens": 8, "temperature": 0},
            KEY)
        self.assertEqual(status, 200, text)
        return json.loads(text)["choices"][0]["text"]

    def transports(self, container, image):
        """Of the links that `baton status` lists; routers hear of one a heartbeat after it is up."""
        end = time.monotonic() + LINK_SECONDS
        while True:
            said = json.loads(self.run_inside(container, image, "baton", "status", "--json",
                                              "--api-key-file", "/etc/baton/keys/api_keys"))
            if said["links"] or time.monotonic() > end:
                return [link["transport"] for link in said["links"]]

    def run_inside(self, container, image, *command):
        return call("chroot", "--userspec=10001:10001", container.path, *command,
                    env={"PATH": PATH, **image.env})


if __name__ == "__main__":
    in_namespaces()
    unittest.main(verbosity=2)
