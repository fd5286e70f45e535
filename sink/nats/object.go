// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	// chunkSize is the object store's own default.
	chunkSize = 128 << 10
	// keepAnswers is how many times the acknowledgement timeout an object may take.
	keepAnswers = 6
)

// Bucket returns the name of the bucket in which what is too large for a stream is kept.
func Bucket(stream string) string { return stream + "-objects" }

// Keep implements [sink.Keeper]: data becomes an object in the server's object store, in [Bucket], and the reference is
// nats-obj:<bucket>/<name>. A bucket that is missing is created, in files, with the stream's replicas, for objects as
// old as messages of the stream may become; one that exists is never changed. With a stream that has no such limit
// objects stay until somebody removes them.
func (s *Sink) Keep(ctx context.Context, name string, data []byte) (ref string, err error) {
	if err := s.unusable(); err != nil {
		return "", err
	}
	nc := s.conn.Load()
	ctx, end := s.call(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, keepAnswers*s.cfg.AckTimeout)
	defer cancel()
	ctx, deny := context.WithCancelCause(ctx)
	defer s.deniable(&deny)()
	bucket := Bucket(s.cfg.Stream)
	if err := s.put(ctx, nc, bucket, name, data); err != nil {
		return "", fmt.Errorf("put into bucket %s: %w", bucket, s.unanswered(ctx, err))
	}
	return "nats-obj:" + bucket + "/" + name, nil
}

// deniable has deny be called if the broker does not permit something of the bucket, until end is.
func (s *Sink) deniable(deny *context.CancelCauseFunc) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeps == nil {
		s.keeps = map[*context.CancelCauseFunc]struct{}{}
	}
	s.keeps[deny] = struct{}{}
	return func() {
		s.mu.Lock()
		delete(s.keeps, deny)
		s.mu.Unlock()
		(*deny)(nil)
	}
}

// denyKeeps ends what is being put into the bucket if a subject that is denied is one of the bucket's.
func (s *Sink) denyKeeps(subject string, err error) {
	bucket := Bucket(s.cfg.Stream)
	if !strings.HasPrefix(subject, "$O."+bucket+".") && !strings.Contains(subject, ".OBJ_"+bucket) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for deny := range s.keeps {
		(*deny)(notPermitted(subject, err))
	}
}

func (s *Sink) put(ctx context.Context, nc *gonats.Conn, bucket, name string, data []byte) error {
	js, err := s.jetstream(nc)
	if err != nil {
		return err
	}
	store, err := s.bucket(ctx, js, bucket)
	if err != nil {
		return err
	}
	digest := sha256.New()
	_, _ = digest.Write(data) // never fails
	info := &jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name}, Bucket: bucket, NUID: rand.Text(), Size: uint64(len(data)),
		Digest: jetstream.GetObjectDigestValue(digest),
	}
	has, err := store.GetInfo(ctx, name)
	switch {
	case err == nil && has.Size == info.Size && has.Digest == info.Digest:
		return nil
	case err != nil && !errors.Is(err, jetstream.ErrObjectNotFound):
		return err
	}
	chunk := min(chunkSize, max(1, nc.MaxPayload()/2))
	if err := write(ctx, js, info, data, int(chunk)); err != nil {
		return err
	}
	if has != nil {
		return forget(ctx, js, has)
	}
	return nil
}

// write writes an object as the object store's clients do: its bytes in messages of their own subject, then the message
// that says what they are. The library's own Put waits in a goroutine that may outlive the connection.
func write(ctx context.Context, js jetstream.JetStream, info *jetstream.ObjectInfo, data []byte, chunk int) error {
	only := jetstream.WithExpectStream("OBJ_" + info.Bucket)
	for part := range slices.Chunk(data, chunk) {
		if _, err := js.Publish(ctx, chunksOf(info), part, only); err != nil {
			_ = forget(ctx, js, info) // what stays is in nobody's way, and ends with its time to live
			return err
		}
		info.Chunks++
	}
	what, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := gonats.NewMsg("$O." + info.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(info.Name)))
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Data = what
	_, err = js.PublishMsg(ctx, m, only)
	return err
}

// forget removes the bytes of an object that another one has replaced, or that was not completed. Where it is not known
// whether it was, they stay.
func forget(ctx context.Context, js jetstream.JetStream, info *jetstream.ObjectInfo) error {
	st, err := js.Stream(ctx, "OBJ_"+info.Bucket)
	if err != nil {
		return err
	}
	return st.Purge(ctx, jetstream.WithPurgeSubject(chunksOf(info)))
}

func chunksOf(info *jetstream.ObjectInfo) string { return "$O." + info.Bucket + ".C." + info.NUID }

// bucket returns the object store, made if it is missing.
func (s *Sink) bucket(ctx context.Context, js jetstream.JetStream, name string) (jetstream.ObjectStore, error) {
	store, err := js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return store, permanentIf(errors.Is(err, jetstream.ErrInvalidStoreName), err)
	}
	maxAge, replicas := s.keeping()
	store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: name, Description: "what is too large for stream " + s.cfg.Stream, TTL: maxAge,
		Storage: jetstream.FileStorage, Replicas: replicas,
	})
	var api *jetstream.APIError
	switch {
	case err == nil:
		s.log.Info("bucket created", "bucket", name)
		return store, nil
	case errors.Is(err, jetstream.ErrBucketExists):
		return js.ObjectStore(ctx, name)
	default:
		return nil, permanentIf(errors.As(err, &api) && natsclient.Hopeless(api), fmt.Errorf("create: %w", err))
	}
}

func permanentIf(permanent bool, err error) error {
	if permanent {
		return sink.Permanent(err)
	}
	return err
}

// keeping returns how old messages of the stream may become (0: any age), and how many servers hold it, as it was when
// it was last looked at.
func (s *Sink) keeping() (maxAge time.Duration, replicas int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxAge, s.copies
}
