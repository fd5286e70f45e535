// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// logFlags are what the command line says of where a log is, and as whom it is read.
type logFlags struct {
	config, pipeline string
	nats             config.NATSLog
	kafka            config.KafkaLog
	mechanism        string
	tls              config.TLS
	withTLS          bool
}

func (f *logFlags) connecting(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "",
		"take servers or brokers, stream or topic, and credentials from the bridge's configuration `file`")
	flags.StringVar(&f.pipeline, "pipeline", "", "only events of this pipeline, and with --config its stream or topic")
	flags.StringSliceVarP(&f.nats.Servers, "server", "s", nil,
		"NATS servers (default $NATS_URL, else nats://127.0.0.1:4222)")
	flags.StringVar(&f.nats.Stream, "stream", "", "JetStream stream (default KUBERNETES)")
	flags.StringSliceVar(&f.kafka.Brokers, "brokers", nil, "Kafka brokers, host:port")
	flags.StringVar(&f.kafka.Topic, "topic", "",
		"Kafka topic, or as a template of the configuration, all that fit (default kubernetes)")
	flags.StringVar(&f.nats.CredsFile, "creds", "", "credentials `file` of the NATS user (JWT and seed)")
	flags.StringVar(&f.nats.NKeyFile, "nkey", "", "`file` with the NATS user's NKey seed")
	flags.StringVar(&f.mechanism, "sasl-mechanism", "",
		"how Kafka is told who we are: plain, scram-sha-256, scram-sha-512 or oauthbearer")
	flags.StringVar(&f.nats.TokenFile, "token-file", "", "`file` with the token")
	flags.StringVar(&f.nats.User, "user", "", "user `name`; the password is in --password-file")
	flags.StringVar(&f.nats.PasswordFile, "password-file", "", "`file` with the user's password")
	flags.BoolVar(&f.withTLS, "tls", false,
		"connect to Kafka with TLS (NATS: tls://), and trust the system's authorities unless --tls-ca names others")
	flags.StringVar(&f.tls.CAFile, "tls-ca", "",
		"`file` with the authorities that the server's certificate is checked against")
	flags.StringVar(&f.tls.CertFile, "tls-cert", "", "`file` with the client's certificate")
	flags.StringVar(&f.tls.KeyFile, "tls-key", "", "`file` with the client's key")
	for _, name := range []string{"creds", "nkey", "token-file", "password-file", "tls-ca", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmdutil.Complete(cmd, "sasl-mechanism", func() []string {
		return []string{
			string(config.Plain), string(config.ScramSHA256), string(config.ScramSHA512),
			string(config.OAuthBearer),
		}
	})
	cmdutil.Complete(cmd, "pipeline", func() []string { return cmdutil.PipelinesIn(f.config) })
}

// source says what is read from: what flags say, else the configuration, else the environment. given says which flags
// are on the command line.
func (f *logFlags) source(given func(string) bool) (config.LogSource, error) {
	var from config.LogSource
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
	if from.Kafka != nil || f.config == "" && firstGiven(given, kafkaFlags) != "" {
		from.Kafka, err = f.brokers(from.Kafka)
	} else {
		from.NATS, err = f.servers(from.NATS)
	}
	return from, err
}

// servers merges the flags into what the configuration says of NATS; nil: it says nothing.
func (f *logFlags) servers(from *config.NATSLog) (*config.NATSLog, error) {
	flags := f.nats
	if f.tls != (config.TLS{}) {
		flags.TLS = &f.tls
	}
	if err := checkServers("--server", flags.Servers); err != nil {
		return nil, err
	}
	if from == nil {
		from = &config.NATSLog{
			Servers: strings.Split(cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"), ","), Stream: "KUBERNETES",
		}
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
func (f *logFlags) readable() error {
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
func sourceOf(file, pipeline string) (config.LogSource, error) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return config.LogSource{}, err
	}
	var names []string
	for _, p := range cfg.Pipelines {
		names = append(names, p.Name)
		if p.Name != pipeline && (pipeline != "" || len(cfg.Pipelines) > 1) {
			continue
		}
		switch {
		case p.Sink.NATS != nil:
			n := p.Sink.NATS
			return config.LogSource{NATS: &config.NATSLog{
				Servers: n.Servers, Stream: n.Stream, NATSAccess: n.NATSAccess,
			}}, nil
		case p.Sink.Kafka != nil:
			return config.LogSource{Kafka: readFrom(p.Sink.Kafka, p.Name, cfg.Cluster)}, nil
		case p.Sink.Embedded != nil:
			e := p.Sink.Embedded
			return config.LogSource{NATS: &config.NATSLog{
				Servers: []string{"nats://" + endpoint.Local(e.Listen)}, Stream: e.Stream,
			}}, nil
		default:
			return config.LogSource{},
				exit.Usagef("pipeline %s of %s publishes to no NATS stream and no Kafka topic, so there is nothing to read back",
					p.Name, file)
		}
	}
	switch {
	case len(names) == 0:
		return config.LogSource{}, exit.Usagef("%s has no pipelines, so there is nothing to read back", file)
	case pipeline == "":
		return config.LogSource{}, exit.Usagef("%s has several pipelines: choose one with --pipeline, of %s", file,
			strings.Join(names, ", "))
	}
	return config.LogSource{}, exit.Usagef("%s has no pipeline %q; it has %s", file, pipeline, strings.Join(names, ", "))
}
