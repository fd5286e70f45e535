// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// serves reports whether there is a server for metrics and probes. What prints to a terminal has none unless it is asked for, so that it runs beside a bridge.
func (f *runFlags) serves() bool { return f.file != "" || f.output == "" || f.listen != "" }

// listen opens the address of metrics and probes.
func (p *process) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", p.cfg.Server.Listen)
	if err != nil {
		free := "an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			free = "a free address"
		}
		return nil, fmt.Errorf("listen for metrics and health: %w; set %s to %s", err, p.listenKey(), free)
	}
	p.log.Info("serving / /api/status /metrics /livez /readyz /resync", "address", listener.Addr().String(), "version", build().Version)
	return listener, nil
}

// handler serves what the process tells, and takes what it is asked for.
func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(resync.Path, resync.Handler(p.cfg.Server.Listen, p.running))
	page := status.Handler(p.statusConfig())
	mux.Handle("/{$}", page)
	mux.Handle(status.Path, page)
	if p.cfg.Server.Profiling {
		handleProfiles(mux)
	}
	mux.Handle("/", bridge.Handler(p.registry, p.running, p.idle))
	return p.noting(mux)
}

// noting adds to what /readyz tells of the pipelines how the process stands to its file, where that is not as it should be.
func (p *process) noting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if note := p.reloads.now().note(); note != "" && r.URL.Path == "/readyz" {
			_, _ = fmt.Fprintln(w, note)
		}
	})
}

// errDone ends the HTTP server when the pipelines have ended.
var errDone = fmt.Errorf("done")

// serve answers until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve metrics and health: %w", err)
	}
	return nil
}
