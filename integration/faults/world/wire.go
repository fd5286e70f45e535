// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
)

// mode is what happens to answers on their way to the bridge.
type mode int

const (
	pass mode = iota
	hold
	drop
)

// content is what a frame is about.
type content int

const (
	other content = iota
	// ofLog is a message for the log, or the answer to one.
	ofLog
	// ofCheckpoint is a commit of the checkpoint, or the answer to one.
	ofCheckpoint
)

// protocol is what a wire knows of a broker.
type protocol struct {
	read            func(*bufio.Reader) ([]byte, error)
	request, answer func(c *proxy.Conn, frame []byte) content
	// inOrder says that answers come in the order of the requests: those behind one that is held are held too, and one
	// that is lost ends its connection.
	inOrder bool
	// code is the error code in an answer to something published, for what is kept.
	code func(answer []byte) (int16, error)
}

// wire stands between the bridge and all brokers, with a proxy before each. It passes on what both sides say as it is,
// in whole frames. Answers to what is published to the log can be held or lost, and all else passes nevertheless, so
// that the bridge sees a broker that is well. Requests that publish to the log can be kept, whatever becomes of the
// bridge, and handed over later. A broker can be made to fall silent.
type wire struct {
	*proxy.Proxy
	protocol

	mu      sync.Mutex // guards what follows
	mode    mode
	held    []heldFrame
	keeping bool
	kept    []keptRequest
	// refusals are the error codes of the answers to what was kept.
	refusals  []int16
	committed time.Time
	stats     wireStats
}

// heldFrame is one that waits in the wire: an answer to something published, or what came behind it.
type heldFrame struct {
	to     *proxy.Conn
	frame  []byte
	since  time.Time
	answer bool
}

type keptRequest struct {
	of    *proxy.Conn
	frame []byte
}

// wireStats counts since the world was made.
type wireStats struct {
	// Published is how often the bridge has published to the log, Answered the answers it got, Lost those it did not
	// get.
	Published, Answered, Lost int
	// Connected counts connections, Cut those that were ended here.
	Connected, Cut int
}

func newWire(speaks protocol) *wire {
	w := &wire{protocol: speaks}
	w.Proxy = proxy.New(proxy.Handler{Read: speaks.read, Request: w.toServer, Answer: w.toClient})
	return w
}

func (w *wire) close() error {
	w.heal()
	return w.Close()
}

func (w *wire) toServer(c *proxy.Conn, frame []byte) (passed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.request(c, frame) != ofLog {
		return true, nil
	}
	w.stats.Published++
	if w.keeping {
		c.Keep()
		w.kept = append(w.kept, keptRequest{c, frame})
	}
	return !w.keeping, nil
}

// errLost ends a connection with an answer: whoever waits for one cannot take the next one for it.
var errLost = errors.New("an answer was lost")

func (w *wire) toClient(c *proxy.Conn, frame []byte) (passed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	about := w.answer(c, frame)
	if about == ofCheckpoint {
		w.committed = time.Now()
	}
	behind := w.inOrder && slices.ContainsFunc(w.held, func(h heldFrame) bool { return h.to == c })
	switch ours := about == ofLog; {
	case ours && slices.ContainsFunc(w.kept, func(k keptRequest) bool { return k.of == c }):
		code, err := w.code(frame)
		w.refusals = append(w.refusals, code)
		return false, err
	case ours && w.mode == drop:
		w.stats.Lost++
		if w.inOrder {
			err = errLost
		}
		return false, err
	case ours && w.mode == hold, behind:
		w.held = append(w.held, heldFrame{c, frame, time.Now(), ours})
		return false, nil
	case ours:
		w.stats.Answered++
	}
	return true, nil
}

// set says what happens to answers from now on. What is held stays so.
func (w *wire) set(m mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode = m
}

func (w *wire) now() (stats wireStats, held int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.answer {
			held++
		}
	}
	stats = w.stats
	stats.Connected = w.Connected()
	return stats, held
}

// lastCommit is when a commit of the checkpoint was answered at last.
func (w *wire) lastCommit() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}

// release passes on what has been held for so long. What was held for a connection that has ended is lost.
func (w *wire) release(older time.Duration) (n int) {
	w.mu.Lock()
	due := 0
	for due < len(w.held) && time.Since(w.held[due].since) >= older {
		if w.held[due].answer {
			n++
		}
		due++
	}
	frames := w.held[:due:due]
	w.held = w.held[due:]
	w.stats.Answered += n
	w.mu.Unlock()
	for _, h := range frames {
		_ = h.to.Answer(h.frame)
	}
	return n
}

// forget loses what is held, and passes on what comes from now on.
func (w *wire) forget() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.answer {
			n++
		}
		if w.inOrder {
			h.to.End()
		}
	}
	w.stats.Lost += n
	w.held, w.mode = nil, pass
	return n
}

// cut ends every connection at once.
func (w *wire) cut() (n int) {
	n = w.Cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Cut += n
	return n
}

// heal passes everything on again, and what is kept is lost.
func (w *wire) heal() {
	w.Open()
	w.mu.Lock()
	for _, k := range w.kept {
		k.of.End()
	}
	w.mode, w.keeping, w.kept, w.refusals = pass, false, nil, nil
	w.mu.Unlock()
	w.release(0)
}

// keep keeps what is published to the log from now on, or passes it on again. What is kept stays so.
func (w *wire) keep(keeping bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeping = keeping
}

func (w *wire) keptNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.kept)
}

// deliver hands over what was kept, and returns the brokers' error codes.
func (w *wire) deliver(ctx context.Context) ([]int16, error) {
	w.mu.Lock()
	kept := w.kept
	w.mu.Unlock()
	for _, k := range kept {
		if err := k.of.Request(k.frame); err != nil {
			return nil, fmt.Errorf("%w: the broker has closed the connection of a request that was kept: %w", ErrMissed, err)
		}
	}
	var codes []int16
	err := poll(ctx, patience, "the answers to requests that were kept", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		codes = slices.Clone(w.refusals)
		return len(codes) >= len(kept)
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrMissed, err)
	}
	return codes, err
}
