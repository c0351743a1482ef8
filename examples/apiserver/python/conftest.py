"""A Kubernetes API server for tests."""

import subprocess

import pytest
from kubernetes import config


@pytest.fixture(scope="session")
def cluster():
    """A client of a server that ends with the tests."""
    command = ["drydock", "apiserver", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        kubeconfig = server.stdout.readline().strip().removeprefix("export KUBECONFIG=")
        yield config.new_client_from_config(kubeconfig)
        server.stdin.close()
