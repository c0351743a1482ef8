# shellcheck shell=bash
# Sourced by the checks that need tools which may be missing: Go, Docker, a real Kubernetes, cargo-deny.
set -Eeuo pipefail
trap 'printf "failed with %s: line %s of %s: %s\n" "$?" "$LINENO" "$0" "$BASH_COMMAND" >&2' ERR
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# skip WHY: ends the check as skipped, because this machine cannot run it
skip() {
  printf 'skipped: %s\n' "$*"
  exit "$SKIPPED"
}
SKIPPED=77

# programs: kube-apiserver, etcd and kind, from KUBEBUILDER_ASSETS or built once per machine
programs() {
  [ -n "${KUBEBUILDER_ASSETS:-}" ] && return
  command -v go > /dev/null || skip 'neither KUBEBUILDER_ASSETS names a kube-apiserver nor is there Go to build one'
  scripts/kubernetes/build > /dev/null
}
