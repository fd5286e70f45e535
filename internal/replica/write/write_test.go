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
	"testing/synctest"
	"time"

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

func status(text string) exchange {
	return exchange{Body: json.RawMessage(`{"kind":"Status","apiVersion":"v1","status":"Failure",` + text + `}`)}
}

// with returns the exchange with a code.
func (e exchange) with(code int) exchange {
	e.Code = code
	if e.ContentType == "" {
		e.ContentType = "application/json"
	}
	return e
}

var (
	done  = exchange{Body: json.RawMessage(`{"metadata":{"uid":"u","resourceVersion":"8"}}`)}.with(200)
	bare  = status(`"message":"etcd is away"`).with(500)
	plain = exchange{ContentType: "text/plain; charset=utf-8", Text: "no"}
)

func TestAnswers_of_what_is_no_API_server_or_a_loaded_one(t *testing.T) {
	after := http.Header{"Retry-After": {"3"}}
	timeout := json.RawMessage(`{"metadata":{},"status":"Failure","reason":"Timeout","details":{},"code":504}`)
	for title, c := range map[string]struct {
		want   write.Outcome
		wait   time.Duration
		answer exchange
	}{
		"no connection":  {write.Unavailable, 0, exchange{err: errors.New("connection refused")}},
		"a proxy's page": {write.Unavailable, 0, exchange{ContentType: "text/html", Text: "<p>", Code: 200}},
		"a login page":   {write.Unavailable, 0, exchange{ContentType: "text/html", Text: "<p>", Code: 403}},
		"a bad gateway":  {write.Unavailable, 0, plain.with(502)},
		"a timeout":      {write.Unavailable, 0, exchange{ContentType: plain.ContentType, Body: timeout, Code: 504}},
		"a stop": {
			write.Unavailable, 3 * time.Second, exchange{ContentType: plain.ContentType, Code: 503, header: after},
		},
		"too many requests": {
			write.Throttled, 3 * time.Second, exchange{ContentType: plain.ContentType, Code: 429, header: after},
		},
		"a storage that begins": {
			write.Throttled, time.Second,
			status(`"reason":"TooManyRequests","details":{"retryAfterSeconds":1}`).with(429),
		},
		"no such method": {
			write.NoResource, 0, status(`"reason":"MethodNotAllowed","details":{"kind":"x"}`).with(405),
		},
		"a contended quota": {
			write.Failed, 0, status(`"reason":"Conflict","details":{"name":"prices","kind":"resourcequotas"}`).with(409),
		},
		"another conflict": {
			write.Failed, 0, status(`"reason":"Conflict","details":{"name":"other","kind":"configmaps"}`).with(409),
		},
		"another missing object": {
			write.Failed, 0, status(`"reason":"NotFound","details":{"name":"other","kind":"things"}`).with(404),
		},
		"an unknown code": {write.Invalid, 0, status(`"reason":"x"`).with(418)},
	} {
		t.Run(title, func(t *testing.T) {
			for _, call := range []string{"create", "apply", "put", "delete"} {
				w, s := target(t, c.answer)
				a := must.Get(calls(t.Context(), w, configMap)[call]())(t)
				assert.Equal(t, c.want, a.Outcome, "%s: %s", call, a.Message)
				assert.Equal(t, c.wait, a.RetryAfter, call)
				assert.Equal(t, c.answer.Code, a.Code, call)
				assert.NotEmpty(t, a.Message, call)
				assert.Len(t, s.requests, 1, call)
			}
		})
	}
}

