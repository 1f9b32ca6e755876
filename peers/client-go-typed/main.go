// client-go's typed clients and shared informers, with protobuf both ways, against the server of KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	protobuf  = "application/vnd.kubernetes.protobuf"
	namespace = "typed"
)

// counts says how many answers about objects came in which encoding. Discovery has only JSON.
type counts struct {
	next                 http.RoundTripper
	protobuf, json, rest *atomic.Int64
}

func (c counts) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil {
		switch kind := response.Header.Get("Content-Type"); {
		case !strings.Contains(request.URL.Path, "/namespaces"):
		case strings.HasPrefix(kind, protobuf):
			c.protobuf.Add(1)
		case strings.HasPrefix(kind, "application/json"):
			c.json.Add(1)
		default:
			c.rest.Add(1)
		}
	}
	return response, err
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "client-go-typed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	seen := counts{protobuf: new(atomic.Int64), json: new(atomic.Int64), rest: new(atomic.Int64)}
	typed := rest.CopyConfig(config)
	typed.ContentType = protobuf
	typed.AcceptContentTypes = protobuf + ",application/json"
	typed.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.next = next
		return seen
	})
	clients, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return err
	}
	_, err = clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	parts := []struct {
		name string
		run  func(context.Context, kubernetes.Interface, *rest.Config) error
	}{
		{"informers", informed}, {"writes", writes}, {"apply", applies}, {"status and scale", scales},
		{"subresources", subresources}, {"watch", watches}, {"lists", lists}, {"discovery", discovered},
		{"errors", refusals}, {"other clients", others}, {"delete collection", collections},
	}
	for _, part := range parts {
		if err := part.run(ctx, clients, config); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if seen.json.Load() != 0 {
		return fmt.Errorf("%d answers came in JSON", seen.json.Load())
	}
	fmt.Printf("ok: %d parts, %d answers in protobuf\n", len(parts), seen.protobuf.Load())
	return nil
}

func deployment(name string) *appsv1.Deployment {
	replicas, grace := int32(2), int64(7)
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: &intstr.IntOrString{Type: intstr.String, StrVal: "30%"}, MaxUnavailable: &intstr.IntOrString{IntVal: 1},
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
					Name: "c", Image: "nginx:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
					Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m")}},
					LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}},
				}}},
			},
		},
	}
}

