package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// pass is one reconcile of one Store.
type pass struct {
	*stores
	ctx   context.Context
	store *unstructured.Unstructured
}

func (p *pass) text(field string) string {
	text, _, _ := unstructured.NestedString(p.store.Object, "spec", field)
	return text
}

func (p *pass) replicas() int64 {
	replicas, _, _ := unstructured.NestedInt64(p.store.Object, "spec", "replicas")
	return replicas
}

func (p *pass) meta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.store.GetNamespace(), Name: p.store.GetName() + suffix}
}

// ensure creates or updates a child that the Store owns.
func (p *pass) ensure(child client.Object, change func()) error {
	_, err := controllerutil.CreateOrUpdate(p.ctx, p.Client, child, func() error {
		change()
		if _, isService := child.(*corev1.Service); isService && p.bug == 29 {
			return nil
		}
		return controllerutil.SetControllerReference(p.store, child, p.Scheme())
	})
	return err
}

func (p *pass) exists(child client.Object) (bool, error) {
	err := p.Get(p.ctx, client.ObjectKeyFromObject(child), child)
	return err == nil, client.IgnoreNotFound(err)
}

func (p *pass) children() error {
	steps := []func() error{p.secrets, p.member, p.config, p.service, p.set, p.claims, p.monitor}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) secrets() error {
	first, err := p.exists(&corev1.Secret{ObjectMeta: p.meta("-internal")})
	if err != nil {
		return err
	}
	for _, suffix := range []string{"-internal", "-users"} {
		// Bug 1: the absence of the first Secret guards the creation of both.
		if p.bug == 1 && first {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: p.meta(suffix)}
		err := p.ensure(secret, func() { secret.Data = map[string][]byte{"user": []byte(p.store.GetName())} })
		if err != nil {
			return err
		}
	}
	return nil
}

// member makes a child with a generated name, whose name the status keeps.
func (p *pass) member() error {
	note, _, _ := unstructured.NestedString(p.store.Object, "status", "note")
	if p.bug != 8 || note != "" {
		return nil
	}
	member := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.store.GetNamespace(), GenerateName: p.store.GetName() + "-member-",
	}}
	if err := controllerutil.SetControllerReference(p.store, member, p.Scheme()); err != nil {
		return err
	}
	if err := p.Create(p.ctx, member); err != nil {
		return err
	}
	return p.patchStatus(map[string]any{"note": member.Name})
}

func (p *pass) config() error {
	settings, found, _ := unstructured.NestedString(p.store.Object, "spec", "config")
	if !found {
		settings = "default"
		if p.bug == 39 {
			panic("runtime error: invalid memory address or nil pointer dereference")
		}
	}
	set := &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	there, err := p.exists(set)
	if err != nil {
		return err
	}
	// Bug 2: the StatefulSet's note of the size is written first, and says that the config has been written.
	if p.bug == 2 && there {
		if set.Annotations["size"] == p.text("size") {
			return nil
		}
		if err := p.set(); err != nil {
			return err
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: p.meta("-config")}
	err = p.ensure(config, func() {
		config.Data = map[string]string{"settings": settings, "size": p.text("size")}
	})
	return err
}

func (p *pass) service() error {
	labels, _, _ := unstructured.NestedStringMap(p.store.Object, "spec", "labels")
	service := &corev1.Service{ObjectMeta: p.meta("")}
	return p.ensure(service, func() {
		// Bug 35: labels are only ever added.
		if p.bug == 35 && service.Labels != nil {
			maps.Copy(service.Labels, labels)
		} else {
			service.Labels = labels
		}
		service.Spec.Selector = map[string]string{"store": p.store.GetName()}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
		if len(service.Spec.Ports) == 1 && service.ResourceVersion != "" {
			service.Spec.Ports[0].TargetPort.IntVal = 80
		}
	})
}

func (p *pass) set() error {
	set := &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	there, err := p.exists(set)
	if err != nil {
		return err
	}
	// Bug 6: the set is deleted and made again, and nothing but its absence tells so. A new size is then forgotten.
	if p.bug == 6 && there && set.Annotations["size"] != p.text("size") {
		if err := p.Delete(p.ctx, set); err != nil {
			return client.IgnoreNotFound(err)
		}
		p.phases[string(p.store.GetUID())] = true
		set = &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	}
	if p.bug == 6 && !there && p.store.Object["status"] != nil && !p.phases[string(p.store.GetUID())] {
		return nil
	}
	replicas := int32(p.replicas())
	labels := map[string]string{"store": p.store.GetName()}
	return p.ensure(set, func() {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, "size", p.text("size"))
		if set.ResourceVersion == "" {
			set.Spec.ServiceName = p.store.GetName()
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			set.Spec.Template.Labels = labels
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "store"}}
		}
		set.Spec.Replicas = &replicas
	})
}

