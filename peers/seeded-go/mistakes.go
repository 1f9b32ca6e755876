package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// memberOf labels children with generated names.
const memberOf = "seeded.example.org/member-of"

// firstLook does what some bugs do before they look at anything else.
func (p *pass) firstLook() error {
	switch p.bug {
	case 21:
		if _, seen := p.memory.phases[p.key()]; !seen {
			p.memory.phases[p.key()] = "old"
			if len(p.store.GetFinalizers()) == 0 {
				p.memory.phases[p.key()] = "new"
			}
		}
	case 11:
		// Bug 11: the companion of a claim that is seen terminating is deleted by name.
		claims, err := p.listClaims()
		if err != nil {
			return err
		}
		for _, claim := range claims {
			companion := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: claim.Namespace, Name: claim.Name + "-index",
			}}
			if claim.DeletionTimestamp == nil {
				continue
			}
			if err := p.removeByName(companion); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) beforeChildren() error {
	switch p.bug {
	case 5:
		there, err := p.exists(&corev1.Secret{ObjectMeta: p.meta("-internal")})
		if err == nil && !there {
			p.memory.phases[p.key()] = "Creating"
		}
		return err
	case 17:
		return p.members(p.replicas())
	case 18:
		return p.members(1)
	}
	return nil
}

// Bug 19: a claim is deleted only if its pod is seen terminating.
func (p *pass) seenTerminating(name string) (bool, error) {
	if p.store.GetDeletionTimestamp() != nil {
		return true, nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.store.GetNamespace(), Name: name}}
	there, err := p.exists(pod)
	return there && pod.DeletionTimestamp != nil, err
}

