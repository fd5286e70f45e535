// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replica is one of several bridges, with ways of its own to the API server, and to the broker if that is a NATS server.
type replica struct {
	*bridge
	server      string
	api, broker *forwarder
}

// elect lets several bridges run with the rig's file.
func (r *rig) elect() {
	r.t.Helper()
	text, err := os.ReadFile(r.config)
	must(r.t, err)
	must(r.t, os.WriteFile(r.config, append(text, "leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}\n"...), 0o600))
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

// leader waits until one of the replicas leads, another one than but.
func leader(t *testing.T, all []*replica, but *replica) *replica {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for _, p := range all {
			if p != but && p.publishes() {
				return p
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("nobody leads")
	return nil
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
	// It keeps the Lease: nobody knows that another one would reach the broker. Kafka's brokers tell clients where they are, past any way to them.
	{"cut off from the broker, if that is NATS", func(_ *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		if leads.broker != nil {
			leads.broker.cut(true)
			<-time.After(2 * time.Second)
			leads.broker.cut(false)
		}
		return all, nil
	}},
	// Whoever is first makes another one, which may be the same.
	{"without its Lease, which was deleted", func(r *rig, all []*replica, _ *replica) ([]*replica, *replica) {
		must(r.t, r.kube.CoordinationV1().Leases("default").Delete(r.t.Context(), "kube-eventbridge", metav1.DeleteOptions{}))
		return all, nil
	}},
	{"without its Lease, which a stranger has taken", func(r *rig, all []*replica, leads *replica) ([]*replica, *replica) {
		stranger := []byte(`{"spec":{"holderIdentity":"a-stranger"}}`)
		_, err := r.kube.CoordinationV1().Leases("default").Patch(r.t.Context(), "kube-eventbridge", types.MergePatchType, stranger, metav1.PatchOptions{})
		must(r.t, err)
		r.eventually("the leader to see that", func() bool { return !leads.leads() })
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
	r.elect()
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
		now := leader(t, all, nil)
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

// Events are not in the API server's watch cache: when etcd was compacted, nobody can read what lay before, and who has not read it has lost what was created and deleted again.
func TestBridge_that_takes_over_has_what_the_API_server_has_forgotten(t *testing.T) {
	r := newRig(t, "[]")
	r.configureSink(`[{resource: events, namespaces: [default]}]`, fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {}}", r.broker.url()))
	r.elect()
	events := r.kube.CoreV1().Events("default")
	create := func(name string) {
		_, err := events.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x", Kind: "Pod"},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	create("before")
	all := r.replicas(2)
	first := leader(t, all, nil)
	r.awaitStory("default/before", "added")
	create("committed")
	r.awaitStory("default/committed", "added")
	second := without(all, first)[0]
	r.poll("the second one to read", func() (bool, string) {
		page := second.get("/readyz")
		return strings.HasPrefix(page, "200") && strings.Contains(second.get("/metrics"), "kube_eventbridge_standby_bytes"), page
	})
	first.signal(syscall.SIGSTOP)
	const n = 50
	for i := range n {
		create(fmt.Sprintf("short-%d", i))
		must(t, events.Delete(t.Context(), fmt.Sprintf("short-%d", i), metav1.DeleteOptions{}))
	}
	r.poll("the second one to have read them", func() (bool, string) {
		value := regexp.MustCompile(`(?m)^kube_eventbridge_standby_bytes (.*)$`).FindStringSubmatch(second.get("/metrics"))
		bytes, _ := strconv.ParseFloat(value[1], 64)
		return bytes > 2*n*1000, value[1] + " bytes"
	})
	must(t, r.api.Compact(context.WithoutCancel(t.Context())))
	first.kill()
	r.bridge = second.bridge
	leader(t, all, first)
	log := r.awaitStory(fmt.Sprintf("default/short-%d", n-1), "added deleted")
	for i := range n {
		if got := story(log, fmt.Sprintf("default/short-%d", i)); got != "added deleted" {
			t.Errorf("short-%d: the log says %q, want added deleted", i, got)
		}
	}
	if slices.ContainsFunc(log, func(e entry) bool { return e.op == "gap" }) {
		t.Error("the log has a gap")
	}
	mustBeUnique(t, log)
	second.stop()
}
