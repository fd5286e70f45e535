// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

var enough = Recovery{Reads: 10000, Time: time.Minute}

// hidden are histories of which a watch shows nothing, what of them was published, and what can be read back.
var hidden = map[string]struct {
	known  []source.Ident
	writes []kubetest.Write
	want   []string
	cause  string
}{
	"nothing": {
		[]source.Ident{known("a", "u-a", 3)},
		[]kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}},
		nil,
		"too old resource version: 5 (40); 0 changes were read back, what was created and deleted in between is not known",
	},
	"updates": {
		[]source.Ident{known("a", "u-a", 3)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-a"},
			{Rev: 7, Name: "a", UID: "u-a"},
			{Rev: 8, Name: "a", UID: "u-a"},
			{Rev: 20, Name: "a", UID: "u-a"},
		},
		[]string{"updated a@7 recovered", "updated a@8 recovered"},
		"too old resource version: 5 (40); 2 changes were read back, what was created and deleted in between is not known",
	},
	"a new object": {
		nil,
		[]kubetest.Write{{Rev: 7, Name: "a", UID: "u-a"}, {Rev: 8, Name: "a", UID: "u-a"}, {Rev: 20, Name: "a", UID: "u-a"}},
		[]string{"added a@7 recovered", "updated a@8 recovered"},
		"",
	},
	"an object that is older than the position and unknown": {
		nil,
		[]kubetest.Write{{Rev: 4, Name: "a", UID: "u-a"}, {Rev: 8, Name: "a", UID: "u-a"}, {Rev: 9, Name: "a", UID: "u-a"}},
		[]string{"added a@8 recovered"},
		"",
	},
	"a deletion": {
		[]source.Ident{known("a", "u-a", 3)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-a"},
			{Rev: 7, Name: "a", UID: "u-a"},
			{Rev: 12, Name: "a", UID: "u-a"},
			{Rev: 13, Name: "a", Gone: true},
		},
		[]string{"updated a@7 recovered", "updated a@12 recovered", "deleted a@13 recovered"},
		"",
	},
	"a deletion of what was published last": {
		[]source.Ident{known("a", "u-a", 3), known("b", "u-b", 5), known("c", "u-c", 4)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-a"},
			{Rev: 4, Name: "c", UID: "u-c"},
			{Rev: 5, Name: "b", UID: "u-b"},
			{Rev: 6, Name: "b", Gone: true},
			{Rev: 39, Name: "a", Gone: true},
			{Rev: 40, Name: "c", Gone: true},
		},
		[]string{"deleted a@39 recovered", "deleted b@6 recovered", "deleted c@40 recovered"},
		"",
	},
	"an object that took a name": {
		[]source.Ident{known("a", "u-1", 3)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-1"},
			{Rev: 9, Name: "a", UID: "u-1"},
			{Rev: 10, Name: "a", Gone: true},
			{Rev: 12, Name: "a", UID: "u-2"},
			{Rev: 15, Name: "a", UID: "u-2"},
			{Rev: 16, Name: "a", UID: "u-2"},
		},
		[]string{"updated a@9 recovered", "deleted a@10 recovered", "added a@12 recovered", "updated a@15 recovered"},
		"",
	},
	"an object that took a name and went": {
		[]source.Ident{known("a", "u-1", 3)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-1"},
			{Rev: 10, Name: "a", Gone: true},
			{Rev: 12, Name: "a", UID: "u-2"},
			{Rev: 30, Name: "a", Gone: true},
		},
		[]string{"deleted a@10 recovered"},
		"",
	},
	"what is published ahead of the position": {
		[]source.Ident{known("a", "u-a", 8), known("b", "u-b", 9)},
		[]kubetest.Write{
			{Rev: 3, Name: "a", UID: "u-a"},
			{Rev: 8, Name: "a", UID: "u-a"},
			{Rev: 9, Name: "b", UID: "u-b"},
			{Rev: 10, Name: "a", UID: "u-a"},
			{Rev: 11, Name: "a", UID: "u-a"},
		},
		[]string{"updated a@10 recovered"},
		"",
	},
	"a deletion that is published already": {
		nil, []kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}, {Rev: 7, Name: "a", Gone: true}}, nil, "",
	},
}

