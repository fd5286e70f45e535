// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// logSource is where a log is: one of its fields is set.
type logSource struct {
	nats  *config.NATS
	kafka *config.Kafka
}

// source says what is read from: what flags say, else the configuration, else the environment. given says which flags
// are on the command line.
func (f *tailFlags) source(given func(string) bool) (logSource, error) {
	var from logSource
	if f.config != "" {
		var err error
		if from, err = sourceOf(f.config, f.pipeline); err != nil {
			return from, err
		}
		if err := f.fits(from, given); err != nil {
			return from, err
		}
	}
	var err error
	if from.kafka != nil || f.config == "" && firstGiven(given, kafkaFlags) != "" {
		from.kafka, err = f.brokers(from.kafka)
	} else {
		from.nats, err = f.servers(from.nats)
	}
	return from, err
}

// servers merges the flags into what the configuration says of NATS; nil: it says nothing.
func (f *tailFlags) servers(from *config.NATS) (*config.NATS, error) {
	flags := f.nats
	if f.tls != (config.TLS{}) {
		flags.TLS = &f.tls
	}
	if err := checkServers("--server", flags.Servers); err != nil {
		return nil, err
	}
	if from == nil {
		from = &config.NATS{Servers: strings.Split(cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"), ",")}
		from.Stream = "KUBERNETES"
		if len(flags.Servers) == 0 {
			if err := checkServers("$NATS_URL", from.Servers); err != nil {
				return nil, err
			}
		}
	}
	merged := *from
	if flags.CredsFile != "" || flags.NKeyFile != "" || flags.TokenFile != "" || flags.User != "" {
		merged = flags
		merged.Servers, merged.Stream, merged.TLS = from.Servers, from.Stream, from.TLS
	}
	if len(flags.Servers) > 0 {
		merged.Servers = flags.Servers
	}
	if flags.TLS != nil {
		merged.TLS = flags.TLS
	}
	merged.Stream = cmp.Or(flags.Stream, merged.Stream)
	return &merged, nil
}

func checkServers(from string, servers []string) error {
	for _, s := range servers {
		if err := natslog.CheckServer(s); err != nil {
			return exit.Usagef("%s: %w", from, err)
		}
	}
	return nil
}

// readable names the flag whose file cannot be read, or is empty.
func (f *tailFlags) readable() error {
	for _, named := range []struct{ flag, file string }{
		{"creds", f.nats.CredsFile},
		{"nkey", f.nats.NKeyFile},
		{"token-file", f.nats.TokenFile},
		{"password-file", f.nats.PasswordFile},
		{"tls-ca", f.tls.CAFile},
		{"tls-cert", f.tls.CertFile},
		{"tls-key", f.tls.KeyFile},
	} {
		if named.file == "" {
			continue
		}
		// It is not read: a pipe can be read once.
		file, err := os.Open(named.file)
		if err != nil {
			return fmt.Errorf("--%s: %w", named.flag, err)
		}
		info, err := file.Stat()
		_ = file.Close()
		switch {
		case err != nil:
			return fmt.Errorf("--%s: %w", named.flag, err)
		case info.IsDir():
			return fmt.Errorf("--%s: %s is a directory", named.flag, named.file)
		case info.Mode().IsRegular() && info.Size() == 0:
			return fmt.Errorf("--%s: %s is empty", named.flag, named.file)
		}
	}
	return nil
}

// sourceOf returns what a pipeline of a configuration file publishes to; without a name that of its only pipeline.
func sourceOf(file, pipeline string) (logSource, error) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return logSource{}, err
	}
	var names []string
	for _, p := range cfg.Pipelines {
		names = append(names, p.Name)
		if p.Name != pipeline && (pipeline != "" || len(cfg.Pipelines) > 1) {
			continue
		}
		switch {
		case p.Sink.NATS != nil:
			return logSource{nats: p.Sink.NATS}, nil
		case p.Sink.Kafka != nil:
			return logSource{kafka: readFrom(p.Sink.Kafka, p.Name, cfg.Cluster)}, nil
		case p.Sink.Embedded != nil:
			e := p.Sink.Embedded
			return logSource{nats: &config.NATS{
				Servers:   []string{"nats://" + endpoint.Local(e.Listen)},
				JetStream: e.JetStream,
			}}, nil
		default:
			return logSource{},
				exit.Usagef("pipeline %s of %s publishes to no NATS stream and no Kafka topic, so there is nothing to read back",
					p.Name, file)
		}
	}
	if pipeline == "" {
		return logSource{}, exit.Usagef("%s has several pipelines: choose one with --pipeline, of %s", file,
			strings.Join(names, ", "))
	}
	return logSource{}, exit.Usagef("%s has no pipeline %q; it has %s", file, pipeline, strings.Join(names, ", "))
}

// closingLog is a log whose connections have an end.
type closingLog interface {
	tail.Log
	Close()
}

// open returns the log. It reads the files of secrets.
func (f *tailFlags) open(from logSource, notice func(string)) (l closingLog, err error) {
	if from.kafka != nil {
		return openKafka(from.kafka, notice)
	}
	cfg := natslog.Config{
		Servers: from.nats.Servers, Stream: from.nats.Stream, Subjects: f.subjects, Wait: f.follow,
		Notice: notice,
	}
	if cfg.Auth, cfg.TLS, err = wiring.NATSAccess(&from.nats.NATSAccess); err != nil {
		return nil, &exit.InputError{Err: err}
	}
	log, err := natslog.Connect(cfg)
	if err != nil {
		return nil, err
	}
	return log, nil
}
