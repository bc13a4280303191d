"""The commands of README.md, word for word, in the order of the page.

Each runs in a network namespace of its own (as root), so that the ports of the page are free; what
asks a package index runs outside of it.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import ROOT, descendants, wait_until


def blocks(text):
    """The commands of each fenced block with the language sh: here documents stay whole."""
    out = []
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        commands, lines = [], iter(block.splitlines())
        for line in lines:
            command = line
            document = re.search(r"<<'(\w+)'", line)
            while document and line != document[1]:
                line = next(lines)
                command += "\n" + line
            while command.endswith("\\") or command.count("'") % 2:
                command += "\n" + next(lines)
            if command.strip():
                commands.append(command)
        out.append(commands)
    return out


class Place:
    """Where commands run: the tree, in a network namespace whose only device is lo."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--fork", "--kill-child", "sh", "-c",
             "ip link set lo up && echo up && exec sleep 3600"],
            stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "up\n", "no network namespace; this test needs root"
        self.pid = descendants(self.holder.pid)[0]

    def command(self, text):
        if "pip install" in text or "fetch.sh" in text:
            return ["bash", "-c", text]
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "bash", "-c", text]

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Readme(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.close)
        self.folder = tempfile.TemporaryDirectory(prefix="baton-readme-")
        self.addCleanup(self.folder.cleanup)
        self.lasting = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for process, _ in reversed(self.lasting):
            if process.poll() is None:
                # bash and nsenter have become the program itself.
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(40)
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def start(self, text):
        log = os.path.join(self.folder.name, f"log{len(self.lasting)}")
        with open(log, "wb") as out:
            process = subprocess.Popen(self.place.command(text), cwd=ROOT, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=subprocess.STDOUT)
        self.lasting.append((process, log))

        def said():
            with open(log, errors="replace") as file:
                return file.read()
        return process, said

    def run_command(self, text, stdin=None, timeout=300):
        begin = time.monotonic()
        done = subprocess.run(self.place.command(text), cwd=ROOT, capture_output=True, text=True,
                              input=stdin, timeout=timeout)
        print(f"{time.monotonic() - begin:6.1f} s  {text.splitlines()[0]}")
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def check(self, text):
        """Runs one command of the page and looks whether it does what the page says."""
        if text == "./dev serve" or text.startswith("./dev serve "):
            process, said = self.start(text.split("#")[0].strip())
            wait_until(lambda: process.poll() is not None or "try: curl" in said()
                       or re.search(r"ready in .*http", said()) and "-> decode" in said(),
                       "the first answer", 120)
            self.assertIsNone(process.poll(), said())
            self.assertIn("-> decode d0", said())
        elif text.startswith("./dev test"):
            return  # this is one of its tests
        elif "baton up" in text:
            process, said = self.start(text.split("#")[0].strip())
            wait_until(lambda: process.poll() is not None or "ready in" in said(), "ready", 60)
            self.assertIsNone(process.poll(), said())
        elif "prometheus --config" in text:
            process, said = self.start(text)
            wait_until(lambda: process.poll() is not None or "ready to receive" in said(),
                       "Prometheus ready", 60)
            self.assertIsNone(process.poll(), said())
        elif "promtool query" in text:
            def answered():
                done = subprocess.run(self.place.command(text), cwd=ROOT, capture_output=True,
                                      text=True, timeout=10)
                return done.returncode == 0 and "=>" in done.stdout
            wait_until(answered, "a value in Prometheus", 60)
            print(f"        {text}")
        elif "baton chat" in text:
            out = self.run_command(text.split("#")[0], stdin="What is the capital of France?\n")
            self.assertRegex(out, r"\w+ \w+")
        elif text.startswith("curl") and '"stream": true' in text:
            out = self.run_command(text)
            events = [line[6:] for line in out.splitlines() if line.startswith("data: ")]
            self.assertEqual(events[-1], "[DONE]")
            self.assertGreater(len(events), 5)
            json.loads(events[0])
        else:
            self.assertNotEqual(self.run_command(text), None)

    def test_every_command(self):
        with open(os.path.join(ROOT, "README.md")) as file:
            page = [command for block in blocks(file.read()) for command in block]
        self.assertGreater(len(page), 8)
        for name in ("curl", "baton chat", "baton status", "openai", "prometheus --config"):
            self.assertTrue(any(name in command for command in page), name)
        for command in page:
            with self.subTest(command=command):
                self.check(command)
        serve, _ = self.lasting[0]
        serve.send_signal(signal.SIGINT)
        self.assertEqual(serve.wait(60), 0)


if __name__ == "__main__":
    sys.exit("run tests/e2e/run.py readme")
