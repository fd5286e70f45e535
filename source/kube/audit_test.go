// SPDX-License-Identifier: Apache-2.0

package kube

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
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

func TestAudit_tells_what_existed_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := kubetest.ManyObjects(2*PageSize + 10)
		for i := range writes {
			writes[i].Label = "x"
		}
		server := kubetest.NewCluster(t, 5000, append(writes, kubetest.Write{Rev: 3000, Name: "o00001", Gone: true},
			kubetest.Write{Rev: 3001, Name: "z", UID: "u-z", Label: "x"})...)
		stream := kubetest.ConfigMaps
		stream.LabelSelector = "app=x"
		var got []string
		err := Audit(t.Context(), dial(t, server.Script), stream, "2000", func(id source.Ident, _ []byte) error {
			got = append(got, id.Key()+" "+id.UID+" "+id.ResourceVersion)
			return nil
		})
		assert.True(t, err == nil && slices.Equal(got, want),
			"error %v, %d objects, want %d", err, len(got), len(want))
		for i, q := range server.Asked {
			if !strings.HasPrefix(server.Accepted[i], "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1") ||
				q.Get("labelSelector") != "app=x" || q.Get("limit") != strconv.Itoa(PageSize) {
				t.Errorf("asked for %v, accepting %s", q, server.Accepted[i])
			}
		}
		assert.True(t, len(server.Asked) == 3 && server.Asked[0].Get("resourceVersionMatch") == "Exact" &&
			server.Asked[1].Get("resourceVersion") == "", "asked for %v", server.Asked)
	})
}

func TestAudit_ends_with_what_is_wrong(t *testing.T) {
	enoughSeen := errors.New("enough seen")
	for name, c := range map[string]struct {
		version string
		fault   func(int, url.Values) *kubetest.Step
		f       error
		wrong   func(error) bool
	}{
		"no version":             {"", nil, nil, func(err error) bool { return errors.Is(err, errNoVersion) }},
		"a version that is gone": {"3", nil, nil, Expired},
		"a future version":       {"3000", nil, nil, tooLarge},
		"another version": {"20", kubetest.Always(kubetest.Step{Body: kubetest.ListOf("40", "")}), nil, func(err error) bool {
			return strings.Contains(err.Error(), `asked for a list at 20, the API server sent one at "40"`)
		}},
		"no identity": {
			"20", kubetest.Always(kubetest.Step{Body: kubetest.ListOf("20", "", kubetest.Nameless["uid"])}), nil,
			func(err error) bool { return errors.As(err, &rawjson.UnreadableError{}) },
		},
		"half an answer": {
			"20", kubetest.Always(kubetest.Step{Body: kubetest.ListOf("20", "")[:20], Cut: true}), nil,
			func(err error) bool { return err != nil },
		},
		"f's own error":   {"20", nil, enoughSeen, func(err error) bool { return errors.Is(err, enoughSeen) }},
		"no such request": {"20", kubetest.Always(kubetest.Step{Status: http.StatusBadRequest}), nil, Unanswerable},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 10, Name: "a", UID: "u-a"})
			server.Compacted, server.Fault = 5, c.fault
			err := Audit(t.Context(), dial(t, server.Script), kubetest.ConfigMaps, c.version,
				func(source.Ident, []byte) error { return c.f })
			require.Error(t, err)
			assert.True(t, c.wrong(err))
		})
	}
}

func TestObjectsAt_tells_what_existed_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, want := kubetest.ManyObjects(PageSize + 10)
		server := kubetest.NewCluster(t, 5000, append(writes, kubetest.Write{Rev: 3000, Name: "o00001", UID: "u-o00001"})...)
		// What fails for a while is asked for again.
		server.Fault = func(n int, _ url.Values) *kubetest.Step {
			switch n {
			case 0, 3:
				return &kubetest.Step{Status: http.StatusServiceUnavailable}
			default:
				return nil
			}
		}
		told := map[string]struct{}{} // some of them twice
		err := ObjectsAt(t.Context(), dial(t, server.Script), kubetest.ConfigMaps, "2000",
			func(id source.Ident, b *source.Body) error {
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
		fault   func(int, url.Values) *kubetest.Step
		f       error
		wrong   func(error) bool
		asked   int
	}{
		"no version":             {"", nil, nil, func(err error) bool { return errors.Is(err, errNoVersion) }, 0},
		"a version that is gone": {"3", nil, nil, Expired, 1},
		"no such request":        {"20", kubetest.Always(kubetest.Step{Status: http.StatusBadRequest}), nil, Unanswerable, 1},
		"f's own error":          {"20", nil, enoughSeen, func(err error) bool { return errors.Is(err, enoughSeen) }, 1},
		"it refuses": {
			"20", kubetest.Always(kubetest.Step{Status: http.StatusForbidden}), nil,
			apierrors.IsForbidden, maxRefusals,
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 10, Name: "a", UID: "u-a"})
			server.Compacted, server.Fault = 5, c.fault
			err := ObjectsAt(t.Context(), dial(t, server.Script), kubetest.ConfigMaps, c.version,
				func(source.Ident, *source.Body) error { return c.f })
			if err == nil || !c.wrong(err) || len(server.Asked) != c.asked {
				t.Errorf("error is %v after %d requests", err, len(server.Asked))
			}
		})
	}
}

func TestReadAt_tells_one_object_at_a_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 10, Name: "a", UID: "u-1"},
			kubetest.Write{Rev: 12, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 20, Name: "a", Gone: true},
			kubetest.Write{Rev: 30, Name: "a", UID: "u-2"})
		server.Compacted = 5
		client := dial(t, server.Script)
		of := func(uid, version string) source.Ident {
			return source.Ident{Namespace: "default", Name: "a", UID: uid, ResourceVersion: version}
		}
		for version, want := range map[string]source.Ident{
			"9": {}, "10": of("u-1", "10"), "19": of("u-1", "10"),
			"20": {}, "40": of("u-2", "30"),
		} {
			id, _, found, err := ReadAt(t.Context(), client, kubetest.ConfigMaps, "default", "a", version)
			assert.True(t, err == nil && id == want && found == (want != source.Ident{}),
				"at %s: %+v, %v, %v, want %+v", version, id, found, err, want)
		}
		for version, wrong := range map[string]func(error) bool{
			"4": Expired, "41": tooLarge, "": func(err error) bool { return errors.Is(err, errNoVersion) },
		} {
			if id, _, found, err := ReadAt(t.Context(), client, kubetest.ConfigMaps, "default", "a", version); err == nil ||
				!wrong(err) || found || id != (source.Ident{}) {
				t.Errorf("at %q: %+v, %v, %v", version, id, found, err)
			}
		}
	})
}
