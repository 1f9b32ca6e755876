// Command client-go-informers keeps a cache of ConfigMaps with client-go's dynamic informer and tells on request what
// is in it: each line on its input is answered with one line of JSON on its output.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// report is what the cache holds: resourceVersions by namespace/name, and what the handlers were told.
type report struct {
	Synced  bool              `json:"synced"`
	Objects map[string]string `json:"objects"`
	Added   int64             `json:"added"`
	Updated int64             `json:"updated"`
	Deleted int64             `json:"deleted"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(maps).Informer()
	var added, updated, deleted atomic.Int64
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go informer.Run(stop)
	input := bufio.NewScanner(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		objects := map[string]string{}
		for _, item := range informer.GetStore().List() {
			object := item.(*unstructured.Unstructured)
			objects[object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
		}
		now := report{informer.HasSynced(), objects, added.Load(), updated.Load(), deleted.Load()}
		if err := output.Encode(now); err != nil {
			return err
		}
	}
	return input.Err()
}
