// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointnats "github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// NATSCheckpoint is that of a pipeline's checkpoint, without a log. It reads the files of secrets.
func NATSCheckpoint(c *config.Pipeline) (checkpointnats.Config, error) {
	servers, access := c.CheckpointServers()
	to := natsclient.Config{Servers: servers, Name: clientID}
	var err error
	to.Auth, to.TLS, err = NATSAccess(access)
	return checkpointnats.Config{
		Dial:   func(options ...gonats.Option) (*gonats.Conn, error) { return natsclient.Dial(to, options...) },
		Bucket: c.Checkpoint.NATS.Bucket, Replicas: c.Checkpoint.NATS.Replicas, Patience: openPatience,
	}, err
}

// natsStore returns a checkpoint in a bucket. It is opened when it is read first, so that servers that are away keep no
// other pipeline from its work.
func (w *Wiring) natsStore(c *config.Pipeline, id checkpoint.Identity) (Store, error) {
	at, err := NATSCheckpoint(c)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	at.Log, at.Elected = w.Log.With("pipeline", c.Name), w.Elected
	return lateStoreOf(c, id, func(ctx context.Context) (Store, error) { return checkpointnats.Open(ctx, at, id) })
}

// streamConfig is what a sink is told of its stream.
func streamConfig(js *config.JetStream, subject *encode.Template) nats.Config {
	return nats.Config{
		Stream: js.Stream, Subjects: []string{subject.Wildcard()},
		Limits: nats.Limits{MaxBytes: int64(js.MaxBytes), MaxAge: js.MaxAge, Duplicates: js.DuplicateWindow},
	}
}

// NATSSink is that of a sink with servers of its own. It reads the files of secrets.
func NATSSink(remote *config.NATS, subject *encode.Template) (n nats.Config, err error) {
	n = streamConfig(&remote.JetStream, subject)
	n.Client.Auth, n.Client.TLS, err = NATSAccess(&remote.NATSAccess)
	n.Client.Servers, n.Limits.Replicas = remote.Servers, remote.Replicas
	return n, err
}

// NATSAccess returns how a client proves to a broker who it is, and how the connection is protected. It reads the files
// of secrets.
func NATSAccess(n *config.NATSAccess) (auth natsclient.Auth, protection natsclient.TLS, err error) {
	token, password, err := n.Secrets()
	if err != nil {
		return natsclient.Auth{}, natsclient.TLS{}, err
	}
	auth = natsclient.Auth{
		Token: token, User: n.User, Password: password, NKeyFile: n.NKeyFile, CredsFile: n.CredsFile,
	}
	if t := n.TLS; t != nil {
		protection = natsclient.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	}
	return auth, protection, nil
}
