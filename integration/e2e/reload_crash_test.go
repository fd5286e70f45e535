// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// readings are what a pipeline may read of a busy namespace.
var readings = []string{
	"[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]",
	"[{resource: configmaps, namespaces: [busy]}]",
	"[{resource: secrets, namespaces: [busy]}]",
	"[{resource: configmaps, namespaces: [busy], payload: metadata}, {resource: secrets, namespaces: [busy]}]",
}

// Who takes over may be about to go by another file, and who stands by too.
func TestReload_in_the_midst_of_a_takeover_loses_repeats_and_misorders_nothing(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, readings[0])
	text := must.Get(os.ReadFile(r.config))(t)
	bucket := fmt.Sprintf("name: test\n    checkpoint: {nats: {servers: [%q]}}", r.broker.url())
	require.NoError(t, os.WriteFile(r.config, []byte(strings.Replace(string(text), "name: test", bucket, 1)), 0o600))
	r.elect()
	all := r.replicas(2)
	leads := leader(t, all, nil)
	b := r.keepBusy()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // nothing is to be kept secret
	now := readings[0]
	read := func(next string) {
		replaced(t, r.config, r.config, now, next)
		for _, p := range all {
			file := p.Args()[len(p.Args())-1]
			replaced(t, file, file, now, next)
		}
		now = next
	}
	for round := range 6 {
		// A look at the Lease is every 400 ms, and what a leader held is free after 3 s.
		wait := time.After(time.Duration(random.IntN(4000)) * time.Millisecond)
		next := readings[(round+1)%len(readings)]
		if round%2 == 0 {
			leads.kill()
			all = without(all, leads)
			<-wait
			read(next)
		} else {
			read(next)
			leads.signal(syscall.SIGTERM)
			all = without(all, leads)
			_ = pause.For(t.Context(), time.Duration(random.IntN(300))*time.Millisecond)
		}
		for _, p := range all {
			p.signal(syscall.SIGHUP)
		}
		former := leads
		fresh := r.replica()
		// It would end it.
		r.eventually("the signal to be its own", func() bool { return strings.Contains(fresh.stderr(), `"msg":"starting"`) })
		all = append(all, fresh)
		leads = leader(t, all, nil)
		r.eventually("the former leader's end", func() bool { return !former.Running() })
		r.bridge = leads.bridge
	}
	read(readings[0])
	for _, p := range all {
		p.signal(syscall.SIGHUP)
	}
	r.server = leads.server
	b.selected = true
	b.judge("test", true, "configmaps", "secrets")
	for _, p := range all {
		p.stop()
	}
}

func TestReload_on_Kafka_loses_repeats_and_misorders_nothing(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newKafkaRig(t, readings[0])
	text := must.Get(os.ReadFile(r.config))(t)
	q := &reloaded{fixture: r, mount: &mount{dir: t.TempDir()}}
	r.config = q.mount.file()
	q.mount.write(t, string(text))
	bridge := r.runReady()
	b := q.keepBusy()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // nothing is to be kept secret
	for round := range 12 {
		next := strings.Replace(string(text), readings[0], readings[(round+1)%len(readings)], 1)
		if round%3 == 1 { // this takes another producer
			next = strings.Replace(next, "sink: {kafka: {", "sink: {kafka: {compression: none, ", 1)
		}
		if round%4 == 3 {
			q.mount.write(t, next)
			bridge.signal(syscall.SIGHUP)
			_ = pause.For(t.Context(), time.Duration(random.IntN(1500))*time.Millisecond)
			bridge.kill()
			bridge = r.run()
			r.awaitStatus(200, "")
			continue
		}
		q.load("applied", next)
	}
	q.mount.write(t, string(text))
	bridge.signal(syscall.SIGHUP)
	b.selected = true
	b.judge("test", true, "configmaps", "secrets")
	bridge.stop()
}
