#!/usr/bin/env python3
"""The package holds what it says: its programs start in a root folder that has nothing but its files
and the libraries of its list, and its bytes are the same when it is made again."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from container import PATH, ROOT, Container, call, in_namespaces, loopback_up

BUILD = ROOT / "build/release"
MODEL = ROOT / "models/smollm2-135m-instruct-q4_1.gguf"
TOP = "/opt/baton"


def make(out):
    """The package's path, freshly made below `out`."""
    subprocess.run([sys.executable, ROOT / "deploy/package/make.py", BUILD, out], check=True)
    return next(path for path in pathlib.Path(out).glob("baton-*-linux-x86_64.tar.gz"))


def unpack(archive, container):
    """Puts the package's one folder at TOP."""
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].split("/")[0]
    container.inside("/opt").mkdir()
    call("tar", "-C", container.inside("/opt"), "-xf", archive)
    container.inside(f"/opt/{top}").rename(container.inside(TOP))


def install_libraries(container):
    """The files that libraries.txt names, and the links that every Debian has at its top."""
    for name in ("lib", "lib64"):
        container.inside(f"/usr/{name}").mkdir(parents=True, exist_ok=True)
        container.inside(f"/{name}").symlink_to(f"usr/{name}")
    for line in container.inside(f"{TOP}/libraries.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        path = line.split()[0]
        container.inside(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, container.inside(path))
        container.inside(path).chmod(0o755)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.out = tempfile.TemporaryDirectory()
        cls.archive = make(cls.out.name)
        cls.addClassCleanup(cls.out.cleanup)

    def test_equal_inputs_give_equal_bytes(self):
        first = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        self.assertEqual(hashlib.sha256(make(self.out.name).read_bytes()).hexdigest(), first)

    def test_it_holds_programs_cluster_files_and_licences(self):
        with tarfile.open(self.archive) as tar:
            members = {name.split("/", 1)[1]: tar.getmember(name)
                       for name in tar.getnames() if "/" in name}
        for program in ("baton", "baton-router", "baton-prefill", "baton-decode"):
            self.assertEqual(members[f"bin/{program}"].mode, 0o755)
        for name in ("LICENSE", "INSTALL.md", "libraries.txt", "packages.txt", "deploy/local.yaml",
                     "licences/README.txt", "licences/libzmq5.txt", "licences/libucx0.txt",
                     "licences/libboost1.81-dev.txt", "docs/operations.md"):
            self.assertIn(name, members)
        self.assertEqual({(m.uid, m.gid, m.mtime) for m in members.values()}, {(0, 0, 1577836800)})

    def test_its_documents_link_only_to_what_it_holds(self):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(self.archive) as tar:
            tar.extractall(folder)
            pages = sorted(pathlib.Path(folder).rglob("*.md"))
            self.assertGreater(len(pages), 10)
            for page in pages:
                text = page.read_text(encoding="utf-8")
                for link in re.findall(r"\]\((?!https:)([^)#:]+)[^)]*\)", text):
                    self.assertTrue((page.parent / link).exists(), f"{page}: {link}")

    def test_its_list_of_libraries_is_enough(self):
        with Container("package") as container:
            unpack(self.archive, container)
            install_libraries(container)
            container.mount_system()
            container.mount_sys()
            container.tmpfs("/tmp", "mode=1777")
            container.bind(MODEL.resolve().parent, "/models", read_only=True)
            container.seal()
            for program in ("baton", "baton-router", "baton-prefill", "baton-decode"):
                said = self.run_inside(container, f"{TOP}/bin/{program}", "--version")
                self.assertIn(program, said)
            said = self.run_inside(
                container, f"{TOP}/bin/baton", "up", f"{TOP}/deploy/local.yaml", "--model",
                f"/models/{MODEL.resolve().name}", "--port", "0", "--once", "--first-answer")
            self.assertRegex(said, r"prefill p0 .*-> decode d0")

    def run_inside(self, container, *command):
        done = subprocess.run(["chroot", container.path, *command], env={"PATH": PATH},
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


if __name__ == "__main__":
    in_namespaces("--net")
    loopback_up()
    unittest.main(verbosity=2)
