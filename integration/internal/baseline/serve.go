// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"
)

// serve answers /livez, /readyz and /metrics, the last with those of the bridge's metrics that say whether everything
// was published.
func (e *exporter) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if problem := e.unready(); problem != "" {
			http.Error(w, problem, http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/metrics", e.metrics)
	server := &http.Server{Addr: e.cfg.Server.Listen, Handler: mux, ReadHeaderTimeout: ackTimeout}
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := server.Shutdown(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// unready says what is missing before everything is exported.
func (e *exporter) unready() string {
	all := e.watched.Load()
	if all == nil {
		return "nothing is watched yet"
	}
	for _, s := range *all {
		if !s.synced() {
			return s.String() + " is not listed yet"
		}
	}
	if !e.connected() {
		return "the broker is away"
	}
	return ""
}

func (e *exporter) metrics(w http.ResponseWriter, _ *http.Request) {
	if all := e.watched.Load(); all != nil {
		for _, s := range *all {
			open := 0
			if s.synced() {
				open = 1
			}
			_, _ = fmt.Fprintf(w, "kube_eventbridge_stream_watching{stream=%q} %d\n", s, open)
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	_, _ = fmt.Fprintf(w, "go_memstats_heap_alloc_bytes %d\n", memory.HeapAlloc)
	_, _ = fmt.Fprintf(w, "kube_eventbridge_buffered_events %d\nkube_eventbridge_buffered_bytes %d\n",
		e.publisher.events.Load(), e.publisher.bytes.Load())
}