func TestReader_reads_back_what_a_watch_can_no_longer_show(t *testing.T) {
	for name, c := range hidden {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, c.writes...)
			r := &recorder{resume: "5", known: c.known}
			got := must.Get(runAt(server, r, enough, until(r, "listed 40")))(t)
			at := len(c.want)
			require.GreaterOrEqual(t, len(got), at, "seen %v, want %v", got, c.want)
			checkEach(t, got[:at], c.want)
			if got[at] != "gap 40" || got[len(got)-1] != "listed 40" ||
				!strings.Contains(r.gap().Message, plural(at, "change")+" w") {
				t.Errorf("seen %v, and the gap says %q", got[at:], r.gap().Message)
			}
			assert.True(t, c.cause == "" || r.gap().Message == c.cause,
				"the gap says %q, want %q", r.gap().Message, c.cause)
		})
	}
}

// checkEach checks that each object's lines are those of want, in their order.
func checkEach(t *testing.T, got, want []string) {
	t.Helper()
	check(t, sortedByName(got), sortedByName(want)...)
}

// On a stream with a selector, an object that does not match does not exist.
func TestReader_reads_back_what_its_selectors_match(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40,
			kubetest.Write{Rev: 3, Name: "a", UID: "u-a", Label: "x"}, kubetest.Write{Rev: 7, Name: "a", UID: "u-a", Label: "x"},
			kubetest.Write{Rev: 8, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 9, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 14, Name: "a", UID: "u-a", Label: "x"},
			kubetest.Write{Rev: 15, Name: "a", UID: "u-a", Label: "x"},
			kubetest.Write{Rev: 20, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 21, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 22, Name: "b", UID: "u-b", Label: "x"},
			kubetest.Write{Rev: 30, Name: "a", UID: "u-a", Label: "x"},
			kubetest.Write{Rev: 31, Name: "a", UID: "u-a", Label: "x"})
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		stream := kubetest.ConfigMaps
		stream.LabelSelector, stream.FieldSelector = "app=x", "metadata.namespace=default"
		got, _ := runReader(t, Reader{Client: clientOf(t, server.Script), Stream: stream, Recovery: enough}, r,
			until(r, "listed 40"))
		// Whatever path the search takes, it ends at a place where the object left the stream.
		want := []string{
			"updated a@7 recovered", "deleted a@8 recovered", "added a@14 recovered", "updated a@15 recovered",
			"deleted a@20 recovered",
			"added a@30 recovered",
		}
		n := slices.Index(got, "gap 40")
		assert.True(t, n == len(want) && slices.Equal(got[:n], want), "seen %v, want %v", got, want)
		for i, q := range server.Asked {
			fields := q.Get("fieldSelector")
			assert.Equal(t, "app=x", q.Get("labelSelector"), "asked for %v", q)
			assert.True(t, strings.HasSuffix(fields, "metadata.namespace=default"), "asked for %v", q)
			assert.Equal(t, strings.HasSuffix(server.Paths[i], "/namespaces/default/configmaps"),
				strings.HasPrefix(fields, "metadata.name="), "asked for %v at %s", q, server.Paths[i])
		}
	})
}

