// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("c%02d", i))
	}
	return all
}

func TestGuard_counts_what_is_not_selected_any_more_and_shall_go(t *testing.T) {
	for _, delete := range []bool{false, true} {
		g := newRig(t, func(c *Config) { c.DeleteDeselected = delete })
		for i, name := range names(6) {
			g.tell(is(name, at(1, 10)))
			g.has(name, at(1, 10))
			e := ended(name, at(1, uint64(20+i)))
			e.More = map[string]string{"reason": "deselected"}
			g.tell(e)
		}
		row := g.row("c00")
		assert.Equal(t, !delete, g.allowed(&row), "six of six, where five are the limit")
	}
}

func TestGuard_counts_an_end_that_is_told_again_with_another_sequence_once(t *testing.T) {
	g := newRig(t, nil)
	for i := range 6 {
		e := ended("a", at(1, uint64(10+i)))
		e.At = noon.Add(time.Duration(i) * time.Minute)
		g.tell(e, is("a", at(1, uint64(100*i))))
	}
	e := ended("b", at(1, 10))
	for i := range 6 {
		e.Version, e.At = uint64(10+i), noon.Add(time.Duration(i)*time.Minute)
		g.tell(e)
	}
	g.tell(is("b", at(1, 30)))
	assert.True(t, g.deletes.Allows(noon.Add(10*time.Minute), 0), "nothing is gone")
}

// A restart finds the deletes that were held in any order.
func TestGuard_that_has_stopped_stops_again_before_the_first_delete(t *testing.T) {
	g := newRig(t, nil)
	late := names(7)[6]
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon
		if name == late {
			e.At = noon.Add(3 * time.Hour)
		}
		g.tell(e)
		g.has(name, at(1, 10))
	}
	row := g.row(late)
	assert.False(t, g.allowed(&row), "six are held, three hours before")
}

func TestGuard_takes_a_percentage_of_what_there_was(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limit = guard.Limit{Percent: 20} })
	for i, name := range names(50) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
		if i < 11 {
			g.tell(ended(name, at(1, uint64(20+i))))
		}
	}
	row := g.row("c00")
	assert.False(t, g.allowed(&row), "eleven of fifty")
}

func TestResume_releases_only_what_a_person_was_told(t *testing.T) {
	g := newRig(t, nil)
	p := New(*g.cfg)
	p.set(g.run)
	for _, name := range names(7) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
	}
	g.tell(replicatest.Event{Op: event.Gap, Data: `{"cause":"rebuilt","epoch":7}`})
	require.NotZero(t, g.epochs.Holds())
	for i, name := range names(7) {
		g.tell(ended(name, at(7, uint64(i))))
	}
	g.catchUp(t.Context())
	require.NoError(t, p.Resume(t.Context()))
	assert.Zero(t, g.epochs.Holds())
	row := g.row("c00")
	assert.False(t, g.allowed(&row), "no person was told how many would be deleted")
	require.NoError(t, p.Resume(t.Context()))
	assert.True(t, g.allowed(&row))
}

// The partitions of a topic are not read in the order of time.
func TestResume_does_not_release_what_is_read_later(t *testing.T) {
	g := newRig(t, func(c *Config) { c.State = &memory{guard.Stops{Deletes: noon}} })
	g.catchUp(t.Context())
	for _, name := range names(7) {
		e := ended(name, at(1, 10))
		e.At = noon
		g.tell(e)
	}
	row := g.row("c00")
	assert.False(t, g.allowed(&row), "an earlier process was resumed before they were published")

	g = newRig(t, nil)
	p := New(*g.cfg)
	p.set(g.run)
	end := func(name string, ended replicatest.Event, at time.Time) {
		ended.At = at
		g.tell(ended)
		g.has(name, ended.Sequence)
	}
	g.catchUp(t.Context())
	for _, name := range names(7) {
		end(name, ended(name, at(1, 10)), noon)
	}
	row = g.row("c00")
	require.False(t, g.allowed(&row))
	require.NoError(t, p.Resume(t.Context()))
	assert.True(t, g.allowed(&row))
	for i := range 7 {
		name := fmt.Sprint("late", i)
		end(name, ended(name, at(1, 10)), noon.Add(-time.Minute))
	}
	row = g.row("late0")
	assert.False(t, g.allowed(&row), "no person was told of them")
}

