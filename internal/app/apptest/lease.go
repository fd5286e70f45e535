// SPDX-License-Identifier: Apache-2.0

package apptest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Lease is an API server's one Lease.
type Lease struct {
	mu    sync.Mutex
	lease *v1.Lease
	n     int
}

// ServeHTTP implements http.Handler.
func (l *Lease) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodGet {
		var next v1.Lease
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &next)
		}
		if err != nil {
			Answer(w, http.StatusBadRequest, err.Error())
			return
		}
		if l.lease != nil && l.lease.ResourceVersion != next.ResourceVersion {
			Answer(w, http.StatusConflict,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
			return
		}
		l.keep(&next)
	}
	if l.lease == nil {
		Answer(w, http.StatusNotFound,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	text, err := json.Marshal(l.lease)
	if err != nil {
		Answer(w, http.StatusInternalServerError, err.Error())
		return
	}
	Answer(w, http.StatusOK, string(text))
}

// keep replaces the Lease; the caller holds mu.
func (l *Lease) keep(next *v1.Lease) {
	l.n++
	next.ResourceVersion, next.Kind, next.APIVersion = strconv.Itoa(l.n), "Lease", "coordination.k8s.io/v1"
	l.lease = next
}

// Usurp has another process hold the Lease for longer than a test takes: it is not renewed.
func (l *Lease) Usurp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, other, hour := l.lease.DeepCopy(), "another", int32(3600)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &other, &hour
	l.keep(next)
}

// Elected writes a configuration with leaderElection, whose broker is away and whose password is in a file, and returns
// it and the Lease.
func Elected(t *testing.T) (file string, l *Lease) {
	t.Helper()
	l, rest := &Lease{}, APIServer(t, Identified).Config.Handler
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") {
			l.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	file = Configured(t, api, "[{resource: pods}]")
	Rewrite(t, file, "stdout: {}", "nats: {servers: ['nats://127.0.0.1:1'], tokenFile: token}")
	Rewrite(t, file, "name: a,", "name: a, checkpoint: {nats: {}},")
	Rewrite(t, file, "dataDir: ",
		"leaderElection: {resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 100ms}, dataDir: ")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("t"), 0o600))
	return file, l
}
