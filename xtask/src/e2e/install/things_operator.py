"""An operator on kopf: each Thing gets a ConfigMap with its text."""

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    kubernetes.config.load_kube_config()
    settings.posting.enabled = False


@kopf.on.create("example.org", "v1", "things")
def create(spec, name, namespace, **_):
    body = {"metadata": {"name": name}, "data": {"text": spec["text"]}}
    kopf.adopt(body)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
