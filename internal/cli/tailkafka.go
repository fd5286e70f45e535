// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// The flags of tail that say where a log is, or as whom it is read, of one kind of broker only.
var (
	natsFlags  = []string{"server", "stream", "subject", "creds", "nkey"}
	kafkaFlags = []string{"brokers", "topic", "sasl-mechanism", "tls"}
)

// firstGiven returns the first flag that is on the command line, with its dashes; empty for none.
func firstGiven(given func(string) bool, flags []string) string {
	if i := slices.IndexFunc(flags, given); i >= 0 {
		return "--" + flags[i]
	}
	return ""
}

// checkKafka refuses flags of Kafka that do not go together.
func (f *logFlags) checkKafka(given func(string) bool) error {
	ofKafka, ofNATS := firstGiven(given, kafkaFlags), firstGiven(given, natsFlags)
	mechanisms := []config.Mechanism{config.Plain, config.ScramSHA256, config.ScramSHA512, config.OAuthBearer}
	switch mechanism := config.Mechanism(f.mechanism); {
	case ofKafka == "":
		return nil
	case ofNATS != "":
		return exit.Usagef("%s and %s exclude each other: the one is for Kafka, the other for NATS; keep one of them",
			ofKafka, ofNATS)
	case f.config == "" && len(f.kafka.Brokers) == 0:
		return exit.Usagef("%s is for Kafka: say with --brokers where that is", ofKafka)
	case given("sasl-mechanism") && !slices.Contains(mechanisms, mechanism):
		return exit.Usagef("--sasl-mechanism: %q is no mechanism; use plain, scram-sha-256, scram-sha-512 or oauthbearer",
			f.mechanism)
	case given("user") && mechanism == config.OAuthBearer:
		return exit.Usagef("--sasl-mechanism oauthbearer takes a token: give --token-file instead of --user")
	case given("token-file") && mechanism != config.OAuthBearer && mechanism != "":
		return exit.Usagef("--sasl-mechanism %s takes a user: give --user and --password-file instead of --token-file",
			f.mechanism)
	}
	for _, address := range f.kafka.Brokers {
		if err := kafkalog.CheckBroker(address); err != nil {
			return exit.Usagef("--brokers: %w", err)
		}
	}
	if f.kafka.Topic != "" {
		if err := kafkalog.CheckTopic(f.kafka.Topic); err != nil {
			return exit.Usagef("--topic: %w", err)
		}
	}
	return nil
}

// fits refuses flags that are for another kind of broker than the configuration names.
func (f *logFlags) fits(from config.LogSource, given func(string) bool) error {
	flags, ours, theirs := kafkaFlags, "NATS", "Kafka"
	if from.Kafka != nil {
		flags, ours, theirs = natsFlags, theirs, ours
	}
	if flag := firstGiven(given, flags); flag != "" {
		return exit.Usagef("%s is for %s, and %s publishes to %s: leave one of --config and %s out", flag, theirs, f.config,
			ours, flag)
	}
	return nil
}

// brokers merges the flags into what the configuration says of Kafka; nil: it says nothing.
func (f *logFlags) brokers(from *config.KafkaLog) (*config.KafkaLog, error) {
	if from == nil {
		from = &config.KafkaLog{Topic: "kubernetes"}
	}
	merged := *from
	if len(f.kafka.Brokers) > 0 {
		merged.Brokers = f.kafka.Brokers
	}
	merged.Topic = cmp.Or(f.kafka.Topic, merged.Topic)
	if f.withTLS || f.tls != (config.TLS{}) {
		merged.TLS = &f.tls
	}
	mechanism := config.Mechanism(f.mechanism)
	if mechanism == "" && from.SASL != nil {
		mechanism = from.SASL.Mechanism
	}
	switch {
	case f.nats.User != "" && mechanism != "" && mechanism != config.OAuthBearer:
		merged.SASL = &config.SASL{Mechanism: mechanism, User: f.nats.User, PasswordFile: f.nats.PasswordFile}
	case f.nats.User != "":
		return nil, exit.Usagef("give --sasl-mechanism with --user: plain, scram-sha-256 or scram-sha-512")
	case f.nats.TokenFile != "":
		merged.SASL = &config.SASL{Mechanism: config.OAuthBearer, TokenFile: f.nats.TokenFile}
	case f.mechanism != "" &&
		(from.SASL == nil || (mechanism == config.OAuthBearer) != (from.SASL.Mechanism == config.OAuthBearer)):
		return nil, exit.Usagef("give --user and --password-file with --sasl-mechanism, or --token-file with oauthbearer")
	case f.mechanism != "":
		sasl := *from.SASL
		sasl.Mechanism = mechanism
		merged.SASL = &sasl
	}
	return &merged, nil
}

// readFrom returns where a pipeline publishes to. Of its topics' template only what cannot be known here is left.
func readFrom(k *config.Kafka, pipeline, cluster string) *config.KafkaLog {
	id := checkpoint.Identity{Pipeline: pipeline, Cluster: cmp.Or(cluster, "{cluster}")}
	return &config.KafkaLog{Brokers: k.Brokers, Topic: wiring.TopicsOf(k.Topic, id), KafkaAccess: k.KafkaAccess}
}
