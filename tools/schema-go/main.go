// Prints what only Go's type information knows about the Kubernetes API types: struct tags, pointers, and which
// types marshal themselves. `cargo xtask schema` reads it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Type is one Go type. Fields are flattened: what Go inlines stands beside its neighbours.
type Type struct {
	Go     string   `json:"go"`
	Model  string   `json:"model,omitempty"`
	Kind   string   `json:"kind"`
	Elem   string   `json:"elem,omitempty"`
	Values []string `json:"values,omitempty"`
	Fields []Field  `json:"fields,omitempty"`
}

// Field is one JSON field of a struct. Under names the Go fields that hold it where a struct is inlined.
type Field struct {
	Name          string `json:"name"`
	Type          string `json:"type"`
	OmitEmpty     bool   `json:"omitempty,omitempty"`
	OmitZero      bool   `json:"omitzero,omitempty"`
	Pointer       bool   `json:"pointer,omitempty"`
	Proto         []int  `json:"proto,omitempty"`
	Under         string `json:"under,omitempty"`
	PatchStrategy string `json:"patchStrategy,omitempty"`
	PatchMergeKey string `json:"patchMergeKey,omitempty"`
}

// Kind is one registered kind.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
}

type dump struct {
	Types map[string]*Type `json:"types"`
	Kinds []Kind           `json:"kinds"`
}

var selfMarshalled = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "intorstring",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "fieldsv1",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "rawextension",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "propsorbool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "propsorarray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "propsorstringarray",
}

func key(t reflect.Type) string {
	if t.Name() != "" && t.PkgPath() != "" {
		return t.PkgPath() + "." + t.Name()
	}
	switch t.Kind() {
	case reflect.Slice:
		return "[]" + key(t.Elem())
	case reflect.Map:
		return "map[" + key(t.Key()) + "]" + key(t.Elem())
	case reflect.Pointer:
		return "*" + key(t.Elem())
	}
	return t.String()
}

func model(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return ""
}

var enums = enumerations{}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	message     = reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()
)

func (d *dump) add(t reflect.Type) string {
	k := key(t)
	if _, ok := d.Types[k]; ok {
		return k
	}
	out := &Type{Go: t.String(), Model: model(t)}
	d.Types[k] = out
	if kind, ok := selfMarshalled[k]; ok {
		out.Kind = kind
		switch kind {
		case "propsorbool", "propsorarray", "propsorstringarray":
			out.Elem = d.add(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
		}
		return k
	}
	if p := reflect.PointerTo(t); p.Implements(marshaler) || p.Implements(unmarshaler) {
		panic("a type that marshals itself and is not known: " + k)
	}
	switch t.Kind() {
	case reflect.String:
		out.Kind = "string"
		out.Values = enums.values(t.PkgPath(), t.Name())
	case reflect.Bool:
		out.Kind = "bool"
	case reflect.Int32:
		out.Kind = "int32"
	case reflect.Int64, reflect.Int:
		out.Kind = "int64"
	case reflect.Float64:
		out.Kind = "double"
	case reflect.Interface:
		out.Kind = "any"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			out.Kind = "bytes"
			break
		}
		out.Kind = "list"
		if reflect.PointerTo(t).Implements(message) {
			out.Kind = "wrappedlist"
		}
		if t.Elem().Kind() == reflect.Pointer {
			panic("a list of pointers: " + k)
		}
		out.Elem = d.add(t.Elem())
	case reflect.Map:
		out.Kind = "map"
		if t.Key().Kind() != reflect.String || t.Elem().Kind() == reflect.Pointer {
			panic("a map that JSON has not: " + k)
		}
		out.Elem = d.add(t.Elem())
	case reflect.Struct:
		out.Kind = "struct"
		if !reflect.PointerTo(t).Implements(message) {
			out.Kind = "jsonstruct"
		}
		d.fields(t, out, "", nil, false)
	default:
		panic("a kind that JSON has not: " + k + " " + t.Kind().String())
	}
	return k
}

// The numbers of the embedded messages above stand in via; hidden says that protobuf does not have this struct.
func (d *dump) fields(t reflect.Type, out *Type, under string, via []int, hidden bool) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		parts := strings.Split(tag, ",")
		number := 0
		if proto := strings.Split(f.Tag.Get("protobuf"), ","); len(proto) > 1 {
			n, err := strconv.Atoi(proto[1])
			utilruntime.Must(err)
			number = n
		}
		if parts[0] == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		options := map[string]bool{}
		for _, o := range parts[1:] {
			options[o] = true
		}
		if f.Anonymous && parts[0] == "" || options["inline"] {
			if f.Type.Kind() != reflect.Struct {
				panic("inlined, not a struct: " + t.String() + "." + f.Name)
			}
			d.fields(f.Type, out, strings.TrimPrefix(under+"."+f.Name, "."), append(slices.Clone(via), number), hidden || number == 0)
			continue
		}
		if !tagged || parts[0] == "" {
			panic("no JSON name: " + t.String() + "." + f.Name)
		}
		ft, pointer := f.Type, false
		if ft.Kind() == reflect.Pointer {
			ft, pointer = ft.Elem(), true
		}
		field := Field{
			Name: parts[0], Type: d.add(ft), OmitEmpty: options["omitempty"], OmitZero: options["omitzero"], Pointer: pointer, Under: under,
			PatchStrategy: f.Tag.Get("patchStrategy"), PatchMergeKey: f.Tag.Get("patchMergeKey"),
		}
		if !hidden && number != 0 {
			field.Proto = append(slices.Clone(via), number)
		}
		out.Fields = append(out.Fields, field)
	}
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiregistrationv1.AddToScheme(s))
	utilruntime.Must(admissionv1.AddToScheme(s))
	utilruntime.Must(apidiscoveryv2.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return s
}

// wanted says which registered kinds the table has: the stable versions, and what a stable version still accepts.
func wanted(gvk schema.GroupVersionKind, t reflect.Type) bool {
	if strings.HasPrefix(gvk.Group, "__") {
		return false
	}
	stable := !strings.ContainsAny(strings.TrimPrefix(gvk.Version, "v"), "abcdefghijklmnopqrstuvwxyz_")
	if !stable && gvk != (schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "Eviction"}) {
		return false
	}
	// The options and the watch event are registered in every group: once is enough.
	meta := t.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath()
	return !meta || gvk.Group == "" || gvk.Group == "meta.k8s.io"
}

func printTypes() {
	d := &dump{Types: map[string]*Type{}}
	s := scheme()
	kinds := s.AllKnownTypes()
	order := make([]schema.GroupVersionKind, 0, len(kinds))
	for gvk := range kinds {
		order = append(order, gvk)
	}
	sort.Slice(order, func(i, j int) bool { return order[i].String() < order[j].String() })
	for _, gvk := range order {
		t := kinds[gvk]
		if wanted(gvk, t) {
			d.Kinds = append(d.Kinds, Kind{gvk.Group, gvk.Version, gvk.Kind, d.add(t)})
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	utilruntime.Must(out.Encode(d))
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "types":
		printTypes()
	case len(os.Args) == 3 && os.Args[1] == "vectors":
		vectors(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage:", filepath.Base(os.Args[0]), "types | vectors FOLDER")
		os.Exit(2)
	}
}
