// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// leases is an API server's one Lease.
type leases struct {
	mu    sync.Mutex
	lease *v1.Lease
	n     int
}

// ServeHTTP implements http.Handler.
func (l *leases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodGet {
		var next v1.Lease
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &next)
		}
		if err != nil {
			answer(w, http.StatusBadRequest, err.Error())
			return
		}
		if l.lease != nil && l.lease.ResourceVersion != next.ResourceVersion {
			answer(w, http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
			return
		}
		l.keep(&next)
	}
	if l.lease == nil {
		answer(w, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	text, err := json.Marshal(l.lease)
	if err != nil {
		answer(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer(w, http.StatusOK, string(text))
}

// keep replaces the Lease; the caller holds mu.
func (l *leases) keep(next *v1.Lease) {
	l.n++
	next.ResourceVersion, next.Kind, next.APIVersion = strconv.Itoa(l.n), "Lease", "coordination.k8s.io/v1"
	l.lease = next
}

// usurp has another process hold the Lease for longer than a test takes: it is not renewed.
func (l *leases) usurp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, other, hour := l.lease.DeepCopy(), "another", int32(3600)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &other, &hour
	l.keep(next)
}

// elected writes a configuration with leaderElection, whose broker is away and whose password is in a file, and returns it and the Lease.
func elected(t *testing.T) (file string, l *leases) {
	t.Helper()
	l, rest := &leases{}, apiServer(t, identified).Config.Handler
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") {
			l.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	file = configured(t, api, "[{resource: pods}]")
	rewritten(t, file, "stdout: {}", "nats: {servers: ['nats://127.0.0.1:1'], tokenFile: token}")
	rewritten(t, file, "name: a,", "name: a, checkpoint: {nats: {}},")
	rewritten(t, file, "dataDir: ", "leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 100ms}, dataDir: ")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	return file, l
}

// Files of secrets come and go; a process that stands by can wait for them, as one that leads does, until the Lease is free: a takeover without them ends the process, as a start does.
func TestStand_goes_on_where_a_former_leader_cannot_read_what_it_needs_to_stand_by(t *testing.T) {
	file, lease := elected(t)
	p := runs(t, "run", "--config", file)
	p.says("this process leads", 1)
	rewritten(t, file, "{resource: pods}", "{resource: pods, payload: metadata}")
	p.says(`msg="configuration applied"`, 1)
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(file), "token")))
	lease.usurp()
	p.says("this process does not lead any more", 1)
	must.Happen(t, "readyz says why", func() bool {
		got := readyz(t, p.stderr.String())
		return strings.HasPrefix(got, "503 ") && strings.Contains(got, "standing by: pipeline a: ") && strings.Contains(got, "token: no such file")
	})
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	must.Happen(t, "readyz says why", func() bool {
		return strings.Contains(readyz(t, p.stderr.String()), "nats: no servers available")
	})
}

// A takeover could not read the file either, and would end the process.
func TestStand_refuses_what_names_a_file_that_is_missing_while_another_process_leads(t *testing.T) {
	file, lease := elected(t)
	p := runs(t, "run", "--config", file)
	p.says("this process leads", 1)
	lease.usurp()
	p.says("this process does not lead any more", 1)
	rewritten(t, file, "checkpoint: {nats: {}}", "checkpoint: {nats: {servers: ['nats://127.0.0.1:1'], tokenFile: none}}")
	p.says(`msg="configuration refused; the one before stays"`, 1)
	assert.Contains(t, p.stderr.String(), "none: no such file")
	rewritten(t, file, "tokenFile: none", "tokenFile: token")
	p.says(`msg="configuration applied"`, 1)
}

func TestStand_ends_a_process_that_could_not_read_a_file_when_it_leads(t *testing.T) {
	file, _ := elected(t)
	rewritten(t, file, "checkpoint: {nats: {}}", "checkpoint: {nats: {servers: ['nats://127.0.0.1:1'], tokenFile: none}}")
	p := assembled(t, file, &output{})
	require.ErrorContains(t, p.stand(t.Context(), "uid"), "none: no such file")
}

func TestStanding_is_ready_when_the_brokers_have_answered_and_it_could_publish(t *testing.T) {
	file, _ := elected(t)
	var log output
	p := assembled(t, file, &log)
	candidate := must.Get(p.candidate())(t)
	s := &standing{Candidate: candidate, process: p}
	for _, c := range []struct {
		do   func()
		line string
		want bool
	}{
		{func() {}, "standing by: the brokers have not answered yet", false},
		{func() { s.note(p.askBrokers(t.Context())) }, "standing by: pipeline a: connect: nats: ", false},
		{func() { s.note(errors.New("refused")) }, "standing by: refused", false},
		{func() { s.note(nil) }, "standing by: no process leads yet", true},
	} {
		c.do()
		line, ready := s.idle()
		assert.True(t, strings.HasPrefix(line, c.line), "it says %q, want %q", line, c.line)
		assert.Equal(t, c.want, ready, c.line)
	}
	logged := strings.Count(log.String(), "could not publish if it led now")
	assert.Equal(t, 1, logged, "a failure that lasts is logged once: %s", log.String())
}
