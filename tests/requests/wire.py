"""One client connection, read as strictly as HTTP/1.1 is written."""

import re
import socket
import struct
import time
from dataclasses import dataclass, field

MOST_BODY = 256 * 1024 * 1024
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9]) [ -~]*")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")
LENGTH = re.compile(rb"[0-9]{1,12}")
CHUNK = re.compile(rb"[0-9a-fA-F]{1,8}")


class Wrong(Exception):
    """The server did what it must not do; the text says what."""


class Silent(Exception):
    """Nothing came before the deadline."""


@dataclass
class Answer:
    status: int = 0
    minor: int = 1
    fields: dict = field(default_factory=dict)  # by name in lower case
    body: bytes = b""
    closes: bool = False  # the server says that this is the last answer


class Connection:
    def __init__(self, address, tls=None, slow=False, timeout=30.0):
        self._socket = socket.socket()
        if slow:
            # A window below two segments of the loopback makes the kernel wait for its timers.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self._socket.settimeout(timeout)
        self._socket.connect(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls, self.slow = tls is not None, slow
        if self.tls:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
        self._buffer = b""
        self.ended = False  # the server sends nothing more
        self.reset = False

    # ---- sending

    def send(self, data):
        """False when the server has closed already."""
        try:
            self._socket.settimeout(30)
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def end_sending(self):
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self, reset=False):
        try:
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.close()
        except OSError:
            pass

    # ---- receiving

    def _more(self, deadline):
        """Reads once. False at the end of what the server sends."""
        if self.ended:
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            raise Silent()
        self._socket.settimeout(left)
        if self.slow:
            time.sleep(0.0005)
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError:
            raise Silent() from None
        except OSError:
            data, self.reset = b"", True
        self.ended = not data
        self._buffer += data
        return bool(data)

    def _until(self, mark, deadline, most):
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > most:
                raise Wrong(f"no {mark!r} within {most} bytes of an answer: {self._buffer[:200]!r}")
            if not self._more(deadline):
                raise Wrong(f"the connection ended inside an answer, after {self._buffer[:200]!r}")
        out, self._buffer = self._buffer[:at], self._buffer[at + len(mark):]
        return out

    def _exactly(self, count, deadline):
        pieces, got = [self._buffer], len(self._buffer)
        self._buffer = b""
        while got < count:
            if not self._more(deadline):
                raise Wrong(f"the connection ended {count - got} bytes before the end of a body")
            pieces.append(self._buffer)
            got += len(self._buffer)
            self._buffer = b""
        data = b"".join(pieces)
        self._buffer = data[count:]
        return data[:count]

    def wait_bytes(self, count, deadline):
        """Until so many bytes came or the server has ended."""
        while len(self._buffer) < count and self._more(deadline):
            pass

    def expect_continue(self, deadline):
        head = self._until(b"\r\n\r\n", deadline, 1024)
        if head != b"HTTP/1.1 100 Continue":
            raise Wrong(f"{head!r} to a client that waits to send its body")

    def answer(self, method, deadline):
        """The next final answer, None if the connection ended before it began."""
        while True:
            if not self._buffer and not self._more(deadline):
                return None
            head = self._until(b"\r\n\r\n", deadline, 65536)
            answer = self._head(head)
            if answer.status >= 200:
                break
            if answer.status != 100:
                raise Wrong(f"an interim answer that nobody asked for: {head!r}")
        self._body(answer, method, deadline)
        return answer

    @staticmethod
    def _head(head):
        lines = head.split(b"\r\n")
        status = STATUS_LINE.fullmatch(lines[0])
        if not status:
            raise Wrong(f"not a status line: {lines[0][:200]!r}")
        answer = Answer(int(status[2]), int(status[1]))
        for line in lines[1:]:
            known = FIELD.fullmatch(line)
            if not known:
                raise Wrong(f"not a header field: {line[:200]!r}")
            name = known[1].decode().lower()
            if name in answer.fields:
                raise Wrong(f"the field {name} comes twice: {head!r}")
            answer.fields[name] = known[2].decode("latin-1").strip()
        return answer

    def _body(self, answer, method, deadline):
        fields = answer.fields
        connection = fields.get("connection", "").lower()
        answer.closes = connection == "close" or (answer.minor == 0 and connection != "keep-alive")
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if coding is not None and length is not None:
            raise Wrong("an answer has both Content-Length and Transfer-Encoding")
        if method == "HEAD" or answer.status in (204, 304):
            return
        if coding is not None:
            if coding != "chunked" or answer.minor == 0:
                raise Wrong(f"Transfer-Encoding {coding} in HTTP/1.{answer.minor}")
            self._chunks(answer, deadline)
        elif length is not None:
            if not LENGTH.fullmatch(length.encode()) or int(length) > MOST_BODY:
                raise Wrong(f"Content-Length {length!r}")
            answer.body = self._exactly(int(length), deadline)
        else:
            if not answer.closes:
                raise Wrong("a body without an end, and the connection goes on")
            while self._more(deadline):
                pass
            answer.body, self._buffer = self._buffer, b""

    def _chunks(self, answer, deadline):
        pieces = []
        while True:
            size = self._until(b"\r\n", deadline, 64)
            if not CHUNK.fullmatch(size):
                raise Wrong(f"not the size of a chunk: {size!r}")
            count = int(size, 16)
            piece = self._exactly(count + 2, deadline)
            if piece[-2:] != b"\r\n":
                raise Wrong(f"a chunk of {count} bytes ends with {piece[-2:]!r}")
            if count == 0:
                break
            pieces.append(piece[:-2])
        answer.body = b"".join(pieces)

    def expect_end(self, deadline):
        """The server closes, and says nothing more before."""
        while not self._buffer and self._more(deadline):
            pass
        if self._buffer:
            raise Wrong(f"bytes after the last answer: {self._buffer[:200]!r}")
