// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// A name of a cluster can be wrong, and one cluster can have two.
func TestCheckOwnSource_compares_uids(t *testing.T) {
	const uid = "0a0a0a0a-0000-4000-8000-000000000001"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces/shop/configmaps/a" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":%q,"resourceVersion":"9"}}`, uid)
	}))
	defer api.Close()
	for name, c := range map[string]struct {
		uid     string
		change  func(*config.Replica)
		refused bool
	}{
		"the object itself":           {uid: uid, refused: true},
		"an object of the same name":  {uid: "0a0a0a0a-0000-4000-8000-000000000002"},
		"a cluster without a name":    {refused: true, change: func(r *config.Replica) { r.From.Cluster = "target" }},
		"a copy in another namespace": {uid: uid, change: func(r *config.Replica) { r.Into.Namespaces = map[string]string{"shop": "copy"} }},
	} {
		t.Run(name, func(t *testing.T) {
			r := &config.Replica{Resources: []config.ReplicaResource{
				{Resource: value.ResourceName{Plural: "configmaps"}, Namespaces: []string{"shop"}},
			}}
			r.From.Cluster, r.From.Pipeline = "east", "audit"
			if c.change != nil {
				c.change(r)
			}
			log, seen := &replicatest.Log{}, newSeenLog(r)
			log.Append(
				replicatest.Event{Op: event.Updated, Namespace: "shop", Name: "gone", UID: "other", Sequence: sequence.Sequence{Version: 7}},
				replicatest.Event{Op: event.Updated, Namespace: "shop", Name: "a", UID: c.uid, Sequence: sequence.Sequence{Version: 8}})
			for position := range uint64(2) {
				seen.take(log.Message(position + 1))
			}
			u := checkup{api: &rest.Config{Host: api.URL}, uid: "target"}
			u.checkOwnSource(t.Context(), "replicas[0].from.cluster", r, seen)
			assert.Empty(t, u.Unreached)
			if !c.refused {
				assert.Empty(t, u.Problems)
				return
			}
			assert.ErrorContains(t, u.Problems, `the log is of the cluster that is written to`)
			assert.ErrorContains(t, u.Problems, `namespace "shop" stays where it is; name the cluster that is to be written to with`)
		})
	}
}
