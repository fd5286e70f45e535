// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What the API server tells too late is not known, and what it told before is.
func TestPrime_holds_a_stream_up_for_no_longer_than_it_may(t *testing.T) {
	p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`)
	other := p.frames[0]
	other.name, other.uid, other.version = "b", "u2", 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") != "" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"2","continue":"more"},"items":[%s]}`, p.frames[0].body)
	}))
	defer server.Close()
	client, err := source.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()

	log, store := newReadableLog(), &memoryStore{}
	spec := func() *StreamSpec { return &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}} }
	r := start(t, log, store)
	s := r.stream(spec())
	s.saved.Fingerprint = s.fingerprint
	p.frames[0].send(t, s)
	other.send(t, s)
	r.settle()
	if err := r.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = r.stop()

	r = start(t, log, store)
	r.cfg.Client, r.primeTime = client, 100*time.Millisecond
	s = r.stream(spec())
	began := time.Now()
	if err := s.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if objects, _ := s.olds.total(); objects != 1 {
		t.Errorf("of %d objects it is known what was before, want 1", objects)
	}
	next := p.frames[1]
	next.version = 3
	next.send(t, s)
	other.op, other.version = source.Updated, 4
	other.send(t, s)
	r.settle()
	if n := value(t, r.registry, "old_objects_unknown_total"); n != 1 {
		t.Errorf("%v are counted as unknown, want 1", n)
	}
}

// Who is told that an object has left the selection has been told of it before; who is told so again may not have been.
func TestOlds_a_deletion_because_of_the_selection_says_what_was_deleted(t *testing.T) {
	for name, c := range map[string]struct{ namespaceAt, repair, id, want string }{
		"once":  {"30", "", "u1.deleted.s30", `"data":{"x":"2"}`},
		"again": {"30", "9", "u1.deleted.s30.r0", ""},
	} {
		log := newReadableLog()
		p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`)
		spec := func() StreamSpec { return StreamSpec{Encoding: encode.Config{Payload: encode.Change}} }
		r, s := restarted(t, log, p, 2, spec(), spec())
		s.mu.Lock()
		s.saved.Repair = c.repair
		s.mu.Unlock()
		if err := r.leave(t.Context(), s, c.namespaceAt); err != nil {
			t.Fatal(err)
		}
		last := &log.log[len(log.log)-1]
		_, old, known := strings.Cut(string(last.Data), `"oldObject":`)
		if !strings.HasSuffix(last.ID, "."+c.id) || known != (c.want != "") || !strings.Contains(old, c.want) || (attribute(last, "baseversion") == "2") != known {
			t.Errorf("%s: %s has %s, made from %q", name, last.ID, last.Data, attribute(last, "baseversion"))
		}
	}
}
