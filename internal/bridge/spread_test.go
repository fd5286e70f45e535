// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// listedNamespaces are what an API server lists: "shop" at version 30, that no selector for team=a takes, and "other" at the given one.
func listedNamespaces(t *testing.T, other int) *source.Namespaces {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case r.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			const one = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"resourceVersion":"%d","labels":{"team":"b"}}}`
			_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"90"},"items":[%s,%s]}`,
				fmt.Sprintf(one, "shop", 30), fmt.Sprintf(one, "other", other))
		}
	}))
	t.Cleanup(server.Close)
	n, err := source.NewNamespaces(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
	})
	waitFor(t, "the namespaces", func() bool {
		_, _, err := n.Now()
		return err == nil
	})
	return n
}

func TestStream_is_not_left_for_a_state_of_before_its_namespace_was_selected(t *testing.T) {
	selector := labels.SelectorFromSet(labels.Set{"team": "a"})
	for name, c := range map[string]struct {
		namespace, entered string
		other              int
		want               *ending
	}{
		"its labels changed":                      {"shop", "20", 10, &ending{left: "30"}},
		"it did not match when it was taken":      {"shop", "30", 10, &ending{left: "30"}},
		"it is not known when it was taken":       {"shop", "", 10, &ending{left: "30"}},
		"what is known is of before it was taken": {"shop", "40", 35, nil},
		"a history was restored":                  {"shop", "40", 41, &ending{left: "30"}},
		"it does not exist":                       {"gone", "40", 35, &ending{gone: true}},
	} {
		m := &member{listedNamespaces(t, c.other), selector, c.namespace, nil}
		s := &stream{spec: &StreamSpec{member: m}, saved: checkpoint.Stream{Entered: c.entered}}
		got := s.left()
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
