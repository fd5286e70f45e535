// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// lister is an API server that lists objects, "name uid version" or "name uid version written". With a selector it
// lists those that are in labelled only.
type lister struct {
	mu       sync.Mutex
	objects  []string
	labelled []string
	version  string
	// listing is called before each answer.
	listing func()
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	listing := l.listing
	l.mu.Unlock()
	if listing != nil {
		listing()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("resourceVersionMatch") == "Exact" {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
		return
	}
	all := l.objects
	if r.URL.Query().Get("labelSelector") != "" {
		all = l.labelled
	}
	var items []string
	for _, o := range all {
		f := strings.Fields(o)
		managed := ""
		if len(f) > 3 {
			managed = fmt.Sprintf(`,"managedFields":[{"manager":"m","time":%q}]`, f[3])
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q%s}}`,
			f[0], f[1], f[2], managed))
	}
	_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
		cmp.Or(l.version, "1000"), strings.Join(items, ","))
}

func (l *lister) client(t *testing.T) *kube.Client { return answeredBy(t, l) }

// answeredBy returns a client whose requests a handler answers, without a network: testing/synctest can wait for them.
func answeredBy(t *testing.T, h http.Handler) *kube.Client {
	t.Helper()
	return must.Get(kube.NewClient(&rest.Config{
		Host:          "http://api.example.com",
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return answers{h} },
	}))(t)
}

// answers are those of a handler.
type answers struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result(), nil
}

// resyncing begins a resync of what a lister lists, and returns how to wait for its end.
func resyncing(t *testing.T, r *rig, s *stream.Stream, l *lister) (end func()) {
	t.Helper()
	r.env.Client = l.client(t)
	s.Status.State(source.Watching, nil)
	s.Resyncer.Resync.Ask(time.Now())
	n, ok := s.Resyncer.Resync.Begin()
	require.True(t, ok)
	ended := make(chan error, 1)
	go func() { ended <- s.Resyncer.Republish(must.Within(t, time.Minute), n) }()
	return func() {
		t.Helper()
		require.NoError(t, <-ended)
		r.settle()
	}
}

// between returns what the log has between the markers of its last resync, sorted.
func between(t *testing.T, log *fakeLog) (told []string) {
	t.Helper()
	lines := log.lines()
	begin := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "resync-started") {
			begin = i + 1
		}
		if strings.HasPrefix(line, "resync-completed") {
			told = slices.Clone(lines[begin:i])
		}
	}
	slices.Sort(told)
	return told
}

// listed is how many objects the resync that runs has listed.
func listedBy(r *resyncs.List) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.All()[0].Listed
}

// completeness is what the last marker of a resync says of itself.
func completeness(log *fakeLog) (complete string) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := range log.log {
		if m := &log.log[i]; typeOf(m) == "resync-completed" {
			_, complete, _ = strings.Cut(string(m.Data), `"complete":`)
		}
	}
	return strings.TrimSuffix(complete, "}")
}

func TestResync_lists_after_its_marker_and_tells_all_before_the_other_one(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5", "b u2 6")
	l := &lister{objects: []string{"a u1 5", "b u2 6"}, listing: func() {
		lines := log.lines()
		assert.True(t, strings.HasPrefix(lines[len(lines)-1], "resync-started"), "the list is made behind %q", lines)
		saved := must.Get(store.Load(t.Context()))(t).Log.Resyncs
		assert.Contains(t, log.log[len(log.log)-1].ID, fmt.Sprint(saved), "the number is not durable")
	}}
	resyncing(t, r, s, l)()
	assert.Equal(t, []string{"updated default/a u1 5 resync", "updated default/b u2 6 resync"}, between(t, log.fakeLog))
	assert.Equal(t, "true", completeness(log.fakeLog))
	number := store.state.Log.Resyncs
	for i := range log.log {
		if m := &log.log[i]; attribute(m, "reason") == "resync" {
			assert.True(t, strings.HasSuffix(m.ID, fmt.Sprintf(".r%d", number)), "%s", m.ID)
		}
	}
}

// The selection has changed since, which gave the stream another epoch.
func TestResync_has_the_sequence_that_the_state_had(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	r.stopSaved()
	before := s.Epoch
	r = start(t, log, store)
	l := &lister{labelled: []string{"a u1 5"}, objects: []string{"a u1 5"}}
	s = r.stream(&StreamSpec{LabelSelector: "app=x"})
	snapshot(t, s, "20", "a u1 5")
	require.Greater(t, s.Epoch, before)
	resyncing(t, r, s, l)()
	assert.Equal(t, []string{"updated default/a u1 5 resync"}, between(t, log.fakeLog))
	event := must.Get(encode.StateOf(&log.log[len(log.log)-2]))(t)
	assert.Equal(t, sequence.Sequence{Epoch: before, Version: 5}, event.Sequence)
}

// The object is created, and changed, while the list is made. The watch brings it.
func TestResync_is_complete_only_when_the_log_has_what_the_watch_brings(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	end := resyncing(t, r, s, &lister{objects: []string{"a u1 15", "b u2 16"}})
	must.Happen(t, "the list", func() bool { return listedBy(s.Resyncer.Resync.List) == 2 })
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	assert.Empty(t, completeness(log.fakeLog), "it is complete, and the log has an older state")
	send(t, s, source.Updated, "a", "u1", "15", source.ReasonWatch)
	send(t, s, source.Added, "b", "u2", "16", source.ReasonWatch)
	end()
	assert.Equal(t, []string{
		"added default/b u2 16 watch", "updated default/a u1 12 watch",
		"updated default/a u1 15 watch",
	},
		between(t, log.fakeLog))
}

// The list does not have an object any more, and the log has neither its last states nor its end. They come before the
// resync is complete: otherwise consumers would drop the object, and be given a patch to apply to it.
func TestResync_is_complete_only_when_the_log_has_the_end_of_what_is_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, r, s := listed(t, "10", "a u1 5", "b u2 6")
		end := resyncing(t, r, s, &lister{objects: []string{"a u1 5"}})
		<-time.After(10 * time.Second)
		require.Equal(t, 1, listedBy(s.Resyncer.Resync.List))
		assert.Empty(t, completeness(log.fakeLog), "it is complete, and an end is to come")
		send(t, s, source.Updated, "b", "u2", "15", source.ReasonWatch)
		send(t, s, source.Deleted, "b", "u2", "16", source.ReasonWatch)
		end()
		assert.Equal(t, []string{
			"deleted default/b u2 16 watch", "updated default/a u1 5 resync",
			"updated default/b u2 15 watch",
		},
			between(t, log.fakeLog))
	})
}

// Etcd was restored, and nothing has shown that yet. What the log has got since the backup was not told.
func TestResync_is_not_complete_where_its_list_is_older_than_the_log(t *testing.T) {
	for version, want := range map[string]string{"19": "false", "20": "true"} {
		log, _, r, s := listed(t, "20", "a u1 5", "b u2 19")
		resyncing(t, r, s, &lister{objects: []string{"a u1 5"}, version: version})()
		assert.Equal(t, want, completeness(log.fakeLog), "the list is at %s", version)
		r.stopSaved()
	}
}

// The watch has passed the list, and the log has an object that does not exist: an audit would find it, and the sweep
// does.
func TestResync_awaits_no_end_that_does_not_come(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5", "ghost u2 6")
	end := resyncing(t, r, s, &lister{objects: []string{"a u1 5"}})
	must.Happen(t, "the list", func() bool { return listedBy(s.Resyncer.Resync.List) == 1 })
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "1000"})
	end()
	assert.Equal(t, "true", completeness(log.fakeLog))
}

// Nothing but the list of a resync shows that etcd was restored.
func TestResync_begins_another_epoch_where_its_list_does_not_compare(t *testing.T) {
	for name, exists := range map[string]string{
		"an older state": "a u1 5", "another object": "a u2 20", "an object that is not known": "b u2 7",
		"one that has ended": "c u3 6",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, r, s := listed(t, "10", "a u1 5", "c u3 6")
			live(t, s, []happening{{source.Updated, "a", "u1", "20"}, {source.Deleted, "c", "u3", "21"}})
			note(t, s, source.Progress{Kind: source.Bookmark, Version: "30"})
			r.env.Client = (&lister{objects: []string{exists}}).client(t)
			s.Status.State(source.Watching, nil)
			s.Resyncer.Resync.Ask(time.Now())
			n, _ := s.Resyncer.Resync.Begin()
			ended := make(chan error, 1)
			go func() { ended <- s.Resyncer.Republish(must.Within(t, time.Minute), n) }()
			select {
			case why := <-s.Epochs.Again:
				assert.Equal(t, source.CauseRestored, why.Cause)
			case err := <-ended:
				require.Fail(t, "no list is asked for", "the resync ended: %v", err)
			}
			beginHistory(t, s, source.Gap, "1000")
			snapshot(t, s, "1000", exists)
			s.Status.State(source.Watching, nil)
			require.ErrorIs(t, <-ended, stream.ErrOtherEpoch)
		})
	}
}

// A list takes a while. What the watch has brought meanwhile is no mismatch.
func TestResync_compares_its_list_with_nothing_newer(t *testing.T) {
	_, _, r, s := listed(t, "10", "a u1 5", "b u2 6")
	l := &lister{objects: []string{"a u1 5", "b u2 6"}, version: "10"}
	l.listing = sync.OnceFunc(func() {
		live(t, s, []happening{{source.Updated, "a", "u1", "20"}, {source.Deleted, "b", "u2", "21"}})
		note(t, s, source.Progress{Kind: source.Bookmark, Version: "30"})
		require.NoError(t, r.journal.Save(t.Context()))
	})
	resyncing(t, r, s, l)()
	assert.NoError(t, s.Epochs.Mismatched())
}

// The log has a later event of an object, of another writer, and not between the markers.
func TestResync_that_leaves_an_object_out_is_not_complete_and_stays_due(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	s.Saved.ResyncDue = true
	row, _ := s.Ledger.Get("default/a")
	row.Fresh = false
	s.Ledger.Put("default/a", row)
	publishLate(t, log, source.Change{
		Op: source.Updated, Ident: source.Ident{Name: "a", UID: "u1", ResourceVersion: "9"}, Epoch: s.Epoch, Version: 9,
	})
	l, first := &lister{objects: []string{"a u1 5"}}, ""
	tries := 0
	l.listing = func() {
		if tries++; tries > 1 {
			first = cmp.Or(first, completeness(log.fakeLog))
			l.mu.Lock()
			defer l.mu.Unlock()
			l.objects = []string{"a u1 9"}
		}
	}
	r.env.Client = l.client(t)
	s.Status.State(source.Watching, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Resyncer.Run(ctx) })
	must.Happen(t, "one that is complete", func() bool { return completeness(log.fakeLog) == "true" })
	must.Happen(t, "nothing to be due", func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return !s.Saved.ResyncDue
	})
	cancel()
	running.Wait()
	assert.Equal(t, "false", first, "the first one")
	assert.Equal(t, []string{"updated default/a u1 9 resync"}, between(t, log.fakeLog))
}

// An object that is created behind the list is told, and nothing more of it is to come.
func TestResync_awaits_no_end_of_what_is_newer_than_its_list(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	l := &lister{objects: []string{"a u1 5"}, version: "10"}
	l.listing = sync.OnceFunc(func() { live(t, s, []happening{{source.Added, "b", "u2", "11"}}) })
	resyncing(t, r, s, l)()
	assert.Equal(t, []string{"added default/b u2 11 watch", "updated default/a u1 5 resync"}, between(t, log.fakeLog))
}

// An object that is gone before the watch has brought it is awaited no longer than the watch needs to say so.
func TestResync_awaits_no_object_that_the_watch_has_passed(t *testing.T) {
	_, _, r, s := listed(t, "10", "a u1 5")
	end := resyncing(t, r, s, &lister{objects: []string{"a u1 5", "b u2 16"}})
	must.Happen(t, "the list", func() bool { return listedBy(s.Resyncer.Resync.List) == 2 })
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	end()
}

// The broker has stored an event before the marker, and acknowledges it after the list.
func TestResync_tells_an_object_again_whose_event_was_on_its_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, r, s := listed(t, "10", "a u1 5", "b u2 6")
		stored, acknowledge := make(chan struct{}), make(chan struct{})
		log.set(func() {
			log.acknowledging = func(id string) {
				if strings.HasSuffix(id, ".11.0") {
					close(stored)
					<-acknowledge
				}
			}
		})
		send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
		<-stored
		end := resyncing(t, r, s, &lister{objects: []string{"a u1 11", "b u2 6"}})
		<-time.After(10 * time.Second)
		require.True(t, slices.ContainsFunc(log.lines(),
			func(line string) bool { return strings.HasPrefix(line, "resync-started") }))
		require.Zero(t, listedBy(s.Resyncer.Resync.List), "the list is made, and an event is on its way")
		close(acknowledge)
		end()
		assert.Equal(t, []string{"updated default/a u1 11 resync", "updated default/b u2 6 resync"}, between(t, log.fakeLog))
	})
}

// The list has a state on whose heels another one is, and only that is published again.
func TestResync_awaits_the_newer_state_that_is_on_its_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, r, s := listed(t, "10", "a u1 5")
		gate := make(chan struct{})
		l := &lister{objects: []string{"a u1 5"}, version: "10"}
		l.listing = sync.OnceFunc(func() {
			log.set(func() { log.gate, log.ungated = gate, true })
			send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
		})
		end := resyncing(t, r, s, l)
		<-time.After(10 * time.Second)
		require.Equal(t, 1, listedBy(s.Resyncer.Resync.List))
		assert.Empty(t, completeness(log.fakeLog), "it is complete, and the object was not told")
		close(gate)
		end()
		assert.Equal(t, []string{"updated default/a u1 11 watch"}, between(t, log.fakeLog))
	})
}

func TestResync_is_not_complete_where_a_filter_may_leave_something_out(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	s := r.stream(without(source.Deleted))
	snapshot(t, s, "10", "a u1 5")
	resyncing(t, r, s, &lister{objects: []string{"a u1 5"}})()
	assert.Equal(t, "false", completeness(log.fakeLog))
}

// The other epoch publishes everything in its own way.
func TestResync_ends_where_another_epoch_begins(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	r.env.Client = (&lister{objects: []string{"a u1 15"}}).client(t)
	s.Status.State(source.Watching, nil)
	s.Resyncer.Resync.Ask(time.Now())
	n, _ := s.Resyncer.Resync.Begin()
	ended := make(chan error, 1)
	go func() { ended <- s.Resyncer.Republish(must.Within(t, time.Minute), n) }()
	must.Happen(t, "the list", func() bool { return listedBy(s.Resyncer.Resync.List) == 1 })
	restored(t, s)
	require.ErrorIs(t, <-ended, stream.ErrOtherEpoch)
	assert.Empty(t, completeness(log.fakeLog))
}

func TestRepair_publishes_everything_again_between_markers_of_its_own(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5", "b u2 6", "c u3 7")
	live(t, s, []happening{
		{source.Updated, "a", "u1", "12"},
		{source.Deleted, "c", "u3", "13"},
		{source.Added, "d", "u4", "14"},
	})
	r.stopSaved()
	before := s.Epoch
	log.lose(6) // the deletion is lost, and what follows

	r, s = startStream(t, log, store)
	epoch := s.Epoch
	assert.Greater(t, epoch, before)
	has := store.state.Streams[s.Name]
	assert.True(t, has.Epoch == epoch && has.Since == epoch && has.Owes.List == sequence.Repair && has.Position == "",
		"%+v", has)
	assert.Equal(t, "log-lost", has.Owes.Cause)
	begin := source.Progress{Kind: source.SnapshotStarted, Version: "20"}
	note(t, s, begin)
	first := store.state.Streams[s.Name].Owes.Number
	send(t, s, source.Added, "a", "u1", "12", source.ReasonSnapshot)
	r.settleAndStop() // a crash in the middle of the list

	r, s = startStream(t, log, store)
	assert.Equal(t, epoch, s.Epoch, "it is another epoch after the crash")
	list(t, s, begin, source.ReasonSnapshot, []string{"a u1 12", "b u2 6", "d u4 14"})
	r.stopSaved()
	lines := log.lines()[6:]
	expect(t, lines[:3], "gap 20", "resync-started 20", "updated default/a u1 12 repair")
	assert.Equal(t, "resync-started 20", lines[3], "the other markers: the gap was announced")
	assert.Equal(t, []string{
		"added default/d u4 14 repair", "deleted default/c u3 7 repair", "updated default/a u1 12 repair",
		"updated default/b u2 6 repair",
	}, between(t, log.fakeLog))
	assert.Equal(t, "true", completeness(log.fakeLog))
	last := log.log[len(log.log)-1]
	assert.False(t, strings.HasSuffix(last.ID, fmt.Sprint(".", first)), "%s has the number of the first try", last.ID)
	for i := 8; i < len(log.log)-1; i++ {
		if m := &log.log[i]; attribute(m, "sequence") != "" {
			assert.True(t, strings.HasPrefix(attribute(m, "sequence"), fmt.Sprint(epoch)), "%s", m.ID)
		}
	}
	assert.Equal(t, checkpoint.Owes{}, store.state.Streams[s.Name].Owes)
	assert.Equal(t, "20", store.state.Streams[s.Name].Position)
}

// A process that was replaced has published a state of the repair before the marker of this process. Who removes what
// was not told between the markers must not remove that.
func TestRepair_that_passes_over_a_state_before_its_marker_is_not_complete(t *testing.T) {
	for name, version := range map[string]string{"the same state": "5", "a newer state": "7"} {
		log, store, r, _ := listed(t, "10", "a u1 5", "b u2 6")
		r.stopSaved()
		log.lose(1)
		r, s := startStream(t, log, store)
		require.Equal(t, sequence.Repair, s.Saved.Owes.List, name)
		publishLate(t, log, source.Change{
			Op: source.Added, Ident: source.Ident{Name: "a", UID: "u1", ResourceVersion: version}, Epoch: s.Epoch,
			Version: ledger.Numeric(version), Reason: source.ReasonRepair,
		})
		snapshot(t, s, "20", "a u1 5", "b u2 6")
		assert.Equal(t, []string{"added default/b u2 6 repair"}, between(t, log.fakeLog), name)
		assert.Equal(t, "false", completeness(log.fakeLog), name)
		assert.True(t, s.Saved.ResyncDue, "%s: a resync is due", name)
		_ = r.stop()
	}
}

// What is watched before the list of a repair is complete is nothing, so that its end means what it says.
func TestRepair_with_a_filter_is_not_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(without(source.Deleted)), "10", "a u1 5")
	r.stopSaved()
	log.lose(1)
	r = start(t, log, store)
	snapshot(t, r.stream(without(source.Deleted)), "20", "a u1 5")
	assert.Equal(t, "false", completeness(log.fakeLog))
}

// A selection that changes tells what exists and is not selected from what does not exist.
func TestStream_what_is_not_selected_any_more_is_deselected_and_the_rest_is_gone(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5", "b u2 6", "c u3 7", "d u4 8")
	r.stopSaved()
	r = start(t, log, store)
	r.env.Client = (&lister{
		objects: []string{"a u1 5", "b u2 6", "d u9 15"}, labelled: []string{"a u1 5"},
	}).client(t)
	s := r.stream(&StreamSpec{LabelSelector: "app=x"})
	before := len(log.lines())
	assert.Equal(t, "10", s.Saved.Owes.From)
	assert.Equal(t, "selection", s.Saved.Owes.Cause)
	saved, _, _ := s.Checkpoint()
	assert.Equal(t, "10", saved.Position, "versions still compare")
	snapshot(t, s, "20", "a u1 5")
	r.settle()
	got := log.lines()[before+1:]
	slices.Sort(got)
	expect(t, got, "deleted default/b u2 6 deselected", "deleted default/c u3 7 relist", "deleted default/d u4 8 relist")
	for i := before + 1; i < len(log.log); i++ {
		assert.Equal(t, fmt.Sprintf("%010d.%020d.1", s.Epoch, 20), attribute(&log.log[i], "sequence"), "the list's version")
	}
}

// Another stream shows that etcd was restored while the list of the other selection is owed.
func TestStream_what_is_not_selected_any_more_is_deselected_behind_a_restoration(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5", "b u2 6", "c u3 7")
	r.stopSaved()
	r = start(t, log, store)
	r.env.Client = (&lister{objects: []string{"a u1 5", "b u2 6"}, labelled: []string{"a u1 5"}}).client(t)
	s := r.stream(&StreamSpec{LabelSelector: "app=x"})
	cause := &source.RewoundError{Stream: "other", Position: "10", Server: "8"}
	r.journal.Exclusive(func() {
		s.Epochs.Restored(r.epochs.Next(), source.Why{Cause: source.CauseRestored}, cause)
	})
	require.NoError(t, s.Epochs.Renew(t.Context(), cause))
	assert.Equal(t, "restored", s.Saved.Owes.Cause)
	before := len(log.lines())
	relist(t, s, "8", "a u1 5")
	r.settle()
	got := log.lines()[before+1:]
	slices.Sort(got)
	expect(t, got, "deleted default/b u2 6 deselected", "deleted default/c u3 7 relist", "updated default/a u1 5 relist")
	assert.False(t, s.Saved.Reselected)
	r.stopSaved()
}

// The pipeline does not go on, and does not try again: every start would say the same.
func TestRun_ends_at_a_log_of_an_older_version(t *testing.T) {
	api, log := newAPIServer(t, 10), newReadableLog()
	_, _ = log.store(oldMessage())
	b := runBridge(t, api, log, &memoryStore{}, nil)
	select {
	case err := <-b.ended:
		require.ErrorContains(t, err, "older version of the bridge")
		require.ErrorContains(t, err, "checkpoint reset")
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	assert.Len(t, log.lines(), 1, "something was published")
}

// oldMessage is an event of the form that had no epochs.
func oldMessage() *sink.Message {
	m := &sink.Message{Subject: "k8s.test.core.configmaps.default.a", ID: "0123456789abcdef.u1.5"}
	for _, a := range [][2]string{
		{"id", "u1.5"},
		{"source", "/clusters/test/api/v1/configmaps"},
		{"type", "io.kube-eventbridge.resource.added.v1"},
		{"pipeline", "test"},
		{"name", "a"},
		{"namespace", "default"},
		{"objectuid", "u1"},
		{"resourceversion", "5"},
		{"sequence", "00000000000000000005"},
	} {
		m.Attributes = append(m.Attributes, sink.Attribute{Name: a[0], Value: a[1]})
	}
	return m
}

// A resync looks at an object when a list is complete, so that the list's version is not the position yet. A crash
// finds the list owed.
func TestStream_owes_a_list_until_its_version_is_the_position(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, r, _ := listed(t, "10", "a u1 5")
		r.stopSaved()
		log.lose(1)
		r, s := startStream(t, log, store)
		opened := make(chan uint64, 1)
		log.set(func() {
			log.acknowledging = func(id string) {
				if strings.Contains(id, "resync-completed") {
					opened <- s.Tracker.Open("", time.Now())
				}
			}
		})
		note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "20"})
		send(t, s, source.Added, "a", "u1", "5", source.ReasonSnapshot)
		ended := make(chan error, 1)
		go func() {
			ended <- s.Note(t.Context(), source.Progress{Kind: source.Listed, Version: "20", Objects: 1, Seen: time.Now()})
		}()
		ticket := <-opened
		synctest.Wait()
		require.NoError(t, r.journal.Save(t.Context()))
		saved := store.state.Streams[s.Name]
		assert.True(t, saved.Owes.List == sequence.Repair && saved.Position == "", "the store has %+v", saved)
		s.Tracker.Settle(ticket)
		require.NoError(t, <-ended)
		saved = store.state.Streams[s.Name]
		assert.True(t, saved.Owes == checkpoint.Owes{} && saved.Position == "20", "the store has %+v", saved)
		_ = r.stop()
	})
}
