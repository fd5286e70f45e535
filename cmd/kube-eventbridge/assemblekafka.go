// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointkafka "github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// openStore is a checkpoint that has to be closed.
type openStore interface {
	checkpoint.Store
	io.Closer
}

// accessToKafka returns how a client proves to brokers who it is, and how the connections are protected. It reads the files of secrets.
func accessToKafka(k *config.Kafka) (auth kafka.Auth, protection kafka.TLS, err error) {
	if t := k.TLS; t != nil {
		protection = kafka.TLS{Enabled: true, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
	}
	if k.SASL == nil {
		return auth, protection, nil
	}
	c, err := k.Credentials()
	if err != nil {
		return kafka.Auth{}, kafka.TLS{}, err
	}
	return kafka.Auth{
		Mechanism: strings.ToUpper(string(k.SASL.Mechanism)), User: c.User, Password: c.Password.Reveal(), TokenFile: c.TokenFile,
		TokenURL: c.TokenURL, ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(), Scopes: c.Scopes,
	}, protection, nil
}

func (p *process) kafkaSink(c *config.Pipeline, id checkpoint.Identity) (*sinkkafka.Sink, error) {
	k := c.Sink.Kafka
	auth, protection, err := accessToKafka(k)
	if err != nil {
		return nil, &inputError{err}
	}
	to := sinkkafka.Config{
		Brokers: k.Brokers, ClientID: clientID, Auth: auth, TLS: protection, Cluster: id.Cluster, Pipeline: id.Pipeline, Topic: topicsOf(k, id),
		Compression: batch.Compression(k.Compression), Tombstones: k.Tombstones, Structured: c.Encoding.Mode == config.Structured,
		Log: p.log.With("pipeline", c.Name),
	}
	if k.Create != nil {
		to.Create = &sinkkafka.Create{Partitions: k.Create.Partitions, Replicas: k.Create.Replicas, Settings: k.Create.Settings}
	}
	s, err := sinkkafka.New(to)
	if err != nil {
		return nil, &inputError{err}
	}
	return s, nil
}

// topicsOf is the template of a pipeline's topics with what is the same for all of them filled in, so that no topic of another pipeline fits it.
func topicsOf(k *config.Kafka, id checkpoint.Identity) string {
	return strings.NewReplacer("{pipeline}", id.Pipeline, "{cluster}", id.Cluster).Replace(k.Topic)
}

// clientID is what brokers log, and meter, connections under.
const clientID = "kube-eventbridge"

// kafkaStore opens a checkpoint in a topic. Brokers that are away are waited for; the error is ctx's, or stays.
func (p *process) kafkaStore(ctx context.Context, c *config.Pipeline, id checkpoint.Identity) (openStore, error) {
	k := c.Sink.Kafka
	auth, protection, err := accessToKafka(k)
	if err != nil {
		return nil, &inputError{err}
	}
	at := checkpointkafka.Config{
		Brokers: k.Brokers, ClientID: clientID, Auth: auth, TLS: protection, Topic: c.Checkpoint.Kafka.Topic, Replicas: c.Checkpoint.Kafka.Replicas,
		Log: p.log.With("pipeline", c.Name),
	}
	const longest = 10 * time.Second
	for delay := 250 * time.Millisecond; ; delay = min(2*delay, longest) {
		store, err := checkpointkafka.Open(ctx, at, id)
		if err == nil {
			p.setStartError(nil)
			return store, nil
		}
		p.setStartError(err)
		if ctx.Err() != nil || checkpoint.IsPermanent(err) {
			return nil, err
		}
		p.log.Warn("waiting for the checkpoint", "pipeline", c.Name, "err", err)
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
}