// What a watch has shown is on its way, though it is not known to be published yet: it is not read back, and nothing
// before it.
func TestReader_leaves_alone_what_is_on_its_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40,
			kubetest.Write{Rev: 3, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 4, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 8, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 9, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 10, Name: "b", Gone: true}, kubetest.Write{Rev: 11, Name: "c", UID: "u-c"},
			kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 30, Name: "a", UID: "u-a"})
		server.Oldest = 5
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			if q.Get("watch") == "" || server.Watches() > 2 {
				return nil
			}
			if server.Watches() == 2 {
				return &kubetest.Step{Body: kubetest.FrameOf("ERROR",
					kubetest.StatusOf(410, "Expired", "too old resource version: 10 (35)"))}
			}
			return &kubetest.Step{Cut: true, Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "8")) +
				kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "9")) +
				kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "10")) +
				kubetest.FrameOf("ADDED", kubetest.ConfigMap("c", "u-c", "11"))}
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3), known("b", "u-b", 4)}}
		got, _ := runAt(server, r, enough, until(r, "listed 35"))
		check(t, got, "updated a@8 watch", "updated a@9 watch", "deleted b@10 watch", "added c@11 watch",
			"updated a@20 recovered",
			"gap 35", "added a@30 relist", "added c@11 relist", "listed 35")
		p := r.gap()
		assert.Contains(t, p.Message, "; 1 change was read back, what", "the gap is %+v", p)
	})
}

// All that is needed to find out what differs are identities; not every API server can leave out the rest.
func TestReader_compares_identities(t *testing.T) {
	for name, leavesOut := range map[string]bool{
		"of an API server that sends no more": true,
		"of one that sends whole objects":     false,
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			var writes []kubetest.Write
			r := &recorder{resume: "2000"}
			for i := range kube.PageSize + 10 {
				name := fmt.Sprintf("o%05d", i)
				writes = append(writes, kubetest.Write{Rev: i + 1, Name: name, UID: "u-" + name})
				r.known = append(r.known, known(name, "u-"+name, i+1))
			}
			server := kubetest.NewCluster(t, 4000, append(writes, kubetest.Write{Rev: 3000, Name: "o00007", UID: "u-o00007"},
				kubetest.Write{Rev: 3001, Name: "o00007", Gone: true})...)
			var accepted []string
			server.Fault = func(n int, q url.Values) *kubetest.Step {
				if server.Watches() != 1 || q.Get("limit") != strconv.Itoa(kube.PageSize) || len(accepted) == 2 {
					return nil
				}
				server.Mu.Lock()
				defer server.Mu.Unlock()
				accepted = append(accepted, server.Accepted[n])
				st := server.Answer(q)
				if leavesOut {
					st.Body = strings.ReplaceAll(strings.Replace(st.Body, "ConfigMapList", "PartialObjectMetadataList", 1),
						`,"data":{"k":""}`, "")
					st.Body = strings.ReplaceAll(st.Body, `"kind":"ConfigMap","apiVersion":"v1",`, "")
				}
				return &st
			}
			got, _ := runAt(server, r, enough, until(r, "listed 4000"))
			check(t, got[:3], "updated o00007@3000 recovered", "deleted o00007@3001 recovered", "gap 4000")
			const identities = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
			check(t, accepted, identities, identities)
		})
	}
}

func TestReader_reads_several_objects_at_a_time_and_hands_over_one(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var history []kubetest.Write
		r := &recorder{resume: "20"}
		for i := range 20 {
			name := fmt.Sprint("o", i)
			history = append(history, kubetest.Write{Rev: 1 + i, Name: name, UID: "u-" + name})
			r.known = append(r.known, known(name, "u-"+name, 1+i))
		}
		for i := range 200 {
			name := fmt.Sprint("o", i%20)
			history = append(history, kubetest.Write{Rev: 21 + i, Name: name, UID: "u-" + name})
		}
		server := kubetest.NewCluster(t, 300, history...)
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			if strings.Contains(q.Get("fieldSelector"), "metadata.name") {
				<-time.After(time.Millisecond)
			}
			return nil
		}
		r.onCall = func(call string, _ <-chan struct{}) {
			if call == "deliver" || strings.HasPrefix(call, "admit") {
				<-time.After(100 * time.Microsecond)
			}
		}
		got, _ := runAt(server, r, enough, until(r, "listed 300"))
		at := slices.Index(got, "gap 300")
		var want []string
		for i := range 180 {
			want = append(want, fmt.Sprintf("updated o%d@%d recovered", i%20, 21+i))
		}
		checkEach(t, got[:max(at, 0)], want)
		assert.Equal(t, 4, server.Most, "requests at a time, want 4")
	})
}
