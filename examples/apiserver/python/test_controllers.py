"""What a control plane's own controllers do: envtest does neither."""

from kubernetes import client, watch


def wait_for_deletion(created, listing, *arguments):
    """Waits until the object is deleted. The changes start with its creation, so that none is missed."""
    name, version = created.metadata.name, created.metadata.resource_version
    for event in watch.Watch().stream(listing, *arguments, resource_version=version, timeout_seconds=30):
        if event["type"] == "DELETED" and event["object"].metadata.name == name:
            return
    raise AssertionError(f"{name} was not deleted")


def test_garbage_is_collected(cluster):
    core = client.CoreV1Api(cluster)
    owner = core.create_namespaced_config_map("default", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    metadata = {"name": "owned", "ownerReferences": [reference]}
    owned = core.create_namespaced_config_map("default", {"metadata": metadata})
    core.delete_namespaced_config_map("owner", "default")
    wait_for_deletion(owned, core.list_namespaced_config_map, "default")


def test_namespaces_are_deleted(cluster):
    core = client.CoreV1Api(cluster)
    one = core.create_namespace({"metadata": {"name": "one"}})
    core.create_namespaced_config_map("one", {"metadata": {"name": "content"}})
    core.delete_namespace("one")
    wait_for_deletion(one, core.list_namespace)
