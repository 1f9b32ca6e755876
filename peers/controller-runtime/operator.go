package main

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const done = "bench.example.com/done"

// The small operator: get the object, create its child, patch the object.
type small struct {
	client.Client
	scheme    *runtime.Scheme
	objects   int64
	converged atomic.Int64
	finished  chan struct{}
}

func (s *small) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var parent corev1.ConfigMap
	if err := s.Get(ctx, request.NamespacedName, &parent); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if parent.Annotations[done] == "true" {
		return reconcile.Result{}, nil
	}
	child := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: parent.Namespace, Name: parent.Name + "-child"},
		Data:       parent.Data,
	}
	if err := ctrl.SetControllerReference(&parent, child, s.scheme); err != nil {
		return reconcile.Result{}, err
	}
	if err := s.Create(ctx, child); err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	patched := parent.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, done, "true")
	if err := s.Patch(ctx, patched, client.MergeFrom(&parent)); err != nil {
		return reconcile.Result{}, err
	}
	if s.converged.Add(1) == s.objects {
		close(s.finished)
	}
	return reconcile.Result{}, nil
}

func operator(kubeconfig string, objects, workers int) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	// Its default of 20 requests a second would be all that is measured.
	config.QPS = -1
	parents := labels.SelectorFromSet(labels.Set{"bench": "parent"})
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: parents}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	reconciler := &small{
		Client: manager.GetClient(), scheme: manager.GetScheme(), objects: int64(objects),
		finished: make(chan struct{}),
	}
	notDeleted := predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}, builder.WithPredicates(notDeleted)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	waitForGo()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	start, before := time.Now(), cpu()
	go func() {
		if err := manager.Start(ctx); err != nil {
			log.Fatal(err)
		}
	}()
	<-reconciler.finished
	fmt.Printf("converged seconds=%.6f cpu=%.3f\n", time.Since(start).Seconds(), cpu()-before)
}
