// SPDX-License-Identifier: Apache-2.0

package replicawrite

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

var update = flag.Bool("update", false, "record what the API server answers for the tests of internal/replica/write")

// recordings is a file with a recording in each line.
var recordings = filepath.Join("..", "..", "internal", "replica", "write", "testdata", "answers.jsonl")

// object is one that a test writes.
type object struct {
	write.Object
	body            string
	uid             types.UID
	resourceVersion string
}

// manifest returns the object that a text of YAML describes.
func manifest(resource, text string) object {
	body := must.Get(yaml.YAMLToJSON([]byte(text)))(fatal{})
	var meta metav1.PartialObjectMetadata
	must.Get(0, json.Unmarshal(body, &meta))(fatal{})
	gv := must.Get(schema.ParseGroupVersion(meta.APIVersion))(fatal{})
	return object{
		Object: write.Object{Resource: gv.WithResource(resource), Namespace: meta.Namespace, Name: meta.Name},
		body:   string(body),
	}
}

// fatal ends a test that has a text which is no manifest.
type fatal struct{}

func (fatal) Helper()                      {}
func (fatal) Fatal(args ...any)            { panic(args) }
func (fatal) Fatalf(f string, args ...any) { panic(append([]any{f}, args...)) }

func configMap(namespace, name string) object {
	return manifest("configmaps",
		"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: "+namespace+", name: "+name+"}, data: {key: one}}")
}

func namespace(name string) object {
	return manifest("namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
}

// pod is one whose container has more members.
func pod(namespace, name, spec, container string) object {
	return manifest("pods", "{apiVersion: v1, kind: Pod, metadata: {namespace: "+namespace+", name: "+name+"}, "+
		"spec: {"+spec+"containers: [{name: main, image: none"+container+"}]}}")
}

// with returns the object with another text in place of one in its body.
func (o object) with(old, new string) object {
	if !strings.Contains(o.body, old) {
		panic("no " + old + " in " + o.body)
	}
	o.body = strings.ReplaceAll(o.body, old, new)
	return o
}

// absent returns the object with the name of none.
func (o object) absent() object {
	o = o.with(`"name":"`+o.Name+`"`, `"name":"absent"`)
	o.Name = "absent"
	return o
}

// at returns the object with another resourceVersion as precondition.
func (o object) at(resourceVersion string) object {
	o.resourceVersion = resourceVersion
	return o
}

// of returns the object with another uid as precondition.
func (o object) of(uid types.UID) object {
	o.uid = uid
	return o
}

// call is one of the methods of a target.
type call string

const (
	create      call = "create"
	apply       call = "apply"
	force       call = "force"
	applyStatus call = "applyStatus"
	post        call = "post"
	put         call = "put"
	remove      call = "delete"
	get         call = "get"
	tryCreate   call = "tryCreate"
)

// user is somebody who writes to the API server.
type user struct {
	t       *testing.T
	target  *write.Target
	tape    *tape
	records *[]recording
}

func newUser(t *testing.T, cfg *rest.Config, records *[]recording) *user {
	u := &user{t: t, tape: &tape{}, records: records}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { u.tape.next = next; return u.tape })
	u.target = must.Get(write.New(cfg))(t)
	return u
}

// do makes a call.
func (u *user) do(c call, o object) write.Answer {
	u.t.Helper()
	ctx, body := u.t.Context(), []byte(o.body)
	u.tape.exchanges = nil
	return must.Get(map[call]func() (write.Answer, error){
		create: func() (write.Answer, error) { return u.target.Create(ctx, o.Object, body) },
		apply: func() (write.Answer, error) {
			return u.target.Apply(ctx, o.Object, body, o.uid, o.resourceVersion, false)
		},
		force: func() (write.Answer, error) {
			return u.target.Apply(ctx, o.Object, body, o.uid, o.resourceVersion, true)
		},
		applyStatus: func() (write.Answer, error) {
			return u.target.ApplyStatus(ctx, o.Object, body, o.uid, o.resourceVersion, true)
		},
		post:      func() (write.Answer, error) { return u.target.Post(ctx, o.Object, body) },
		put:       func() (write.Answer, error) { return u.target.Put(ctx, o.Object, body, o.uid, o.resourceVersion) },
		remove:    func() (write.Answer, error) { return u.target.Delete(ctx, o.Object, o.uid, o.resourceVersion) },
		get:       func() (write.Answer, error) { return u.target.Get(ctx, o.Object) },
		tryCreate: func() (write.Answer, error) { return u.target.TryCreate(ctx, o.Object, body) },
	}[c]())(u.t)
}

// done makes a call that succeeds, and returns the object with the uid and resourceVersion that it has then.
func (u *user) done(c call, o object) object {
	u.t.Helper()
	a := u.do(c, o)
	require.Equal(u.t, write.Done, a.Outcome, "%s %s %s: %s", c, o.Resource.Resource, o.Name, a.Message)
	return o.of(a.UID).at(a.ResourceVersion)
}

// made posts an object.
func (u *user) made(o object) object {
	u.t.Helper()
	return u.done(post, o)
}

// exchange is a request and its answer. Of an object the answer is only what identifies it.
type exchange struct {
	Method      string          `json:"method"`
	Code        int             `json:"code"`
	ContentType string          `json:"contentType"`
	Text        string          `json:"text,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
}

// tape has the exchanges of a user's last call.
type tape struct {
	next      http.RoundTripper
	exchanges []exchange
}

// RoundTrip implements [http.RoundTripper].
func (c *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e := exchange{Method: r.Method, Code: resp.StatusCode, ContentType: resp.Header.Get("Content-Type")}
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		e.Body = json.RawMessage(`{"metadata":{"uid":"u","resourceVersion":"7"}}`)
	case json.Valid(body):
		e.Body = body
	default:
		e.Text = string(body)
	}
	c.exchanges = append(c.exchanges, e)
	return resp, err
}

// recording is what a call was answered.
type recording struct {
	Situation string        `json:"situation"`
	Call      call          `json:"call"`
	Resource  string        `json:"resource"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name"`
	Exchanges []exchange    `json:"exchanges"`
	Outcome   write.Outcome `json:"outcome"`
}

// record keeps the exchanges of the last call.
func (u *user) record(title string, c call, o object, outcome write.Outcome) {
	*u.records = append(*u.records, recording{
		Situation: title, Call: c, Resource: o.Resource.Resource, Namespace: o.Namespace, Name: o.Name,
		Exchanges: u.tape.exchanges, Outcome: outcome,
	})
}

// save writes what was recorded, if the flag says so.
func (u *user) save() {
	if !*update || u.t.Failed() {
		return
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	slices.SortFunc(*u.records, func(a, b recording) int { return strings.Compare(a.Situation, b.Situation) })
	for _, r := range *u.records {
		require.NoError(u.t, encoder.Encode(r))
	}
	require.NoError(u.t, os.MkdirAll(filepath.Dir(recordings), 0o755))
	require.NoError(u.t, os.WriteFile(recordings, out.Bytes(), 0o644))
}
