"""The wheel as its users see it."""

import os
import subprocess
import sys
import time

import kubernetes
import pytest
import setpoint

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def eventually(look, within=60.0):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            return look()
        except kubernetes.client.ApiException:
            time.sleep(0.05)
    return look()


def test_an_operator_on_kopf_works(setpoint_cluster, tmp_path):
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    setpoint_cluster.load(tmp_path)
    environment = {**os.environ, "KUBECONFIG": setpoint_cluster.kubeconfig}
    words = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", "things_operator.py"]
    operator = subprocess.Popen(words, env=environment)
    try:
        client = kubernetes.config.new_client_from_config(setpoint_cluster.kubeconfig)
        thing = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"text": "Hi"}}
        things = kubernetes.client.CustomObjectsApi(client)
        things.create_namespaced_custom_object("example.org", "v1", "default", "things", thing)
        core = kubernetes.client.CoreV1Api(client)
        assert eventually(lambda: core.read_namespaced_config_map("one", "default")).data == {"text": "Hi"}
    finally:
        operator.terminate()
        operator.wait()


def test_each_cluster_is_new(setpoint_cluster, setpoint_session_cluster):
    assert setpoint_cluster.server != setpoint_session_cluster.server
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(setpoint_cluster.kubeconfig))
    assert [node.metadata.name for node in eventually(core.list_node).items] in ([], ["setpoint-0"])


def test_a_cluster_that_does_not_start_says_why():
    with pytest.raises(setpoint.ClusterError, match='no controller is called "nope"'):
        setpoint.Cluster(args=["--only", "nope"]).start()


def test_a_cluster_ends_with_its_block():
    with setpoint.Cluster() as cluster:
        process = cluster._process
        assert os.path.exists(cluster.kubeconfig)
    assert process.poll() == 0 and not os.path.exists(cluster.kubeconfig)


def test_a_cluster_ends_with_a_python_that_is_killed():
    script = "import os, setpoint; print(setpoint.Cluster().start()._process.pid, flush=True); os.kill(os.getpid(), 9)"
    pid = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout
    deadline = time.monotonic() + 30
    # It is no child of this process, so it can only be looked for.
    while os.path.exists(f"/proc/{pid.strip()}"):
        assert time.monotonic() < deadline, "the cluster still runs"
        time.sleep(0.05)