// A compacted log may have lost the gap: then the object that was written in a later version shows it.
func TestEpochs_hold_where_the_version_of_an_object_goes_back(t *testing.T) {
	g := newRig(t, nil)
	g.has("a", at(1, 10))
	g.tell(is("a", at(2, 9)))
	row := g.row("a")
	assert.True(t, g.stopped(&row))

	g = newRig(t, nil)
	g.has("a", at(1, 10))
	g.tell(is("a", at(2, 11)))
	row = g.row("a")
	assert.False(t, g.stopped(&row), "an epoch of another selection")
}

// Each stream has epochs of its own. That of another namespace says nothing about an object.
func TestEpochs_hold_what_the_gap_is_about(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)), replicatest.Event{Op: event.Gap, Data: `{"namespace":"other","cause":"restored","epoch":7}`})
	g.has("a", at(1, 10))
	row := g.row("a")
	assert.False(t, g.stopped(&row))
	g.tell(replicatest.Event{Op: event.Gap, Data: `{"namespace":"shop","cause":"restored","epoch":7}`})
	assert.True(t, g.stopped(&row))
}

func TestEpochs_hold_also_what_is_new_from_the_gap_on(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("new", at(7, 10)), is("old", at(1, 10)), replicatest.Event{Op: event.Gap, Data: `{"cause":"restored","epoch":7}`})
	g.has("old", at(1, 10))
	g.catchUp(t.Context())
	row := g.row("new")
	assert.Equal(t, keys.Absent, row.Actual.Owner)
	assert.True(t, g.stopped(&row))
}

func TestGuard_counts_an_end_that_is_told_again_once(t *testing.T) {
	g := newRig(t, nil)
	e := ended("a", at(1, 10))
	for i := range 7 {
		e.At = noon.Add(time.Duration(i) * time.Minute)
		g.tell(e)
	}
	assert.True(t, g.deletes.Allows(noon.Add(10*time.Minute), 0), "one is gone")
	g.tell(is("a", at(1, 11)))
	for i, name := range names(5) {
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon
		g.tell(e)
	}
	assert.True(t, g.deletes.Allows(noon.Add(10*time.Minute), 0), "five are gone")
}

// The jobs of a CronJob end all the time, and are never written.
func TestGuard_does_not_count_the_ends_of_what_is_left_out(t *testing.T) {
	g := newRig(t, nil)
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.Data = `{"metadata":{"name":"` + name + `","ownerReferences":[{"uid":"u","controller":true}]}}`
		g.tell(e)
	}
	g.tell(ended("a", at(1, 30)))
	row := g.row("a")
	assert.True(t, g.allowed(&row))
}

// A CI system makes and deletes objects all the time.
func TestGuard_does_not_count_the_ends_of_what_was_not_there_before(t *testing.T) {
	for name, c := range map[string]struct {
		minAge  time.Duration
		created time.Time
		allowed bool
	}{
		"made within the hour": {time.Hour, noon.Add(-59 * time.Minute), true},
		"made before":          {time.Hour, noon.Add(-time.Hour), false},
		"all count":            {0, noon.Add(-time.Minute), false},
		"nothing says when":    {time.Hour, time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.MinAge = c.minAge })
			for i, name := range names(7) {
				g.tell(is(name, at(1, 10)))
				g.has(name, at(1, 10))
				e := ended(name, at(1, uint64(20+i)))
				e.At = noon
				if !c.created.IsZero() {
					e.Data = fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":%q}}`, name, c.created.Format(time.RFC3339))
				}
				g.tell(e)
			}
			row := g.row("c00")
			assert.Equal(t, c.allowed, g.allowed(&row))
			assert.Equal(t, !c.allowed, g.deletes.Held())
		})
	}
}

