// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// merged applies a merge patch as RFC 7386 has it.
func merged(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		for name, value := range t {
			out[name] = value
		}
	}
	for name, value := range p {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], value)
		}
	}
	return out
}

// applier applies the events of a log.
type applier struct {
	objects  map[string]any
	versions map[string]string
	// count is how many events there were of each payload.
	count map[string]int
}

func newApplier() *applier {
	return &applier{map[string]any{}, map[string]string{}, map[string]int{}}
}

func (r *applier) take(m *sink.Stored) error {
	state, err := encode.StateOf(m)
	if err != nil || state.UID == "" {
		return err
	}
	key, payload, base := state.Key(), attribute(m, "payload"), attribute(m, "baseversion")
	if attribute(m, "datasize") != "" || state.Rejected {
		r.objects[key], r.versions[key] = nil, ""
		return nil
	}
	r.count[payload]++
	if base != "" && base != r.versions[key] {
		return fmt.Errorf("%s applies to %s, and the log has %q before it", state.ID, base, r.versions[key])
	}
	var data any
	if err := json.Unmarshal(m.Data, &data); err != nil {
		return err
	}
	switch payload {
	case "merge-patch":
		data = merged(r.objects[key], data)
	case "change":
		both := data.(map[string]any)
		if old, ok := both["oldObject"]; ok && !reflect.DeepEqual(old, r.objects[key]) || ok != (base != "") {
			return fmt.Errorf("%s: oldObject is %v, and the log has %v", state.ID, old, r.objects[key])
		}
		data = both["object"]
	}
	r.objects[key], r.versions[key] = data, state.ResourceVersion
	return nil
}

// check compares what a reader has after each event with the object at that version.
func (p *past) check(t *testing.T, log *fakeLog, r *applier) {
	t.Helper()
	for i := range log.log {
		m := &log.log[i]
		require.NoError(t, r.take(m))
		state, err := encode.StateOf(m)
		if err != nil || state.UID == "" || r.objects[state.Key()] == nil {
			continue
		}
		version, _ := strconv.Atoi(state.ResourceVersion)
		var want any
		require.NoError(t, json.Unmarshal([]byte(p.frames[version-1].body), &want))
		got := r.objects[state.Key()]
		if whole, ok := got.(map[string]any); ok && state.Deleted && whole["fill"] == nil {
			continue // only the identity was known
		}
		require.Equal(t, want, got, "after %s a reader", state.ID)
	}
}

// passing reads as a consumer does that is up to date: what has no greater version is passed over.
func passing(t *testing.T, log *fakeLog) *applier {
	t.Helper()
	r, last := newApplier(), map[string]int{}
	for i := range log.log {
		m := &log.log[i]
		state := must.Get(encode.StateOf(m))(t)
		version, _ := strconv.Atoi(state.ResourceVersion)
		if version <= last[state.Key()] {
			continue
		}
		last[state.Key()] = version
		require.NoError(t, r.take(m))
	}
	return r
}
