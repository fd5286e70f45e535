// SPDX-License-Identifier: Apache-2.0

// Package apptest has an API server that answers what a process asks at its start, and files for it, for tests.
package apptest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// APIServer has Pods and Nodes, none of either, and calls identify for each question for the namespace kube-system.
func APIServer(t *testing.T, identify http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",
			 "shortNames":["po","pd"],"verbs":["list","watch"]},
			{"name":"places","singularName":"place","namespaced":false,"kind":"Place","verbs":["list","watch"]},
			{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["list","watch"]}]}`,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, text) })
	}
	mux.HandleFunc("GET /api/v1/namespaces/kube-system", identify)
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			Answer(w, http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// Answer answers a request with a code and a text of JSON.
func Answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// Forbid answers as an API server that does not permit a request.
func Forbid(w http.ResponseWriter) {
	Answer(w, http.StatusForbidden,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not for the bridge"}`)
}

// Identified answers the question which cluster it is.
func Identified(w http.ResponseWriter, _ *http.Request) {
	Answer(w, http.StatusOK, `{"kind":"Namespace","apiVersion":"v1",
		"metadata":{"name":"kube-system","uid":"00000000-0000-4000-8000-000000000001"}}`)
}

// Configured writes a configuration of one pipeline, from the API server to nowhere, and returns its file.
func Configured(t *testing.T, api *httptest.Server, resources string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	file := filepath.Join(dir, "bridge.yaml")
	for path, text := range map[string]string{
		kubeconfig: fmt.Sprintf(`{clusters: [{name: c, cluster: {server: %q}}],
    contexts: [{name: c, context: {cluster: c}}], current-context: c}`, api.URL),
		file: fmt.Sprintf(`{kubernetes: {kubeconfig: %q}, dataDir: %q, server: {listen: "127.0.0.1:0"}, log: {format: text},
    pipelines: [{name: a, resources: %s, sink: {stdout: {}}}]}`, kubeconfig, dir, resources),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return file
}

// Rewrite replaces from, which has to be there, by to in a file.
func Rewrite(t *testing.T, file, from, to string) {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	require.True(t, bytes.Contains(data, []byte(from)), "%s is not in %s", from, data)
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600))
}
