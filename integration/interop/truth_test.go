// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// sight is what a plain watch saw.
type sight struct {
	op     string
	object map[string]any
}

func (s *sight) meta(name string) string {
	metadata, _ := s.object["metadata"].(map[string]any)
	text, _ := metadata[name].(string)
	return text
}

func (s *sight) String() string {
	return fmt.Sprintf("%s %v %s at %s", s.op, s.object["kind"], s.meta("name"), s.meta("resourceVersion"))
}

// folds tells objects whose changes may be folded.
func (s *sight) folds() bool { return s.object["kind"] == "PriorityClass" }

// data is what an event about it has to carry: the object without its managedFields, and of a Secret no value.
func (s *sight) data() map[string]any {
	o, err := members([]byte(text(s.object))) // a copy
	if err != nil {
		panic(err) // it came from JSON
	}
	metadata, _ := o["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	if values, ok := o["data"].(map[string]any); ok && o["kind"] == "Secret" {
		for key := range values {
			values[key] = "W3JlZGFjdGVkXQ==" // [redacted]
		}
	}
	return o
}

// is says whether an event names the object that was seen.
func (s *sight) is(e *event) bool {
	namespace, name, version := s.meta("namespace"), s.meta("name"), s.meta("resourceVersion")
	for attribute, value := range map[string]any{
		"apiversion": s.object["apiVersion"], "kind": s.object["kind"], "namespace": namespace, "name": name,
		"objectuid": s.meta("uid"), "resourceversion": version, "clustername": cluster,
		"subject": strings.TrimPrefix(namespace+"/"+name, "/"),
	} {
		if any(e.attributes[attribute]) != value {
			return false
		}
	}
	step := "0"
	if s.op == "deleted" {
		step = "1"
	}
	return strings.HasSuffix(e.attributes["sequence"], "."+strings.Repeat("0", 20-len(version))+version+"."+step)
}

// truth is what the API server tells everybody.
type truth struct {
	mu   sync.Mutex
	seen []*sight
	err  error
}

// watched are the paths of what the bridge publishes to the four logs.
var watched = []string{
	"/api/v1/namespaces/" + namespace + "/configmaps", "/api/v1/namespaces/" + namespace + "/secrets",
	"/apis/scheduling.k8s.io/v1/priorityclasses",
}

// watch begins to see: what exists already counts as added.
func (r *world) watch() *truth {
	r.t.Helper()
	w := &truth{}
	ctx, cancel := context.WithCancel(r.t.Context())
	var all sync.WaitGroup
	for _, path := range watched {
		all.Go(func() { w.fail(ctx, r.follow(ctx, path, w)) })
	}
	r.t.Cleanup(func() { cancel(); all.Wait() })
	return w
}

func (r *world) follow(ctx context.Context, path string, w *truth) error {
	body, err := r.kube.RESTClient().Get().AbsPath(path).Param("watch", "1").Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	ops := map[string]string{"ADDED": "added", "MODIFIED": "updated", "DELETED": "deleted"}
	for d := json.NewDecoder(body); ; {
		var frame struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&frame); err != nil {
			return err
		}
		object, err := members(frame.Object)
		if err != nil || ops[frame.Type] == "" {
			return fmt.Errorf("watch %s: %s %s %w", path, frame.Type, frame.Object, err)
		}
		w.add(&sight{op: ops[frame.Type], object: object})
	}
}

func (w *truth) add(s *sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
}

func (w *truth) fail(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.err = err
	}
}

func (w *truth) all() ([]*sight, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*sight(nil), w.seen...), w.err
}

// has waits until something was seen.
func (w *truth) has(t *testing.T, op, name, version string) {
	t.Helper()
	rig.Try(t, "a plain watch to see "+name, func() error {
		seen, err := w.all()
		for _, s := range seen {
			if s.op == op && s.meta("name") == name && (version == "" || s.meta("resourceVersion") == version) {
				return nil
			}
		}
		return fmt.Errorf("it saw %v %w", seen, err)
	})
}

// byVersion finds what a log says of an object at a version.
func byVersion(log []*event) map[string]*event {
	found := map[string]*event{}
	for _, e := range log {
		if uid := e.attributes["objectuid"]; uid != "" {
			found[uid+" "+e.attributes["resourceversion"]] = e
		}
	}
	return found
}

// missing says what a log has to have and has not: each change, or of those that may be folded the last.
func (w *truth) missing(log []*event) error {
	seen, err := w.all()
	if err != nil {
		return err
	}
	has, last := byVersion(log), map[string]*sight{}
	for _, s := range seen {
		last[s.meta("uid")] = s
	}
	for _, s := range seen {
		if s.folds() && last[s.meta("uid")] != s {
			continue
		}
		if has[s.meta("uid")+" "+s.meta("resourceVersion")] == nil {
			return fmt.Errorf("%v is missing", s)
		}
	}
	return nil
}

// contradictions says where a log is not what the API server said.
func (w *truth) contradictions(log []*event) (found []string) {
	seen, err := w.all()
	if err != nil {
		return []string{err.Error()}
	}
	has, owed := byVersion(log), map[string]int{}
	for _, s := range seen {
		owed[s.meta("uid")]++
		e := has[s.meta("uid")+" "+s.meta("resourceVersion")]
		switch {
		case e == nil && s.folds(): // its change is counted in another event
		case e == nil:
			found = append(found, fmt.Sprintf("%v is missing", s))
		case !s.is(e):
			found = append(found, fmt.Sprintf("%v has the attributes %v", s, e.attributes))
		case e.op() == "rejected":
		case e.op() != s.op && (!s.folds() || s.op == "deleted"):
			found = append(found, fmt.Sprintf("%v is %s", s, e.op()))
		case !reflect.DeepEqual(e.data, any(s.data())):
			found = append(found, fmt.Sprintf("%v: data is %.300s, want %.300s", s, text(e.data), text(s.data())))
		}
	}
	for _, e := range log {
		if e.gone != "" || e.marker() {
			continue
		}
		n, err := strconv.Atoi(e.attributes["sampledrate"])
		if err != nil {
			n = 1
		}
		owed[e.attributes["objectuid"]] -= n
	}
	for uid, n := range owed {
		if n != 0 {
			found = append(found, fmt.Sprintf("the log stands for %d changes of %s too few", n, uid))
		}
	}
	return found
}
