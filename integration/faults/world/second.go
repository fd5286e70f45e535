// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/selection"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// What the bridge's file says of the second pipeline.
const (
	// SecondPipeline is its name.
	SecondPipeline = "second"
	// secondStream is the JetStream stream of its log, secondBucket of its checkpoint where that is on its server, and
	// secondCheckpoint the checkpoint where it is a file.
	secondStream     = "SECOND"
	secondBucket     = "second-checkpoints"
	secondCheckpoint = "second.db"
)

// Second is a second pipeline of the bridge. It has a NATS server of its own, which is reached without a proxy: what is
// broken elsewhere leaves it alone.
type Second struct {
	// Selection is what it reads, and never changes. What the first pipeline reads too, the two read with one watch.
	Selection selection.Selection
	// Structured says that an event and its object are one JSON document.
	Structured bool
}

// second is the second pipeline's server.
type second struct {
	Second
	server *rig.NATS
	conn   *nats.Conn // reads the log, and changes it
	js     jetstream.JetStream
	log    rig.Log

	mu     sync.Mutex // guards what follows
	denied []string   // subjects that the bridge may not publish to
	// largest is the size of the largest message, 0 for the server's default.
	largest int32
	lost    time.Time // when the log was first taken away
	removed [][]rig.Message
}

// The users of the second server, and their password.
const secondUser, secondJudge, secondPassword = "bridge", "judge", "password"

// startSecond starts the server of the second pipeline, if there is one.
func (w *World) startSecond(context.Context) (err error) {
	if w.cfg.Second == nil {
		return nil
	}
	s := &second{Second: *w.cfg.Second}
	if s.server, err = rig.NewNATS(filepath.Join(w.dir, "second"), s.options); err != nil {
		return err
	}
	w.second = s
	if err := os.WriteFile(w.secondPassword(), []byte(secondPassword), 0o600); err != nil {
		return err
	}
	s.conn, err = nats.Connect(s.server.URL(), nats.UserInfo(secondJudge, secondPassword),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn)
	s.log = rig.NATSLog(s.js, secondStream)
	return err
}

func (w *World) secondPassword() string { return filepath.Join(w.dir, "second-password") }

func (s *second) options(o *server.Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.MaxPayload = cmp.Or(s.largest, server.MAX_PAYLOAD_SIZE)
	o.Users = []*server.User{
		{Username: secondUser, Password: secondPassword, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: slices.Clone(s.denied)},
		}},
		{Username: secondJudge, Password: secondPassword},
	}
}

// restrict says what the bridge may publish from now on.
func (s *second) restrict(largest int32, denied ...string) error {
	s.mu.Lock()
	s.largest, s.denied = largest, denied
	s.mu.Unlock()
	return s.server.Reload()
}

func (s *second) close() {
	if s == nil {
		return
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.server.Stop()
}

// pipeline is what a replica's file says of it.
func (s *second) pipeline(w *World, r *replica) string {
	if s == nil {
		return ""
	}
	mode, checkpoint := "binary", fmt.Sprintf("file: {path: %q}", filepath.Join(r.dir, secondCheckpoint))
	if s.Structured {
		mode = "structured"
	}
	if w.cfg.Replicas > 0 {
		checkpoint = fmt.Sprintf("nats: {bucket: %s}", secondBucket)
	}
	return fmt.Sprintf(`
  - name: %s
    resources: %s
    encoding: {mode: %s, %s}
    sink: {nats: {servers: [%q], stream: %s, duplicateWindow: %s, user: %s, passwordFile: %q}}
    checkpoint: {%s}`,
		SecondPipeline, s.Selection.YAML(), mode, published, s.server.URL(), secondStream, DuplicateWindow, secondUser,
		w.secondPassword(), checkpoint)
}

// end is a number that changes when the log of the second pipeline grows.
func (s *second) end() (uint64, error) { return s.server.End(secondStream) }

// ReadSecondLog returns the whole log of the second pipeline, straight from its server.
func (w *World) ReadSecondLog(ctx context.Context) ([]rig.Message, error) {
	log, err := w.second.log.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of the second pipeline: %w", err)
	}
	return slices.Clone(log), nil
}

// SecondLost is when the second pipeline's log was first taken away; zero if it was not.
func (w *World) SecondLost() time.Time {
	w.second.mu.Lock()
	defer w.second.mu.Unlock()
	return w.second.lost
}

// SecondRemoved returns the logs of the second pipeline that faults have taken away, as they were read just before.
func (w *World) SecondRemoved() [][]rig.Message {
	w.second.mu.Lock()
	defer w.second.mu.Unlock()
	return slices.Clone(w.second.removed)
}

// deleteLog removes the log with all its messages. One that is not there is no error.
func (s *second) deleteLog(ctx context.Context) error {
	messages, err := s.log.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the log of the second pipeline: %w", err)
	}
	s.mu.Lock()
	if s.removed = append(s.removed, slices.Clone(messages)); s.lost.IsZero() {
		s.lost = time.Now()
	}
	s.mu.Unlock()
	if err := s.js.DeleteStream(ctx, secondStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the log of the second pipeline: %w", err)
	}
	return nil
}

// secondCheckpoints returns the files that the second pipeline keeps its state in, or adds what its bucket has to
// texts.
func (w *World) secondCheckpoints(ctx context.Context, texts map[string][]byte) ([]string, error) {
	switch {
	case w.second == nil:
		return nil, nil
	case w.cfg.Replicas == 0:
		return []string{filepath.Join(w.replicas[0].dir, secondCheckpoint)}, nil
	}
	messages, err := rig.NATSLog(w.second.js, "KV_"+secondBucket).Read(ctx)
	for _, m := range messages {
		texts[secondBucket] = append(append(texts[secondBucket], m.Data...), '\n')
	}
	return nil, err
}