// writes sends every verb and checks that what comes back is what a second reader sees.
func writes(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	api := clients.AppsV1().Deployments(namespace)
	created, err := api.Create(ctx, deployment("written"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.UID == "" || created.Spec.Template.Spec.DNSPolicy != corev1.DNSClusterFirst || created.Generation != 1 {
		return fmt.Errorf("not defaulted: %v", created.Spec)
	}
	if surge := created.Spec.Strategy.RollingUpdate.MaxSurge.String(); surge != "30%" {
		return fmt.Errorf("surge is %s", surge)
	}
	read, err := api.Get(ctx, "written", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(created, read) {
		return fmt.Errorf("the answer to a create and to a get differ:\n%v\n%v", created, read)
	}
	read.Spec.Template.Spec.Containers[0].Image = "nginx:2"
	updated, err := api.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil || updated.Generation != 2 {
		return fmt.Errorf("update: %v, generation %d", err, updated.Generation)
	}
	if _, err := api.Update(ctx, read, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update: %v", err)
	}
	for kind, patch := range map[types.PatchType]string{
		types.StrategicMergePatchType: `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:3"}]}}}}`,
		types.MergePatchType:          `{"metadata":{"annotations":{"a":"b"}}}`,
		types.JSONPatchType:           `[{"op":"replace","path":"/spec/replicas","value":3}]`,
	} {
		if _, err := api.Patch(ctx, "written", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	read, err = api.Get(ctx, "written", metav1.GetOptions{})
	if err != nil || *read.Spec.Replicas != 3 || read.Annotations["a"] != "b" || read.Spec.Template.Spec.Containers[0].Image != "nginx:3" {
		return fmt.Errorf("patches did not arrive: %v %v", err, read)
	}
	dry, err := api.Create(ctx, deployment("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.UID == "" {
		return fmt.Errorf("dry run: %v", err)
	}
	if _, err := api.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a dry run left something: %v", err)
	}
	return api.Delete(ctx, "written", metav1.DeleteOptions{})
}

func applies(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	api := clients.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "applied"}
	wanted := func(replicas int32) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("applied", namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().
				WithContainers(coreapply.Container().WithName("c").WithImage("i")))))
	}
	first, err := api.Apply(ctx, wanted(1), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	again, err := api.Apply(ctx, wanted(1), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil || again.ResourceVersion != first.ResourceVersion {
		return fmt.Errorf("applying the same again: %v, version %s then %s", err, first.ResourceVersion, again.ResourceVersion)
	}
	if _, err = api.Apply(ctx, wanted(2), metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("no conflict: %v", err)
	}
	forced, err := api.Apply(ctx, wanted(2), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || *forced.Spec.Replicas != 2 {
		return fmt.Errorf("forced: %v", err)
	}
	extracted, err := appsapply.ExtractDeployment(forced, "two")
	if err != nil || *extracted.Spec.Replicas != 2 {
		return fmt.Errorf("extract: %v %v", err, extracted)
	}
	return api.Delete(ctx, "applied", metav1.DeleteOptions{})
}

func scales(ctx context.Context, clients kubernetes.Interface, config *rest.Config) error {
	api := clients.AppsV1().Deployments(namespace)
	created, err := api.Create(ctx, deployment("scaled"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Replicas, created.Status.ObservedGeneration = 2, 1
	if updated, err := api.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil || updated.Status.Replicas != 2 {
		return fmt.Errorf("status: %v", err)
	}
	current, err := api.GetScale(ctx, "scaled", metav1.GetOptions{})
	if err != nil || current.Spec.Replicas != 2 || current.Status.Selector != "app=scaled" {
		return fmt.Errorf("scale: %v %v", err, current)
	}
	current.Spec.Replicas = 5
	if current, err = api.UpdateScale(ctx, "scaled", current, metav1.UpdateOptions{}); err != nil || current.Spec.Replicas != 5 {
		return fmt.Errorf("update of scale: %v", err)
	}
	cached := memory.NewMemCacheClient(clients.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	scaler, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(clients.Discovery()))
	if err != nil {
		return err
	}
	through, err := scaler.Scales(namespace).Get(ctx, schema.GroupResource{Group: "apps", Resource: "deployments"}, "scaled", metav1.GetOptions{})
	if err != nil || through.Spec.Replicas != 5 {
		return fmt.Errorf("scale client: %v %v", err, through)
	}
	return api.Delete(ctx, "scaled", metav1.DeleteOptions{})
}

func subresources(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	core := clients.CoreV1()
	account, err := core.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	seconds := int64(600)
	token, err := core.ServiceAccounts(namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil || token.Status.Token == "" || token.Status.ExpirationTimestamp.IsZero() {
		return fmt.Errorf("token: %v %v", err, token)
	}
	review, err := clients.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || review.Status.User.Username != "system:serviceaccount:"+namespace+":robot" {
		return fmt.Errorf("token review: %v %v", err, review)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}, Spec: corev1.PodSpec{
		ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	if _, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("pod: %w", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}}
	if err := core.Pods(namespace).EvictV1(ctx, eviction); err != nil {
		return fmt.Errorf("eviction: %w", err)
	}
	return nil
}

func watches(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	api := clients.CoreV1().ConfigMaps(namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	stream, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer stream.Stop()
	made, err := api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched"}, Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 255}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["a"] = "2"
	if _, err := api.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := api.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, wanted := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		select {
		case event := <-stream.ResultChan():
			found, ok := event.Object.(*corev1.ConfigMap)
			if event.Type != wanted || !ok || found.Name != "watched" || found.BinaryData["b"][1] != 255 {
				return fmt.Errorf("wanted %s, got %v", wanted, event)
			}
		case <-ctx.Done():
			return fmt.Errorf("no %s event", wanted)
		}
	}
	return nil
}

func lists(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	api := clients.CoreV1().Secrets(namespace)
	for at := range 7 {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-", Labels: map[string]string{"odd": fmt.Sprint(at % 2)}}, Data: map[string][]byte{"k": []byte("v")}}
		if _, err := api.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	names, options := map[string]bool{}, metav1.ListOptions{Limit: 3}
	for pages := 1; ; pages++ {
		page, err := api.List(ctx, options)
		if err != nil {
			return err
		}
		for _, secret := range page.Items {
			names[secret.Name] = string(secret.Data["k"]) == "v"
		}
		if options.Continue = page.Continue; options.Continue == "" {
			if pages != 3 || len(names) != 7 {
				return fmt.Errorf("%d pages, %d names", pages, len(names))
			}
			break
		}
	}
	odd, err := api.List(ctx, metav1.ListOptions{LabelSelector: "odd=1"})
	if err != nil || len(odd.Items) != 3 {
		return fmt.Errorf("selected: %v", err)
	}
	return nil
}

// informed runs default informers over several kinds and waits until they have seen what was written.
func informed(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	seen, gone := make(chan string, 100), make(chan string, 100)
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { seen <- object.(metav1.Object).GetName() },
		DeleteFunc: func(object any) {
			if object, ok := object.(metav1.Object); ok {
				gone <- object.GetName()
			}
		},
	}
	all := []cache.SharedIndexInformer{
		factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().Pods().Informer(), factory.Core().V1().Services().Informer(),
		factory.Apps().V1().Deployments().Informer(), factory.Batch().V1().Jobs().Informer(), factory.Networking().V1().Ingresses().Informer(),
		factory.Rbac().V1().Roles().Informer(), factory.Autoscaling().V1().HorizontalPodAutoscalers().Informer(),
		factory.Discovery().V1().EndpointSlices().Informer(), factory.Events().V1().Events().Informer(),
	}
	if _, err := all[0].AddEventHandler(handler); err != nil {
		return err
	}
	stop, cancel := context.WithCancel(ctx)
	defer func() { cancel(); factory.Shutdown() }()
	factory.Start(stop.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v did not sync", kind)
		}
	}
	api := clients.CoreV1().ConfigMaps(namespace)
	if _, err := api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "informed"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, seen, "informed"); err != nil {
		return err
	}
	if _, err := factory.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace).Get("informed"); err != nil {
		return err
	}
	if err := api.Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, gone, "informed")
}

func until(ctx context.Context, names <-chan string, wanted string) error {
	for {
		select {
		case name := <-names:
			if name == wanted {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no %s", wanted)
		}
	}
}

func discovered(_ context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	groups, resources, err := clients.Discovery().ServerGroupsAndResources()
	if err != nil || len(groups) < 15 || len(resources) < 15 {
		return fmt.Errorf("%d groups, %d lists: %v", len(groups), len(resources), err)
	}
	preferred, err := discovery.ServerPreferredNamespacedResources(clients.Discovery())
	if err != nil || len(preferred) < 5 {
		return fmt.Errorf("preferred: %v", err)
	}
	document, err := clients.Discovery().OpenAPISchema()
	if err != nil || len(document.GetDefinitions().GetAdditionalProperties()) < 400 {
		return fmt.Errorf("OpenAPI: %v", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Discovery()))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "StatefulSet"})
	if err != nil || mapping.Resource.Resource != "statefulsets" {
		return fmt.Errorf("mapper: %v %v", mapping, err)
	}
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "hpa"})
	if err == nil {
		return fmt.Errorf("short names are not resources: %v", kind)
	}
	version, err := clients.Discovery().ServerVersion()
	if err != nil || version.Minor != "37" {
		return fmt.Errorf("version: %v %v", version, err)
	}
	return nil
}