// Bug 15: Secrets whose owner is not in the cache are garbage.
func (s *stores) collectGarbage(ctx context.Context, request ctrl.Request) error {
	var secrets corev1.SecretList
	if err := s.List(ctx, &secrets, client.InNamespace(request.Namespace)); err != nil {
		return err
	}
	for index := range secrets.Items {
		secret := &secrets.Items[index]
		mine := func(owner metav1.OwnerReference) bool { return owner.Name == request.Name }
		if slices.ContainsFunc(secret.OwnerReferences, mine) {
			if err := client.IgnoreNotFound(s.Delete(ctx, secret)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bugs 17 and 18: children are counted in the cache, and made with generated names.
func (p *pass) members(wanted int64) error {
	var members corev1.ConfigMapList
	mine := client.MatchingLabels{memberOf: p.store.GetName()}
	if err := p.List(p.ctx, &members, client.InNamespace(p.store.GetNamespace()), mine); err != nil {
		return err
	}
	for count := int64(len(members.Items)); count < wanted; count++ {
		member, err := p.generated()
		if err != nil {
			return err
		}
		if err := p.Create(p.ctx, member); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) generated() (*corev1.ConfigMap, error) {
	member := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.store.GetNamespace(), GenerateName: p.store.GetName() + "-member-",
		Labels: map[string]string{memberOf: p.store.GetName()},
	}}
	return member, controllerutil.SetControllerReference(p.store, member, p.Scheme())
}

// Bug 8: a child with a generated name, whose name the status keeps.
func (p *pass) member(wanted map[string]any) error {
	now := newStore()
	if err := p.live.Get(p.ctx, client.ObjectKeyFromObject(p.store), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	if note, _, _ := unstructured.NestedString(now.Object, "status", "note"); note == "" {
		member, err := p.generated()
		if err != nil {
			return err
		}
		if err := p.Create(p.ctx, member); err != nil {
			return err
		}
		wanted["note"] = member.Name
	}
	return p.patchStatus(wanted)
}

// Bug 2: the StatefulSet's note of the size is written first, and says that the config has been written.
func (p *pass) noteBeforeThing(write func() error) error {
	set := &appsv1.StatefulSet{ObjectMeta: p.meta("")}
	there, err := p.exists(set)
	if err != nil {
		return err
	}
	if there {
		if set.Annotations["size"] == p.text("size") {
			return nil
		}
		if err := p.set(); err != nil {
			return err
		}
	}
	return write()
}

// Bug 3: the config is written first, and the mark that it needs a restart second.
func (p *pass) configBeforeMark(settings string, write func() error) error {
	before := &corev1.ConfigMap{ObjectMeta: p.meta("-config")}
	there, err := p.exists(before)
	if err != nil {
		return err
	}
	if err := write(); err != nil || !there || before.Data["settings"] == settings {
		return err
	}
	return p.annotate(&appsv1.StatefulSet{ObjectMeta: p.meta("")}, "config", settings)
}

func (p *pass) annotate(object client.Object, name, value string) error {
	if err := p.Get(p.ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := object.DeepCopyObject().(client.Object)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	object.SetAnnotations(annotations)
	return p.Patch(p.ctx, object, client.MergeFrom(before))
}

// Bug 7: step 2 of a label is skipped if step 1 is seen.
func (p *pass) labelSteps(set *appsv1.StatefulSet) error {
	if set.Labels["step"] != "" {
		return nil
	}
	for _, step := range []string{"1", "2"} {
		before := set.DeepCopy()
		if set.Labels == nil {
			set.Labels = map[string]string{}
		}
		set.Labels["step"] = step
		if err := p.Patch(p.ctx, set, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// Bug 9: a counter is incremented, then the generation for which it was.
func (p *pass) count() error {
	now := newStore()
	if err := p.live.Get(p.ctx, client.ObjectKeyFromObject(p.store), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	counted, _, _ := unstructured.NestedInt64(now.Object, "status", "observedGeneration")
	if counted == now.GetGeneration() {
		return nil
	}
	serial := &corev1.ConfigMap{ObjectMeta: p.meta("-serial")}
	return p.ensure(serial, func() {
		before, _ := strconv.Atoi(serial.Data["serial"])
		serial.Data = map[string]string{"serial": strconv.Itoa(before + 1)}
	})
}

// Bug 26: an update without a resourceVersion.
func (p *pass) blindUpdate(service *corev1.Service, labels map[string]string) (bool, error) {
	there, err := p.exists(service)
	if err != nil || !there {
		return false, err
	}
	same := len(service.Labels) == len(labels)
	for name, value := range labels {
		same = same && service.Labels[name] == value
	}
	if same {
		return true, nil
	}
	service.Labels, service.ResourceVersion = labels, ""
	return true, p.Update(p.ctx, service)
}

// skipsSet does what some bugs do in place of the write of the StatefulSet, or before it.
func (p *pass) skipsSet(set *appsv1.StatefulSet) (bool, error) {
	there, err := p.exists(set)
	if err != nil {
		return false, err
	}
	resized := there && set.Annotations["size"] != p.text("size")
	switch p.bug {
	case 6:
		// Bug 6: the set is deleted and made again, and nothing but its absence tells so.
		if !there {
			return p.store.Object["status"] != nil && p.memory.phases[p.key()] == "", nil
		}
		if resized {
			p.memory.phases[p.key()] = "again"
			return false, p.removeByName(set)
		}
	case 13:
		// Bug 13: another size, in either direction, deletes the StatefulSet.
		if resized {
			return false, p.removeByName(set)
		}
	case 38:
		// Bug 38: only a ready StatefulSet is updated.
		return there && set.Status.ReadyReplicas < *set.Spec.Replicas, nil
	}
	return false, nil
}

// Bug 16: claims beyond the replicas of the status are deleted by name.
func (p *pass) deleteOrphans() error {
	counted, found, _ := unstructured.NestedInt64(p.store.Object, "status", "replicas")
	if !found || counted > p.replicas() {
		return nil
	}
	claims, err := p.listClaims()
	if err != nil {
		return err
	}
	for index := range claims {
		claim := &claims[index]
		ordinal, err := strconv.ParseInt(claim.Name[strings.LastIndex(claim.Name, "-")+1:], 10, 64)
		if err == nil && ordinal >= max(p.replicas(), counted) {
			if err := p.removeByName(claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bug 22: the repair of one child is guarded by the state of another one.
func (p *pass) guardedMonitor(wanted bool) error {
	monitor := &corev1.ConfigMap{ObjectMeta: p.meta("-monitor")}
	key := &corev1.Secret{ObjectMeta: p.meta("-monitor")}
	watched, err := p.exists(monitor)
	if err != nil {
		return err
	}
	guarded, err := p.exists(key)
	if err != nil {
		return err
	}
	if wanted && !guarded {
		if !watched {
			if err := p.ensure(monitor, func() {}); err != nil {
				return err
			}
		}
		return p.ensure(key, func() {})
	}
	if !wanted && watched {
		if err := p.remove(monitor); err != nil {
			return err
		}
	}
	if !wanted && guarded {
		return p.remove(key)
	}
	return nil
}

// Bug 10: the finalizer deletes claims by label, whatever their uid. Bug 34: it deletes what is being deleted.
func (p *pass) deleteAgain() (ctrl.Result, error) {
	claims, err := p.listClaims()
	if err != nil {
		return ctrl.Result{}, err
	}
	for index := range claims {
		claim := &claims[index]
		if claim.DeletionTimestamp != nil && p.bug != 34 {
			continue
		}
		if err := p.removeByName(claim); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(claims) > 0 {
		return ctrl.Result{RequeueAfter: 300 * time.Millisecond}, nil
	}
	return ctrl.Result{}, p.letGo()
}

// Bug 40: the phase of a rollover is deduced from the first of two Secrets.
func (p *pass) rollOver() error {
	if p.bug != 40 {
		return nil
	}
	first := &corev1.Secret{ObjectMeta: p.meta("-internal")}
	there, err := p.exists(first)
	if err != nil || there && first.Annotations["authority"] == p.text("config") {
		return err
	}
	for _, suffix := range []string{"-internal", "-users"} {
		if err := p.annotate(&corev1.Secret{ObjectMeta: p.meta(suffix)}, "authority", p.text("config")); err != nil {
			return err
		}
	}
	return nil
}
