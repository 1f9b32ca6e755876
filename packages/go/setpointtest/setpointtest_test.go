package setpointtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"setpoint.dev/setpointtest"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}
`

func TestAnEnvironmentServesItsDefinitions(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "crd.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := &setpointtest.Environment{CRDDirectoryPaths: []string{folder, "/nowhere"}}
	for range 2 {
		config, err := environment.Start()
		if err != nil {
			t.Fatal(err)
		}
		things := dynamic.NewForConfigOrDie(config).
			Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}).
			Namespace("default")
		thing := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"},
		}}
		// A second start is a new cluster, without the first one's object.
		if _, err := things.Create(t.Context(), thing, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := environment.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	environment := &setpointtest.Environment{Args: []string{"--only", "nope"}}
	_, err := environment.Start()
	if err == nil || !strings.Contains(err.Error(), `no controller is called "nope"`) {
		t.Fatal(err)
	}
	environment = &setpointtest.Environment{CRDDirectoryPaths: []string{"/nowhere"}, ErrorIfCRDPathMissing: true}
	if _, err := environment.Start(); err == nil || !strings.Contains(err.Error(), "cannot read /nowhere") {
		t.Fatal(err)
	}
}
