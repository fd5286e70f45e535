// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is something that may be allowed.
type Action struct {
	// A subresource is behind a slash.
	Group, Resource string
	// Namespace is empty for all, Name for any.
	Namespace, Name string
	Verb            string
}

// review is a SelfSubjectAccessReview as far as it is used.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Attributes map[string]string `json:"resourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status,omitzero"`
}

// Allowed asks the API server whether its authorizers allow the action to who the client is.
func (c *Client) Allowed(ctx context.Context, a Action) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	question := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	resource, subresource, _ := strings.Cut(a.Resource, "/")
	question.Spec.Attributes = map[string]string{
		"verb": a.Verb, "group": a.Group, "resource": resource, "subresource": subresource,
		"namespace": a.Namespace, "name": a.Name,
	}
	body, err := json.Marshal(question)
	if err != nil {
		return false, err
	}
	const reviews = "selfsubjectaccessreviews"
	u := c.base
	u.Path = joinPath(u.Path, "/apis/authorization.k8s.io/v1/"+reviews)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", acceptObjects)
	req.Header.Set("Content-Type", acceptObjects)
	resp, err := c.do(req)
	if err != nil {
		return false, fmt.Errorf("ask for permissions: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("ask for permissions: %w",
			refused(resp, schema.GroupResource{Group: "authorization.k8s.io", Resource: reviews}))
	}
	var answer review
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return false, fmt.Errorf("ask for permissions: %w", err)
	}
	return answer.Status.Allowed, nil
}
