// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const aNamespace = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,` +
	`"resourceVersion":"%d","labels":{"team":%q}%s}}`

// serveNamespaces answers a list with one namespace, and a watch with what a test sends.
func serveNamespaces(t *testing.T, frames <-chan string, forbidden bool) *Namespaces {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if forbidden {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no namespaces for you"}`)
			return
		}
		if r.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintf(w,
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[%s]}`,
				fmt.Sprintf(aNamespace, "one", 3, "a", ""))
			return
		}
		if r.URL.Query().Get("sendInitialEvents") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case f := <-frames:
				_, _ = fmt.Fprintln(w, f)
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	n := must.Get(NewNamespaces(&rest.Config{Host: server.URL}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		server.CloseClientConnections()
	})
	return n
}

// await waits until the namespaces are so.
func (n *Namespaces) await(t *testing.T, what string, ok func(all map[string]Namespace, err error) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		all, changed, err := n.Now()
		if ok(all, err) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("waited in vain for %s: %v, %v", what, all, err)
		}
	}
}

func TestNamespaces_are_known_with_their_labels_as_these_change(t *testing.T) {
	frames := make(chan string)
	n := serveNamespaces(t, frames, false)
	n.await(t, "the list", func(all map[string]Namespace, err error) bool {
		return err == nil && len(all) == 1 && all["one"].Labels["team"] == "a" && all["one"].ResourceVersion == "3"
	})
	send := func(kind, name string, version int, team, more string) {
		frames <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, fmt.Sprintf(aNamespace, name, version, team, more))
	}
	send("ADDED", "two", 6, "b", "")
	send("MODIFIED", "one", 7, "b", `,"deletionTimestamp":"2026-01-02T03:04:05Z"`)
	n.await(t, "the changes", func(all map[string]Namespace, _ error) bool {
		return len(all) == 2 && all["one"].Labels["team"] == "b" && all["one"].Terminating && !all["two"].Terminating &&
			all["one"].ResourceVersion == "7"
	})
	_, ok, _ := n.Get("one")
	assert.True(t, ok, "a namespace that is being deleted is there until it is gone")
	send("DELETED", "one", 8, "b", "")
	n.await(t, "the end", func(all map[string]Namespace, _ error) bool { return len(all) == 1 })
	_, ok, _ = n.Get("one")
	assert.False(t, ok, "a namespace that was deleted is there")
}

// A state that an API server happens to remember may be older than what a process before has seen.
func TestNamespaces_are_listed_in_their_newest_state(t *testing.T) {
	for asked, want := range map[string]string{"0": "", "": "", "17": "17"} {
		o := metav1.ListOptions{ResourceVersion: asked}
		if fresh(&o); o.ResourceVersion != want {
			t.Errorf("%q: got %q, want %q", asked, o.ResourceVersion, want)
		}
	}
}

func TestNamespaces_know_what_they_precede(t *testing.T) {
	frames := make(chan string)
	n := serveNamespaces(t, frames, false)
	n.await(t, "the list", func(_ map[string]Namespace, err error) bool { return err == nil })
	assert.True(t, n.Precedes("4") && !n.Precedes("3") && !n.Precedes(""),
		"at 3: what is known is not of before 4, or of before 3, or of before nothing")
	frames <- fmt.Sprintf(`{"type":"ADDED","object":%s}`, fmt.Sprintf(aNamespace, "two", 16, "b", ""))
	n.await(t, "the change", func(all map[string]Namespace, _ error) bool { return len(all) == 2 })
	assert.True(t, !n.Precedes("4") && !n.Precedes("16") && n.Precedes("17"),
		"at 16: what is known is of before 4 or 16, or not of before 17")
}

func TestNamespaces_say_why_they_are_not_known(t *testing.T) {
	n := serveNamespaces(t, nil, true)
	n.await(t, "the refusal", func(all map[string]Namespace, err error) bool {
		return all == nil && err != nil && strings.Contains(err.Error(), "no namespaces for you")
	})
}
