// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
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

// listen opens the address of metrics and probes, and that of what changes something if it has one of its own. Both
// serve serves, with a guard of what changes something; only the former is served more.
func listen(
	c *config.Server, key string, log *slog.Logger, serve func(*http.ServeMux, func(http.Handler) http.Handler),
	more func(*http.ServeMux),
) (servers []endpointServer, err error) {
	l, err := open(c.Listen, key)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	serve(mux, func(next http.Handler) http.Handler { return endpoint.Unchanging(c.Admin == "", next) })
	more(mux)
	log.Info("serving the status, metrics and probes", "address", l.Addr().String())
	servers = append(servers, endpointServer{l, endpoint.Guarded(c.Listen, mux)})
	if c.Admin == "" {
		return servers, nil
	}
	if l, err = open(c.Admin, "server.admin"); err != nil {
		return nil, errors.Join(err, servers[0].Close())
	}
	admin := http.NewServeMux()
	serve(admin, func(next http.Handler) http.Handler { return next })
	log.Info("serving the status and what changes something", "address", l.Addr().String())
	return append(servers, endpointServer{l, endpoint.Guarded(c.Admin, admin)}), nil
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

// listen opens the addresses of the process's servers.
func (p *process) listen() ([]endpointServer, error) {
	return listen(&p.cfg.Server, p.listenKey(), p.log, p.serve, func(mux *http.ServeMux) {
		if p.cfg.Server.Profiling {
			handleProfiles(mux)
		}
		mux.Handle("/", p.noting(bridge.Handler(p.registry, p.running, p.idle)))
	})
}

// serve serves the status, and what guard makes of what changes something.
func (p *process) serve(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	handleStatus(mux, p.statusConfig())
	mux.Handle(resync.Path, guard(resync.Handler(p.running)))
	p.replicator.serveReplicas(mux, guard)
}

func handleStatus(mux *http.ServeMux, c status.Config) {
	page := status.Handler(c)
	mux.Handle("/{$}", page)
	mux.Handle(status.Path, page)
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
