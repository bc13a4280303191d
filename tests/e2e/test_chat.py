"""`baton chat` and `baton status` as somebody at a terminal, and as a script, meets them."""

import json
import os
import signal
import subprocess
import unittest

from cluster import BIN, ROOT, Cluster, wait_until
from terminal import CTRL_C, CTRL_D, Terminal

TIMES = r"\[TTFT \d+ ms, \d+ tokens, \d+\.\d tokens/s(, cut at the limit)?\]"


class ChatAndStatus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())

    def status(self):
        return json.loads(self.cluster.client().request("GET", "/baton/status")[2])

    def running(self):
        return sum(worker["running"] + worker["waiting"] for worker in self.status()["workers"])

    def baton(self, *args, text=None):
        return subprocess.run([os.path.join(BIN, "baton"), *args, "--url", self.cluster.url],
                              cwd=ROOT, input=text, capture_output=True, text=True, timeout=60)

    def test_conversation(self):
        with Terminal("chat", "--url", self.cluster.url + "/v1", "--temperature", "0") as terminal:
            terminal.expect(r"smollm2-135m-instruct at http://\S+, context \d+ tokens")
            terminal.expect_prompt()
            terminal.type("What is the capital of France?\r")
            terminal.expect(r"Paris")
            terminal.expect(TIMES)
            terminal.expect_prompt()
            terminal.type("Tell me a very long story about the sea, \\\r")
            terminal.expect_prompt()
            terminal.type("and about all the ships on it.\r")
            terminal.expect(r"\?2004l")  # editing ends, and the answer begins
            terminal.expect(r"\w+ \w+ \w+ \w+ \w+ \w+ \w+")
            wait_until(lambda: self.running() == 1, "one request runs")
            terminal.type(CTRL_C)
            terminal.expect(r"\[TTFT \d+ ms, about \d+ tokens, \d+\.\d tokens/s, stopped\]")
            wait_until(lambda: self.running() == 0, "the server stops it, too", 5)
            terminal.expect_prompt()
            terminal.type("/nothing\r")
            terminal.expect("unknown command /nothing; /help lists them")
            terminal.type("Thank you. Say goodbye.\r")
            terminal.expect(TIMES)
            terminal.expect_prompt()
            terminal.type(CTRL_C)
            terminal.expect(r"\[Ctrl-C again, or Ctrl-D, leaves\]")
            terminal.expect_prompt()
            terminal.type(CTRL_D)
            self.assertEqual(terminal.wait_exit(), 0)

    def test_a_second_ctrl_c_leaves(self):
        with Terminal("chat", "--url", self.cluster.url) as terminal:
            terminal.expect_prompt()
            terminal.type(CTRL_C)
            terminal.expect("leaves")
            terminal.expect_prompt()
            terminal.type(CTRL_C)
            self.assertEqual(terminal.wait_exit(), 0)

    def test_from_a_pipe(self):
        done = self.baton("chat", "--temperature", "0", "--max-tokens", "24", "--system",
                          "You are brief.", text="Hello,\\\nyou!\nAnd now?\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # The same words as those of another client that sends the whole conversation each time.
        messages = [{"role": "system", "content": "You are brief."}]
        expected = ""
        for question in ("Hello,\nyou!", "And now?"):
            messages.append({"role": "user", "content": question})
            answer = self.cluster.client().chat(messages, max_tokens=24)
            self.assertTrue(answer.ok, answer.why())
            messages.append({"role": "assistant", "content": answer.text})
            expected += answer.text + "\n"
        self.assertEqual(done.stdout, expected)

    def test_errors_are_one_line(self):
        done = self.baton("chat", "--model", "gpt-17", text="Hello\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^baton: [^\n]*gpt-17[^\n]*\n$")

    def test_status(self):
        done = self.baton("status", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        status = json.loads(done.stdout)
        self.assertEqual({worker["name"] for worker in status["workers"]}, {"p0", "d0"})
        for worker in status["workers"]:
            self.assertLessEqual({"name", "role", "state", "blocks_total", "blocks_free", "running",
                                  "waiting", "incarnation"}, set(worker))
        for link in status["links"]:
            self.assertEqual(set(link), {"from", "to", "transport"})
        table = self.baton("status")
        self.assertEqual((table.returncode, table.stderr), (0, ""))
        self.assertRegex(table.stdout, r"(?m)^p0 +prefill +ready +")
        self.assertRegex(table.stdout, r"(?m)^d0 +decode +ready +")
        if "load" in status:
            self.assertRegex(table.stdout, r"(?m)^(last \d+ s: |idle: )")

    def test_watch_on_a_terminal(self):
        with Terminal("status", "--url", self.cluster.url, "--watch", "0.2") as terminal:
            for _ in range(3):
                terminal.expect("\x1b\\[HWORKER")
                terminal.expect("d0 +decode")
            terminal.type(CTRL_C)
            self.assertEqual(terminal.wait_exit(), 0)
            terminal.expect("\x1b\\[\\?1049lWORKER")  # what was seen last stays

    def test_watch_in_a_pipe(self):
        with subprocess.Popen([os.path.join(BIN, "baton"), "status", "--url", self.cluster.url,
                               "--watch", "0.2"], cwd=ROOT, stdout=subprocess.PIPE,
                              text=True) as process:
            shown = ""
            while shown.count("WORKER  ROLE") < 3:
                shown += process.stdout.readline()
            process.send_signal(signal.SIGINT)
            shown += process.stdout.read()
            self.assertEqual(process.wait(10), 0)
        self.assertNotIn("\x1b", shown)
