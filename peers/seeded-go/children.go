package main

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

func (p *pass) children() error {
	steps := []func() error{
		p.beforeChildren, p.secrets, p.config, p.service, p.set, p.budget, p.claims, p.monitor,
	}
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
	return p.rollOver()
}

func (p *pass) config() error {
	settings, found, _ := unstructured.NestedString(p.store.Object, "spec", "config")
	if !found {
		settings = "default"
		// Bug 39: an optional field is taken for granted.
		if p.bug == 39 {
			panic("runtime error: invalid memory address or nil pointer dereference")
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: p.meta("-config")}
	write := func() error {
		return p.ensure(config, func() {
			config.Data = map[string]string{"settings": settings, "size": p.size()}
		})
	}
	switch p.bug {
	case 2:
		return p.noteBeforeThing(write)
	case 3:
		return p.configBeforeMark(settings, write)
	}
	return write()
}

func (p *pass) service() error {
	labels, _, _ := unstructured.NestedStringMap(p.store.Object, "spec", "labels")
	service := &corev1.Service{ObjectMeta: p.meta("")}
	if p.bug == 26 {
		if done, err := p.blindUpdate(service, labels); done || err != nil {
			return err
		}
	}
	return p.ensure(service, func() {
		// Bug 35: labels are only ever added.
		if p.bug == 35 && service.Labels != nil {
			maps.Copy(service.Labels, labels)
		} else {
			service.Labels = labels
		}
		service.Spec.Selector = map[string]string{"store": p.store.GetName()}
		if len(service.Spec.Ports) == 0 {
			service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		}
	})
}

func (p *pass) set() error {
	set := &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	if done, err := p.skipsSet(set); done || err != nil {
		return err
	}
	replicas := int32(p.replicas())
	labels := map[string]string{"store": p.store.GetName()}
	set = &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	err := p.ensure(set, func() {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, "size", p.size())
		if p.bug != 3 {
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, "config", p.text("config"))
		}
		if set.ResourceVersion == "" {
			set.Spec.ServiceName = p.store.GetName()
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			set.Spec.Template.Labels = labels
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "store"}}
		}
		set.Spec.Replicas = &replicas
		if p.bug == 19 {
			// Where somebody waits for the end of a pod, it takes a second.
			set.Spec.Template.Annotations = map[string]string{"setpoint.dev/stop-delay": "1s"}
		}
		set.Spec.Template.Spec.NodeSelector = nil
		// Pods of a broken config find no node.
		if p.text("config") == "broken" {
			set.Spec.Template.Spec.NodeSelector = map[string]string{"store": "nowhere"}
		}
	})
	if err != nil || p.bug != 7 {
		return err
	}
	return p.labelSteps(set)
}

func (p *pass) budget() error {
	least := intstr.FromInt32(int32(p.replicas()))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: p.meta("")}
	// Bug 14: the budget is deleted and created on any difference.
	if p.bug == 14 {
		there, err := p.exists(budget)
		if err != nil {
			return err
		}
		if there && *budget.Spec.MinAvailable != least {
			if err := p.remove(budget); err != nil {
				return err
			}
		}
		budget = &policyv1.PodDisruptionBudget{ObjectMeta: p.meta("")}
	}
	return p.ensure(budget, func() {
		budget.Spec.MinAvailable = &least
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"store": p.store.GetName()}}
	})
}

// claims makes missing claims, and deletes those of replicas that are not wanted.
func (p *pass) claims() error {
	known, seen := p.memory.counts[p.key()]
	p.memory.counts[p.key()] = p.replicas()
	// Bug 20: claims follow the difference between two events.
	if p.bug == 20 && (seen && known == p.replicas() || !seen && p.store.Object["status"] != nil) {
		return nil
	}
	wanted := map[string]bool{}
	for ordinal := range p.replicas() {
		name := fmt.Sprintf("-%d", ordinal)
		wanted[p.meta(name).Name] = true
		if err := p.claim(name); err != nil {
			return err
		}
	}
	if p.bug == 16 {
		return p.deleteOrphans()
	}
	return p.deleteClaims(wanted)
}

func (p *pass) claim(name string) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: p.meta(name)}
	there, err := p.exists(claim)
	if err != nil {
		return err
	}
	if !there {
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
	if p.bug == 11 {
		return p.ensure(&corev1.ConfigMap{ObjectMeta: p.meta(name + "-index")}, func() {})
	}
	return nil
}

func (p *pass) listClaims() ([]corev1.PersistentVolumeClaim, error) {
	var claims corev1.PersistentVolumeClaimList
	mine := client.MatchingLabels{"store": p.store.GetName()}
	err := p.List(p.ctx, &claims, client.InNamespace(p.store.GetNamespace()), mine)
	return claims.Items, err
}

func (p *pass) deleteClaims(wanted map[string]bool) error {
	claims, err := p.listClaims()
	if err != nil {
		return err
	}
	for index := range claims {
		claim := &claims[index]
		if claim.DeletionTimestamp != nil || wanted[claim.Name] {
			continue
		}
		if current, err := p.isCurrent(); err != nil || !current {
			return err
		}
		if p.bug == 19 {
			if seen, err := p.seenTerminating(claim.Name); err != nil || !seen {
				return err
			}
		}
		if err := p.remove(claim); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) monitor() error {
	wanted, _, _ := unstructured.NestedBool(p.store.Object, "spec", "monitor")
	monitor := &corev1.ConfigMap{ObjectMeta: p.meta("-monitor")}
	if p.bug == 22 {
		return p.guardedMonitor(wanted)
	}
	if wanted {
		return p.ensure(monitor, func() { monitor.Data = map[string]string{"target": p.store.GetName()} })
	}
	// Bug 12: what the spec does not ask for is deleted by name.
	if p.bug == 12 {
		return p.removeByName(monitor)
	}
	there, err := p.exists(monitor)
	// Bug 36: the monitor is made and never deleted.
	if err != nil || !there || p.bug == 36 {
		return err
	}
	if current, err := p.isCurrent(); err != nil || !current {
		return err
	}
	return p.remove(monitor)
}

// cleanUp deletes the claims, then lets the Store go. The end of a claim is an event of the Store.
func (p *pass) cleanUp() (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.store, finalizer) {
		return ctrl.Result{}, nil
	}
	switch p.bug {
	case 10, 34:
		return p.deleteAgain()
	}
	if err := p.deleteClaims(nil); err != nil {
		return ctrl.Result{}, err
	}
	// The cache may lag behind the last creation of a claim.
	var claims corev1.PersistentVolumeClaimList
	mine := client.MatchingLabels{"store": p.store.GetName()}
	err := p.live.List(p.ctx, &claims, client.InNamespace(p.store.GetNamespace()), mine)
	if err != nil || len(claims.Items) > 0 {
		return ctrl.Result{}, err
	}
	// Bug 30: the deletion waits for a child that goes only after it.
	if p.bug == 30 {
		if there, err := p.exists(&corev1.Service{ObjectMeta: p.meta("")}); err != nil || there {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, p.letGo()
}

func (p *pass) letGo() error {
	controllerutil.RemoveFinalizer(p.store, finalizer)
	return client.IgnoreNotFound(p.Update(p.ctx, p.store))
}
