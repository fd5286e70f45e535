// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// kafkaConfig writes a configuration with a pipeline for each kind of sink, and returns its name.
func kafkaConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	text := `
cluster: east
pipelines:
- name: stream
  resources: [{resource: pods}]
  sink: {nats: {servers: ["nats://n:4222"]}}
- name: topic
  resources: [{resource: pods}]
  sink:
    kafka:
      brokers: ["k:9092"]
      topic: "k8s.{cluster}.{pipeline}.{resource}"
      tls: {caFile: ` + file + `}
      sasl: {mechanism: scram-sha-256, user: bridge, passwordFile: ` + file + `}
- name: open
  resources: [{resource: pods}]
  sink: {kafka: {brokers: ["k:9092"], topic: plain}}
- name: server
  resources: [{resource: pods}]
  sink: {embedded: {listen: ":4333"}}
- name: print
  resources: [{resource: pods}]
  sink: {stdout: {}}
`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestTail_refuses_flags_of_two_kinds_of_brokers(t *testing.T) {
	file := kafkaConfig(t)
	for args, want := range map[string]string{
		"--brokers k:1 --server nats://n": "--brokers and --server exclude each other: the one is for " +
			"Kafka, the other for NATS; keep one of them",
		"--brokers k:1 --stream S":         "--brokers and --stream exclude each other",
		"--topic t --subject k8s.>":        "--topic and --subject exclude each other",
		"--sasl-mechanism plain --creds a": "--sasl-mechanism and --creds exclude each other",
		"--topic t":                        "--topic is for Kafka: say with --brokers where that is",
		"--tls":                            "--tls is for Kafka: say with --brokers where that is",
		"--brokers k": `--brokers: "k" is not the address of a broker; write ` +
			`host:port, such as localhost:9092`,
		"--brokers me:hidden@k:1": "--brokers: an address of a broker holds no user; write " +
			"host:port",
		"--brokers k:1 --topic a/b": `--topic: "a/b" is not the name of a topic; use letters, ` +
			`digits`,
		"--brokers k:1 --sasl-mechanism gssapi": `--sasl-mechanism: "gssapi" is no mechanism; use plain, ` +
			`scram-sha-256, scram-sha-512 or oauthbearer`,
		"--brokers k:1 --user me --password-file f": "give --sasl-mechanism with --user: plain, scram-sha-256 or " +
			"scram-sha-512",
		"--brokers k:1 --sasl-mechanism plain": "give --user and --password-file with --sasl-mechanism, or " +
			"--token-file with oauthbearer",
		"--brokers k:1 --sasl-mechanism plain --user me": "give --user and --password-file together",
		"--brokers k:1 --sasl-mechanism oauthbearer": "give --user and --password-file with --sasl-mechanism, or " +
			"--token-file with oauthbearer",
		"--brokers k:1 --sasl-mechanism plain --token-file f": "--sasl-mechanism plain takes a user: give --user and " +
			"--password-file instead of --token-file",
		"--brokers k:1 --sasl-mechanism oauthbearer --user me --password-file f": "--sasl-mechanism oauthbearer takes a " +
			"token: give --token-file instead of --user",
		"-c " + file + " --pipeline stream --brokers k:1": "--brokers is for Kafka, and " + file +
			" publishes to NATS: leave one of --config and --brokers out",
		"-c " + file + " --pipeline server --topic t": "--topic is for Kafka, and " + file +
			" publishes to NATS",
		"-c " + file + " --pipeline topic --stream S": "--stream is for NATS, and " + file +
			" publishes to Kafka: leave one of --config and --stream out",
		"-c " + file + " --pipeline topic --subject a": "--subject is for NATS, and " + file +
			" publishes to Kafka",
		"-c " + file + " --pipeline print": "pipeline print of " + file +
			" publishes to no NATS stream and no Kafka topic, so there is nothing to read back",
		"-c " + file +
			" --pipeline topic --sasl-mechanism oauthbearer": "give --user and --password-file with --sasl-mechanism, or " +
			"--token-file with oauthbearer",
	} {
		code, _, errs := tailed(t, append(strings.Fields(args), "--follow=false")...)
		assert.True(t, code == exit.Usage && strings.Contains(errs, want) && !strings.Contains(errs, "hidden"),
			"%s: got %d, %s", args, code, errs)
	}
}

// chosen is what a command line reads from.
func chosen(t *testing.T, args ...string) (config.LogSource, error) {
	t.Helper()
	var f tailFlags
	var from config.LogSource
	var err error
	cmd := &cobra.Command{Use: "tail", RunE: func(cmd *cobra.Command, _ []string) error {
		if err = f.check(cmd.Flags().Changed); err == nil {
			from, err = f.source(cmd.Flags().Changed)
		}
		return nil
	}}
	f.selecting(cmd)
	f.connecting(cmd)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return from, err
}

