// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"errors"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func stored(m *sink.Message) *sink.Stored {
	return &sink.Stored{Sequence: 7, ID: m.ID, Attributes: m.Attributes, ContentType: m.ContentType, Data: m.Data}
}

func TestStateOf_reads_what_was_written_in_both_modes(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		for _, stream := range []source.Stream{{Resource: pods}, {Resource: pods, LabelSelector: "a=b"}} {
			for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
				for _, refused := range []bool{false, true} {
					cfg, c, m := config(), change(t, op, "pod.json"), dirty()
					cfg.Mode, cfg.History, c.IDSuffix = mode, 3, ".r1"
					e := New(stream, cfg)
					require.NoError(t, e.Change(m, c))
					want := State{
						ID: m.ID[17:], Type: typeOf(op), Source: "/clusters/prod-eu.1/api/v1/pods", Pipeline: "audit",
						Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, Kind: "Pod", History: 3,
						Deleted: op == source.Deleted, Rejected: refused,
					}
					if refused {
						e.Rejected(m, c, errors.New("no"), 1)
						want.ID, want.Type = want.ID+".rejected", TypeRejected
					}
					got := must.Get(StateOf(stored(m)))(t)
					assert.Equal(t, want, got, "%s %s", mode, op)
					assert.Equal(t, c.Key(), got.Key(), "key")
				}
			}
		}
	}
}

func TestStateOf_a_binary_message_needs_no_data(t *testing.T) {
	m := dirty()
	require.NoError(t, New(source.Stream{Resource: nodes}, config()).Change(m, change(t, source.Added, "node.json")))
	s := stored(m)
	s.Data, s.ContentType = nil, ""
	if got, err := StateOf(s); err != nil || got.Key() != "worker-1.example.com" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestStateOf_a_marker_is_about_no_object(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		cfg, m := config(), dirty()
		cfg.Mode = mode
		New(source.Stream{Resource: pods}, cfg).Marker(m, source.Marker{Kind: source.MarkerGap, From: "1", To: "2"})
		got, err := StateOf(stored(m))
		if err != nil || got.UID != "" || got.Key() != "" || got.Type != TypeGap || got.ResourceVersion != "2" || got.Deleted {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestStateOf_refuses_what_no_bridge_wrote(t *testing.T) {
	structured := func(s string) *sink.Stored {
		return &sink.Stored{ContentType: "application/cloudevents+json", Data: []byte(s)}
	}
	for name, s := range map[string]*sink.Stored{
		"nothing":          {},
		"no id":            {Attributes: []sink.Attribute{{Name: "type", Value: TypeAdded}, {Name: "source", Value: "/"}}},
		"another type":     {Attributes: []sink.Attribute{{Name: "id", Value: "1"}, {Name: "type", Value: "com.example"}, {Name: "source", Value: "/"}}},
		"no JSON":          structured("x"),
		"no object":        structured("[]"),
		"cut short":        structured(`{"id":"1","source":"/","type":"` + TypeAdded + `"`),
		"cut in the data":  structured(`{"id":"1","source":"/","type":"` + TypeAdded + `","data":{"a":`),
		"structured empty": structured(`{}`),
	} {
		if got, err := StateOf(s); err == nil || got != (State{}) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
