// SPDX-License-Identifier: Apache-2.0

package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// exchange is an answer that was recorded, to a request with this method.
type exchange struct {
	Method, ContentType, Text string
	Code                      int
	Body                      json.RawMessage
	header                    http.Header
	err                       error
}

// server answers with exchanges, one after the other, and keeps the requests.
type server struct {
	exchanges []exchange
	requests  []*http.Request
	bodies    []string
}

// RoundTrip implements [http.RoundTripper].
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	if len(s.exchanges) == 0 {
		return nil, errors.New("one request too many")
	}
	e := s.exchanges[0]
	s.exchanges = s.exchanges[1:]
	if e.err != nil {
		return nil, e.err
	}
	if e.Method != "" && e.Method != r.Method {
		return nil, errors.New("another request than was recorded")
	}
	answer := append([]byte(e.Text), e.Body...)
	header := http.Header{"Content-Type": {e.ContentType}}
	for name, values := range e.header {
		header[name] = values
	}
	return &http.Response{
		StatusCode: e.Code, Header: header, Body: io.NopCloser(bytes.NewReader(answer)), Request: r,
	}, nil
}

// target returns a target that has these answers.
func target(t *testing.T, exchanges ...exchange) (*write.Target, *server) {
	s := &server{exchanges: exchanges}
	return must.Get(write.New(&rest.Config{Host: "https://api.example.com/prefix", Transport: s}))(t), s
}

var (
	configMap = write.Object{
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Namespace: "shop", Name: "prices",
	}
	body = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"prices","uid":"x"},` +
		`"data":{"html":"<b>","n":12345678901234567890}}`)
)

const uid = types.UID("u") // as recorded answers have it

// calls are the methods of a target, by their names in recordings.
func calls(ctx context.Context, w *write.Target, o write.Object) map[string]func() (write.Answer, error) {
	return map[string]func() (write.Answer, error){
		"create":      func() (write.Answer, error) { return w.Create(ctx, o, body) },
		"apply":       func() (write.Answer, error) { return w.Apply(ctx, o, body, uid, "7", false) },
		"force":       func() (write.Answer, error) { return w.Apply(ctx, o, body, uid, "7", true) },
		"applyStatus": func() (write.Answer, error) { return w.ApplyStatus(ctx, o, body, uid, "7", true) },
		"post":        func() (write.Answer, error) { return w.Post(ctx, o, body) },
		"put":         func() (write.Answer, error) { return w.Put(ctx, o, body, uid, "7") },
		"delete":      func() (write.Answer, error) { return w.Delete(ctx, o, uid, "7") },
		"get":         func() (write.Answer, error) { return w.Get(ctx, o) },
		"tryCreate":   func() (write.Answer, error) { return w.TryCreate(ctx, o, body) },
	}
}

// TestAnswers_that_were_recorded reads what a real API server has answered: integration/replicawrite.
func TestAnswers_that_were_recorded(t *testing.T) {
	lines := must.Get(os.ReadFile(filepath.Join("testdata", "answers.jsonl")))(t)
	seen := map[write.Outcome]bool{}
	for line := range bytes.Lines(lines) {
		var r struct {
			Situation, Call, Resource, Namespace, Name string
			Exchanges                                  []exchange
			Outcome                                    write.Outcome
		}
		require.NoError(t, json.Unmarshal(line, &r))
		t.Run(r.Situation, func(t *testing.T) {
			w, s := target(t, r.Exchanges...)
			o := write.Object{
				Resource:  schema.GroupVersionResource{Version: "v1", Resource: r.Resource},
				Namespace: r.Namespace, Name: r.Name,
			}
			a := must.Get(calls(t.Context(), w, o)[r.Call]())(t)
			assert.Equal(t, r.Outcome, a.Outcome, a.Message)
			assert.Contains(t, []int{r.Exchanges[0].Code, r.Exchanges[len(r.Exchanges)-1].Code}, a.Code)
			assert.NotEmpty(t, a.Message)
			assert.Empty(t, s.exchanges, "answers that were not asked for")
			seen[r.Outcome] = true
		})
	}
	assert.GreaterOrEqual(t, len(seen), 12, "outcomes that a recording has: %v", seen)
}