func described(s config.LogSource) string {
	if s.NATS != nil {
		return fmt.Sprintf("nats %v %s", s.NATS.Servers, s.NATS.Stream)
	}
	text := fmt.Sprintf("kafka %v %s", s.Kafka.Brokers, s.Kafka.Topic)
	if s.Kafka.TLS != nil {
		text += " tls " + filepath.Base(s.Kafka.TLS.CAFile)
	}
	if sasl := s.Kafka.SASL; sasl != nil {
		text += fmt.Sprintf(" %s %s%s %s", sasl.Mechanism, sasl.User, filepath.Base(sasl.TokenFile),
			filepath.Base(sasl.PasswordFile))
	}
	return text
}

func TestTail_reads_from_what_flags_and_the_configuration_say(t *testing.T) {
	t.Setenv("NATS_URL", "")
	file := kafkaConfig(t)
	for args, want := range map[string]string{
		"":                               "nats [nats://127.0.0.1:4222] KUBERNETES",
		"--user me --password-file f":    "nats [nats://127.0.0.1:4222] KUBERNETES",
		"--brokers k:1,l:2":              "kafka [k:1 l:2] kubernetes",
		"--brokers k:1 --topic a.{b}":    "kafka [k:1] a.{b}",
		"--brokers k:1 --tls":            "kafka [k:1] kubernetes tls .",
		"--brokers k:1 --tls-ca ca":      "kafka [k:1] kubernetes tls ca",
		"--brokers k:1 --token-file tok": "kafka [k:1] kubernetes oauthbearer tok .",
		"--brokers k:1 --sasl-mechanism scram-sha-512 --user me --password-file f": "kafka [k:1] kubernetes " +
			"scram-sha-512 me. f",
		"-c " + file +
			" --pipeline stream": "nats [nats://n:4222] KUBERNETES",
		"-c " + file +
			" --pipeline server": "nats [nats://127.0.0.1:4333] KUBERNETES",
		"-c " + file +
			" --pipeline topic": "kafka [k:9092] k8s.east.topic.{resource} tls bridge.yaml scram-sha-256 bridge. bridge.yaml",
		"-c " + file + " --pipeline open": "kafka [k:9092] plain",
		"-c " + file +
			" --pipeline topic --user me --password-file f --brokers l:1": "kafka [l:1] k8s.east.topic.{resource} tls " +
			"bridge.yaml scram-sha-256 me. f",
		"-c " + file +
			" --pipeline topic --sasl-mechanism scram-sha-512 --tls --topic mine": "kafka [k:9092] mine tls . scram-sha-512 " +
			"bridge. bridge.yaml",
		"-c " + file +
			" --pipeline topic --token-file tok": "kafka [k:9092] k8s.east.topic.{resource} tls bridge.yaml oauthbearer tok .",
	} {
		got, err := chosen(t, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		assert.Equal(t, want, described(got), args)
	}
}

func TestTail_leaves_the_configuration_as_it_is(t *testing.T) {
	k := &config.Kafka{Brokers: []string{"k:1"}, Topic: "{cluster}.{pipeline}.{group}"}
	if got := readFrom(k, "audit", ""); got.Topic != "{cluster}.audit.{group}" ||
		k.Topic != "{cluster}.{pipeline}.{group}" {
		t.Errorf("got %s of %s", got.Topic, k.Topic)
	}
	assert.Equal(t, "east.audit.{group}", readFrom(k, "audit", "east").Topic)
}

func TestTail_of_Kafka_without_following_fails_where_there_is_none(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	code, _, errs := tailed(t, "--brokers", address, "--follow=false")
	want := "error: connect to " + address + ": dial tcp " + address +
		": connect: connection refused; is Kafka running there?\n"
	assert.Equal(t, exit.Failed, code)
	assert.Equal(t, want, errs)
}

func TestTail_of_Kafka_names_the_file_that_cannot_be_read(t *testing.T) {
	for args, want := range map[string]string{
		"--sasl-mechanism plain --user me --password-file /nope": "error: --password-file: open /nope: no such file or " +
			"directory\n",
		"--token-file /nope": "error: --token-file: open /nope: no such file or directory\n",
		"--tls-ca /nope":     "error: --tls-ca: open /nope: no such file or directory\n",
	} {
		code, _, errs := tailed(t, append(strings.Fields(args), "--brokers", "127.0.0.1:1", "--follow=false")...)
		assert.Equal(t, exit.Failed, code, args)
		assert.Equal(t, want, errs, args)
	}
}
