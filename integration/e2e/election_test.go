// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// elects lets several bridges run with the rig's file.
const elects = "leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}\n"

// replica is one of several bridges.
type replica struct {
	*bridge
	server string
}

// replicas starts n bridges, each with an address of its own.
func (r *rig) replicas(n int) []*replica {
	r.t.Helper()
	text, err := os.ReadFile(r.config)
	must(r.t, err)
	must(r.t, os.WriteFile(r.config, append(text, elects...), 0o600))
	all := make([]*replica, n)
	for i := range all {
		all[i] = r.replica()
	}
	return all
}

func (r *rig) replica() *replica {
	r.t.Helper()
	r.listenElsewhere()
	p := &replica{r.run(), r.server}
	waitUntil(r.t, func() bool { return p.get("/livez") != "" }) // it has read the file, which is the next one's then
	return p
}

// get asks a replica; empty where it does not answer at once.
func (p *replica) get(path string) string {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + p.server + path)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	return fmt.Sprintln(answer.StatusCode) + string(body)
}

func (p *replica) leads() bool {
	return strings.Contains(p.get("/metrics"), "\nkube_eventbridge_leader 1\n")
}

// publishes reports whether a replica leads and has begun to read.
func (p *replica) publishes() bool {
	return p.leads() && strings.Contains(p.get("/metrics"), "\nkube_eventbridge_stream_watching{")
}

// leader waits until one of the replicas leads, and returns it and how long that took.
func leader(t *testing.T, all []*replica, but *replica) (*replica, time.Duration) {
	t.Helper()
	began := time.Now()
	for deadline := began.Add(time.Minute); time.Now().Before(deadline); {
		for _, p := range all {
			if p != but && p.publishes() {
				return p, time.Since(began)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("nobody leads")
	return nil, 0
}

// change is what happens to the replica that leads. It returns those that run then.
type change struct {
	name string
	do   func(r *rig, all []*replica, leads *replica) []*replica
}

func without(all []*replica, one *replica) []*replica {
	return slices.DeleteFunc(slices.Clone(all), func(p *replica) bool { return p == one })
}

var changes = []change{
	{"killed", func(r *rig, all []*replica, leads *replica) []*replica {
		leads.kill()
		return append(without(all, leads), r.replica())
	}},
	{"stopped", func(r *rig, all []*replica, leads *replica) []*replica {
		leads.stop()
		return append(without(all, leads), r.replica())
	}},
	// As by a machine that swaps, or a virtual one that is moved: it wakes when another one leads, with changes to publish.
	{"asleep", func(r *rig, all []*replica, leads *replica) []*replica {
		leads.signal(syscall.SIGSTOP)
		leader(r.t, all, leads)
		leads.signal(syscall.SIGCONT)
		return all
	}},
}

func TestBridge_with_replicas_on_Kafka_loses_repeats_and_misorders_nothing_whatever_becomes_of_the_leader(t *testing.T) {
	takeTurns(newKafkaRig(t, 1))
}

// takeTurns has replicas take turns while objects change, and judges the log.
func takeTurns(r *rig) {
	t := r.t
	t.Helper()
	all := r.replicas(3)
	h := &truth{states: map[string][]string{}}
	leader(t, all, nil)
	var driving sync.WaitGroup
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const workers, each = 4, 1500
	for w := range workers {
		driving.Go(func() {
			if err := drive(t.Context(), r.kube, h, w, each, seed); err != nil {
				t.Error(err)
			}
		})
	}
	for turn := range 2 * len(changes) {
		waitUntil(t, func() bool { return h.count() >= (turn+1)*workers*each/(2*len(changes)+1) || t.Failed() })
		now, _ := leader(t, all, nil)
		c := changes[turn%len(changes)]
		all = c.do(r, all, now)
		_, took := leader(t, all, now)
		t.Logf("%s: another one publishes after %v", c.name, took.Round(10*time.Millisecond))
	}
	driving.Wait()
	r.settle(func(log []entry) bool { return countObjects(log, h) >= h.count() })
	for _, p := range all {
		p.stop()
		if strings.Contains(p.stderr(), `"level":"ERROR"`) {
			t.Errorf("a replica says:\n%s", p.stderr())
		}
	}
	log := r.entries()
	checkLog(t, log, h)
	checkEpochs(t, log)
	t.Logf("%d changes, %d entries in the log", h.count(), len(log))
}

// checkEpochs makes sure that what a writer of a later term has published of an object is behind what those before have.
func checkEpochs(t *testing.T, log []entry) {
	t.Helper()
	last, seen := map[string]int{}, map[int]bool{}
	for _, e := range log {
		if e.key == "" {
			continue
		}
		epoch, err := strconv.Atoi(e.attribute("writerepoch"))
		if err != nil || epoch < last[e.key] {
			t.Fatalf("event %s of %s is of epoch %q, behind one of %d", e.id, e.key, e.attribute("writerepoch"), last[e.key])
		}
		last[e.key] = epoch
		seen[epoch] = true
	}
	if len(seen) < 3 {
		t.Errorf("the log has events of %d terms", len(seen))
	}
}
