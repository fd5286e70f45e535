// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/bucket"
)

// keepAnswers is how many times the acknowledgement timeout an object may take.
const keepAnswers = 6

// Keep implements [sink.Keeper]: data becomes an object in the server's object store, in [bucket.Name], and the
// reference is nats-obj:<bucket>/<name>. A bucket that is missing is created, in files, with the stream's replicas, for
// objects as old as messages of the stream may become; one that exists is never changed. With a stream that has no such
// limit objects stay until somebody removes them.
func (s *Sink) Keep(ctx context.Context, name string, data []byte) (ref string, err error) {
	if err := s.state.err(); err != nil {
		return "", err
	}
	nc := s.broker.conn.Load()
	in := bucket.Name(s.cfg.Stream)
	ctx, end := s.broker.call(ctx, func(subject string) bool { return bucket.Uses(in, subject) })
	defer end()
	ctx, cancel := context.WithTimeout(ctx, keepAnswers*s.cfg.AckTimeout)
	defer cancel()
	if err := s.put(ctx, nc, in, name, data); err != nil {
		return "", fmt.Errorf("put into bucket %s: %w", in, s.broker.unanswered(ctx, err))
	}
	return "nats-obj:" + in + "/" + name, nil
}

func (s *Sink) put(ctx context.Context, nc *gonats.Conn, in, name string, data []byte) error {
	js, err := s.broker.jetstream(nc)
	if err != nil {
		return err
	}
	store, err := s.bucket(ctx, js, in)
	if err != nil {
		return err
	}
	return bucket.Put(ctx, nc, js, store, in, name, data)
}

// bucket returns the object store, made if it is missing.
func (s *Sink) bucket(ctx context.Context, js jetstream.JetStream, name string) (jetstream.ObjectStore, error) {
	store, err := js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return store, permanentIf(errors.Is(err, jetstream.ErrInvalidStoreName), err)
	}
	like := s.stream.seen.Load()
	store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: name, Description: "what is too large for stream " + s.cfg.Stream, TTL: like.MaxAge,
		Storage: jetstream.FileStorage, Replicas: like.Replicas,
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
