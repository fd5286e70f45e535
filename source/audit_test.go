// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

func TestAudit_tells_what_existed_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := manyObjects(2*pageSize + 10)
		for i := range writes {
			writes[i].label = "x"
		}
		server := newCluster(t, 5000, append(writes, write{rev: 3000, name: "o00001", gone: true},
			write{rev: 3001, name: "z", uid: "u-z", label: "x"})...)
		stream := configMaps
		stream.LabelSelector = "app=x"
		var got []string
		err := Audit(t.Context(), server.script.client(), stream, "2000", func(id Ident, _ []byte) error {
			got = append(got, id.Key()+" "+id.UID+" "+id.ResourceVersion)
			return nil
		})
		assert.True(t, err == nil && slices.Equal(got, want),
			"error %v, %d objects, want %d", err, len(got), len(want))
		for i, q := range server.asked {
			if !strings.HasPrefix(server.accepted[i], "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1") ||
				q.Get("labelSelector") != "app=x" || q.Get("limit") != strconv.Itoa(pageSize) {
				t.Errorf("asked for %v, accepting %s", q, server.accepted[i])
			}
		}
		assert.True(t, len(server.asked) == 3 && server.asked[0].Get("resourceVersionMatch") == "Exact" &&
			server.asked[1].Get("resourceVersion") == "", "asked for %v", server.asked)
	})
}

func TestAudit_ends_with_what_is_wrong(t *testing.T) {
	enoughSeen := errors.New("enough seen")
	for name, c := range map[string]struct {
		version string
		fault   func(int, url.Values) *step
		f       error
		wrong   func(error) bool
	}{
		"no version":             {"", nil, nil, func(err error) bool { return errors.Is(err, errNoVersion) }},
		"a version that is gone": {"3", nil, nil, expired},
		"a future version":       {"3000", nil, nil, tooLarge},
		"another version": {"20", always(step{body: listOf("40", "")}), nil, func(err error) bool {
			return strings.Contains(err.Error(), `asked for a list at 20, the API server sent one at "40"`)
		}},
		"no identity": {
			"20", always(step{body: listOf("20", "", nameless["uid"])}), nil,
			func(err error) bool { return errors.As(err, &rawjson.UnreadableError{}) },
		},
		"half an answer": {
			"20", always(step{body: listOf("20", "")[:20], cut: true}), nil,
			func(err error) bool { return err != nil },
		},
		"f's own error":   {"20", nil, enoughSeen, func(err error) bool { return errors.Is(err, enoughSeen) }},
		"no such request": {"20", always(step{status: http.StatusBadRequest}), nil, unanswerable},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, write{rev: 10, name: "a", uid: "u-a"})
			server.compacted, server.fault = 5, c.fault
			err := Audit(t.Context(), server.script.client(), configMaps, c.version, func(Ident, []byte) error { return c.f })
			require.Error(t, err)
			assert.True(t, c.wrong(err))
		})
	}
}

func TestObjectsAt_tells_what_existed_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := manyObjects(pageSize + 10)
		server := newCluster(t, 5000, append(writes, write{rev: 3000, name: "o00001", uid: "u-o00001"})...)
		// What fails for a while is asked for again.
		server.fault = func(n int, _ url.Values) *step {
			switch n {
			case 0, 3:
				return &step{status: http.StatusServiceUnavailable}
			default:
				return nil
			}
		}
		told := map[string]struct{}{} // some of them twice
		err := ObjectsAt(t.Context(), server.script.client(), configMaps, "2000", func(id Ident, b *Body) error {
			told[id.Key()+" "+id.UID+" "+id.ResourceVersion] = struct{}{}
			if text := string(b.Bytes()); !strings.HasPrefix(text, `{"kind":"ConfigMap","apiVersion":"v1",`) ||
				!strings.Contains(text, `"`+id.UID+`"`) {
				t.Errorf("the body is %s", text)
			}
			return nil
		})
		if got := slices.Sorted(maps.Keys(told)); err != nil || !slices.Equal(got, want) {
			t.Errorf("error %v, %d objects, want %d", err, len(got), len(want))
		}
	})
}

