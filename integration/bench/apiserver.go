// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiServer speaks as much of the Kubernetes API as a client needs that lists and watches pods or ConfigMaps.
//
// Its history is a formula, so that it costs no memory: the objects were created at the versions baseVersion+1 to
// baseVersion+objects, and the i-th event after that (from 1) is an update, at version baseVersion+objects+i, of object
// (i-1) modulo objects. A version is too old only when it was told to expire.
type apiServer struct {
	objects  int
	template *template
	// bookmark is how often a silent watch gets one.
	bookmark time.Duration

	mu      sync.Mutex
	emitted uint64
	oldest  uint64        // how many events there were at the oldest version that can be read
	changed chan struct{} // closed when emitted grows
}

func newAPIServer(resource string, objects int, bookmark time.Duration) (*apiServer, error) {
	t, err := newTemplate(resource)
	if err != nil {
		return nil, err
	}
	return &apiServer{objects: objects, template: t, bookmark: bookmark, changed: make(chan struct{})}, nil
}

// emit adds n watch events; each watch sends them as fast as its client reads. If they expire, no watch has them any
// more.
func (s *apiServer) emit(n uint64, expire bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emitted += n
	if expire {
		s.oldest = s.emitted
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// state returns how many events there are, after how many of them a watch may begin, and a channel that is closed when
// there are more.
func (s *apiServer) state() (emitted, oldest uint64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emitted, s.oldest, s.changed
}

// listVersion is the version of a list after that many events.
func (s *apiServer) listVersion(emitted uint64) uint64 {
	return baseVersion + uint64(s.objects) + emitted
}

// objectVersion is the version of one object after that many events.
func (s *apiServer) objectVersion(index int, emitted uint64) uint64 {
	first := uint64(index) + 1
	if emitted < first {
		return baseVersion + first
	}
	n := uint64(s.objects)
	return baseVersion + n + first + (emitted-first)/n*n
}

func (s *apiServer) handler() http.Handler {
	mux := http.NewServeMux()
	for path, body := range documents() {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
	}
	mux.HandleFunc("GET /api/v1/"+strings.ToLower(s.template.kind)+"s", s.serveObjects)
	mux.HandleFunc("POST /bench/emit", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		n, err := strconv.ParseUint(q.Get("n"), 10, 32)
		if err != nil || s.objects == 0 {
			http.Error(w, "n must be a number, and there must be objects", http.StatusBadRequest)
			return
		}
		s.emit(n, q.Has("expire"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "NotFound", "the load server has no "+r.Method+" "+r.URL.Path)
	})
	return mux
}

// serveObjects serves list and watch of all objects.
func (s *apiServer) serveObjects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("labelSelector") != "" || q.Get("fieldSelector") != "" {
		refuse(w, http.StatusBadRequest, "BadRequest", "the load server has no selectors")
		return
	}
	serve := s.serveList
	if watch := q.Get("watch"); watch == "true" || watch == "1" {
		serve = s.serveWatch
	}
	switch err := serve(w, r); {
	case errors.As(err, new(*expiredError)):
		refuse(w, http.StatusGone, "Expired", err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
	}
}

// expiredError says that a version is too old, as API servers do.
type expiredError struct{ version, oldest uint64 }

func (e *expiredError) Error() string {
	return fmt.Sprintf("too old resource version: %d (%d)", e.version, e.oldest)
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(status(code, reason, message))
}

func status(code int, reason, message string) []byte {
	text, _ := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": message, "reason": reason, "code": code,
	})
	return text
}

// documents returns the fixed documents by path.
func documents() map[string]string {
	const verbs = `"verbs":["get","list","watch"]`
	return map[string]string{
		"/version": `{"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"linux/amd64"}`,
		"/livez":   `ok`,
		"/readyz":  `ok`,
		"/api":     `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}`,
		"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces",` +
			`"singularName":"namespace","namespaced":false,"kind":"Namespace",` + verbs +
			`},{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"],` + verbs +
			`},{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","shortNames":["cm"],` + verbs +
			`}]}`,
		kubeSystemPath: `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system",` +
			`"uid":"b3a7f7c0-5b0e-4a53-8f55-3f7f3d2c1a90","resourceVersion":"4"},"status":{"phase":"Active"}}`,
	}
}

const kubeSystemPath = "/api/v1/namespaces/kube-system"

// apiServerRole serves until ctx ends.
func apiServerRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("apiserver", flag.ContinueOnError)
	objects := flags.Int("objects", 20_000, "number of objects")
	resource := flags.String("resource", pods, "pods or configmaps")
	listen := flags.String("listen", "127.0.0.1:0", "address")
	kubeconfig := flags.String("kubeconfig", "", "write a kubeconfig to this `file`")
	bookmark := flags.Duration("bookmark", time.Minute, "how often a silent watch gets a bookmark")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newAPIServer(*resource, *objects, *bookmark)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	address := "http://" + listener.Addr().String()
	if *kubeconfig != "" {
		if err := writeKubeconfig(*kubeconfig, address); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := say(stdout, report{Ready: address}); err != nil {
		return err
	}
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func writeKubeconfig(file, address string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: address}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
