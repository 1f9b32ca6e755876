package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Definition is a definition with what Kubernetes says of it.
type Definition struct {
	File   string         `json:"file"`
	Name   string         `json:"name"`
	Errors []string       `json:"errors"`
	Rules  []Rule         `json:"rules"`
	Object map[string]any `json:"object"`
}

// Rule is a rule of a definition with what it may cost for one value.
type Rule struct {
	Path         string `json:"path"`
	Estimate     uint64 `json:"estimate"`
	Message      uint64 `json:"message"`
	Error        string `json:"error,omitempty"`
	MessageError string `json:"messageError,omitempty"`
}

func definitions(files []string) error {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := documents(file, text); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
		}
	}
	return nil
}

func documents(file string, text []byte) error {
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer reader.Close()
	for {
		document := make([]byte, len(text)+1)
		size, err := reader.Read(document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := definition(file, document[:size]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
		}
	}
}

func definition(file string, document []byte) error {
	if !strings.Contains(string(document), "kind: CustomResourceDefinition") {
		return nil
	}
	var published apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(document, &published); err != nil {
		return err
	}
	if published.Kind != "CustomResourceDefinition" || published.APIVersion != "apiextensions.k8s.io/v1" {
		return nil
	}
	found := Definition{File: file, Name: published.Name, Errors: []string{}, Rules: []Rule{}}
	if err := yaml.Unmarshal(document, &found.Object); err != nil {
		return err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&published)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&published.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&published, &internal, nil); err != nil {
		return err
	}
	for _, version := range internal.Spec.Versions {
		if version.Storage {
			internal.Status.StoredVersions = []string{version.Name}
		}
	}
	for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		found.Errors = append(found.Errors, err.Error())
	}
	sort.Strings(found.Errors)
	for at, version := range published.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		path := field.NewPath("spec", "versions").Index(at).Child("schema", "openAPIV3Schema")
		var schema apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &schema, nil); err != nil {
			return err
		}
		read, err := structural.NewStructural(&schema)
		if err != nil {
			continue
		}
		found.collect(read, path, true)
	}
	line, err := marshal(found)
	fmt.Println(line)
	return err
}

func (found *Definition) collect(schema *structural.Structural, path *field.Path, root bool) {
	if len(schema.XValidations) > 0 {
		kind := model.SchemaDeclType(schema, root)
		compiled, err := schemacel.Compile(schema, kind, celconfig.PerCallLimit, environments(), schemacel.NewExpressionsEnvLoader())
		for at := range schema.XValidations {
			rule := Rule{Path: path.Child("x-kubernetes-validations").Index(at).String()}
			switch {
			case err != nil:
				rule.Error = err.Error()
			case compiled[at].Error != nil:
				rule.Error = compiled[at].Error.Error()
			default:
				rule.Estimate, rule.Message = compiled[at].MaxCost, compiled[at].MessageExpressionMaxCost
				if err := compiled[at].MessageExpressionError; err != nil {
					rule.MessageError = err.Error()
				}
			}
			found.Rules = append(found.Rules, rule)
		}
	}
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		property := schema.Properties[name]
		found.collect(&property, path.Child("properties").Key(name), property.XEmbeddedResource)
	}
	if schema.Items != nil {
		found.collect(schema.Items, path.Child("items"), schema.Items.XEmbeddedResource)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
		below := schema.AdditionalProperties.Structural
		found.collect(below, path.Child("additionalProperties"), below.XEmbeddedResource)
	}
}