// Once deletes are held, all are.
func TestGuard_holds_also_what_does_not_count(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.MinAge = time.Hour })
	for i, name := range names(6) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon
		g.tell(e)
	}
	young := ended("young", at(1, 40))
	young.At = noon
	young.Data = fmt.Sprintf(`{"metadata":{"name":"young","creationTimestamp":%q}}`, noon.Format(time.RFC3339))
	g.tell(is("young", at(1, 30)), young, is("young", at(1, 50)))
	young.Version = 60
	g.tell(young)
	g.has("young", at(1, 50))
	row := g.row("young")
	assert.False(t, g.allowed(&row), "what came back did not count when it went")
	assert.NotZero(t, g.deletes.Confirmed(), "a person is asked")
}

func TestCompare_does_not_wait_for_what_cannot_be_listed(t *testing.T) {
	g := newRig(t, nil)
	g.compares = true
	g.tell(marker(event.ResyncStarted, 0), is("a", at(1, 10)), marker(event.ResyncCompleted, 0))
	g.targets.listing.Begin(0, "v1", []string{"shop"})
	g.targets.listing.SetFailing(0, "shop", true)
	g.catchUp(t.Context())
	var all []Difference
	tell := func(d Difference) error { all = append(all, d); return nil }
	require.NoError(t, comparing{g.run}.compare(t.Context(), func() {}, tell))
	assert.Equal(t, []Difference{{Do: "wait", Resource: "configmaps", Namespace: "shop", Name: "a", Why: "not-listed"}}, all)
}

func ownedData(name, uid string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop","uid":%q,`+
		`"ownerReferences":[{"apiVersion":"v1","kind":"Owner","name":"o","uid":"u","controller":true}]}}`, name, uid)
}

// Objects were written, then got a controlling owner, then all end.
func TestGuard_counts_the_ends_of_what_is_left_out_and_was_written(t *testing.T) {
	g := newRig(t, nil)
	for i, name := range names(20) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Data = noon, ownedData(name, uidOf(name))
		g.tell(e)
	}
	g.synced()
	deletes := 0
	for _, name := range names(20) {
		row := g.row(name)
		if plan.Decide(row.Desired, row.Actual, false, g.cfg.Config).Do == plan.Delete && g.allowed(&row) {
			deletes++
		}
	}
	assert.LessOrEqual(t, deletes, 5, "20 of 20 objects go, the limit is 5")
}

func TestGuard_counts_the_ends_of_what_is_left_out_one_by_one(t *testing.T) {
	g := newRig(t, nil)
	for i, name := range names(6) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Data = noon, ownedData(name, uidOf(name))
		g.tell(e)
		row := g.row(name)
		assert.Equal(t, i < 5, g.allowed(&row), "end %d, where the limit is 5", i+1)
	}
}

func TestGuard_that_holds_holds_also_what_is_left_out(t *testing.T) {
	g := newRig(t, nil)
	for i, name := range names(6) {
		g.tell(is(name, at(1, 10)))
		g.has(name, at(1, 10))
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon
		g.tell(e)
	}
	row := g.row("c00")
	require.False(t, g.allowed(&row))
	g.tell(is("x", at(1, 10)))
	g.has("x", at(1, 10))
	e := ended("x", at(1, 30))
	e.At, e.Data = noon, ownedData("x", uidOf("x"))
	g.tell(e)
	row = g.row("x")
	assert.False(t, g.allowed(&row), "once it holds, it holds for all")
}

func TestGuard_reads_the_object_in_an_event_with_both_states(t *testing.T) {
	for name, data := range map[string]string{
		"left out": ownedData("%s", "u"),
		"young":    `{"metadata":{"name":"%s","creationTimestamp":"` + noon.Format(time.RFC3339) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, envelope := range []string{"%s", `{"object":%s}`} {
				g := newRig(t, func(c *Config) { c.MinAge = time.Hour })
				for i, name := range names(7) {
					e := ended(name, at(1, uint64(20+i)))
					e.At = noon
					e.Data = fmt.Sprintf(envelope, fmt.Sprintf(data, name))
					if envelope != "%s" {
						e.More = map[string]string{"payload": "change"}
					}
					g.tell(e)
				}
				e := ended("a", at(1, 40))
				e.At = noon
				g.tell(e)
				g.has("a", at(1, 10))
				row := g.row("a")
				assert.True(t, g.allowed(&row), envelope)
			}
		})
	}
}

