"""A controller of widgets with kopf: an example of a controller that drydock tests.

A widget of size 3 named `w` gets the ConfigMaps `w-0`, `w-1` and `w-2`. With BUG=1 the controller has a planted bug: it
trusts the number of parts in the status.
"""

import os

import kopf
from kubernetes import client, config

LABEL = "example.com/widget"
RETRY = 0.2  # seconds
BUG = os.environ.get("BUG") == "1"


@kopf.on.startup()
def start(settings, **_):
    config.load_kube_config()
    settings.posting.enabled = False


@kopf.on.resume("example.com", "v1", "widgets", backoff=RETRY)
@kopf.on.create("example.com", "v1", "widgets", backoff=RETRY)
@kopf.on.update("example.com", "v1", "widgets", field="spec", backoff=RETRY)
def reconcile(spec, status, name, namespace, body, patch, **_):
    size, known = spec["size"], status.get("parts", 0)
    if BUG and known < size:
        # The status does not say what exists: its last write may have failed. A name that is taken belongs to another
        # widget, so it takes the next one.
        number = known
        for _ in range(known, size):
            while not create(f"{name}-{number}", namespace, body):
                number += 1
            number += 1
    else:
        wanted = [f"{name}-{number}" for number in range(size)]
        for part in wanted:
            create(part, namespace, body)
        core = client.CoreV1Api()
        # What the API server has, not what the status says.
        for part in core.list_namespaced_config_map(namespace, label_selector=f"{LABEL}={name}").items:
            if part.metadata.name not in wanted:
                ignore(404, core.delete_namespaced_config_map, part.metadata.name, namespace)
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
