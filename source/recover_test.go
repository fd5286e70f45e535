// SPDX-License-Identifier: Apache-2.0

package source

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
)

var enough = Recovery{Reads: 10000, Time: time.Minute}

// hidden are histories of which a watch shows nothing, what of them was published, and what can be read back.
var hidden = map[string]struct {
	known  []Ident
	writes []write
	want   []string
	cause  string
}{
	"nothing": {
		[]Ident{known("a", "u-a", 3)},
		[]write{{rev: 3, name: "a", uid: "u-a"}},
		nil,
		"too old resource version: 5 (40); 0 changes were read back, what was created and deleted in between is not known",
	},
	"updates": {
		[]Ident{known("a", "u-a", 3)},
		[]write{
			{rev: 3, name: "a", uid: "u-a"},
			{rev: 7, name: "a", uid: "u-a"},
			{rev: 8, name: "a", uid: "u-a"},
			{rev: 20, name: "a", uid: "u-a"},
		},
		[]string{"updated a@7 recovered", "updated a@8 recovered"},
		"too old resource version: 5 (40); 2 changes were read back, what was created and deleted in between is not known",
	},
	"a new object": {
		nil,
		[]write{{rev: 7, name: "a", uid: "u-a"}, {rev: 8, name: "a", uid: "u-a"}, {rev: 20, name: "a", uid: "u-a"}},
		[]string{"added a@7 recovered", "updated a@8 recovered"},
		"",
	},
	"an object that is older than the position and unknown": {
		nil,
		[]write{{rev: 4, name: "a", uid: "u-a"}, {rev: 8, name: "a", uid: "u-a"}, {rev: 9, name: "a", uid: "u-a"}},
		[]string{"added a@8 recovered"},
		"",
	},
	"a deletion": {
		[]Ident{known("a", "u-a", 3)},
		[]write{
			{rev: 3, name: "a", uid: "u-a"},
			{rev: 7, name: "a", uid: "u-a"},
			{rev: 12, name: "a", uid: "u-a"},
			{rev: 13, name: "a", gone: true},
		},
		[]string{"updated a@7 recovered", "updated a@12 recovered", "deleted a@13 recovered"},
		"",
	},
	"a deletion of what was published last": {
		[]Ident{known("a", "u-a", 3), known("b", "u-b", 5), known("c", "u-c", 4)},
		[]write{
			{rev: 3, name: "a", uid: "u-a"},
			{rev: 4, name: "c", uid: "u-c"},
			{rev: 5, name: "b", uid: "u-b"},
			{rev: 6, name: "b", gone: true},
			{rev: 39, name: "a", gone: true},
			{rev: 40, name: "c", gone: true},
		},
		[]string{"deleted a@39 recovered", "deleted b@6 recovered", "deleted c@40 recovered"},
		"",
	},
	"an object that took a name": {
		[]Ident{known("a", "u-1", 3)},
		[]write{
			{rev: 3, name: "a", uid: "u-1"},
			{rev: 9, name: "a", uid: "u-1"},
			{rev: 10, name: "a", gone: true},
			{rev: 12, name: "a", uid: "u-2"},
			{rev: 15, name: "a", uid: "u-2"},
			{rev: 16, name: "a", uid: "u-2"},
		},
		[]string{"updated a@9 recovered", "deleted a@10 recovered", "added a@12 recovered", "updated a@15 recovered"},
		"",
	},
	"an object that took a name and went": {
		[]Ident{known("a", "u-1", 3)},
		[]write{
			{rev: 3, name: "a", uid: "u-1"},
			{rev: 10, name: "a", gone: true},
			{rev: 12, name: "a", uid: "u-2"},
			{rev: 30, name: "a", gone: true},
		},
		[]string{"deleted a@10 recovered"},
		"",
	},
	"what is published ahead of the position": {
		[]Ident{known("a", "u-a", 8), known("b", "u-b", 9)},
		[]write{
			{rev: 3, name: "a", uid: "u-a"},
			{rev: 8, name: "a", uid: "u-a"},
			{rev: 9, name: "b", uid: "u-b"},
			{rev: 10, name: "a", uid: "u-a"},
			{rev: 11, name: "a", uid: "u-a"},
		},
		[]string{"updated a@10 recovered"},
		"",
	},
	"a deletion that is published already": {
		nil, []write{{rev: 3, name: "a", uid: "u-a"}, {rev: 7, name: "a", gone: true}}, nil, "",
	},
}

