//go:build tools

// Package peers pins the original sample-controller, with which the Foo example is compared.
package peers

import _ "k8s.io/sample-controller"
