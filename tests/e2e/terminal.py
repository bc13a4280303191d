"""A program on a pseudo terminal: what somebody who sits there types and sees."""

import contextlib
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from fcntl import ioctl

from cluster import BIN, ROOT, wait_until

CTRL_C = "\x03"
CTRL_D = "\x04"


class Terminal:
    """`with Terminal("chat", "--url", url) as terminal:` runs `baton chat --url URL`."""

    def __init__(self, *args, rows=40, columns=100):
        self._args = [os.path.join(BIN, "baton"), *args]
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self.shown = ""  # all of it
        self._seen = 0  # how much of it was expected

    def __enter__(self):
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.environ.update(TERM="xterm", LANG="C.UTF-8")
            os.execv(self._args[0], self._args)
        ioctl(self._fd, termios.TIOCSWINSZ, self._size)
        return self

    def __exit__(self, *_):
        if self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def type(self, text):
        os.write(self._fd, text.encode())

    def _read(self, timeout):
        """False at the end."""
        if not select.select([self._fd], [], [], timeout)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # how Linux tells that nobody has the other side any more
            data = b""
        self.shown += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, timeout=30):
        """The next match of the pattern behind what was expected last."""
        end = time.monotonic() + timeout
        while True:
            match = re.compile(pattern).search(self.shown, self._seen)
            if match:
                self._seen = match.end()
                return match
            if not self._read(0.1) or time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not come; the terminal showed:\n"
                                     f"{self.shown[self._seen:]}")

    def expect_prompt(self, timeout=30):
        """The prompt of a line editor, which takes keys only a moment after it is shown."""
        self.expect(r"[>|] $", timeout)
        wait_until(lambda: not termios.tcgetattr(self._fd)[3] & termios.ICANON,
                   "the terminal gives keys and not lines", timeout)

    def wait_exit(self, timeout=10):
        """The exit status, once the program has ended by itself."""
        end = time.monotonic() + timeout
        while self._read(0.1):
            if time.monotonic() > end:
                raise AssertionError(f"it still runs; the terminal showed:\n{self.shown}")
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)
