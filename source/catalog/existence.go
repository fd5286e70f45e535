// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// existence is what is known of what defines a resource.
type existence uint8

const (
	unknown existence = iota
	existing
	missing
	// doubtful: there is no answer now.
	doubtful
)

// automanaged is the label of an APIService that the API server has made itself: onStart of its own resources, else of
// custom ones.
const automanaged, onStart = "kube-aggregator.kubernetes.io/automanaged", "onstart"

// builtIn reports whether the program of the API server defines the resources of a group. While a cluster is upgraded,
// servers that do not know one of them answer beside servers that do, for as long as that takes.
func builtIn(group string) bool {
	return scheme.Scheme.IsGroupRegistered(group) || group == definitions.Group || group == services.Group
}

// defined asks for what defines a resource: an object of its own, or the API server of its group. It is unknown where
// the program of an API server of its own defines it.
func (c *Catalog) defined(ctx context.Context, r source.Resource) existence {
	if is := c.find(ctx, definitions, r.Resource+"."+r.Group, &struct{}{}); is != missing {
		return is
	}
	var all apiServices
	if is := c.find(ctx, services, "", &all); is != existing {
		return is
	}
	return all.defining(r.Group)
}

// apiServices are all that there are, as far as they are looked at.
type apiServices struct {
	Items []apiService `json:"items"`
}

type apiService struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Group   string    `json:"group"`
		Service *struct{} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// defining returns what those of a group, in whatever version, say of a resource that no custom one defines.
func (all *apiServices) defining(group string) existence {
	is := missing
	for i := range all.Items {
		s := &all.Items[i]
		switch {
		case s.Spec.Group != group:
		case s.away():
			return doubtful
		case s.Spec.Service != nil, s.Metadata.Labels[automanaged] == onStart:
			is = unknown
		}
	}
	return is
}

// away reports whether an API server of its own cannot be asked now.
func (s *apiService) away() bool {
	return s.Spec.Service != nil && !slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == "Available" && c.Status == metav1.ConditionTrue
	})
}

// find reads an object, or without a name a list. It is missing if the API server says that nothing of that name
// exists, and unknown if that cannot be told.
func (c *Catalog) find(ctx context.Context, what schema.GroupVersionResource, name string, into any) existence {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	path := "/apis/" + what.Group + "/" + what.Version + "/" + what.Resource
	if name != "" {
		path += "/" + name
	}
	body, err := c.client.Get(ctx, path, "application/json", what.GroupResource())
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return unknown
	case apierrors.IsNotFound(err) && name != "" && !apierrors.HasStatusCause(err,
		metav1.CauseTypeUnexpectedServerResponse):
		return missing
	case err != nil:
		return doubtful
	}
	defer func() { _ = body.Close() }()
	if json.NewDecoder(body).Decode(into) != nil {
		return doubtful
	}
	return existing
}
