// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/require"
)

// What the log has of a version that is not read any more is about the objects of the one that is.
func TestStoredAs_finds_a_stream_by_any_version(t *testing.T) {
	p := &session{state: &checkpoint.State{Streams: map[string]checkpoint.Stream{
		"widgets.v1.x.io": {}, "widgets.v1.x.io/a": {}, "gadgets.v1.x.io": {}, "gadgets.v2.x.io": {},
	}}}
	for asked, want := range map[string]string{
		"widgets.v1beta1.x.io": "widgets.v1.x.io", "widgets.v1beta1.x.io/a": "widgets.v1.x.io/a", "widgets.v1beta1.x.io/b": "",
		"gadgets.v2.x.io": "gadgets.v2.x.io", "widgets.v1.y.io": "", "things.v1.x.io": "",
	} {
		at, ok := source.ParseName(asked)
		require.True(t, ok, asked)
		if got, _, ok := p.storedAs(at); got != want || ok != (want != "") {
			t.Errorf("%s: got %q", asked, got)
		}
	}
}

// A resource that is not served when the process starts is read as it was before: without its namespaces all keys would be others.
func TestSession_knows_of_a_stored_stream_what_its_name_does_not_tell(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, _ := saved(t, log, store)
	_ = r.stop()
	r = start(t, log, store)
	all := r.session.stored()
	if len(all) != 1 || all[0].Kind != "ConfigMap" || !all[0].Namespaced {
		t.Errorf("it knows %+v", all)
	}
}