func refusals(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	bad := deployment("bad")
	bad.Spec.Template.Labels = nil
	bad.Spec.Template.Spec.Containers[0].Name = "Bad Name"
	_, err := clients.AppsV1().Deployments(namespace).Create(ctx, bad, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || len(err.(apierrors.APIStatus).Status().Details.Causes) != 2 {
		return fmt.Errorf("invalid: %v", err)
	}
	if _, err := clients.CoreV1().Pods(namespace).Get(ctx, "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("absent: %v", err)
	}
	_, err = clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("again: %v", err)
	}
	return nil
}

// others uses the clients that share a typed client's transport settings: metadata only, and dynamic.
func others(ctx context.Context, _ kubernetes.Interface, config *rest.Config) error {
	only, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return err
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	found, err := only.Resource(secrets).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(found.Items) < 7 || found.Items[0].Name == "" {
		return fmt.Errorf("metadata: %v", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := untyped.Resource(secrets).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != len(found.Items) {
		return fmt.Errorf("dynamic: %v", err)
	}
	var secret corev1.Secret
	return runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, &secret)
}

func collections(ctx context.Context, clients kubernetes.Interface, _ *rest.Config) error {
	api := clients.CoreV1().Secrets(namespace)
	if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=1"}); err != nil {
		return err
	}
	left, err := api.List(ctx, metav1.ListOptions{LabelSelector: "odd"})
	if err != nil || len(left.Items) != 4 {
		return fmt.Errorf("%d left: %v", len(left.Items), err)
	}
	return clients.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}
