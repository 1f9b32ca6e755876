// Command elector takes part in an election with client-go's leaderelection, beside a program of ours on one Lease.
//
//	elector KUBECONFIG NAMESPACE LEASE IDENTITY LEASE_SECONDS RENEW_SECONDS RETRY_SECONDS
//
// It prints a line for each change that client-go reports. An interrupt releases the Lease.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) != 7 {
		return fmt.Errorf("elector KUBECONFIG NAMESPACE LEASE IDENTITY LEASE_SECONDS RENEW_SECONDS RETRY_SECONDS")
	}
	durations := make([]time.Duration, 3)
	for place, word := range words[4:] {
		seconds, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return err
		}
		durations[place] = time.Duration(seconds * float64(time.Second))
	}
	config, err := clientcmd.BuildConfigFromFlags("", words[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	identity := words[3]
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: words[1], Name: words[2]},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   durations[0],
		RenewDeadline:   durations[1],
		RetryPeriod:     durations[2],
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println(identity, "leads") },
			OnStoppedLeading: func() { fmt.Println(identity, "stopped leading") },
			OnNewLeader:      func(leader string) { fmt.Println(identity, "sees", leader) },
		},
	})
	return nil
}