func TestReader_reads_back_what_a_watch_can_no_longer_show(t *testing.T) {
	for name, c := range hidden {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, c.writes...)
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
		server := newCluster(t, 40,
			write{rev: 3, name: "a", uid: "u-a", label: "x"}, write{rev: 7, name: "a", uid: "u-a", label: "x"},
			write{rev: 8, name: "a", uid: "u-a"},
			write{rev: 9, name: "a", uid: "u-a"}, write{rev: 14, name: "a", uid: "u-a", label: "x"},
			write{rev: 15, name: "a", uid: "u-a", label: "x"},
			write{rev: 20, name: "a", uid: "u-a"}, write{rev: 21, name: "b", uid: "u-b"},
			write{rev: 22, name: "b", uid: "u-b", label: "x"},
			write{rev: 30, name: "a", uid: "u-a", label: "x"}, write{rev: 31, name: "a", uid: "u-a", label: "x"})
		r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}}
		stream := configMaps
		stream.LabelSelector, stream.FieldSelector = "app=x", "metadata.namespace=default"
		got, _ := runReader(t, Reader{Client: clientOf(t, server.script), Stream: stream, Recovery: enough}, r,
			until(r, "listed 40"))
		// Whatever path the search takes, it ends at a place where the object left the stream.
		want := []string{
			"updated a@7 recovered", "deleted a@8 recovered", "added a@14 recovered", "updated a@15 recovered",
			"deleted a@20 recovered",
			"added a@30 recovered",
		}
		n := slices.Index(got, "gap 40")
		assert.True(t, n == len(want) && slices.Equal(got[:n], want), "seen %v, want %v", got, want)
		for i, q := range server.asked {
			fields := q.Get("fieldSelector")
			assert.Equal(t, "app=x", q.Get("labelSelector"), "asked for %v", q)
			assert.True(t, strings.HasSuffix(fields, "metadata.namespace=default"), "asked for %v", q)
			assert.Equal(t, strings.HasSuffix(server.paths[i], "/namespaces/default/configmaps"),
				strings.HasPrefix(fields, "metadata.name="), "asked for %v at %s", q, server.paths[i])
		}
	})
}

// What a watch has shown is on its way, though it is not known to be published yet: it is not read back, and nothing
// before it.
func TestReader_leaves_alone_what_is_on_its_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 40,
			write{rev: 3, name: "a", uid: "u-a"}, write{rev: 4, name: "b", uid: "u-b"}, write{rev: 8, name: "a", uid: "u-a"},
			write{rev: 9, name: "a", uid: "u-a"},
			write{rev: 10, name: "b", gone: true}, write{rev: 11, name: "c", uid: "u-c"}, write{rev: 20, name: "a", uid: "u-a"},
			write{rev: 30, name: "a", uid: "u-a"})
		server.oldest = 5
		server.fault = func(_ int, q url.Values) *step {
			if q.Get("watch") == "" || server.watches() > 2 {
				return nil
			}
			if server.watches() == 2 {
				return &step{body: frameOf("ERROR", statusOf(410, "Expired", "too old resource version: 10 (35)"))}
			}
			return &step{cut: true, body: frameOf("MODIFIED", cm("a", "u-a", "8")) + frameOf("MODIFIED", cm("a", "u-a", "9")) +
				frameOf("DELETED", cm("b", "u-b", "10")) + frameOf("ADDED", cm("c", "u-c", "11"))}
		}
		r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3), known("b", "u-b", 4)}}
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
			var writes []write
			r := &recorder{resume: "2000"}
			for i := range pageSize + 10 {
				name := fmt.Sprintf("o%05d", i)
				writes = append(writes, write{rev: i + 1, name: name, uid: "u-" + name})
				r.known = append(r.known, known(name, "u-"+name, i+1))
			}
			server := newCluster(t, 4000, append(writes, write{rev: 3000, name: "o00007", uid: "u-o00007"},
				write{rev: 3001, name: "o00007", gone: true})...)
			var accepted []string
			server.fault = func(n int, q url.Values) *step {
				if server.watches() != 1 || q.Get("limit") != strconv.Itoa(pageSize) || len(accepted) == 2 {
					return nil
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				accepted = append(accepted, server.accepted[n])
				st := server.answer(q)
				if leavesOut {
					st.body = strings.ReplaceAll(strings.Replace(st.body, "ConfigMapList", "PartialObjectMetadataList", 1),
						`,"data":{"k":""}`, "")
					st.body = strings.ReplaceAll(st.body, `"kind":"ConfigMap","apiVersion":"v1",`, "")
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
		var history []write
		r := &recorder{resume: "20"}
		for i := range 20 {
			name := fmt.Sprint("o", i)
			history = append(history, write{rev: 1 + i, name: name, uid: "u-" + name})
			r.known = append(r.known, known(name, "u-"+name, 1+i))
		}
		for i := range 200 {
			name := fmt.Sprint("o", i%20)
			history = append(history, write{rev: 21 + i, name: name, uid: "u-" + name})
		}
		server := newCluster(t, 300, history...)
		server.fault = func(_ int, q url.Values) *step {
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
		assert.Equal(t, 4, server.most, "requests at a time, want 4")
	})
}
