// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestFaults_of_other_parts_can_be_injected_together(t *testing.T) {
	t.Parallel()
	w, calm := newWorld(t)
	named := map[string]Fault{}
	for _, f := range w.Faults() {
		named[f.Name] = f
	}
	kill, broker, api := named["killed at random"], named["broker stopped for seconds"], named["answers of the API server cut in the middle of a frame"]
	if kill.Fits(named["killed while draining"]) || !kill.Fits(broker) || !broker.Fits(api) {
		t.Error("the faults do not fit as they should")
	}
	injected, err := kill.With(broker).With(api).Inject(t.Context(), rand.New(rand.NewPCG(1, 2)))
	must(t, err)
	if want := []string{kill.Name, broker.Name, api.Name}; !slices.Equal(injected, want) {
		t.Errorf("%q was injected, want %q", injected, want)
	}
	told := map[string]int{}
	for _, e := range w.Events() {
		told[e.Fault]++
	}
	for _, f := range []Fault{kill, broker, api} {
		if told[f.Name] != 2 {
			t.Errorf("%s has not begun and ended:\n%s", f.Name, w.Story())
		}
	}
	canary(t, w, "after")
	w.wire.set(hold)
	must(t, poll(t.Context(), patience, "something to be buffered", func() bool { most, _ := w.Peak(); return most.BufferedBytes > 0 }))
	w.wire.set(pass)
	w.wire.release(0)
	calm()
	must(t, w.WaitSettled(t.Context(), time.Minute, func() (bool, string) { return true, "" }))
	if s, times := w.Peak(); s.RSS < 10<<20 || times < 4 {
		t.Errorf("the bridge was measured %d times: %+v", times, s)
	}
	if files, err := w.CheckpointFiles(); err != nil || !slices.Contains(files, w.checkpointFile()) {
		t.Errorf("the checkpoint is not among %v, %v", files, err)
	}
	if n := len(w.StderrFiles()); n != 2 {
		t.Errorf("the bridge has run %d times, want 2", n)
	}
}

func TestFaults_of_the_API_server_happen_and_heal(t *testing.T) {
	t.Parallel()
	injectAll(t, func(f Fault) bool { return f.Parts&API != 0 })
}

func TestFaults_of_process_disk_and_broker_happen_and_heal(t *testing.T) {
	t.Parallel()
	injectAll(t, func(f Fault) bool { return f.Parts&API == 0 })
}

// What Kafka's brokers do. The faults of the other parts are as with NATS.
func TestFaults_of_Kafka_happen_and_heal(t *testing.T) {
	t.Parallel()
	own := map[string]bool{}
	for _, f := range kafkaFaults(nil) {
		own[f.Name] = true
	}
	injectAllOf(t, Config{Broker: Kafka, Checkpoint: CheckpointKafka}, func(f Fault) bool {
		return own[f.Name] || f.Parts&Broker != 0 && f.Parts&API == 0 || f.Parts&Broker != 0 && f.Loses == Fresh
	})
}

// What happens to replicas, and to what they agree by. The other faults are as with a bridge that is alone.
func TestFaults_of_replicas_happen_and_heal(t *testing.T) {
	t.Parallel()
	injectAllOf(t, Config{Replicas: 2}, func(f Fault) bool { return f.Together || f.Checkpoint == CheckpointNATS })
}

// injectAll injects each fault once and alone.
func injectAll(t *testing.T, which func(Fault) bool) {
	t.Helper()
	injectAllOf(t, Config{}, func(f Fault) bool { return which(f) && !f.Together })
}

func injectAllOf(t *testing.T, cfg Config, which func(Fault) bool) {
	t.Helper()
	w, _ := newWorldOf(t, cfg)
	faults := slices.DeleteFunc(w.Faults(), func(f Fault) bool {
		elsewhere := f.Together && cfg.Replicas == 0 || f.Checkpoint != "" && f.Checkpoint != w.cfg.Checkpoint
		return elsewhere || !which(f)
	})
	for n, f := range faults {
		t.Run(f.Name, func(t *testing.T) { injectOne(t, w, f, uint64(n)) })
	}
}

