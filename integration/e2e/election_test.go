// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

// replica is one of several bridges, with ways of its own to the API server, and to the broker if that is a NATS server.
type replica struct {
	*bridge
	server      string
	api, broker *forwarder
}

// replicas starts n bridges.
func (r *rig) replicas(n int) []*replica {
	r.t.Helper()
	all := make([]*replica, n)
	for i := range all {
		all[i] = r.replica()
	}
	return all
}

// replica starts a bridge with the rig's file, in which addresses are its own.
func (r *rig) replica() *replica {
	r.t.Helper()
	dir := r.t.TempDir()
	at := strings.TrimPrefix(r.api.RESTConfig().Host, "https://")
	p := &replica{server: freeAddress(r.t), api: newForwarder(r.t, at)}
	kubeconfig, err := r.api.Kubeconfig(dir)
	must(r.t, err)
	replaced(r.t, kubeconfig, kubeconfig, at, p.api.address())
	file := filepath.Join(dir, "bridge.yaml")
	pairs := []string{r.server, p.server, filepath.Join(r.dir, filepath.Base(kubeconfig)), kubeconfig}
	if r.broker != nil {
		to := strings.TrimPrefix(r.broker.url(), "nats://")
		p.broker = newForwarder(r.t, to)
		pairs = append(pairs, to, p.broker.address())
	}
	replaced(r.t, r.config, file, pairs...)
	p.bridge = r.start(nil, "run", "--config", file)
	return p
}

// replaced writes a file as another one with texts replaced, each of which has to be there.
func replaced(t *testing.T, from, to string, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s has no %q:\n%s", from, pairs[i], text)
		}
	}
	must(t, os.WriteFile(to, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o600))
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

// change is what happens to the replica that leads. It returns those that run then, and who of them must not lead any more.
type change struct {
	name string
	do   func(r *rig, all []*replica, leads *replica) (now []*replica, former *replica)
}

func without(all []*replica, one *replica) []*replica {
	return slices.DeleteFunc(slices.Clone(all), func(p *replica) bool { return p == one })
}

var changes = []change{
	{"killed", func(r *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.kill()
		return append(without(all, leads), r.replica()), leads
	}},
	{"stopped", func(r *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.stop()
		return append(without(all, leads), r.replica()), leads
	}},
	// As by a machine that swaps, or a virtual one that is moved: it wakes when another one leads, with changes to publish.
	{"asleep", func(r *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.signal(syscall.SIGSTOP)
		leader(r.t, all, leads)
		leads.signal(syscall.SIGCONT)
		return all, leads
	}},
	{"cut off from the API server", func(r *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		leads.api.cut(true)
		leader(r.t, all, leads)
		leads.api.cut(false)
		return all, leads
	}},
	// It keeps the Lease: nobody knows that another one would reach the broker.
	{"cut off from the broker", func(_ *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		if leads.broker != nil {
			leads.broker.cut(true)
			<-time.After(2 * time.Second)
			leads.broker.cut(false)
		}
		return all, nil
	}},
}

func TestBridge_with_replicas_on_Kafka_loses_repeats_and_misorders_nothing_whatever_becomes_of_the_leader(t *testing.T) {
	takeTurns(newKafkaRig(t, 1))
}

func TestBridge_with_replicas_on_NATS_loses_repeats_and_misorders_nothing_whatever_becomes_of_the_leader(t *testing.T) {
	r := newRig(t, watched)
	r.configureSink(watched, fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {}}", r.broker.url()))
	takeTurns(r)
}

// takeTurns has replicas take turns while objects change, and judges the log.
func takeTurns(r *rig) {
	t := r.t
	t.Helper()
	text, err := os.ReadFile(r.config)
	must(t, err)
	must(t, os.WriteFile(r.config, append(text, elects...), 0o600))
	all := r.replicas(3)
	h := &truth{states: map[string][]string{}}
	leader(t, all, nil)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const workers, each = 4, 250
	for turn := range 2 * len(changes) {
		var driving sync.WaitGroup
		for w := range workers {
			driving.Go(func() {
				if err := drive(t.Context(), r.kube, h, turn*workers+w, each, seed); err != nil {
					t.Error(err)
				}
			})
		}
		waitUntil(t, func() bool { return h.count() >= turn*workers*each+workers*each/4 || t.Failed() })
		now, _ := leader(t, all, nil)
		c := changes[turn%len(changes)]
		began := time.Now()
		var former *replica
		all, former = c.do(r, all, now)
		leader(t, all, former)
		t.Logf("%s: one publishes after %v", c.name, time.Since(began).Round(10*time.Millisecond))
		driving.Wait()
	}
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
	if len(seen) < 2*len(changes)-2 {
		t.Errorf("the log has events of %d terms", len(seen))
	}
}
