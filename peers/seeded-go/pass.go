package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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

// size is the size as the children get it.
func (p *pass) size() string {
	// Bug 37: the size is not passed on.
	if p.bug == 37 {
		return "10Gi"
	}
	return p.text("size")
}

func (p *pass) replicas() int64 {
	replicas, _, _ := unstructured.NestedInt64(p.store.Object, "spec", "replicas")
	return replicas
}

func (p *pass) note() string {
	note, _, _ := unstructured.NestedString(p.store.Object, "status", "note")
	return note
}

func (p *pass) key() string {
	return string(p.store.GetUID())
}

func (p *pass) meta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.store.GetNamespace(), Name: p.store.GetName() + suffix}
}

// ensure creates or updates a child that the Store owns.
func (p *pass) ensure(child client.Object, change func()) error {
	_, err := controllerutil.CreateOrUpdate(p.ctx, p.Client, child, func() error {
		change()
		// Bug 29: one child has no owner.
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

// isCurrent tells whether the server has the Store as this pass sees it. A pass asks before it deletes anything: the
// cache of the Store may be older than the caches of the children.
func (p *pass) isCurrent() (bool, error) {
	now := newStore()
	err := p.live.Get(p.ctx, client.ObjectKeyFromObject(p.store), now)
	same := now.GetUID() == p.store.GetUID() && now.GetGeneration() == p.store.GetGeneration()
	return err == nil && same, client.IgnoreNotFound(err)
}

// remove deletes the very object that the cache shows.
func (p *pass) remove(child client.Object) error {
	uid := child.GetUID()
	return client.IgnoreNotFound(p.Delete(p.ctx, child, client.Preconditions{UID: &uid}))
}

// removeByName deletes whatever has the name now. Only bugs do so.
func (p *pass) removeByName(child client.Object) error {
	return client.IgnoreNotFound(p.Delete(p.ctx, child))
}
