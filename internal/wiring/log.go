// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// Log is a log whose connections have an end.
type Log interface {
	event.Log
	event.Bodies
	event.Progress
	Close()
}

// Reading says how a log is read, whatever broker has it.
type Reading struct {
	// Subjects, Wait and Notice are as in [natslog.Config]. Only Notice is for Kafka, too.
	Subjects []string
	Wait     bool
	Notice   func(line string)
	// Name is what the broker calls the reader, and Reader the durable consumer or consumer group that tells how far it
	// is; empty for defaults, and for none.
	Name, Reader string
	// SubjectPerObject and Whole are as in [natslog.Config].
	SubjectPerObject bool
	Whole            []string
}

// ReplicaLog is the log of a replica. Of its topics' template only what the replica does not know is left.
func ReplicaLog(r *config.Replica) config.LogSource {
	from := r.From.LogSource
	if from.Kafka != nil {
		k := *from.Kafka
		k.Topic = TopicsOf(k.Topic, checkpoint.Identity{Pipeline: r.From.Pipeline, Cluster: r.From.Cluster})
		from.Kafka = &k
	}
	return from
}

// OpenLog returns the log of a source. It reads the files of secrets.
func OpenLog(from config.LogSource, r Reading) (Log, error) {
	if from.Kafka != nil {
		return openKafkaLog(from.Kafka, r)
	}
	return openNATSLog(from.NATS, r)
}

func openNATSLog(from *config.NATSLog, r Reading) (_ Log, err error) {
	cfg := natslog.Config{
		Servers: from.Servers, Stream: from.Stream, Subjects: r.Subjects, Wait: r.Wait, Notice: r.Notice,
		Name: r.Name, Durable: r.Reader, SubjectPerObject: r.SubjectPerObject, Whole: r.Whole,
	}
	if cfg.Auth, cfg.TLS, err = NATSAccess(&from.NATSAccess); err != nil {
		return nil, &exit.InputError{Err: err}
	}
	l, err := natslog.Connect(cfg)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func openKafkaLog(from *config.KafkaLog, r Reading) (_ Log, err error) {
	cfg := kafkalog.Config{Brokers: from.Brokers, Topic: from.Topic, Notice: r.Notice, ClientID: r.Name, Group: r.Reader}
	if cfg.Auth, cfg.TLS, err = KafkaAccess(&from.KafkaAccess); err != nil {
		return nil, &exit.InputError{Err: err}
	}
	l, err := kafkalog.New(cfg)
	if err != nil {
		return nil, err
	}
	return l, nil
}
