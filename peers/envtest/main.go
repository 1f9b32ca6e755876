// Command envtest is a Go program as operator suites are: it starts what KUBEBUILDER_ASSETS holds and uses it
// through controller-runtime's client and with its webhook server.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	began := time.Now()
	environment := &envtest.Environment{WebhookInstallOptions: hooks()}
	config, err := environment.Start()
	if err != nil {
		return err
	}
	fmt.Printf("started in %d ms\n", time.Since(began).Milliseconds())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kube, err := client.New(config, client.Options{})
	if err == nil {
		err = use(kube)
	}
	if err == nil {
		err = serve(ctx, environment.WebhookInstallOptions)
	}
	if err == nil {
		err = judged(kube)
	}
	if stopped := environment.Stop(); err == nil {
		err = stopped
	}
	return err
}

// use creates, reads, changes and deletes one object; the typed client speaks protobuf.
func use(kube client.Client) error {
	ctx := context.Background()
	meta := metav1.ObjectMeta{Name: "sample", Namespace: "default"}
	config := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1"}}
	if err := kube.Create(ctx, config); err != nil {
		return err
	}
	read := &corev1.ConfigMap{}
	if err := kube.Get(ctx, client.ObjectKeyFromObject(config), read); err != nil {
		return err
	}
	if read.Data["a"] != "1" || read.UID == "" {
		return fmt.Errorf("read back %v", read)
	}
	read.Data["a"] = "2"
	if err := kube.Update(ctx, read); err != nil {
		return err
	}
	return kube.Delete(ctx, read)
}
