"""What the scenarios share: a cluster for each class, what it answers itself, the clients' programs."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster, ROOT

MODEL = "smollm2-135m-instruct"
HELLO = [{"role": "user", "content": "Say hello."}]
BOB = [{"role": "user", "content": "Bob is 7 years old. Answer in JSON."}]
# A context that one request can exceed.
CONTEXT = 2048


class Scenario(unittest.TestCase):
    """One cluster for all tests of a class, stopped and checked at the end."""

    sets = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="baton-clients-"))
        cls.cluster = cls.enterClassContext(
            Cluster(sets=[f"model.max_context={CONTEXT}", *cls.sets]))
        cls.base_url = cls.cluster.url + "/v1"

    def ask(self, path, body):
        """The answer of the cluster to this JSON, without any client."""
        status, _, text = self.cluster.client().request("POST", path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def errors(self, code):
        """How many requests the router has answered with this error."""
        return self.cluster.scrape(role="router").sum("baton_request_errors_total", code=code)

    def requests(self):
        """How many choices the router has finished."""
        return self.cluster.scrape(role="router").sum("vllm:request_success_total")

    def run_program(self, *arguments, cwd=ROOT, timeout=600, **environment):
        """A program that the client's package has installed; fails with what it printed."""
        program = pathlib.Path(sys.executable).parent / arguments[0]
        done = subprocess.run([program, *arguments[1:]], cwd=cwd, text=True, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "HF_HOME": self.folder, "NO_COLOR": "1",
                                   "HF_HUB_DISABLE_TELEMETRY": "1", **environment})
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        return done.stdout
