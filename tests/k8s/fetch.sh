#!/usr/bin/env bash
# fetch.sh: puts kubernetes-validate, whose schemas the test of deploy/k8s needs, into
# build/tools/kubernetes_validate, from the Python package index. Does nothing if it is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=../../build/tools/kubernetes_validate
# The list of versions is kept beside what it brought.
if cmp -s requirements.txt "$target/requirements.txt"; then
  exit 0
fi
rm -rf "$target" "$target.part"
mkdir -p "$target.part"
if ! python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
  --only-binary :all: --root-user-action ignore --target "$target.part" --requirement requirements.txt; then
  rm -rf "$target.part"
  echo "dev: cannot fetch $(sed -n 's/^\(kubernetes-validate[^ ]*\).*/\1/p' requirements.txt) from the" \
    "Python package index; the test of deploy/k8s needs it" >&2
  exit 1
fi
cp requirements.txt "$target.part/"
mv "$target.part" "$target"
