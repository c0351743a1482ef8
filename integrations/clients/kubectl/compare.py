#!/usr/bin/env python3
"""compare.py KUBECTL REAL EMBEDDED: runs the invocations of invocations.txt on two servers, and compares what kubectl prints.

REAL and EMBEDDED are kubeconfigs. Exits with 1 if an invocation differs that known.txt does not name, or if one that it names is equal.
"""

import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
NAMESPACE = "clients-kubectl"
# How long a line that starts with `until` is repeated, in seconds.
LIMIT = 30

# What differs between two runs of one server, and its replacement.
VARYING = [
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( [+-]\d{4}|Z)", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"(resource ?version\\?\"?: *\\?\"?)\d+", r"\1REVISION"),
    (r"https://(127\.0\.0\.1|localhost):\d+", "SERVER"),
    (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"\b(web|made|manual|work|nightly)(-[a-z0-9]{6,10})?-[a-z0-9]{5}\b", r"\1-SUFFIX"),
    (r"\b(web|made)-[a-z0-9]{8,10}\b", r"\1-HASH"),
    (r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1"),
    (r" \(x\d+ over \w+\)", ""),
    (r"\b\d+(ms|s|m\d*s?)\b", "AGE"),
    (r"[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
    (r"[ \t]+", " "),
    (r"-{3,}", "---"),
]

# kubectl logs that a watch ended early. Whether it does depends on timing.
CLIENT_LOG = re.compile("LOG reflector.go")


def run(kubectl, kubeconfig, arguments):
    """The exit code and the output of an invocation."""
    environment = dict(os.environ, KUBECONFIG=kubeconfig, KUBE_EDITOR="true", KUBERC="off")
    command = [kubectl, f"--namespace={NAMESPACE}", *arguments]
    done = subprocess.run(command, cwd=HERE, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def masked(outcome):
    """The lines of an outcome without what varies. JSON has no order of members."""
    code, output, errors = outcome
    try:
        output = json.dumps(json.loads(output), indent=1, sort_keys=True)
    except ValueError:
        pass
    lines = [f"exit code {code}"]
    for text in (output, errors):
        for pattern, replacement in VARYING:
            text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
        lines += [line.strip() for line in text.splitlines() if not CLIENT_LOG.match(line)]
    return lines


def until(kubectl, kubeconfig, arguments):
    """Repeats an invocation until it succeeds."""
    end = time.monotonic() + LIMIT
    while (outcome := run(kubectl, kubeconfig, arguments))[0] != 0:
        if time.monotonic() > end:
            print(f"--- kubectl {shlex.join(arguments)} does not succeed on {kubeconfig}: {outcome[2]}")
            return
        time.sleep(0.1)


def known():
    """The invocations that are known to differ."""
    lines = (HERE / "known.txt").read_text().splitlines()
    return {line.split(" # ")[0] for line in lines if line and not line.startswith("#")}


def compare(kubectl, kubeconfigs, both):
    """Runs the invocations, and returns how many there are, how many are not as expected, and how many are known to differ."""
    expected, unexpected, compared = known(), 0, 0
    for line in (HERE / "invocations.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("until "):
            arguments = shlex.split(line.removeprefix("until "))
            list(both(lambda kubeconfig: until(kubectl, kubeconfig, arguments), kubeconfigs))
            continue
        arguments = shlex.split(line)
        real, embedded = both(lambda kubeconfig: masked(run(kubectl, kubeconfig, arguments)), kubeconfigs)
        compared += 1
        differs = real != embedded
        if differs and line not in expected:
            unexpected += 1
            print(f"--- kubectl {line}")
            print("\n".join(list(difflib.unified_diff(real, embedded, "real", "embedded", n=0, lineterm=""))[2:]))
        if not differs and line in expected:
            unexpected += 1
            print(f"--- kubectl {line}\nis equal, although known.txt names it")
    return compared, unexpected, len(expected)


def main():
    kubectl, *kubeconfigs = sys.argv[1:]

    def namespace(verb):
        for kubeconfig in kubeconfigs:
            command = [kubectl, f"--kubeconfig={kubeconfig}", verb, "namespace", NAMESPACE]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    namespace("create")
    with concurrent.futures.ThreadPoolExecutor(len(kubeconfigs)) as pool:
        compared, unexpected, differing = compare(kubectl, kubeconfigs, pool.map)
    namespace("delete")
    print(f"{compared} invocations, {compared - unexpected} as expected, {differing} known to differ")
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
