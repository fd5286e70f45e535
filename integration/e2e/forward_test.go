// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"io"
	"net"
	"sync"
	"testing"
)

// forwarder is a way to a server that can be cut.
type forwarder struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]struct{}
	open  sync.WaitGroup
}

func newForwarder(t *testing.T, target string) *forwarder {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	f := &forwarder{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	f.open.Go(f.accept)
	t.Cleanup(func() {
		_ = l.Close()
		f.cut(true)
		f.open.Wait()
	})
	return f
}

func (f *forwarder) address() string { return f.listener.Addr().String() }

// cut breaks all connections, and those that are made until it is called with false.
func (f *forwarder) cut(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = is
	if is {
		for c := range f.conns {
			_ = c.Close()
		}
	}
}

func (f *forwarder) accept() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", f.target)
		if err != nil || !f.enter(from, to) {
			_ = from.Close()
			continue
		}
		for a, b := range map[net.Conn]net.Conn{from: to, to: from} {
			f.open.Go(func() {
				_, _ = io.Copy(a, b)
				f.leave(a, b)
			})
		}
	}
}

func (f *forwarder) enter(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.isCut {
			_ = c.Close()
			continue
		}
		f.conns[c] = struct{}{}
	}
	return !f.isCut
}

func (f *forwarder) leave(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(f.conns, c)
	}
}
