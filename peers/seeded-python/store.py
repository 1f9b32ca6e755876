"""An operator on kopf with bugs that somebody made before, behind the variable BUG. Without a bug it is sound.

It is a subject of `setpoint prove`: the Store of examples/seeded, in the way Python operators are written. The numbers
of the bugs are those of examples/seeded/src/bug.rs.
"""

import os

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

BUG = int(os.environ.get("BUG", "0"))
# After an error a handler runs again. The default of kopf is a minute.
RETRY = {"errors": kopf.ErrorsMode.TEMPORARY, "backoff": 1}


@kopf.on.startup()
def start(settings: kopf.OperatorSettings, **_):
    settings.persistence.finalizer = "seeded.example.org/claims"
    config.load_kube_config()


def missing(read, name, namespace):
    try:
        read(name, namespace)
        return False
    except ApiException as error:
        if error.status == 404:
            return True
        raise


def ensure(create, patch, body, namespace):
    """Creates an object, or merges the wanted fields into it."""
    try:
        create(namespace, body)
    except ApiException as error:
        if error.status != 409:
            raise
        patch(body["metadata"]["name"], namespace, body)


def forget(delete, name, namespace):
    try:
        delete(name, namespace)
    except ApiException as error:
        if error.status != 404:
            raise


class Pass:
    """One pass over one Store."""

    def __init__(self, name, namespace, spec, status, body):
        self.name, self.namespace, self.spec, self.status, self.body = name, namespace, spec, status, body
        self.core, self.apps = client.CoreV1Api(), client.AppsV1Api()

    def child(self, suffix, **fields):
        child = {"metadata": {"name": self.name + suffix}, **fields}
        if not (BUG == 29 and "spec" in fields and "ports" in fields["spec"]):
            kopf.append_owner_reference(child, owner=self.body)
        return child

    def secrets(self):
        read, create = self.core.read_namespaced_secret, self.core.create_namespaced_secret
        first = missing(read, self.name + "-internal", self.namespace)
        for suffix in ("-internal", "-users"):
            # Bug 1: the absence of the first Secret guards the creation of both.
            absent = first if BUG == 1 else missing(read, self.name + suffix, self.namespace)
            if absent:
                create(self.namespace, self.child(suffix, stringData={"user": self.name}))

    def member(self):
        # Bug 8: a child with a generated name, whose name the status keeps.
        if BUG != 8 or self.status.get("note"):
            return None
        body = self.child("", data={})
        body["metadata"] = {**body["metadata"], "name": None, "generateName": self.name + "-member-"}
        return self.core.create_namespaced_config_map(self.namespace, body).metadata.name

    def config(self):
        # Bug 39: an optional field is taken for granted.
        settings = self.spec["config"] if BUG == 39 else self.spec.get("config", "default")
        body = self.child("-config", data={"settings": settings, "size": self.spec["size"]})
        core = self.core
        ensure(core.create_namespaced_config_map, core.patch_namespaced_config_map, body, self.namespace)

    def service(self):
        labels = dict(self.spec.get("labels", {}))
        if BUG != 35:
            # A merge removes only what is null. Bug 35 forgets that.
            try:
                before = self.core.read_namespaced_service(self.name, self.namespace).metadata.labels or {}
            except ApiException as error:
                if error.status != 404:
                    raise
                before = {}
            labels = {**{key: None for key in before}, **labels}
        body = self.child("", spec={"selector": {"store": self.name}, "ports": [{"port": 80}]})
        created = {**body, "metadata": {**body["metadata"], "labels": self.spec.get("labels", {})}}
        body["metadata"]["labels"] = labels
        if missing(self.core.read_namespaced_service, self.name, self.namespace):
            self.core.create_namespaced_service(self.namespace, created)
        else:
            self.core.patch_namespaced_service(self.name, self.namespace, body)

    def stateful_set(self):
        labels = {"store": self.name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "store"}]}}
        spec = {
            "serviceName": self.name, "replicas": self.spec["replicas"],
            "selector": {"matchLabels": labels}, "template": template,
        }
        body = self.child("", spec=spec)
        body["metadata"]["annotations"] = {"size": self.spec["size"]}
        apps = self.apps
        ensure(apps.create_namespaced_stateful_set, apps.patch_namespaced_stateful_set, body, self.namespace)

    def noted_size(self):
        try:
            found = self.apps.read_namespaced_stateful_set(self.name, self.namespace)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return (found.metadata.annotations or {}).get("size")

    def claims(self):
        read, create = (
            self.core.read_namespaced_persistent_volume_claim,
            self.core.create_namespaced_persistent_volume_claim,
        )
        wanted = [f"{self.name}-{ordinal}" for ordinal in range(self.spec["replicas"])]
        for name in wanted:
            if missing(read, name, self.namespace):
                create(self.namespace, {
                    "metadata": {"name": name, "labels": {"store": self.name}},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                })
        self.delete_claims(wanted)

    def delete_claims(self, wanted):
        core = self.core
        found = core.list_namespaced_persistent_volume_claim(self.namespace, label_selector=f"store={self.name}")
        for claim in found.items:
            if claim.metadata.name not in wanted and not claim.metadata.deletion_timestamp:
                forget(core.delete_namespaced_persistent_volume_claim, claim.metadata.name, self.namespace)

    def monitor(self):
        core = self.core
        if self.spec.get("monitor"):
            body = self.child("-monitor", data={"target": self.name})
            ensure(core.create_namespaced_config_map, core.patch_namespaced_config_map, body, self.namespace)
        elif BUG != 36:
            # Bug 36: the monitor is made and never deleted.
            forget(core.delete_namespaced_config_map, self.name + "-monitor", self.namespace)


@kopf.on.create("stores", **RETRY)
@kopf.on.update("stores", **RETRY)
@kopf.on.resume("stores", **RETRY)
def reconcile(name, namespace, spec, status, body, meta, patch, **_):
    this = Pass(name, namespace, spec, status, body)
    this.secrets()
    note = this.member()
    if note:
        patch.status["note"] = note
    # Bug 2: the StatefulSet's note of the size is written first, and says that the config has been written.
    if BUG == 2 and this.noted_size() is not None:
        if this.noted_size() != spec["size"]:
            this.stateful_set()
            this.config()
    else:
        this.config()
    this.service()
    this.stateful_set()
    this.claims()
    this.monitor()
    patch.status["observedGeneration"] = meta["generation"]
    patch.status["phase"] = "Running"
    patch.status["replicas"] = spec["replicas"]


@kopf.on.delete("stores", **RETRY)
def clean_up(name, namespace, spec, status, body, **_):
    Pass(name, namespace, spec, status, body).delete_claims([])
