"""An operator on kopf with bugs that somebody made before, behind the variable BUG. Without a bug it is sound.

It is a subject of `setpoint prove`: the Store of examples/seeded, in the way Python operators are written. The numbers
of the bugs are those of examples/seeded/src/bug.rs.
"""

import datetime
import itertools
import os

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

BUG = int(os.environ.get("BUG", "0"))
# Bug 32: a counter of the process is shared by all objects.
SERIAL = itertools.count(1)
# Bug 5: the phase is in memory, and is persisted after the effect.
CREATING = set()
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

    @property
    def size(self):
        # Bug 37: the size is not passed on.
        return "10Gi" if BUG == 37 else self.spec["size"]

    def child(self, suffix, **fields):
        child = {"metadata": {"name": self.name + suffix}, **fields}
        if not (BUG == 29 and "spec" in fields and "ports" in fields["spec"]):
            kopf.append_owner_reference(child, owner=self.body)
        return child

    def secrets(self):
        read, create = self.core.read_namespaced_secret, self.core.create_namespaced_secret
        first = missing(read, self.name + "-internal", self.namespace)
        if first:
            CREATING.add(self.body["metadata"]["uid"])
        for suffix in ("-internal", "-users"):
            # Bug 1: the absence of the first Secret guards the creation of both.
            absent = first if BUG == 1 else missing(read, self.name + suffix, self.namespace)
            if absent:
                create(self.namespace, self.child(suffix, stringData={"user": self.name}))

    def roll_over(self):
        # Bug 40: the phase of a rollover is deduced from the first of two Secrets.
        wanted = self.spec.get("config", "")
        first = self.core.read_namespaced_secret(self.name + "-internal", self.namespace)
        if (first.metadata.annotations or {}).get("authority") == wanted:
            return
        patch = {"metadata": {"annotations": {"authority": wanted}}}
        for suffix in ("-internal", "-users"):
            self.core.patch_namespaced_secret(self.name + suffix, self.namespace, patch)

    def count(self):
        # Bug 9: a counter is incremented, then the generation for which it was.
        if self.status.get("observedGeneration") == self.body["metadata"]["generation"]:
            return
        core, name = self.core, self.name + "-serial"
        try:
            serial = int(core.read_namespaced_config_map(name, self.namespace).data["serial"])
        except ApiException as error:
            if error.status != 404:
                raise
            serial = 0
        body = self.child("-serial", data={"serial": str(serial + 1)})
        ensure(core.create_namespaced_config_map, core.patch_namespaced_config_map, body, self.namespace)

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
        body = self.child("-config", data={"settings": settings, "size": self.size})
        core = self.core
        before = None
        if BUG == 3 and not missing(core.read_namespaced_config_map, self.name + "-config", self.namespace):
            before = core.read_namespaced_config_map(self.name + "-config", self.namespace).data["settings"]
        ensure(core.create_namespaced_config_map, core.patch_namespaced_config_map, body, self.namespace)
        # Bug 3: the config is written first, and the mark that it needs a restart second.
        if before not in (None, settings):
            mark = {"metadata": {"annotations": {"config": settings}}}
            self.apps.patch_namespaced_stateful_set(self.name, self.namespace, mark)

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
        body["metadata"]["annotations"] = {"size": self.size}
        if BUG != 3:
            body["metadata"]["annotations"]["config"] = self.spec.get("config", "default")
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
    if BUG == 40:
        this.roll_over()
    if BUG == 9:
        this.count()
    if BUG == 32 and not status.get("note"):
        patch.status["note"] = str(next(SERIAL))
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
    if BUG != 5 or meta["uid"] in CREATING:
        patch.status["phase"] = "Running"
    patch.status["replicas"] = spec["replicas"]


@kopf.on.delete("stores", **RETRY)
def clean_up(name, namespace, spec, status, body, **_):
    Pass(name, namespace, spec, status, body).delete_claims([])


if BUG == 33:
    # Bug 33: a timer writes a timestamp, whether anything changed or not.
    @kopf.timer("stores", interval=0.5)
    def tell_time(patch, **_):
        patch.status["note"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
