// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// Ask returns how the replicas of a process are, whose HTTP server is at server: a URL, or host:port.
func Ask(ctx context.Context, server string) (Answer, error) {
	return ask(ctx, server, Path, http.MethodGet, nil)
}

// Resume lets a replica go on, or all of them if name is empty, and returns how they are then.
func Resume(ctx context.Context, server, name string) (Answer, error) {
	query := url.Values{}
	if name != "" {
		query.Set(paramReplica, name)
	}
	return ask(ctx, server, ResumePath, http.MethodPost, query)
}

// RefusedError is a process's answer that it does not do what it is asked for.
type RefusedError struct{ text string }

// Error implements error.
func (e *RefusedError) Error() string { return e.text }

func ask(ctx context.Context, server, path, method string, query url.Values) (Answer, error) {
	client, err := endpoint.NewClient(server, path)
	if err != nil {
		return Answer{}, err
	}
	defer client.Close()
	answer, err := client.Ask(ctx, method, query)
	if err != nil {
		return Answer{}, err
	}
	var said struct {
		Answer
		Refusal
	}
	switch err := json.Unmarshal(answer.Body, &said); {
	case err == nil && said.Error != "":
		return Answer{}, &RefusedError{inert.Line(said.Error)}
	case answer.Code == http.StatusForbidden:
		return Answer{}, &RefusedError{inert.Line(string(bytes.TrimSpace(answer.Body)))}
	case err != nil || said.Replicas == nil:
		return Answer{}, answer.Stranger("has replicas")
	}
	return said.Answer, nil
}
