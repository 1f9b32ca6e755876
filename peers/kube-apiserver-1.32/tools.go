//go:build tools

// Package peers pins the oldest Kubernetes API server that Setpoint's runtime promises to work with.
package peers

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
