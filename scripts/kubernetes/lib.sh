# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: versions, the cache, and messages.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VERSION=v1.36.3 ETCD=3.6.8-0 COREDNS=v1.14.2 PAUSE=3.10.2 # what kubeadm of that version names
KIND=v0.33.0
CACHE=${DRYDOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/drydock}
BIN=$CACHE/kubernetes-$VERSION/bin
ENGINE=$CACHE/engine
PATH=$ENGINE/bin:$PATH

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# alone NAME COMMAND…: one process at a time on this machine, so that two runs share what one builds. What COMMAND leaves in the
# background must close descriptor 9, or the lock stays.
alone() {
  local name=$1
  shift
  mkdir -p "$CACHE"
  exec 9> "$CACHE/$name.lock"
  flock --nonblock 9 || {
    say "another process works on $name: waiting for it, at most 20 minutes"
    flock --timeout 1200 9 || die "$name is still being worked on after 20 minutes: see who holds $CACHE/$name.lock"
  }
  "$@"
  exec 9>&-
}

# on_debian WHAT: ends with a sentence where packages of Debian cannot be used
on_debian() {
  [ "$(id -u)" = 0 ] || die "$1 needs root here; with a Docker engine and kind of your own it is not needed"
  if ! grep -qs '^ID=debian' /etc/os-release || ! command -v apt-get > /dev/null; then
    die "$1 is made from Debian's packages and this is no Debian; install Docker and kind, and leave this script out"
  fi
}

# debian SUITE COMMAND…: apt-get against another suite of Debian, apart from the system's own lists
debian() {
  local suite=$1 root=$CACHE/apt/$1 mirror
  shift
  mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  [ -n "$mirror" ] || mirror=$(awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' /etc/apt/sources.list)
  if [ ! -e "$root/sources.list" ]; then
    mkdir -p "$root"/{lists,cache/archives}/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$root/sources.list"
  fi
  apt-get -qq -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$root/lists" \
    -o Dir::Cache="$root/cache" -o APT::Sandbox::User=root "$@"
}

# unpack SUITE FOLDER PACKAGE…: packages of that suite unpacked into a folder, nothing installed
unpack() {
  local suite=$1 into=$2 packages
  shift 2
  packages=$(mktemp -d)
  mkdir -p "$into"
  debian "$suite" update
  (cd "$packages" && debian "$suite" download "${@/%//$suite}")
  for package in "$packages"/*.deb; do dpkg -x "$package" "$into"; done
  rm -r "$packages"
}

# install PACKAGE…: those of this system that are missing
install() {
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" > /dev/null
}
