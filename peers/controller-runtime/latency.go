package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Tells the times at which each reconcile after the first state begins and has its pod.
func latency(server, form string, objects int, strip bool) {
	config := &rest.Config{Host: server, QPS: -1}
	config.ContentType = form
	var stored cache.Options
	if strip {
		stored.DefaultTransform = cache.TransformStripManagedFields()
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:   stored,
		Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	var seen atomic.Int64
	type start struct {
		request     reconcile.Request
		begun, read int64
	}
	idle, starts := make(chan struct{}), make(chan start, 65536)
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(reconcile.Func(
		func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			begun := time.Now().UnixNano()
			var pod corev1.Pod
			if err := manager.GetClient().Get(ctx, request.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, err
			}
			read := time.Now().UnixNano()
			if count := seen.Add(1); count == int64(objects) {
				close(idle)
			} else if count > int64(objects) {
				starts <- start{request, begun, read}
			}
			return reconcile.Result{}, nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		if err := manager.Start(ctx); err != nil {
			log.Fatal(err)
		}
	}()
	<-idle
	fmt.Println("idle")
	waitForGo()
	stop()
	close(starts)
	for start := range starts {
		fmt.Printf("start %s %d %d\n", start.request, start.begun, start.read)
	}
	fmt.Println("end")
}