func TestUnappliable_is_what_fails_again_and_a_whole_object_does_not(t *testing.T) {
	unsupported := status(`"reason":"UnsupportedMediaType"`).with(415)
	denied := status(`"reason":"Forbidden"`).with(403)
	for title, c := range map[string]struct {
		answers []exchange
		want    write.Outcome
	}{
		"fails twice, and a put would do":     {[]exchange{bare, bare, done}, write.Unappliable},
		"fails once":                          {[]exchange{bare, done}, write.Failed},
		"fails twice, and a put too":          {[]exchange{bare, bare, bare}, write.Failed},
		"fails twice, and a put is denied":    {[]exchange{bare, bare, denied}, write.Denied},
		"fails, and is unanswered":            {[]exchange{bare, plain.with(502)}, write.Failed},
		"fails twice, and a put unanswered":   {[]exchange{bare, bare, plain.with(502)}, write.Unavailable},
		"is not supported, and a put would":   {[]exchange{unsupported, unsupported, done}, write.Unappliable},
		"is not supported, and a put neither": {[]exchange{unsupported, unsupported, unsupported}, write.Failed},
	} {
		t.Run(title, func(t *testing.T) {
			for call, whole := range map[string]string{"create": http.MethodPost, "apply": http.MethodPut} {
				w, s := target(t, c.answers...)
				a := must.Get(calls(t.Context(), w, configMap)[call]())(t)
				assert.Equal(t, c.want, a.Outcome, "%s: %s", call, a.Message)
				assert.NotEmpty(t, a.Message)
				assert.Empty(t, s.exchanges)
				for n, r := range s.requests {
					assert.Equal(t, []string{"", "All", "All"}[n], r.URL.Query().Get("dryRun"), "request %d", n)
					assert.Equal(t, []string{http.MethodPatch, http.MethodPatch, whole}[n], r.Method, "request %d", n)
				}
			}
		})
	}
	w, _ := target(t, bare)
	assert.Equal(t, write.Failed, must.Get(w.ApplyStatus(t.Context(), configMap, body, uid, "7", false))(t).Outcome)
}

func TestRequests(t *testing.T) {
	const (
		metadata   = `{"apiVersion":"v1","data":{"html":"<b>","n":12345678901234567890},"kind":"ConfigMap","metadata":`
		both       = metadata + `{"name":"prices","namespace":"shop","resourceVersion":"7","uid":"u"}}`
		collection = "/prefix/api/v1/namespaces/shop/configmaps"
		one        = collection + "/prices"
		applied    = "application/apply-patch+yaml"
		object     = "application/json"
	)
	for call, want := range map[string]struct{ method, path, query, contentType, body string }{
		"create": {
			http.MethodPatch, one, "fieldManager=kube-eventbridge&force=false&timeout=30s", applied,
			metadata + `{"name":"prices","namespace":"shop","resourceVersion":"1"}}`,
		},
		"apply": {http.MethodPatch, one, "fieldManager=kube-eventbridge&force=false&timeout=30s", applied, both},
		"force": {http.MethodPatch, one, "fieldManager=kube-eventbridge&force=true&timeout=30s", applied, both},
		"applyStatus": {
			http.MethodPatch, one + "/status", "fieldManager=kube-eventbridge&force=true&timeout=30s",
			applied, both,
		},
		"post": {
			http.MethodPost, collection, "fieldManager=kube-eventbridge&fieldValidation=Ignore&timeout=30s", object,
			metadata + `{"name":"prices","namespace":"shop"}}`,
		},
		"put": {http.MethodPut, one, "fieldManager=kube-eventbridge&fieldValidation=Ignore&timeout=30s", object, both},
		"tryCreate": {
			http.MethodPost, collection,
			"dryRun=All&fieldManager=kube-eventbridge&fieldValidation=Ignore&timeout=30s", object,
			metadata + `{"generateName":"kube-eventbridge-","namespace":"shop"}}`,
		},
		"delete": {http.MethodDelete, one, "timeout=30s", object, `{"kind":"DeleteOptions","apiVersion":"v1",` +
			`"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Background"}`},
		"get": {http.MethodGet, one, "timeout=30s", object, ""},
	} {
		t.Run(call, func(t *testing.T) {
			w, s := target(t, done)
			a := must.Get(calls(t.Context(), w, configMap)[call]())(t)
			assert.True(t, a.Outcome == write.Done && a.UID == uid && a.ResourceVersion == "8", "%+v", a)
			r := s.requests[0]
			assert.Equal(t, want.method, r.Method)
			assert.Equal(t, want.path, r.URL.Path)
			assert.Equal(t, want.query, r.URL.RawQuery)
			assert.Equal(t, want.contentType, r.Header.Get("Content-Type"))
			assert.Equal(t, "application/json", r.Header.Get("Accept"))
			assert.Equal(t, want.body, string(bytes.TrimSpace([]byte(s.bodies[0]))))
		})
	}
	w, s := target(t, done)
	must.Get(w.Get(t.Context(), write.Object{
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Name: "a",
	}))(t)
	assert.Equal(t, "/prefix/apis/apps/v1/deployments/a", s.requests[0].URL.Path)
}

