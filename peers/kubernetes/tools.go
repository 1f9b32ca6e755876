//go:build tools

// Package peers pins the Kubernetes programs that Setpoint is compared with.
package peers

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