func TestGuard_counts_an_object_that_is_tried_again_once(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 10)))
	g.has("a", at(1, 10))
	e := is("a", at(1, 20))
	e.UID, e.Data = "another", ownedData("a", "another")
	e.At = noon
	g.tell(e)
	g.synced()
	id := func() keys.ID { _, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"}); return id }()
	for i := range 8 {
		res := g.reconcile(t.Context(), id)
		t.Log(i, res, g.deletes.Held(), g.parked.Reason(id))
	}
	assert.False(t, g.deletes.Held(), "one object was deleted once, at most")
}

func TestGuard_that_has_stopped_stops_again_in_a_replica_that_has_grown(t *testing.T) {
	fill := func(g *rig) keys.Row {
		for i, name := range names(50) {
			g.tell(is(name, at(1, 10)))
			if i < 11 {
				e := ended(name, at(1, uint64(20+i)))
				e.At = noon
				g.tell(e)
			}
			g.has(name, at(1, 10))
		}
		return g.row("c00")
	}
	percent := func(c *Config) { c.Limit = guard.Limit{Percent: 20} }
	g := newRig(t, percent)
	row := fill(g)
	require.False(t, g.allowed(&row))
	for i := range 10 {
		name := fmt.Sprintf("new%d", i)
		g.tell(is(name, at(1, 100)))
		g.has(name, at(1, 100))
	}
	require.False(t, g.allowed(&row))
	g.synced()
	_, id, _ := g.table.Find(row.Key)
	require.Equal(t, waits, g.reconcile(t.Context(), id))

	again := newRig(t, func(c *Config) { percent(c); c.State = g.cfg.State })
	row = fill(again)
	for i := range 10 {
		name := fmt.Sprintf("new%d", i)
		again.tell(is(name, at(1, 100)))
		again.has(name, at(1, 100))
	}
	assert.False(t, again.allowed(&row), "no person has resumed it")
}

func TestEpochs_hold_after_a_restart_also_when_the_gap_has_expired(t *testing.T) {
	state := &memory{}
	tell := func(gap bool) bool {
		g := newRig(t, func(c *Config) { c.State = state })
		if gap {
			g.tell(replicatest.Event{Op: event.Gap, Data: `{"cause":"rebuilt","epoch":7}`})
		}
		e := is("a", at(7, 500)) // a rebuilt cluster, which has counted further than the one before
		e.UID = "another"
		g.tell(e)
		g.has("a", at(1, 100))
		g.catchUp(t.Context())
		g.synced()
		_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
		require.Equal(t, waits, g.reconcile(t.Context(), id))
		row := g.row("a")
		return g.stopped(&row)
	}
	require.True(t, tell(true))
	assert.True(t, tell(false), "the gap has expired from the log, and no person has resumed it")
}

// A namespace cannot be listed while a person looks, so that what ends in it does not wait.
func TestResume_does_not_release_what_is_listed_later(t *testing.T) {
	for name, data := range map[string]func(name string) string{
		"replicated": func(string) string { return "" },
		"left out":   func(name string) string { return ownedData(name, uidOf(name)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, ofTwo(t))
			p := New(*g.cfg)
			p.set(g.run)
			g.catchUp(t.Context())
			for i, name := range names(7) {
				e := ended(name, at(1, uint64(20+i)))
				e.At = noon
				g.tell(e)
				g.has(name, at(1, 10))
				e.Namespace, e.Data = "bank", data(name)
				g.tell(e)
			}
			g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
			g.targets.listing.SetFailing(0, "bank", true)
			g.lists("shop")
			row := g.row("c00")
			require.False(t, g.allowed(&row))
			require.NoError(t, p.Resume(t.Context()))
			g.lists("shop") // again
			row = g.row("c00")
			require.True(t, g.allowed(&row), "a person has released it")
			for _, name := range names(7) {
				g.hasIn("bank", name, at(1, 10))
			}
			g.lists("bank")
			allowed := 0
			for _, name := range names(7) {
				row, _, _ := g.table.Find(keys.Key{Namespace: "bank", Name: name})
				if g.allowed(&row) {
					allowed++
				}
			}
			assert.LessOrEqual(t, allowed, 5)
			require.NoError(t, p.Resume(t.Context()))
			assert.True(t, g.allowed(&row))
		})
	}
}

