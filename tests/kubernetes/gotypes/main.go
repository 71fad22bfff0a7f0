// Command gotypes prints how Go writes the fields of all Kubernetes types as JSON: which are left out when they are
// empty, and what Go calls their type in errors. OpenAPI does not tell either. generate_schemas.py reads the output.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// field is one key of the JSON of a struct.
type field struct {
	Type      string `json:"type"`      // as Go prints it, without the pointer
	Kind      string `json:"kind"`      // struct, slice, map, string, int32, ...
	Pointer   bool   `json:"pointer"`   // null is told apart from empty
	OmitEmpty bool   `json:"omitempty"` // left out when empty
	OmitZero  bool   `json:"omitzero"`  // left out when it is a struct with nothing in it
	Within    string `json:"within"`    // the embedded struct that it stands in, which errors name
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

var definitions = map[string]map[string]field{}

// name is what OpenAPI calls a type: io.k8s.api.core.v1.Pod for Pod of k8s.io/api/core/v1.
func name(t reflect.Type) string {
	domain, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// visit records a type and all that it refers to.
func visit(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		visit(t.Elem())
	case reflect.Struct:
		// Types that read their JSON themselves, such as Time and Quantity, have no fields.
		if definitions[name(t)] == nil && !reflect.PointerTo(t).Implements(unmarshaler) {
			fields := map[string]field{}
			definitions[name(t)] = fields
			collect(t, "", fields)
		}
	}
}

// collect adds the fields of a struct; those of embedded structs stand beside them.
func collect(t reflect.Type, within string, fields map[string]field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case key == "-" || !f.IsExported():
		case key == "" && f.Anonymous:
			collect(f.Type, f.Name, fields)
		case key != "":
			visit(f.Type)
			bare := f.Type
			if bare.Kind() == reflect.Pointer {
				bare = bare.Elem()
			}
			fields[key] = field{
				Type:      bare.String(),
				Kind:      bare.Kind().String(),
				Pointer:   f.Type.Kind() == reflect.Pointer,
				OmitEmpty: strings.Contains(options, "omitempty"),
				OmitZero:  strings.Contains(options, "omitzero"),
				Within:    within,
			}
		}
	}
}

func main() {
	known := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(known); err != nil {
			panic(err)
		}
	}
	for _, t := range known.AllKnownTypes() {
		visit(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(definitions); err != nil {
		panic(err)
	}
}
