package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// hooks are two webhooks of an operator: one labels Secrets, the other refuses those with a key that it does not like.
// envtest writes the address of this process into them.
func hooks() envtest.WebhookInstallOptions {
	at := func(path string) admissionregistrationv1.WebhookClientConfig {
		service := &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path}
		return admissionregistrationv1.WebhookClientConfig{Service: service}
	}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"},
		},
	}}
	none := admissionregistrationv1.SideEffectClassNone
	versions := []string{"v1"}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "label"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "label.example.com", ClientConfig: at("/label"), Rules: rules, SideEffects: &none,
				AdmissionReviewVersions: versions,
			}},
		}},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "judge"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "judge.example.com", ClientConfig: at("/judge"), Rules: rules, SideEffects: &none,
				AdmissionReviewVersions: versions,
			}},
		}},
	}
}

func secret(request admission.Request) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	return found, json.Unmarshal(request.Object.Raw, found)
}

func label(_ context.Context, request admission.Request) admission.Response {
	if request.Operation == "DELETE" {
		return admission.Allowed("")
	}
	found, err := secret(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if found.Labels == nil {
		found.Labels = map[string]string{}
	}
	found.Labels["seen"] = strings.ToLower(string(request.Operation))
	changed, err := json.Marshal(found)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

func judge(_ context.Context, request admission.Request) admission.Response {
	if request.Operation == "DELETE" {
		return admission.Allowed("").WithWarnings("it was a good secret")
	}
	found, err := secret(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if _, bad := found.Data["bad"]; bad {
		return admission.Denied("bad is not a good key")
	}
	return admission.Allowed("")
}

// serve answers until the context ends; it returns when somebody can connect.
func serve(ctx context.Context, options envtest.WebhookInstallOptions) error {
	server := webhook.NewServer(webhook.Options{
		Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
	})
	server.Register("/label", &webhook.Admission{Handler: admission.HandlerFunc(label)})
	server.Register("/judge", &webhook.Admission{Handler: admission.HandlerFunc(judge)})
	failed := make(chan error, 1)
	go func() { failed <- server.Start(ctx) }()
	address := net.JoinHostPort(options.LocalServingHost, strconv.Itoa(options.LocalServingPort))
	for {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			return connection.Close()
		}
		select {
		case err := <-failed:
			return fmt.Errorf("the webhook server ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// judged writes Secrets under the eyes of both webhooks.
func judged(kube client.Client) error {
	ctx := context.Background()
	good := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "good", Namespace: "default"}, Data: map[string][]byte{"a": []byte("1")},
	}
	if err := kube.Create(ctx, good); err != nil {
		return err
	}
	if good.Labels["seen"] != "create" {
		return fmt.Errorf("created with labels %v", good.Labels)
	}
	patch := client.MergeFrom(good.DeepCopy())
	good.Data["b"] = []byte("2")
	if err := kube.Patch(ctx, good, patch); err != nil {
		return err
	}
	if good.Labels["seen"] != "update" {
		return fmt.Errorf("patched with labels %v", good.Labels)
	}
	good.Data["bad"] = []byte("3")
	err := kube.Update(ctx, good)
	expected := "admission webhook \"judge.example.com\" denied the request: bad is not a good key"
	if !apierrors.IsForbidden(err) || err.Error() != expected {
		return fmt.Errorf("a bad key was answered %v", err)
	}
	return kube.Delete(ctx, good)
}
