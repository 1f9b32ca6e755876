// Prints how the API server's internal types print as JSON: one line a type, its fields in order.
package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	admv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	extint "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/storage"
)

var done = map[string]string{}

func jsonName(f reflect.StructField) (string, bool, bool) { // name, omitempty, inline
	tag, ok := f.Tag.Lookup("json")
	if !ok {
		return f.Name, false, f.Anonymous
	}
	p := strings.Split(tag, ",")
	omit := false
	for _, o := range p[1:] {
		if o == "omitempty" || o == "omitzero" {
			omit = true
		}
		if o == "inline" {
			return "", false, true
		}
	}
	if p[0] == "" {
		return f.Name, omit, f.Anonymous
	}
	return p[0], omit, false
}

// all fields of a versioned struct by Go name, embedded ones included
func flat(t reflect.Type, prefix string, out map[string]versionedField) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		name, _, inline := jsonName(f)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if inline {
				flat(f.Type, prefix, out)
			} else {
				flat(f.Type, prefix+name+".", out)
			}
			continue
		}
		out[f.Name] = versionedField{prefix + name, f.Type}
	}
}

type versionedField struct {
	path string
	t    reflect.Type
}

func name(t reflect.Type) string {
	return strings.ReplaceAll(t.PkgPath(), "/", ".")[strings.LastIndex(strings.ReplaceAll(t.PkgPath(), "/", "."), ".")+1:] + "." + t.Name()
}

func kind(it, vt reflect.Type) string {
	if it.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" || it.PkgPath() == "k8s.io/apimachinery/pkg/api/resource" || it.PkgPath() == "k8s.io/apimachinery/pkg/util/intstr" {
		switch it.Name() {
		case "Time", "MicroTime":
			return "time"
		case "Quantity":
			return "quantity"
		case "IntOrString":
			return "intorstring"
		}
	}
	if it.Name() == "RawExtension" {
		return "any"
	}
	switch it.Kind() {
	case reflect.Ptr:
		e := vt
		if vt.Kind() == reflect.Ptr {
			e = vt.Elem()
		}
		return "*" + kind(it.Elem(), e)
	case reflect.Slice:
		if it.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		e := vt
		if vt.Kind() == reflect.Slice {
			e = vt.Elem()
		}
		return "[]" + kind(it.Elem(), e)
	case reflect.Map:
		e := vt
		if vt.Kind() == reflect.Map {
			e = vt.Elem()
		}
		return "{}" + kind(it.Elem(), e)
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Int16, reflect.Uint8, reflect.Uint32:
		return "i"
	case reflect.Float64:
		return "f"
	case reflect.Struct:
		return walk(it, vt)
	}
	return "any"
}

func walk(it, vt reflect.Type) string {
	n := name(it)
	if _, ok := done[n]; ok {
		return n
	}
	done[n] = ""
	var fields []string
	versioned := map[string]versionedField{}
	if vt.Kind() == reflect.Struct {
		flat(vt, "", versioned)
	}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := 0; i < t.NumField(); i++ {
			f := t.Field(i)
			out, omit, inline := jsonName(f)
			if inline && f.Type.Kind() == reflect.Struct {
				add(f.Type)
				continue
			}
			if out == "-" {
				continue
			}
			in := ""
			ft := f.Type
			var vft reflect.Type = ft
			if v, ok := versioned[f.Name]; ok {
				in = v.path
				vft = v.t
			}
			o := ""
			if omit {
				o = "?"
			}
			k := kind(ft, vft)
			fields = append(fields, fmt.Sprintf("%s%s=%s:%s", out, o, in, k))
		}
	}
	add(it)
	done[n] = strings.Join(fields, " ")
	return n
}

func main() {
	pairs := [][2]any{
		{core.PodSpec{}, corev1.PodSpec{}},
		{core.PodTemplateSpec{}, corev1.PodTemplateSpec{}},
		{core.PersistentVolumeClaim{}, corev1.PersistentVolumeClaim{}},
		{core.PersistentVolumeSource{}, corev1.PersistentVolumeSource{}},
		{core.VolumeNodeAffinity{}, corev1.VolumeNodeAffinity{}},
		{core.ServicePort{}, corev1.ServicePort{}},
		{core.ScopeSelector{}, corev1.ScopeSelector{}},
		{core.Taint{}, corev1.Taint{}},
		{core.EventSource{}, corev1.EventSource{}},
		{core.ObjectReference{}, corev1.ObjectReference{}},
		{core.SecurityContext{}, corev1.SecurityContext{}},
		{rbac.RoleRef{}, rbacv1.RoleRef{}},
		{apps.DeploymentStrategy{}, appsv1.DeploymentStrategy{}},
		{apps.DaemonSetUpdateStrategy{}, appsv1.DaemonSetUpdateStrategy{}},
		{apps.StatefulSetUpdateStrategy{}, appsv1.StatefulSetUpdateStrategy{}},
		{batch.PodFailurePolicy{}, batchv1.PodFailurePolicy{}},
		{batch.SuccessPolicy{}, batchv1.SuccessPolicy{}},
		{extint.CustomResourceDefinitionVersion{}, extv1.CustomResourceDefinitionVersion{}},
		{admissionregistration.Rule{}, admv1.Rule{}},
		{policy.PodDisruptionBudgetSpec{}, policyv1.PodDisruptionBudgetSpec{}},
		{storage.CSINodeDriver{}, storagev1.CSINodeDriver{}},
		{flowcontrol.FlowSchemaSpec{}, flowcontrolv1.FlowSchemaSpec{}},
		{flowcontrol.PriorityLevelConfigurationSpec{}, flowcontrolv1.PriorityLevelConfigurationSpec{}},
		{networking.ServiceCIDRSpec{}, networkingv1.ServiceCIDRSpec{}},
		{resource.ResourceClaimTemplateSpec{}, resourcev1.ResourceClaimTemplateSpec{}},
		{authorization.NonResourceAttributes{}, authorizationv1.NonResourceAttributes{}},
	}
	for _, p := range pairs {
		walk(reflect.TypeOf(p[0]), reflect.TypeOf(p[1]))
	}
	var names []string
	for n := range done {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Println(n, done[n])
	}
}