// claims makes missing claims, and deletes those of replicas that are not wanted.
func (p *pass) claims() error {
	key := string(p.store.GetUID())
	known, seen := p.counts[key]
	p.counts[key] = p.replicas()
	// Bug 20: claims follow the difference between two events.
	if p.bug == 20 && seen && known == p.replicas() {
		return nil
	}
	wanted := map[string]bool{}
	for ordinal := range p.replicas() {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: p.meta(fmt.Sprintf("-%d", ordinal))}
		wanted[claim.Name] = true
		there, err := p.exists(claim)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		class := ""
		claim.Labels = map[string]string{"store": p.store.GetName()}
		claim.Spec = corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}
		if err := p.Create(p.ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return p.deleteClaims(wanted)
}

func (p *pass) deleteClaims(wanted map[string]bool) error {
	var claims corev1.PersistentVolumeClaimList
	mine := client.MatchingLabels{"store": p.store.GetName()}
	if err := p.List(p.ctx, &claims, client.InNamespace(p.store.GetNamespace()), mine); err != nil {
		return err
	}
	for index := range claims.Items {
		claim := &claims.Items[index]
		if claim.DeletionTimestamp == nil && !wanted[claim.Name] {
			if err := client.IgnoreNotFound(p.Delete(p.ctx, claim)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) monitor() error {
	monitor := &corev1.ConfigMap{ObjectMeta: p.meta("-monitor")}
	if wanted, _, _ := unstructured.NestedBool(p.store.Object, "spec", "monitor"); wanted {
		return p.ensure(monitor, func() { monitor.Data = map[string]string{"target": p.store.GetName()} })
	}
	there, err := p.exists(monitor)
	// Bug 36: the monitor is made and never deleted.
	if err != nil || !there || p.bug == 36 {
		return err
	}
	return client.IgnoreNotFound(p.Delete(p.ctx, monitor))
}

// cleanUp deletes the claims, then lets the Store go.
func (p *pass) cleanUp() error {
	if !controllerutil.ContainsFinalizer(p.store, finalizer) {
		return nil
	}
	if err := p.deleteClaims(nil); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(p.store, finalizer)
	return client.IgnoreNotFound(p.Update(p.ctx, p.store))
}

func (p *pass) status() error {
	wanted := map[string]any{
		"observedGeneration": p.store.GetGeneration(), "phase": "Running", "replicas": p.replicas(),
	}
	// Bug 33: each pass writes a timestamp.
	if p.bug == 33 {
		wanted["note"] = time.Now().Format(time.RFC3339Nano)
	}
	// Bug 4: two writes, of which the second is made only in the pass of the first.
	if p.bug == 4 {
		generation, _, _ := unstructured.NestedInt64(p.store.Object, "status", "observedGeneration")
		if generation == p.store.GetGeneration() {
			return nil
		}
		if err := p.patchStatus(map[string]any{"observedGeneration": p.store.GetGeneration()}); err != nil {
			return err
		}
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
	return p.Status().Patch(p.ctx, p.store, client.MergeFrom(before))
}
