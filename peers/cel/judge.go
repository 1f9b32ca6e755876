package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Corpus is a set of rules with what Kubernetes says of them.
type Corpus struct {
	Schemas []Schema `json:"schemas"`
	Cases   []Case   `json:"cases"`
}

// Schema is the schema of a whole object, and some objects. A rule stands at its root.
type Schema struct {
	Schema  json.RawMessage `json:"schema"`
	Objects []Sample        `json:"objects"`
}

// Sample is an object and what it was before.
type Sample struct {
	Object map[string]any `json:"object"`
	Old    map[string]any `json:"old,omitempty"`
}

// UnmarshalJSON reads numbers as Kubernetes does: whole ones are integers.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var fields struct {
		Object json.RawMessage `json:"object"`
		Old    json.RawMessage `json:"old"`
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if fields.Old != nil {
		if err := utiljson.Unmarshal(fields.Old, &s.Old); err != nil {
			return err
		}
	}
	return utiljson.Unmarshal(fields.Object, &s.Object)
}

// Case is one rule. It has either an error or an estimate, with one run for each object of its schema.
type Case struct {
	Schema   int    `json:"schema"`
	Rule     string `json:"rule"`
	Error    string `json:"error,omitempty"`
	Estimate uint64 `json:"estimate,omitempty"`
	Runs     []Run  `json:"runs,omitempty"`
}

// Run is one evaluation: what it cost, and an empty text for true.
type Run struct {
	Cost  uint64 `json:"cost"`
	Error string `json:"error,omitempty"`
}

// unlimited lets a run go on whatever it costs. One that costs more than a rule may is cut off by its own limit.
const unlimited = math.MaxInt64

type judge struct {
	schemas []Schema
	read    []*structural.Structural
}

func newJudge(schemas []Schema) (*judge, error) {
	made := &judge{schemas: schemas}
	for _, schema := range schemas {
		read, err := read(schema.Schema)
		if err != nil {
			return nil, err
		}
		made.read = append(made.read, read)
	}
	return made, nil
}

func read(schema []byte) (*structural.Structural, error) {
	var published apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(schema, &published); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&published, &internal, nil); err != nil {
		return nil, err
	}
	return structural.NewStructural(&internal)
}

func environments() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// answer compiles a rule for the root of a schema and runs it on the objects of the schema.
func (j *judge) answer(schema int, rule string) Case {
	found := Case{Schema: schema, Rule: rule}
	own := *j.read[schema]
	own.XValidations = apiextensionsv1.ValidationRules{{Rule: rule, Message: "refused"}}
	kind := model.SchemaDeclType(&own, true)
	compiled, err := schemacel.Compile(&own, kind, celconfig.PerCallLimit, environments(), schemacel.NewExpressionsEnvLoader())
	if err == nil && compiled[0].Error != nil {
		err = compiled[0].Error
	}
	if err != nil {
		found.Error = err.Error()
		return found
	}
	found.Estimate = compiled[0].MaxCost
	validator := schemacel.NewValidator(&own, true, celconfig.PerCallLimit)
	for _, sample := range j.schemas[schema].Objects {
		var old any
		if sample.Old != nil {
			old = sample.Old
		}
		errs, left := validator.Validate(context.Background(), field.NewPath("root"), &own, sample.Object, old, unlimited)
		run := Run{Error: told(errs)}
		if left >= 0 {
			run.Cost = uint64(unlimited - left)
		}
		found.Runs = append(found.Runs, run)
	}
	return found
}

func told(errs field.ErrorList) string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, strings.TrimPrefix(err.ErrorBody(), "Invalid value: "))
	}
	return strings.Join(lines, "; ")
}

// marshal writes JSON without escapes for HTML.
func marshal(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("%v: %w", value, err)
	}
	return strings.TrimSpace(text.String()), nil
}