func TestObjectsAt_ends_with_what_is_wrong(t *testing.T) {
	enoughSeen := errors.New("enough seen")
	for name, c := range map[string]struct {
		version string
		fault   func(int, url.Values) *step
		f       error
		wrong   func(error) bool
		asked   int
	}{
		"no version":             {"", nil, nil, func(err error) bool { return errors.Is(err, errNoVersion) }, 0},
		"a version that is gone": {"3", nil, nil, expired, 1},
		"no such request":        {"20", always(step{status: http.StatusBadRequest}), nil, unanswerable, 1},
		"f's own error":          {"20", nil, enoughSeen, func(err error) bool { return errors.Is(err, enoughSeen) }, 1},
		"it refuses":             {"20", always(step{status: http.StatusForbidden}), nil, apierrors.IsForbidden, maxRefusals},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, write{rev: 10, name: "a", uid: "u-a"})
			server.compacted, server.fault = 5, c.fault
			err := ObjectsAt(t.Context(), server.script.client(), configMaps, c.version, func(Ident, *Body) error { return c.f })
			if err == nil || !c.wrong(err) || len(server.asked) != c.asked {
				t.Errorf("error is %v after %d requests", err, len(server.asked))
			}
		})
	}
}

func TestReadAt_tells_one_object_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 40, write{rev: 10, name: "a", uid: "u-1"}, write{rev: 12, name: "b", uid: "u-b"},
			write{rev: 20, name: "a", gone: true},
			write{rev: 30, name: "a", uid: "u-2"})
		server.compacted = 5
		client := server.script.client()
		for version, want := range map[string]Ident{
			"9": {}, "10": known("a", "u-1", 10), "19": known("a", "u-1", 10),
			"20": {}, "40": known("a", "u-2", 30),
		} {
			id, _, found, err := ReadAt(t.Context(), client, configMaps, "default", "a", version)
			assert.True(t, err == nil && id == want && found == (want != Ident{}),
				"at %s: %+v, %v, %v, want %+v", version, id, found, err, want)
		}
		for version, wrong := range map[string]func(error) bool{
			"4": expired, "41": tooLarge, "": func(err error) bool { return errors.Is(err, errNoVersion) },
		} {
			if id, _, found, err := ReadAt(t.Context(), client, configMaps, "default", "a", version); err == nil ||
				!wrong(err) || found || id != (Ident{}) {
				t.Errorf("at %q: %+v, %v, %v", version, id, found, err)
			}
		}
	})
}

// Names of some resources contain what means something in a selector.
func TestStream_is_narrowed_to_one_object(t *testing.T) {
	for want, s := range map[string]Stream{
		"ns|metadata.name=a|": configMaps.only("ns", "a"),
		"|metadata.name=a|":   Stream{Resource: nodes}.only("", "a"),
		"ns|metadata.name=a,spec.nodeName=|b": Stream{
			Resource: pods, FieldSelector: "spec.nodeName=",
			LabelSelector: "b",
		}.only("ns", "a"),
		"ns|metadata.name=a,metadata.name=c|": Stream{
			Resource: pods, Namespace: "ns",
			FieldSelector: "metadata.name=c",
		}.only("ns", "a"),
		`|metadata.name=system:a\,b\=c\\d,metadata.x!=y|`: Stream{Resource: nodes, FieldSelector: "metadata.x!=y"}.only("",
			`system:a,b=c\d`),
	} {
		assert.Equal(t, want, s.Namespace+"|"+s.FieldSelector+"|"+s.LabelSelector)
	}
}