func TestResume_is_refused_until_the_log_is_read(t *testing.T) {
	g := newRig(t, func(c *Config) { c.State = &memory{guard.Stops{Deletes: noon, HeldDeletes: true}} })
	p := New(*g.cfg)
	p.set(g.run)
	require.ErrorIs(t, p.Resume(t.Context()), errReading)
	require.True(t, g.deletes.Held())
	for i, name := range names(50) { // days before
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon.Add(-time.Duration(i) * 24 * time.Hour)
		g.tell(e)
	}
	g.catchUp(t.Context())
	require.NoError(t, p.Resume(t.Context()))
	e := ended("b", at(1, 90))
	e.At = noon.Add(20 * time.Minute)
	g.tell(is("b", at(1, 80)), e)
	g.has("b", at(1, 80))
	row := g.row("b")
	assert.True(t, g.allowed(&row), "one object goes")
}

// ended tells the end of objects that the target has, at a time. Data is that of their events.
func (g *rig) ended(at1 time.Time, data func(name string) string, names ...string) {
	for i, name := range names {
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Data = at1, data(name)
		g.tell(e)
		g.has(name, at(1, 10))
	}
}

func whole(string) string { return "" }

// allows returns how many of some objects may be deleted.
func (g *rig) allows(names ...string) (n int) {
	for _, name := range names {
		if row := g.row(name); g.allowed(&row) {
			n++
		}
	}
	return n
}

// A person has released seven deletes. The next process finds more than were left of them: what the log has got since.
func TestResume_releases_in_the_next_process_what_was_left(t *testing.T) {
	for _, c := range []struct {
		name        string
		left, ended int
		allowed     bool
	}{
		{"none was made", 7, 7, true},
		{"some were made", 7, 2, true},
		{"all were made, and some came late", 0, 5, true},
		{"all were made, and many came late", 0, 6, false},
		{"some were made, and many came late", 7, 8, false},
	} {
		for kind, data := range map[string]func(string) string{
			"replicated": whole, "left out": func(name string) string { return ownedData(name, uidOf(name)) },
		} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				g := newRig(t, func(cfg *Config) { cfg.State = &memory{guard.Stops{Deletes: noon, Left: c.left}} })
				g.ended(noon.Add(-time.Minute), data, names(c.ended)...)
				g.catchUp(t.Context())
				if allowed := g.allows(names(c.ended)...); c.allowed {
					assert.Equal(t, c.ended, allowed)
				} else {
					assert.LessOrEqual(t, allowed, 5)
				}
			})
		}
	}
}

func TestResume_of_an_epoch_releases_no_delete_in_the_next_process(t *testing.T) {
	state := &memory{guard.Stops{Deletes: noon}}
	start := func() *rig {
		g := newRig(t, func(cfg *Config) { cfg.State = state })
		g.ended(noon.Add(-time.Minute), whole, names(20)...)
		g.tell(replicatest.Event{Op: event.Gap, Data: `{"cause":"rebuilt","epoch":7}`})
		g.catchUp(t.Context())
		g.synced()
		return g
	}
	g := start()
	p := New(*g.cfg)
	p.set(g.run)
	require.NotZero(t, g.epochs.Holds())
	require.NoError(t, p.Resume(t.Context()))
	require.Zero(t, g.epochs.Holds())
	assert.LessOrEqual(t, start().allows(names(20)...), 5, "no delete was held")
}

func TestResume_before_the_first_delete_releases_what_was_held_before(t *testing.T) {
	g := newRig(t, func(c *Config) { c.State = &memory{guard.Stops{Deletes: noon, HeldDeletes: true}} })
	p := New(*g.cfg)
	p.set(g.run)
	g.ended(noon, whole, names(7)...)
	g.catchUp(t.Context())
	require.NoError(t, p.Resume(t.Context()))
	assert.Equal(t, 7, g.allows(names(7)...))
}

