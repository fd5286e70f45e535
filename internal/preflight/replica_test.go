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

func TestSeenLog_refuses_patches_that_are_not_put_together(t *testing.T) {
	nats := func(r *config.Replica) { r.From.NATS = &config.NATSLog{} }
	kafka := func(r *config.Replica) { r.From.Kafka = &config.KafkaLog{} }
	for _, c := range []struct {
		payload string
		from    func(*config.Replica)
		want    string
	}{
		{"object", kafka, ""},
		{"change", kafka, ""},
		{"merge-patch", nats, ""},
		{"merge-patch", kafka, "the entry of configmaps has the pipeline publish merge-patches, which are not put together from Kafka"},
		{"json-patch", nats, "the entry of configmaps has the pipeline publish json-patches, which are not put together"},
	} {
		r := &config.Replica{Resources: []config.ReplicaResource{{Resource: value.ResourceName{Plural: "configmaps"}}}}
		r.From.Cluster, r.From.Pipeline = "east", "audit"
		c.from(r)
		log, seen := &replicatest.Log{}, newSeenLog(r)
		// What is new is published whole.
		for _, payload := range []string{"object", c.payload} {
			seen.take(log.Message(log.Append(replicatest.Event{
				Op: event.Updated, Namespace: "shop", Name: "a", UID: "u", More: map[string]string{"payload": payload},
			})))
		}
		problems := seen.problems("replicas[0]")
		if c.want == "" {
			assert.Empty(t, problems, c.payload)
			continue
		}
		assert.ErrorContains(t, problems, c.want)
	}
}
