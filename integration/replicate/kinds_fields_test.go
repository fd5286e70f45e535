// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// openAPISchema is what the test reads of a schema in OpenAPI.
type openAPISchema struct {
	Ref                  string                                  `json:"$ref"`
	AllOf                []openAPISchema                         `json:"allOf"`
	Properties           map[string]openAPISchema                `json:"properties"`
	Items                *openAPISchema                          `json:"items"`
	AdditionalProperties json.RawMessage                         `json:"additionalProperties"`
	Kinds                []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

func (s openAPISchema) ref() string {
	ref := s.Ref
	for _, of := range s.AllOf {
		ref += of.Ref
	}
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// fieldsSeen are the fields that the types of the API have, and whether an object has them.
type fieldsSeen struct {
	types map[string]openAPISchema
	seen  map[string]bool
}

// fields fails the test if the API server knows a field that no object of the source has, and no reason is known.
func (k *kinds) fields() {
	k.t.Helper()
	client := must.Get(kubernetes.NewForConfig(k.source.RESTConfig()))(k.t).RESTClient()
	s := &fieldsSeen{types: make(map[string]openAPISchema), seen: make(map[string]bool)}
	done := make(map[string]bool)
	for _, id := range k.ids {
		path := "/openapi/v3/apis/" + id.resource.Group + "/" + id.resource.Version
		if id.resource.Group == "" {
			path = "/openapi/v3/api/" + id.resource.Version
		}
		if strings.HasSuffix(id.resource.Group, "example.com") || done[path] {
			continue // of a CustomResourceDefinition
		}
		done[path] = true
		var document struct {
			Components struct{ Schemas map[string]openAPISchema }
		}
		body := must.Get(client.Get().AbsPath(path).DoRaw(k.t.Context()))(k.t)
		if err := json.Unmarshal(body, &document); err != nil {
			k.t.Fatal(err)
		}
		maps.Copy(s.types, document.Components.Schemas)
	}
	for _, id := range k.ids {
		object := must.Get(k.at(k.from, id, id.namespace).Get(k.t.Context(), id.name, metav1.GetOptions{}))(k.t)
		gvk := object.GroupVersionKind()
		for name, of := range s.types {
			if slices.ContainsFunc(of.Kinds, func(k struct{ Group, Version, Kind string }) bool {
				return k.Group == gvk.Group && k.Version == gvk.Version && k.Kind == gvk.Kind
			}) {
				delete(object.Object, "status")
				s.see(name, of, object.Object)
			}
		}
	}
	var unset []string
	for field, seen := range s.seen {
		_, known := unsetFields[field]
		if !seen && !known && !strings.HasPrefix(field, "EphemeralContainer.") { // they are removed as a whole
			unset = append(unset, field)
		}
		assert.False(k.t, seen && known, "%s is set", field)
	}
	slices.Sort(unset)
	assert.Empty(k.t, strings.Join(unset, "\n"), "fields that no manifest sets")
}

// see notes which fields of a type an object has.
func (s *fieldsSeen) see(name string, of openAPISchema, v any) {
	if target := of.ref(); target != "" {
		name, of = target, s.types[target]
	}
	switch v := v.(type) {
	case map[string]any:
		for property, schema := range of.Properties {
			if strings.HasSuffix(schema.ref(), "Status") {
				continue
			}
			field := name[strings.LastIndex(name, ".")+1:] + "." + property
			if name == "" {
				field = property
			}
			value, has := v[property]
			s.seen[field] = s.seen[field] || has
			if has {
				s.see("", schema, value)
			}
		}
		var rest openAPISchema
		if json.Unmarshal(of.AdditionalProperties, &rest) == nil {
			for property, value := range v {
				if _, own := of.Properties[property]; !own {
					s.see("", rest, value)
				}
			}
		}
	case []any:
		if of.Items != nil {
			for _, element := range v {
				s.see("", *of.Items, element)
			}
		}
	}
}

// unsetFields are the fields of types that no manifest has, and why.
var unsetFields = map[string]string{
	"CSIDriverSpec.preventPodSchedulingIfMissing":     offByGate,
	"Device.nodeAllocatableResourceMappings":          offByGate,
	"DeviceAttribute.bools":                           offByGate,
	"DeviceAttribute.ints":                            offByGate,
	"DeviceAttribute.strings":                         offByGate,
	"DeviceAttribute.versions":                        offByGate,
	"LeaseSpec.preferredHolder":                       offByGate,
	"LeaseSpec.strategy":                              offByGate,
	"Lifecycle.stopSignal":                            offByGate,
	"RollingUpdateStatefulSetStrategy.maxUnavailable": offByGate,
	"TypedObjectReference.namespace":                  offByGate,
	"PodSpec.schedulingGroup":                         offByGate,
	"VolumeProjection.clusterTrustBundle":             offByGate,
	"VolumeProjection.podCertificate":                 offByGate,

	"CertificateSigningRequestSpec.uid":                  "the test's user has none",
	"CustomResourceDefinitionSpec.preserveUnknownFields": "true is refused, and false is not stored",
	"Endpoint.deprecatedTopology":                        "dropped on creation",
	"Event.deprecatedCount":                              "dropped on creation",
	"JSONSchemaProps.$ref":                               forbidden,
	"JSONSchemaProps.$schema":                            forbidden,
	"JSONSchemaProps.additionalItems":                    forbidden,
	"JSONSchemaProps.definitions":                        forbidden,
	"JSONSchemaProps.dependencies":                       forbidden,
	"JSONSchemaProps.id":                                 forbidden,
	"JSONSchemaProps.patternProperties":                  forbidden,
	"JSONSchemaProps.uniqueItems":                        "true is refused, and false is not stored",
	"NodeSpec.configSource":                              "dropped on creation",
	"ObjectMeta.selfLink":                                "no API server sets it any more",
	"PriorityLevelConfigurationSpec.exempt":              "only the one named exempt has it, which each API server makes",
	"Secret.stringData":                                  "not stored",
}

const (
	offByGate = "of a feature gate that is off"
	forbidden = "the API server refuses it in a CustomResourceDefinition"
)