// What was released is gone. What is listed later is something else.
func TestResume_releases_nothing_in_place_of_what_is_gone(t *testing.T) {
	state := &memory{guard.Stops{Deletes: noon, Left: 7}}
	g := newRig(t, func(c *Config) { ofTwo(t)(c); c.State = state })
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Namespace = noon, "bank"
		g.tell(e)
	}
	g.catchUp(t.Context())
	g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
	g.targets.listing.SetFailing(0, "bank", true)
	g.lists("shop")
	g.saveLeft(t.Context())
	require.Zero(t, state.Left)
	for _, name := range names(7) {
		g.hasIn("bank", name, at(1, 10))
	}
	g.lists("bank")
	row, _, _ := g.table.Find(keys.Key{Namespace: "bank", Name: "c00"})
	assert.False(t, g.allowed(&row))
}

func TestResume_leaves_what_another_process_has_stored(t *testing.T) {
	state := &memory{guard.Stops{Deletes: noon, Left: 7}}
	g := newRig(t, func(c *Config) { c.State = state })
	g.catchUp(t.Context())
	state.HeldEpoch = 9
	g.saveLeft(t.Context())
	assert.Equal(t, guard.Stops{Deletes: noon, Left: 7, HeldEpoch: 9}, state.Stops)
}

func TestRun_stores_what_is_left_while_it_runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &memory{guard.Stops{Deletes: noon, Left: 7}}
		g := newRig(t, func(c *Config) { c.State = state })
		g.catchUp(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { g.keep(ctx) })
		time.Sleep(2 * leftEvery * keepEvery) //nolint:forbidigo // it is the time of a bubble
		synctest.Wait()
		assert.Zero(t, state.Left)
		cancel()
		keeping.Wait()
	})
}

func TestRun_that_ends_stores_what_is_left(t *testing.T) {
	state := &memory{guard.Stops{Deletes: noon, Left: 7}}
	g := newRig(t, func(c *Config) { c.State = state })
	g.catchUp(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.keep(ctx)
	assert.Equal(t, guard.Stops{Deletes: noon}, state.Stops)
}

func TestResume_counts_no_young_end_as_left(t *testing.T) {
	g := newRig(t, func(c *Config) { c.MinAge, c.State = time.Hour, &memory{guard.Stops{Deletes: noon, Left: 6}} })
	old := []string{"a", "b", "c", "d", "e", "f"}
	g.ended(noon, whole, old...)
	g.ended(noon, func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":%q}}`, name, noon.Format(time.RFC3339))
	}, names(7)...)
	g.catchUp(t.Context())
	assert.Equal(t, 13, g.allows(append(old, names(7)...)...))
	assert.Equal(t, 6, g.deletions.Left(noon))
}

func TestResume_leaves_what_ends_later(t *testing.T) {
	g := newRig(t, nil)
	g.ended(noon, whole, names(7)...)
	g.ended(noon.Add(time.Minute), whole, "later")
	assert.Equal(t, 7, g.deletions.Left(noon))
}

// A namespace was listed when deletes were held, and is listed anew when a person resumes.
func TestResume_does_not_release_what_is_listed_again(t *testing.T) {
	g := newRig(t, ofTwo(t))
	p := New(*g.cfg)
	p.set(g.run)
	g.catchUp(t.Context())
	g.ended(noon, whole, names(7)...)
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Namespace = noon, "bank"
		g.tell(e)
	}
	for _, listed := range []bool{true, false} {
		g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
		g.targets.listing.SetFailing(0, "bank", !listed)
		g.lists("shop")
		if listed {
			g.lists("bank")
		}
		require.Zero(t, g.allows("c00"))
	}
	require.NoError(t, p.Resume(t.Context()))
	for _, name := range names(7) {
		g.hasIn("bank", name, at(1, 10))
	}
	g.lists("bank")
	row, _, _ := g.table.Find(keys.Key{Namespace: "bank", Name: "c00"})
	assert.False(t, g.allowed(&row), "no person was told of them")
}

func TestResume_stores_what_is_left(t *testing.T) {
	g := newRig(t, nil)
	p := New(*g.cfg)
	p.set(g.run)
	for i, name := range names(8) {
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon
		g.tell(e)
		g.has(name, at(1, 10))
	}
	state := func() guard.Stops { return g.cfg.State.(*memory).Stops }
	g.catchUp(t.Context())
	g.synced()
	row := g.row("c00")
	require.False(t, g.allowed(&row))
	require.NoError(t, p.Resume(t.Context()))
	for i, name := range names(8) {
		g.saveLeft(t.Context())
		require.Equal(t, guard.Stops{Deletes: noon, Left: 8 - i}, state())
		g.table.Vanish(g.row(name).Key, "")
	}
	g.saveLeft(t.Context())
	require.Equal(t, guard.Stops{Deletes: noon}, state())
	g.has("c00", at(1, 10))
	g.saveLeft(t.Context())
	assert.Equal(t, guard.Stops{Deletes: noon}, state(), "what comes back was not released")
}

