package main

import (
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func informer(server, form string, pods int64, strip bool) {
	config := &rest.Config{Host: server, QPS: -1}
	config.ContentType = form
	if form != "application/json" {
		config.AcceptContentTypes = form + ",application/json"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	shared := factory.Core().V1().Pods().Informer()
	if strip {
		if err := shared.SetTransform(stripManagedFields); err != nil {
			log.Fatal(err)
		}
	}
	// Events after the first state, and how many are waited for.
	var events, goal, containers atomic.Int64
	var read atomic.Bool
	reached := make(chan struct{}, 1)
	seen := func() {
		if events.Add(1) == goal.Load() {
			reached <- struct{}{}
		}
	}
	registration, err := shared.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				seen()
			}
		},
		UpdateFunc: func(_, object any) {
			if read.Load() {
				containers.Add(int64(len(object.(*corev1.Pod).Spec.Containers)))
			}
			seen()
		},
		DeleteFunc: func(any) { seen() },
	})
	if err != nil {
		log.Fatal(err)
	}
	before := memory("VmRSS")
	fmt.Println("ready")
	waitForGo()
	stop := make(chan struct{})
	watch := start()
	go shared.Run(stop)
	for !shared.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("synced %s\n", watch.read())
	for !registration.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	settle(watch, before)
	// The first pods go and others come; these are updated, twice.
	for _, step := range []string{"replaced", "updated", "read"} {
		read.Store(step == "read")
		if step == "replaced" {
			goal.Add(2 * pods)
		} else {
			goal.Add(pods)
		}
		waitForGo()
		watch := start()
		fmt.Println("armed")
		<-reached
		fmt.Printf("%s %s\n", step, watch.read())
		if step != "read" {
			settle(watch, before)
		}
	}
	if containers.Load() < pods {
		log.Fatal("the handler did not read every pod")
	}
	reads(shared.GetStore(), factory.Core().V1().Pods().Lister())
}

func stripManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

func reads(store cache.Store, lister corelisters.PodLister) {
	keys := store.ListKeys()
	if len(keys) > 1000 {
		keys = keys[:1000]
	}
	get := func(keys []string) []time.Duration {
		times := make([]time.Duration, 0, len(keys))
		for _, key := range keys {
			begun := time.Now()
			namespace, name, _ := strings.Cut(key, "/")
			pod, err := lister.Pods(namespace).Get(name)
			times = append(times, time.Since(begun))
			if err != nil || pod.Name == "" {
				log.Fatal(err)
			}
		}
		return times
	}
	percentiles("get_cold", get(keys))
	keys = keys[:min(200, len(keys))]
	get(keys)
	percentiles("get_warm", get(keys))
	pod, _, _ := store.GetByKey(keys[0])
	namespace := pod.(*corev1.Pod).Namespace
	for _, name := range []string{"list_cold", "list_warm"} {
		begun := time.Now()
		found, err := lister.Pods(namespace).List(labels.Everything())
		fmt.Printf("%s found=%d nanos=%d\n", name, len(found), time.Since(begun).Nanoseconds())
		if err != nil {
			log.Fatal(err)
		}
	}
	label := "app.kubernetes.io/instance"
	selector := labels.SelectorFromSet(labels.Set{label: pod.(*corev1.Pod).Labels[label]})
	begun := time.Now()
	found, err := lister.List(selector)
	fmt.Printf("select found=%d nanos=%d\n", len(found), time.Since(begun).Nanoseconds())
	if err != nil {
		log.Fatal(err)
	}
}