func TestReader_lists_anew_when_it_is_asked_to(t *testing.T) {
	writes := []write{{rev: 3, name: "a", uid: "u-a"}, {rev: 20, name: "a", uid: "u-a"}}
	want := []string{"updated a@20 watch", "gap 20", "added a@20 relist", "listed 20"}
	for name, c := range map[string]struct {
		fault  func(*cluster) func(int, url.Values) *step
		noRoom time.Duration
	}{
		"while it watches": {},
		"while a watch fails again and again": {fault: func(server *cluster) func(int, url.Values) *step {
			return func(_ int, q url.Values) *step {
				if q.Get("watch") != "" && server.watches() > 1 {
					return &step{status: http.StatusServiceUnavailable, after: "300"}
				}
				if q.Get("watch") != "" {
					return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), cut: true}
				}
				return nil
			}
		}},
		"while nobody says whether a watch may go on": {fault: func(server *cluster) func(int, url.Values) *step {
			hung := false
			return func(_ int, q url.Values) *step {
				switch {
				case q.Get("watch") != "" && server.watches() == 1:
					return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), cut: true}
				case server.watches() == 1 && q.Get("watch") == "" && !hung:
					hung = true
					return &step{mute: true, body: " "}
				}
				return nil
			}
		}},
		"while there is no room": {noRoom: 20 * time.Minute},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, writes...)
			server.oldest = 1
			if c.fault != nil {
				server.fault = c.fault(server)
			}
			r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}}
			r.onCall = func(call string, _ <-chan struct{}) {
				if call == "admit 20" {
					<-time.After(c.noRoom)
				}
			}
			again := make(chan Why)
			timer := time.AfterFunc(10*time.Second, func() { again <- Why{CauseAudit, "the audit found a difference"} })
			defer timer.Stop()
			begin := time.Now()
			got, err := runReader(t, Reader{Client: server.script.client(), Stream: configMaps, Recovery: enough, Again: again},
				r, until(r, "listed 20"))
			check(t, got, want...)
			if p := r.gap(); err != nil || p.Why != (Why{CauseAudit, "the audit found a difference"}) ||
				r.counted("asked") != 1 || len(r.open) > 0 {
				t.Errorf("error %v, gap %+v, counted %v, %d tickets open", err, p, r.reasons, len(r.open))
			}
			assert.LessOrEqual(t, time.Since(begin), c.noRoom+15*time.Second, "it took")
		})
	}
}

// The list is asked for while the watch is behind: what that has not shown yet, it shows behind the list.
func TestReader_passes_over_nothing_when_it_is_asked_to_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 40, write{rev: 3, name: "a", uid: "u-a"}, write{rev: 20, name: "a", uid: "u-a"},
			write{rev: 30, name: "a", uid: "u-a"}, write{rev: 35, name: "a", uid: "u-a"})
		server.oldest = 1
		server.fault = func(_ int, q url.Values) *step {
			if q.Get("watch") == "" || server.watches() > 1 {
				return nil
			}
			return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), hold: true}
		}
		again := make(chan Why)
		timer := time.AfterFunc(10*time.Second, func() { again <- Why{CauseAudit, "the audit found a difference"} })
		defer timer.Stop()
		r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}, remember: true}
		got, err := runReader(t, Reader{Client: server.script.client(), Stream: configMaps, Recovery: enough, Again: again},
			r, until(r, "updated a@35 watch"))
		check(t, got, "updated a@20 watch", "gap 20", "added a@20 relist", "listed 20", "updated a@30 watch",
			"updated a@35 watch")
		assert.NoError(t, err)
	})
}

func TestWatch_that_has_expired_is_not_taken_for_one_that_was_cut_off(t *testing.T) {
	asked := askedError{Why{CauseAudit, "the audit found a difference"}}
	for _, c := range []struct{ err, cut, want error }{
		{io.EOF, asked, asked},
		{nil, asked, asked},
		{io.EOF, context.Canceled, io.EOF},
		{gone(), nil, gone()},
		{gone(), asked, gone()},
	} {
		if got := outcome(c.err, c.cut); got == nil || got.Error() != c.want.Error() {
			t.Errorf("%v, cut off because of %v: %v, want %v", c.err, c.cut, got, c.want)
		}
	}
}

func TestReader_that_is_asked_no_more_goes_on(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 40, write{rev: 20, name: "a", uid: "u-a"})
		server.oldest = 1
		again := make(chan Why)
		close(again)
		r := &recorder{resume: "5"}
		got, err := runReader(t, Reader{Client: server.script.client(), Stream: configMaps, Again: again}, r, minutes(3))
		check(t, got, "added a@20 watch")
		require.NoError(t, err)
		assert.Equal(t, 1, server.watches(), "watches")
	})
}
