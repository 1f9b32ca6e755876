package main

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conditions are those of others and Ready.
func (p *pass) conditions() []any {
	before, _, _ := unstructured.NestedSlice(p.store.Object, "status", "conditions")
	var after []any
	for _, condition := range before {
		if fields, ok := condition.(map[string]any); ok && fields["type"] != "Ready" {
			after = append(after, condition)
		}
	}
	return append(after, map[string]any{
		"type": "Ready", "status": "True", "reason": "ChildrenExist", "message": "",
		// The time must be the same in each pass.
		"lastTransitionTime": p.store.GetCreationTimestamp().UTC().Format(time.RFC3339),
	})
}

func (p *pass) status() error {
	wanted := map[string]any{
		"observedGeneration": p.store.GetGeneration(), "phase": "Running", "replicas": p.replicas(),
		"conditions": p.conditions(),
	}
	switch p.bug {
	case 4:
		return p.twoWrites(wanted)
	case 5:
		// Bug 5: the phase is in memory, and is persisted after the effect.
		if p.memory.phases[p.key()] != "Creating" {
			delete(wanted, "phase")
		}
	case 8:
		return p.member(wanted)
	case 9:
		if err := p.count(); err != nil {
			return err
		}
	case 21:
		// Bug 21: the memory of the process says whether a store is new.
		if p.memory.phases[p.key()] == "new" {
			wanted["note"] = "initialised"
		}
	case 24:
		return p.swallowConflict(wanted)
	case 31:
		// Bug 31: the first object of a list is taken for the own one.
		var secrets corev1.SecretList
		if err := p.live.List(p.ctx, &secrets, client.InNamespace(p.store.GetNamespace())); err != nil {
			return err
		}
		if len(secrets.Items) > 0 {
			wanted["note"] = secrets.Items[0].Name
		}
	case 32:
		// Bug 32: a counter in the reconciler is shared by all objects.
		if p.note() == "" {
			p.memory.serial++
			wanted["note"] = fmt.Sprint(p.memory.serial)
		}
	case 33:
		// Bug 33: each pass writes a timestamp.
		wanted["note"] = time.Now().Format(time.RFC3339Nano)
	}
	return p.patchStatus(wanted)
}

// patchStatus merges fields into the status, if they are not there.
func (p *pass) patchStatus(fields map[string]any) error {
	before := p.store.DeepCopy()
	status, _, _ := unstructured.NestedMap(p.store.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	maps.Copy(status, fields)
	if err := unstructured.SetNestedMap(p.store.Object, status, "status"); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Object, p.store.Object) {
		return nil
	}
	// A merge replaces the whole list of conditions, so it must not be made from an old one.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch p.bug {
	case 8, 23, 25:
		// Bug 23: the whole status is merged from the cached copy.
		patch = client.MergeFrom(before)
	}
	err := p.Status().Patch(p.ctx, p.store, patch)
	if err == nil {
		p.memory.own[p.key()] = p.store.GetResourceVersion()
	}
	return err
}

// Bug 24: a conflict on the status is swallowed.
func (p *pass) swallowConflict(fields map[string]any) error {
	before := p.store.DeepCopy()
	status, _, _ := unstructured.NestedMap(p.store.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	maps.Copy(status, fields)
	if err := unstructured.SetNestedMap(p.store.Object, status, "status"); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Object, p.store.Object) {
		return nil
	}
	if err := p.Status().Update(p.ctx, p.store); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// Bug 4: two writes, of which the second is made only in the pass of the first.
func (p *pass) twoWrites(wanted map[string]any) error {
	replicas, found, _ := unstructured.NestedInt64(p.store.Object, "status", "replicas")
	if found && replicas == p.replicas() {
		return nil
	}
	if err := p.patchStatus(map[string]any{"replicas": p.replicas()}); err != nil {
		return err
	}
	return p.patchStatus(wanted)
}