func injectOne(t *testing.T, w *World, f Fault, seed uint64) {
	t.Helper()
	if err := f.Available(); err != nil {
		skip(t, err)
	}
	must(t, pollSlowly(t, 60*time.Second, func() bool {
		leads := w.follow(t.Context())
		ready, _ := w.Bridge().Ready(t.Context())
		return leads && ready
	}))
	before := len(w.Events())
	began := time.Now()
	removed := len(w.Removed())
	injected, err := f.Inject(t.Context(), rand.New(rand.NewPCG(1, seed)))
	took := time.Since(began)
	events := w.Events()[before:]
	for _, e := range events {
		t.Log(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(injected, []string{f.Name}) {
		t.Errorf("%q was injected", injected)
	}
	checkRemoved(t, f, w.Removed()[removed:])
	t.Logf("it took %s, and says that it costs at most %s", took, f.Cost)
	checkEvents(t, f, events)
	canary(t, w, fmt.Sprint("after-", seed))
}

// checkEvents checks that a fault tells what it did, and what it has taken away.
func checkEvents(t *testing.T, f Fault, events []Event) {
	t.Helper()
	if len(events) < 2 {
		t.Errorf("the events do not say what was done: %v", events)
	}
	for _, e := range events {
		if e.Fault != f.Name || e.At.IsZero() {
			t.Errorf("event %+v is not complete", e)
		}
	}
	for _, e := range events {
		if e.Kind == EtcdRestored && (e.Kept == 0 || e.Kept >= e.Before) {
			t.Errorf("event %+v does not say what etcd has lost", e)
		}
	}
	if f.Loses != Note && !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == f.Loses }) {
		t.Errorf("no event says %q: %v", f.Loses, events)
	}
}

// checkRemoved checks that a fault which takes the log away keeps what it was.
func checkRemoved(t *testing.T, f Fault, removed []Removed) {
	t.Helper()
	takes := f.Loses == LogRewound || f.Loses == LogDeleted || f.Loses == Fresh
	if takes != (len(removed) == 1) {
		t.Fatalf("%d logs were kept", len(removed))
	}
	for _, r := range removed {
		if r.Kind != f.Loses || len(r.Messages) == 0 {
			t.Errorf("a log %q with %d messages was kept", r.Kind, len(r.Messages))
		}
	}
}

// A pair of which one finds no occasion is the other one.
func TestFaults_of_a_pair_that_miss_do_not_count(t *testing.T) {
	hit := func(context.Context, *injection) error { return nil }
	miss := func(context.Context, *injection) error { return ErrMissed }
	fail := func(context.Context, *injection) error { return ErrUsed }
	for name, c := range map[string]struct {
		first, second func(context.Context, *injection) error
		injected      string
		err           error
	}{
		"both hit":          {hit, hit, "[a b]", nil},
		"the first misses":  {miss, hit, "[b]", nil},
		"the second misses": {hit, miss, "[a]", nil},
		"both miss":         {miss, miss, "[]", ErrMissed},
		"one fails":         {miss, fail, "[]", ErrUsed},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{}
			both := Fault{Name: "a", w: w, run: c.first}.With(Fault{Name: "b", w: w, run: c.second})
			injected, err := both.inject(t.Context(), rand.New(rand.NewPCG(1, 2)))
			if fmt.Sprint(injected) != c.injected || !errors.Is(err, c.err) {
				t.Errorf("%v was injected, %v; want %s, %v", injected, err, c.injected, c.err)
			}
			if !errors.Is(c.err, ErrMissed) && errors.Is(err, ErrMissed) {
				t.Errorf("it says that it missed: %v", err)
			}
		})
	}
}
