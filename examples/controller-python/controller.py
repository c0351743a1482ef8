"""A controller of widgets with kopf: an example of a controller that drydock tests.

A widget of size 3 named `w` gets the ConfigMaps `w-0`, `w-1` and `w-2`. With BUG=1 the controller has a planted bug: it
trusts the number of parts in the status.
"""

import os

import kopf
from kubernetes import client, config

LABEL = "example.com/widget"
PERIOD = 0.3  # seconds between two passes over a widget
RETRY = 0.2  # seconds
BUG = os.environ.get("BUG") == "1"


@kopf.on.startup()
def start(settings, **_):
    config.load_kube_config()
    settings.posting.enabled = False


# The spec and the status are those of the last event that kopf has received: like every cache they may be old.
@kopf.timer("example.com", "v1", "widgets", interval=PERIOD, backoff=RETRY)
def reconcile(spec, status, name, namespace, body, patch, **_):
    size, known = spec["size"], status.get("parts", 0)
    if BUG and known <= size:
        # The status does not say what exists: it may be old, or its last write may have failed. A name that is taken
        # belongs to another widget, so it takes the next one.
        number = known
        for _ in range(known, size):
            while not create(f"{name}-{number}", namespace, body):
                number += 1
            number += 1
    else:
        # What the API server has, not what the status says.
        core = client.CoreV1Api()
        parts = core.list_namespaced_config_map(namespace, label_selector=f"{LABEL}={name}").items
        existing = {part.metadata.name for part in parts}
        wanted = {f"{name}-{number}" for number in range(size)}
        for part in sorted(wanted - existing):
            create(part, namespace, body)
        for part in sorted(existing - wanted):
            ignore(404, core.delete_namespaced_config_map, part, namespace)
    if known != size:
        patch.status["parts"] = size


def create(part, namespace, widget):
    """Creates a part; returns whether it did not exist."""
    owner = {key: widget[key] for key in ["apiVersion", "kind"]}
    owner |= {key: widget["metadata"][key] for key in ["name", "uid"]} | {"controller": True}
    labels = {LABEL: widget["metadata"]["name"]}
    metadata = {"name": part, "labels": labels, "ownerReferences": [owner]}
    return ignore(409, client.CoreV1Api().create_namespaced_config_map, namespace, {"metadata": metadata})


def ignore(code, call, *arguments):
    """Calls the API; returns whether it did not answer with this code."""
    try:
        call(*arguments)
        return True
    except client.ApiException as error:
        if error.status != code:
            raise
        return False
