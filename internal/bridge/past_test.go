// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// frame is what a watch shows at a version.
type frame struct {
	op        source.Op
	name, uid string
	version   int
	body      string
}

// past is what happened to some objects, one frame a version from 1 on, and an API server that remembers it.
type past struct {
	frames []frame
	// gone is up to which version the API server has forgotten it.
	gone int
	// asked is how often it was asked for a list.
	asked int
}

// newPast makes objects that are created, changed and deleted at random.
func newPast(random *rand.Rand, n int) *past {
	p, alive := &past{}, map[string]map[string]any{}
	for version := 1; version <= n; version++ {
		f := frame{op: source.Updated, name: "o" + strconv.Itoa(random.IntN(5)), version: version}
		object := alive[f.name]
		switch {
		case object == nil:
			f.op = source.Added
			object = map[string]any{
				"kind": "ConfigMap", "apiVersion": "v1", "fill": strings.Repeat("x", 300), "data": map[string]any{},
				"metadata": map[string]any{"name": f.name, "namespace": "default", "uid": "u" + strconv.Itoa(version)},
			}
			alive[f.name] = object
		case random.IntN(12) == 0:
			f.op = source.Deleted
			delete(alive, f.name)
		}
		data := object["data"].(map[string]any)
		for range 2 {
			if key := "k" + strconv.Itoa(random.IntN(6)); random.IntN(3) == 0 {
				delete(data, key)
			} else {
				data[key] = strconv.Itoa(random.IntN(3))
			}
		}
		metadata := object["metadata"].(map[string]any)
		metadata["resourceVersion"] = strconv.Itoa(version)
		f.uid = metadata["uid"].(string)
		body, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		f.body = string(body)
		p.frames = append(p.frames, f)
	}
	return p
}

// at returns the objects that existed at a version.
func (p *past) at(version int) (items []string) {
	last := map[string]frame{}
	for _, f := range p.frames[:min(version, len(p.frames))] {
		last[f.name] = f
	}
	for _, f := range last {
		if f.op != source.Deleted {
			items = append(items, f.body)
		}
	}
	return items
}

func (p *past) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked++
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	if version <= p.gone || r.URL.Query().Get("resourceVersionMatch") != "Exact" {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		version, strings.Join(p.at(version), ","))
}

// client asks p.
func (p *past) client(t *testing.T) *kube.Client {
	t.Helper()
	server := httptest.NewServer(p)
	client := must.Get(kube.NewClient(&rest.Config{Host: server.URL}))(t)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	return client
}

func (f frame) send(t *testing.T, s *stream.Stream) {
	t.Helper()
	body := source.NewBody([]byte(f.body))
	version := strconv.Itoa(f.version)
	ticket := must.Get(s.Admit(t.Context(), version, len(f.body)))(t)
	s.Deliver(source.Change{
		Op: f.op, Ident: source.Ident{Namespace: "default", Name: f.name, UID: f.uid, ResourceVersion: version},
		Body: body, Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: len(f.body),
	})
}

func story(bodies ...string) *past {
	p := &past{}
	for i, b := range bodies {
		op := source.Updated
		if i == 0 {
			op = source.Added
		}
		p.frames = append(p.frames, frame{
			op, "a", "u1", i + 1,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u1","resourceVersion":"` +
				strconv.Itoa(i+1) + `"},"fill":"` + strings.Repeat("x", 200) + `",` + b + `}`,
		})
	}
	return p
}

// restarted returns a stream of a pipeline that has published the frames, and was stopped and started since.
func restarted(t *testing.T, log readableLog, p *past, n int, before, after StreamSpec) (*rig, *stream.Stream) {
	t.Helper()
	store := &memoryStore{}
	r := start(t, log, store)
	s := r.stream(&before)
	s.Saved.Owes = checkpoint.Owes{} // as behind a first list
	for _, f := range p.frames[:n] {
		f.send(t, s)
	}
	r.settle()
	require.NoError(t, r.journal.Commit(t.Context()))
	_ = r.stop()
	r = start(t, log, store)
	r.env.Client = p.client(t)
	s = r.stream(&after)
	require.NoError(t, s.Before.Prime(t.Context()))
	return r, s
}

// sevenths leaves out every seventh version.
type sevenths struct{}

func (sevenths) Filter(c *source.Change, _ [16]byte, _ func() []byte) (reason string, now [16]byte, err error) {
	if n, _ := strconv.Atoi(c.ResourceVersion); n%7 == 0 {
		return "expression", now, nil
	}
	return "", now, nil
}

func parsed(t *testing.T, s string) jsonscan.Path {
	t.Helper()
	return must.Get(jsonscan.ParsePath(s))(t)
}
