// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// endpointServer is one of the process's HTTP servers.
type endpointServer struct {
	net.Listener
	http.Handler
}

// listen opens the addresses of metrics and probes, and of what changes something if that has one of its own.
func (p *process) listen() (servers []endpointServer, err error) {
	c := &p.cfg.Server
	l, err := open(c.Listen, p.listenKey())
	if err != nil {
		return nil, err
	}
	p.log.Info("serving / /api/status /metrics /livez /readyz /resync", "address", l.Addr().String(), "version",
		p.build.Version)
	servers = append(servers, endpointServer{l, endpoint.Guarded(c.Listen, p.handler())})
	if c.Admin == "" {
		return servers, nil
	}
	if l, err = open(c.Admin, "server.admin"); err != nil {
		return nil, errors.Join(err, servers[0].Close())
	}
	p.log.Info("serving POST /resync", "address", l.Addr().String())
	mux := http.NewServeMux()
	mux.Handle(resync.Path, resync.Handler(p.running))
	p.replicator.handle(mux, true)
	return append(servers, endpointServer{l, endpoint.Guarded(c.Admin, mux)}), nil
}

// open listens at the address of a key.
func open(address, key string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		free := "an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			free = "a free address"
		}
		return nil, fmt.Errorf("listen for HTTP requests: %w; set %s to %s", err, key, free)
	}
	return l, nil
}

// handler serves what the process tells, and takes what it is asked for.
func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(resync.Path, endpoint.Unchanging(p.cfg.Server.Admin == "", resync.Handler(p.running)))
	p.replicator.handle(mux, p.cfg.Server.Admin == "")
	page := status.Handler(p.statusConfig())
	mux.Handle("/{$}", page)
	mux.Handle(status.Path, page)
	if p.cfg.Server.Profiling {
		handleProfiles(mux)
	}
	mux.Handle("/", bridge.Handler(p.registry, p.running, p.idle))
	return p.noting(mux)
}

// noting adds to what /readyz tells of the pipelines how the process stands to its file, where that is not as it should
// be.
func (p *process) noting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.URL.Path != "/readyz" {
			return
		}
		for _, note := range []string{p.reloads.now().note(), p.replicator.unready()} {
			if note != "" {
				_, _ = fmt.Fprintln(w, inert.Line(note))
			}
		}
	})
}

// How long a client may take to ask, to read the answer, and to ask again. A profile takes 30 s.
const readTime, writeTime, idleTime = 10 * time.Second, 2 * time.Minute, 30 * time.Second

// errDone ends the HTTP server when the pipelines have ended.
var errDone = fmt.Errorf("done")

// serve answers until ctx ends.
func (s endpointServer) serve(ctx context.Context) error {
	server := &http.Server{Handler: s.Handler, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	if err := server.Serve(s.Listener); ctx.Err() == nil {
		return fmt.Errorf("serve metrics and health: %w", err)
	}
	return nil
}

// handleProfiles serves Go's profiles, as go tool pprof asks for them.
func handleProfiles(mux *http.ServeMux) {
	const at = "GET /debug/pprof/"
	mux.HandleFunc(at, pprof.Index) // by name too: heap, goroutine and others
	mux.HandleFunc(at+"profile", pprof.Profile)
	mux.HandleFunc(at+"trace", pprof.Trace)
	mux.HandleFunc(at+"symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
}