func TestRequests_that_are_not_made(t *testing.T) {
	w, s := target(t)
	ctx := t.Context()
	unnamed := configMap
	unnamed.Name = ""
	for title, err := range map[string]error{
		"apply without a uid":             must.Err(w.Apply(ctx, configMap, body, "", "7", true)),
		"apply without a resourceVersion": must.Err(w.Apply(ctx, configMap, body, uid, "", true)),
		"put without a uid":               must.Err(w.Put(ctx, configMap, body, "", "7")),
		"put without a resourceVersion":   must.Err(w.Put(ctx, configMap, body, uid, "")),
		"status without a uid":            must.Err(w.ApplyStatus(ctx, configMap, body, "", "7", true)),
		"delete without a uid":            must.Err(w.Delete(ctx, configMap, "", "7")),
		"get without a name":              must.Err(w.Get(ctx, unnamed)),
		"create of no JSON":               must.Err(w.Create(ctx, configMap, []byte("apiVersion: v1"))),
		"create without metadata":         must.Err(w.Create(ctx, configMap, []byte(`{"kind":"ConfigMap"}`))),
		"post of null":                    must.Err(w.Post(ctx, configMap, []byte(`{"metadata":null}`))),
	} {
		assert.Error(t, err, title)
	}
	assert.Empty(t, s.requests)
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestRequests_end(t *testing.T) {
	w := must.Get(write.New(&rest.Config{Host: "https://api.example.com", Transport: silent{}}))(t)
	must.RunInBubble(t, "a while after the time that the API server has", func(t *testing.T) {
		began := time.Now()
		a := must.Get(w.Create(t.Context(), configMap, body))(t)
		assert.Equal(t, write.Unavailable, a.Outcome)
		took := time.Since(began)
		assert.True(t, took > write.Timeout && took < write.Timeout+10*time.Second, "took %v", took)
	})
	must.RunInBubble(t, "with their context, which is an error", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		go func() {
			synctest.Wait()
			cancel(stopped)
		}()
		_, err := w.Apply(ctx, configMap, body, uid, "7", false)
		assert.ErrorIs(t, err, stopped)
	})
}

func TestUpgrade_of_what_is_changed_meanwhile_is_stale(t *testing.T) {
	put := exchange{Body: json.RawMessage(`{"metadata":{"uid":"u","resourceVersion":"7","managedFields":[{` +
		`"manager":"kube-eventbridge","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:data":{}}}]}}`)}.with(200)
	w, s := target(t, put, status(`"reason":"Conflict","details":{"name":"prices","kind":"configmaps"}`).with(409))
	a := must.Get(w.Upgrade(t.Context(), configMap, uid, "7", false))(t)
	assert.Equal(t, write.Stale, a.Outcome, a.Message)
	assert.Equal(t, "application/json-patch+json", s.requests[1].Header.Get("Content-Type"))
	assert.Contains(t, s.bodies[1], `{"op":"replace","path":"/metadata/resourceVersion","value":"7"}`)
}

func TestConflict_names_the_fields(t *testing.T) {
	conflict := status(`"reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict",` +
		`"message":"conflict with \"other\" using v1","field":".data.key"}]}`).with(409)
	w, _ := target(t, conflict, conflict)
	a := must.Get(w.Apply(t.Context(), configMap, body, uid, "7", false))(t)
	assert.Equal(t, write.Conflict, a.Outcome, a.Message)
	require.Len(t, a.Causes, 1)
	assert.Equal(t, ".data.key", a.Causes[0].Field)
	a = must.Get(w.Create(t.Context(), configMap, body))(t)
	assert.Equal(t, write.Exists, a.Outcome, a.Message)
}
