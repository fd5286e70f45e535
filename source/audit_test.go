// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

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
		err := Audit(t.Context(), dial(t, server.script), stream, "2000", func(id Ident, _ []byte) error {
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
			err := Audit(t.Context(), dial(t, server.script), configMaps, c.version, func(Ident, []byte) error { return c.f })
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
		err := ObjectsAt(t.Context(), dial(t, server.script), configMaps, "2000", func(id Ident, b *Body) error {
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
			err := ObjectsAt(t.Context(), dial(t, server.script), configMaps, c.version, func(Ident, *Body) error { return c.f })
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
		client := dial(t, server.script)
		of := func(uid, version string) Ident {
			return Ident{Namespace: "default", Name: "a", UID: uid, ResourceVersion: version}
		}
		for version, want := range map[string]Ident{
			"9": {}, "10": of("u-1", "10"), "19": of("u-1", "10"),
			"20": {}, "40": of("u-2", "30"),
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
