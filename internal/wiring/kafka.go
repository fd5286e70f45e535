// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointkafka "github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// KafkaAccess returns how a client proves to brokers who it is, and how the connections are protected. It reads the
// files of secrets.
func KafkaAccess(k *config.KafkaAccess) (auth kafka.Auth, protection kafka.TLS, err error) {
	if t := k.TLS; t != nil {
		protection = kafka.TLS{
			Enabled: true, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile,
			ServerName: t.ServerName,
		}
	}
	s := k.SASL
	if s == nil {
		return auth, protection, nil
	}
	password, clientSecret, err := s.Secrets()
	if err != nil {
		return kafka.Auth{}, kafka.TLS{}, err
	}
	return kafka.Auth{
		Mechanism: strings.ToUpper(string(s.Mechanism)), User: s.User, Password: password, TokenFile: s.TokenFile,
		TokenURL: s.TokenURL, ClientID: s.ClientID, ClientSecret: clientSecret, Scopes: s.Scopes,
	}, protection, nil
}

// KafkaSink is that of a pipeline's sink, without a log. It reads the files of secrets.
func KafkaSink(c *config.Pipeline, id checkpoint.Identity) (sinkkafka.Config, error) {
	k := c.Sink.Kafka
	auth, protection, err := KafkaAccess(&k.KafkaAccess)
	if err != nil {
		return sinkkafka.Config{}, err
	}
	to := sinkkafka.Config{
		Brokers: k.Brokers, ClientID: clientID, Auth: auth, TLS: protection, Cluster: id.Cluster, Pipeline: id.Pipeline,
		Topic:       TopicsOf(k.Topic, id),
		Compression: batch.Compression(k.Compression), Tombstones: k.Tombstones,
		Structured: c.Encoding.Mode == config.Structured,
	}
	if k.Create != nil {
		to.Create = &sinkkafka.Create{
			Partitions: k.Create.Partitions, Replicas: k.Create.Replicas,
			Settings: k.Create.Settings,
		}
	}
	return to, nil
}

func (w *Wiring) kafkaSink(
	c *config.Pipeline, id checkpoint.Identity, clock *sinkkafka.Clock, epoch func() uint64,
) (*sinkkafka.Sink, error) {
	to, err := KafkaSink(c, id)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	to.Epoch = epoch
	to.Log, to.Clock, to.Fenced = w.Log.With("pipeline", c.Name), clock, w.Elected
	s, err := sinkkafka.New(to)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	return s, nil
}

// TopicsOf fills into the template of a pipeline's topics what is the same for all of them, so that no topic of another
// pipeline fits it.
func TopicsOf(template string, id checkpoint.Identity) string {
	return strings.NewReplacer("{pipeline}", id.Pipeline, "{cluster}", id.Cluster).Replace(template)
}

// KafkaCheckpoint is that of a pipeline's checkpoint, without a log. It reads the files of secrets.
func KafkaCheckpoint(c *config.Pipeline) (checkpointkafka.Config, error) {
	k := c.Sink.Kafka
	auth, protection, err := KafkaAccess(&k.KafkaAccess)
	return checkpointkafka.Config{
		Brokers: k.Brokers, ClientID: clientID, Auth: auth, TLS: protection, Topic: c.Checkpoint.Kafka.Topic,
		Replicas: c.Checkpoint.Kafka.Replicas,
		Patience: openPatience,
	}, err
}

// kafkaStore returns a checkpoint in a topic. It is opened when it is read first, so that brokers that are away keep no
// other pipeline from its work.
func (w *Wiring) kafkaStore(c *config.Pipeline, id checkpoint.Identity) (Store, error) {
	at, err := KafkaCheckpoint(c)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	at.Log, at.Elected = w.Log.With("pipeline", c.Name), w.Elected
	return lateStoreOf(c, id, func(ctx context.Context) (Store, error) { return checkpointkafka.Open(ctx, at, id) })
}
