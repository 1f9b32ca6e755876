package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// How an object is filled.
const (
	full     = "full"     // every field has a value of its own
	pointers = "pointers" // every pointer points at a zero value
	zero     = "zero"     // nothing is set
)

// filler gives values that differ from each other, the same on every run.
type filler struct {
	how string
	n   int
}

func (f *filler) next() int { f.n++; return f.n }

var quantities = []string{"1500m", "2", "1Gi", "0", "12e6", "-3", "100n", "1536Mi", "9223372036854775807", "5k"}

func (f *filler) fill(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *resource.Quantity:
		if f.how == full {
			*p = resource.MustParse(quantities[f.next()%len(quantities)])
		}
		return
	case *intstr.IntOrString:
		if f.how == full {
			if f.next()%2 == 0 {
				*p = intstr.FromInt32(int32(f.n))
			} else {
				*p = intstr.FromString(fmt.Sprint(f.n, "%"))
			}
		}
		return
	case *metav1.Time:
		if f.how == full {
			*p = metav1.Unix(int64(f.next())*86400-1e9, 0)
		}
		return
	case *metav1.MicroTime:
		if f.how == full {
			*p = metav1.MicroTime{Time: time.Unix(int64(f.next())*3600, int64(f.n)*1000)}
		}
		return
	case *runtime.RawExtension:
		if f.how == full {
			p.Raw = fmt.Appendf(nil, `{"kind":"Any","n":%d}`, f.next())
		}
		return
	case *metav1.FieldsV1:
		if f.how == full {
			p.SetRawString(fmt.Sprintf(`{"f:a":{},"f:b%d":{}}`, f.next()))
		}
		return
	case *apiextensionsv1.JSON:
		if f.how == full {
			p.Raw = fmt.Appendf(nil, `[%d,"x",null]`, f.next())
		}
		return
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		if f.how == full {
			p.Allows = true
			if f.next()%2 == 0 && depth < 6 {
				p.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
			}
		}
		return
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		if f.how == full {
			p.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		return
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		if f.how == full {
			p.Property = []string{"a", "b"}
		}
		return
	}
	f.kind(v, depth)
}

func (f *filler) kind(v reflect.Value, depth int) {
	set := f.how == full
	switch v.Kind() {
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if f.how == zero || depth > 9 || v.Type().Elem() == reflect.TypeFor[apiextensionsv1.JSONSchemaProps]() && depth > 3 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		if !set || depth > 9 || v.Type().Elem() == reflect.TypeFor[apiextensionsv1.JSONSchemaProps]() && depth > 3 {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Append(nil, "bytes", f.next()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), depth+1)
	case reflect.Map:
		if !set || depth > 9 || v.Type().Elem() == reflect.TypeFor[apiextensionsv1.JSONSchemaProps]() && depth > 3 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key := reflect.ValueOf(fmt.Sprint("k", f.next())).Convert(v.Type().Key())
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if set {
			v.SetString(fmt.Sprint("s", f.next()))
		}
	case reflect.Int32, reflect.Int64, reflect.Int:
		if set {
			n := int64(f.next())
			if n%7 == 0 {
				n = -n
			}
			v.SetInt(n)
		}
	case reflect.Bool:
		v.SetBool(set)
	case reflect.Float64:
		if set {
			v.SetFloat(float64(f.next()) + 0.5)
		}
	case reflect.Interface:
	default:
		panic("no filling for " + v.Type().String())
	}
}

// vectors writes, for every kind with a protobuf form, the JSON and the protobuf of objects that it fills.
func vectors(folder string) {
	s := scheme()
	serializer := protobuf.NewSerializer(s, s)
	kinds := s.AllKnownTypes()
	order := make([]schema.GroupVersionKind, 0, len(kinds))
	for gvk := range kinds {
		if wanted(gvk, kinds[gvk]) && gvk.Kind != "WatchEvent" {
			order = append(order, gvk)
		}
	}
	sort.Slice(order, func(i, j int) bool { return order[i].String() < order[j].String() })
	for _, how := range []string{zero, pointers, full} {
		var out bytes.Buffer
		for _, gvk := range order {
			t := kinds[gvk]
			if !reflect.PointerTo(t).Implements(message) || how == full && strings.HasSuffix(gvk.Kind, "List") && gvk.Kind != "PodList" {
				continue
			}
			object := reflect.New(t)
			(&filler{how: how}).fill(object.Elem(), 0)
			o := object.Interface().(runtime.Object)
			o.GetObjectKind().SetGroupVersionKind(gvk)
			var pb bytes.Buffer
			utilruntime.Must(serializer.Encode(o, &pb))
			text, err := json.Marshal(o)
			utilruntime.Must(err)
			line, err := json.Marshal(map[string]any{"kind": gvk.String(), "json": json.RawMessage(text), "pb": pb.Bytes()})
			utilruntime.Must(err)
			out.Write(line)
			out.WriteByte('\n')
		}
		utilruntime.Must(os.WriteFile(filepath.Join(folder, how+".jsonl"), out.Bytes(), 0o644))
	}
}
