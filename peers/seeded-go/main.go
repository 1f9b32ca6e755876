// An operator on controller-runtime with bugs that somebody made before, behind a flag. Without a bug it is sound.
// It is the subject of `setpoint prove`: the same Store as examples/seeded, in the way Go operators are written.
package main

import (
	"context"
	"flag"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var kind = schema.GroupVersionKind{Group: "seeded.example.org", Version: "v1", Kind: "Store"}

// The finalizer deletes the claims, which have no owner.
const finalizer = "seeded.example.org/claims"

// stores reconciles Stores. The numbers of its bugs are those of examples/seeded/src/bug.rs.
type stores struct {
	client.Client
	live   client.Reader
	bug    int
	memory memory
}

// memory is what the process remembers. The sound operator remembers nothing: only bugs do.
type memory struct {
	phases map[string]string
	counts map[string]int64
	own    map[string]string
	serial int
}

func newStore() *unstructured.Unstructured {
	store := &unstructured.Unstructured{}
	store.SetGroupVersionKind(kind)
	return store
}

func (s *stores) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	store := newStore()
	if err := s.Get(ctx, request.NamespacedName, store); err != nil {
		if s.bug == 15 && client.IgnoreNotFound(err) == nil {
			return ctrl.Result{}, s.collectGarbage(ctx, request)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p := &pass{stores: s, ctx: ctx, store: store}
	// Bug 25: the event of the own write is left out, with everything that came before it.
	if s.bug == 25 && s.memory.own[p.key()] == store.GetResourceVersion() {
		return ctrl.Result{}, nil
	}
	if s.bug == 27 {
		if err := p.children(); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := p.firstLook(); err != nil {
		return ctrl.Result{}, err
	}
	if store.GetDeletionTimestamp() != nil {
		return p.cleanUp()
	}
	if s.bug == 28 {
		if err := p.children(); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !controllerutil.ContainsFinalizer(store, finalizer) {
		controllerutil.AddFinalizer(store, finalizer)
		if err := s.Update(ctx, store); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := p.children(); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, p.status()
}

// byLabel maps a claim or a pod to its Store, which is not its owner.
func byLabel(_ context.Context, child client.Object) []reconcile.Request {
	name, found := child.GetLabels()["store"]
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}

func main() {
	bug := flag.Int("bug", 0, "the number of the bug, as in examples/seeded/src/bug.rs")
	elect := flag.Bool("leader-elect", false, "compete for a lease")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          *elect,
		LeaderElectionID:        "seeded-go",
		LeaderElectionNamespace: "default",
		// The Store is read as unstructured, and from the cache as everything else.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		ctrl.Log.Error(err, "no manager")
		os.Exit(1)
	}
	reconciler := &stores{
		Client: manager.GetClient(), live: manager.GetAPIReader(), bug: *bug,
		memory: memory{phases: map[string]string{}, counts: map[string]int64{}, own: map[string]string{}},
	}
	builder := ctrl.NewControllerManagedBy(manager).
		Named("store").
		For(newStore()).
		Owns(&corev1.Secret{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(byLabel))
	if *bug == 19 {
		builder = builder.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byLabel))
	}
	err = builder.Complete(reconciler)
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		ctrl.Log.Error(err, "the manager ended")
		os.Exit(1)
	}
}
