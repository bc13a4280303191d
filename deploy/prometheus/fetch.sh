#!/usr/bin/env bash
# fetch.sh [FOLDER]: puts `prometheus` and `promtool` of Debian's package into FOLDER (default:
# build/tools/prometheus), without installing it: the package would start a service. Needs no root
# once apt has package lists. Does nothing, and asks nobody, if they are there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:-build/tools/prometheus}

if [ -x "$folder/prometheus" ] && [ -x "$folder/promtool" ]; then
  exit 0
fi
mkdir -p "$folder"
folder=$(realpath "$folder")
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The download user of apt may not enter our folders; apt checks the hash all the same.
download=(apt-get download --quiet -o APT::Sandbox::User=root prometheus)
if ! (cd "$work" && "${download[@]}") >"$work/log" 2>&1; then
  # The package lists of a new machine are empty or old.
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" apt-get update >>"$work/log" 2>&1 || true
  if ! (cd "$work" && "${download[@]}") >>"$work/log" 2>&1; then
    tail -3 "$work/log" >&2
    echo "prometheus/fetch.sh: cannot download Debian's package prometheus; put the programs" \
      "prometheus and promtool (2.42 or later) into $folder yourself" >&2
    exit 1
  fi
fi
dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb |
  tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool ./usr/share/doc/prometheus/copyright
mv "$work/usr/share/doc/prometheus/copyright" "$folder/"
# Renamed into place, so that a half-written program never has the name.
mv "$work/usr/bin/promtool" "$work/usr/bin/prometheus" "$folder/"