func TestResume_stores_nothing_before_the_log_is_read_and_the_target_listed(t *testing.T) {
	stops := guard.Stops{Deletes: noon, Left: 7}
	state := &memory{stops}
	g := newRig(t, func(c *Config) { c.State = state })
	g.tell(is("a", at(1, 10)))
	g.synced()
	g.saveLeft(t.Context())
	require.Equal(t, stops, state.Stops)
	g.catchUp(t.Context())
	g.targets.listing.Begin(0, "v1", []string{"shop"})
	g.saveLeft(t.Context())
	require.Equal(t, stops, state.Stops)
	g.lists("shop")
	g.saveLeft(t.Context())
	assert.Equal(t, guard.Stops{Deletes: noon}, state.Stops)
}

// A namespace cannot be listed when the next process begins.
func TestResume_does_not_release_in_the_next_process_what_is_listed_later(t *testing.T) {
	g := newRig(t, func(c *Config) {
		ofTwo(t)(c)
		c.State = &memory{guard.Stops{Deletes: noon, Left: 7}}
	})
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.At, e.Namespace = noon, "bank"
		g.tell(e)
	}
	e := ended("a", at(1, 20))
	e.At = noon
	g.tell(e)
	g.has("a", at(1, 10))
	g.catchUp(t.Context())
	g.targets.listing.Begin(0, "v1", []string{"bank", "shop"})
	g.targets.listing.SetFailing(0, "bank", true)
	g.lists("shop")
	row := g.row("a")
	require.True(t, g.allowed(&row))
	for _, name := range names(7) {
		g.hasIn("bank", name, at(1, 10))
	}
	g.lists("bank")
	row, _, _ = g.table.Find(keys.Key{Namespace: "bank", Name: "c00"})
	assert.False(t, g.allowed(&row), "no person was told of them")
}

// What is not selected any more is told by each process that begins with that.
func TestGuard_counts_once_what_is_told_again(t *testing.T) {
	for name, c := range map[string]struct {
		end replicatest.Event
	}{
		"deselected": {replicatest.Event{More: map[string]string{"reason": "deselected"}}},
		"left out":   {replicatest.Event{Data: ownedData("%s", "u")}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(c *Config) { c.DeleteDeselected = true })
			p := New(*g.cfg)
			p.set(g.run)
			g.catchUp(t.Context())
			tell := func() {
				for i, name := range names(7) {
					e := ended(name, at(1, uint64(20+i)))
					e.At, e.More = noon, c.end.More
					if c.end.Data != "" {
						e.Data = fmt.Sprintf(c.end.Data, name)
					}
					g.tell(e)
				}
			}
			allowed := func() (n int) {
				for _, name := range names(7) {
					if row := g.row(name); g.allowed(&row) {
						n++
					}
				}
				return n
			}
			tell()
			for _, name := range names(7) {
				g.has(name, at(1, 10))
			}
			assert.LessOrEqual(t, allowed(), 5)
			tell()
			assert.Zero(t, allowed(), "they are held")
			require.NoError(t, p.Resume(t.Context()))
			assert.Equal(t, 7, allowed())
			tell()
			assert.Equal(t, 7, allowed(), "they were released before they were told again")
		})
	}
}

func TestGuard_does_not_count_a_young_end_that_is_told_again(t *testing.T) {
	g := newRig(t, func(c *Config) { c.MinAge = time.Hour })
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.Data = fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":%q}}`, name, noon.Format(time.RFC3339))
		e.At = noon.Add(time.Minute)
		g.tell(e)
		e.At = noon.Add(2 * time.Hour)
		g.tell(e)
	}
	assert.True(t, g.deletes.Allows(noon.Add(2*time.Hour), 0))
}
