// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var update = flag.Bool("update", false, "write what is made from the table, and what is reported now into the bad files; review it")

const want = "# want: "

var operations = []Operation{Added, Updated, Deleted}

// A bad file begins with the problems it must be refused with, one a line, as they are printed after the file's name.
func TestLoad_refuses_bad_files_with_exactly_these_problems(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.bad.yaml"))(t)
	require.GreaterOrEqual(t, len(files), 89, "bad files")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".bad.yaml"), func(t *testing.T) {
			if *update {
				rewrite(t, file)
			}
			data := read(t, file)
			var wanted []string
			for line := range strings.Lines(string(data)) {
				if rest, ok := strings.CutPrefix(line, want); ok {
					wanted = append(wanted, "file:"+strings.TrimSuffix(rest, "\n"))
				}
			}
			c, _, err := Parse("file", data)
			require.Nil(t, c, "the file was taken")
			require.Error(t, err, "the file was taken")
			got := strings.Split(err.Error(), "\n")
			assert.Equal(t, wanted, got, "got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
			assert.NotContains(t, err.Error(), "hunter2", "a secret is in %v", err)
		})
	}
}

// rewrite puts the problems that are reported now on top of the file. Their lines count themselves.
func rewrite(t *testing.T, file string) {
	t.Helper()
	var body []byte
	for line := range bytes.Lines(read(t, file)) {
		if !bytes.HasPrefix(line, []byte(want)) {
			body = append(body, line...)
		}
	}
	_, _, err := Parse("file", body)
	var first Problems
	errors.As(err, &first)
	_, _, err = Parse("file", append(bytes.Repeat([]byte("#\n"), len(first)), body...))
	var out strings.Builder
	for line := range strings.Lines(err.Error() + "\n") {
		out.WriteString(want + strings.TrimPrefix(line, "file:"))
	}
	require.NoError(t, os.WriteFile(file, append([]byte(out.String()), body...), 0o600))
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
}

func TestLoad_of_a_file_without_content_says_so(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a comment": "# nothing\n", "a separator": "---\n",
		"null": "null\n", "a BOM": "\uFEFF",
	} {
		_, _, err := Parse("f.yaml", []byte(text))
		const want = "f.yaml:1:1: is empty; it needs pipelines or replicas, see config.example.yaml for every key"
		assert.EqualError(t, err, want, name)
	}
}

func TestLoad_refuses_what_is_no_text_or_too_large(t *testing.T) {
	for text, want := range map[string]string{
		"a: \x00":            "f:1:4: is not text in UTF-8 from here; save the file as UTF-8",
		"a: ö\nb: ä\xff":     "f:2:5: is not text in UTF-8 from here; save the file as UTF-8",
		"\xff\xfea\x00:\x00": "f:1:1: is not text in UTF-8 from here; save the file as UTF-8",
		"\xfe\xff\x00a\x00:": "f:1:1: is not text in UTF-8 from here; save the file as UTF-8",
		"\uFEFF\"":           "f:1:1: YAML: could not find end character of double-quoted text",
		strings.Repeat("#",
			2<<20): "f:1:1: is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; see config.example.yaml " +
			"for every key",
		strings.Repeat("[",
			101): "f:1:101: is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; see config.example.yaml " +
			"for every key",
		strings.Repeat("- ",
			101): "f:1:1: is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; see config.example.yaml " +
			"for every key",
		strings.Repeat(" ", 202) +
			"a": "f:1:1: is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; see config.example.yaml " +
			"for every key",
	} {
		_, _, err := Parse("f", []byte(text))
		assert.True(t, err != nil && err.Error() == want, "%.10q: %v", text, err)
	}
}

func TestLoad_of_a_file_that_is_not_there_says_which(t *testing.T) {
	_, _, err := Load("testdata/none.yaml")
	const want = "testdata/none.yaml: cannot be read: no such file or directory; give an existing file"
	assert.EqualError(t, err, want)
}

func TestLoad_reads_a_good_file(t *testing.T) {
	got, warnings := must.Get2(Load("testdata/good.yaml"))(t)
	require.Nil(t, warnings)
	stream := JetStream{
		Stream: "AUDIT", Subject: "audit.{cluster}.{group}.{resource}.{namespace}.{name}", Fence: true,
		MaxAge: 72 * time.Hour, MaxBytes: 10 << 30, DuplicateWindow: 5 * time.Minute,
	}
	const topics = "audit.{cluster}.{pipeline}.{group}.{version}.{resource}"
	want := &Config{
		Cluster:    "prod-eu-1",
		Kubernetes: Kubernetes{Kubeconfig: "/etc/kube/config", Context: "prod"},
		Pipelines: []Pipeline{
			{
				Name: "audit",
				Resources: []Resource{
					{
						Resource: value.ResourceName{Plural: "deployments", Group: "apps"}, Namespaces: []string{"web", "shop"},
						LabelSelector: "tier!=cache", Operations: []Operation{Updated, Deleted}, IgnoreChanges: []string{"status"},
						Filter: "has(object.spec.replicas) && object.spec.replicas > 3", Delivery: Latest, Payload: PayloadMetadata,
						Snapshot: SnapshotNever, OnFilterError: OnFilterErrorPublish, Resync: 12 * time.Hour,
					},
					{
						Resource:   value.ResourceName{Plural: "deployments", Version: "v1", Group: "apps"},
						Namespaces: []string{"kube-system"},
						Delivery:   Every, Operations: operations, Payload: PayloadObject, Snapshot: SnapshotInitial,
						OnFilterError: OnFilterErrorPublish,
					},
					{
						Resource: value.ResourceName{Plural: "pods", Version: "v1"}, FieldSelector: "spec.nodeName=node-1",
						Delivery: Every, Operations: operations, Payload: PayloadObject, Snapshot: SnapshotInitial,
						OnFilterError: OnFilterErrorPublish,
					},
				},
				Encoding: Encoding{
					Mode: Structured, Profile: ProfileKnative, Keep: []Part{ManagedFields, LastApplied},
					Secrets: Secrets{Values: true},
				},
				Sink: Sink{NATS: &NATS{
					Servers: []string{"tls://nats-0:4222", "tls://nats-1:4222"}, JetStream: stream, Replicas: 3,
					NATSAccess: NATSAccess{
						User: "bridge", PasswordFile: "/etc/nats/password",
						TLS: &TLS{
							CAFile: "/etc/nats/ca.crt", CertFile: "/etc/nats/tls.crt", KeyFile: "/etc/nats/tls.key",
							ServerName: "nats",
						},
					},
				}},
				Checkpoint: Checkpoint{File: CheckpointFile{"/var/lib/audit.db"}},
				Recovery:   Recovery{MaxReads: 500, MaxTime: 5 * time.Second},
				Audit:      Audit{time.Hour},
				OnReject:   OnRejectStop,
				Oversize:   OversizeMetadata,
				Buffer:     Buffer{64 << 20},
			},
			{
				Name: "everything_else",
				Resources: []Resource{{
					Resource: value.ResourceName{Plural: "configmaps"}, Delivery: Every, Operations: operations,
					Payload:  PayloadObject,
					Snapshot: SnapshotInitial, OnFilterError: OnFilterErrorPublish,
					Redact: []string{"data[*]", `binaryData["a.b"]`},
				}},
				Encoding: Encoding{
					Mode: Binary, Profile: ProfileOwn, Redact: []string{`metadata.annotations["example.com/token"]`},
					Secrets: Secrets{Hashes: &SecretHashes{KeyFile: "/etc/hash/key"}},
				},
				Sink:     embedded(),
				Recovery: recovery,
				Audit:    daily,
				OnReject: OnRejectPublish,
				Oversize: OversizeReject,
			},
			{
				Name: "lines",
				Resources: []Resource{{
					Resource: value.ResourceName{Plural: "events", Group: "events.k8s.io"},
					Delivery: Every, Operations: operations, Payload: PayloadJSONPatch,
					Filter: "oldObject == null || object != oldObject", Snapshot: SnapshotInitial, OnFilterError: OnFilterErrorPublish,
				}},
				Encoding: Encoding{Mode: Binary, Profile: ProfileOwn},
				Sink:     Sink{Stdout: &Stdout{}},
				Recovery: recovery,
				Audit:    daily,
				OnReject: OnRejectPublish,
				Oversize: OversizeReject,
			},
			publishing("topics", Kafka{
				Brokers: []string{"kafka-0:9093", "[2001:db8::1]:9093"}, Topic: topics, Compression: Zstd, Tombstones: true,
				Create: &KafkaTopic{Partitions: 12, Replicas: 3, Settings: map[string]string{
					"cleanup.policy": "compact", "retention.ms": "-1", "min.cleanable.dirty.ratio": "0.1",
					"unclean.leader.election.enable": "false",
				}},
				KafkaAccess: KafkaAccess{
					TLS: &TLS{
						CAFile: "/etc/kafka/ca.crt", CertFile: "/etc/kafka/tls.crt", KeyFile: "/etc/kafka/tls.key",
						ServerName: "kafka",
					},
					SASL: &SASL{Mechanism: ScramSHA512, User: "bridge", PasswordEnv: "KAFKA_PASSWORD"},
				},
			}, CheckpointKafka{"checkpoints", 3}),
			publishing("topics_again", Kafka{
				Brokers: []string{"kafka-0:9093"}, Topic: topics, Compression: None,
				KafkaAccess: KafkaAccess{TLS: &TLS{}, SASL: &SASL{
					Mechanism: OAuthBearer, TokenURL: "https://login/token", ClientID: "bridge", ClientSecretFile: "/etc/kafka/secret",
					Scopes: []string{"kafka", "log"},
				}},
			}, CheckpointKafka{"checkpoints", 0}),
			publishing("topic", Kafka{
				Brokers: []string{"kafka-0:9092"}, Topic: encode.DefaultTopic, Compression: None, Create: &KafkaTopic{},
			}, CheckpointKafka{"kube-eventbridge-checkpoints", 0}),
		},
		DataDir: "/var/lib/kube-eventbridge",
		Buffer:  Buffer{128 << 20},
		Server:  Server{Listen: ":9090"},
		Log:     Log{LevelDebug, FormatJSON},
	}
	assert.Equal(t, want, got)
	for i, share := range []value.Size{64 << 20, 56 << 20 / 5, 56 << 20 / 5} {
		assert.Equal(t, share, got.BufferShare(&got.Pipelines[i]), "buffer of pipelines[%d]", i)
	}
}

// recovery is that of who says nothing of it.
var recovery = Recovery{Enabled: true, MaxReads: 10_000, MaxTime: time.Minute}

// daily is the audit of a pipeline that configures none.
var daily = Audit{24 * time.Hour}

// embedded is the sink of who names none.
func embedded() Sink {
	return Sink{Embedded: &Embedded{
		Listen: "127.0.0.1:4222",
		JetStream: JetStream{
			Stream: "KUBERNETES", Subject: encode.DefaultSubject, Fence: true,
			DuplicateWindow: 2 * time.Minute,
		},
	}}
}

func TestFromArgs_is_one_pipeline_with_the_embedded_server(t *testing.T) {
	got := must.Get(FromArgs(Args{Resources: []string{"pods", "deployments.apps"}}))(t)
	want := Default()
	want.Pipelines = []Pipeline{{
		Name: "default",
		Resources: []Resource{
			{
				Resource: value.ResourceName{Plural: "pods"}, Delivery: Every, Operations: operations, Payload: PayloadObject,
				Snapshot: SnapshotInitial, OnFilterError: OnFilterErrorPublish,
			},
			{
				Resource: value.ResourceName{Plural: "deployments", Group: "apps"}, Delivery: Every, Operations: operations,
				Payload: PayloadObject, Snapshot: SnapshotInitial, OnFilterError: OnFilterErrorPublish,
			},
		},
		Encoding: Encoding{Mode: Binary, Profile: ProfileOwn},
		Sink:     embedded(),
		Recovery: recovery,
		Audit:    daily,
		OnReject: OnRejectPublish,
		Oversize: OversizeReject,
	}}
	assert.Equal(t, want, got)
}

func TestFromArgs_warns_of_a_name_that_is_nearly_one_of_Kubernetes(t *testing.T) {
	got := must.Get(FromArgs(Args{Resources: []string{"pods", "secretz", "widgets.example.com"}}))(t)
	assert.Equal(t, Problems{{
		Path: "argument 2", Message: "secretz is no resource that Kubernetes 1.36 has by itself, did you mean secrets?",
	}}, got.ArgumentWarnings())
}

// What was printed is not in the embedded server's log, so that both must not have one checkpoint.
func TestFromArgs_for_the_standard_output_is_another_pipeline(t *testing.T) {
	got := must.Get(FromArgs(Args{Resources: []string{"pods"}, Stdout: true, DataDir: "/d"}))(t)
	p := &got.Pipelines[0]
	require.NotNil(t, p.Sink.Stdout, "the sink is %+v", p.Sink)
	assert.Nil(t, p.Sink.Embedded, "the sink is %+v", p.Sink)
	path, err := got.CheckpointPath(p)
	assert.True(t, err == nil && path == "/d/stdout.db", "the checkpoint is %s, %v", path, err)
}

func TestFromArgs_namespaces_and_selector_hold_for_each_resource(t *testing.T) {
	got, err := FromArgs(Args{
		Resources: []string{"pods", "deployments.apps"}, Namespaces: []string{"web", "shop"},
		LabelSelector: "app in (a,b)",
	})
	require.NoError(t, err)
	for i := range 2 {
		if r := got.Pipelines[0].Resources[i]; !slices.Equal(r.Namespaces, []string{"web", "shop"}) ||
			r.LabelSelector != "app in (a,b)" {
			t.Errorf("resource %d is %+v", i, r)
		}
	}
}

func TestFromArgs_reports_every_bad_argument_once(t *testing.T) {
	for _, c := range []struct {
		args Args
		want string
	}{
		{
			Args{Resources: []string{"Pod", "nodes", "x/y"}},
			`argument 1: "Pod" does not begin with a resource's plural name in lower case; write plural[.version][.group], such as pods, deployments.apps or deployments.v1.apps
argument 3: "x/y" is a subresource or a path, which cannot be watched by that name; write plural[.version][.group], such as pods, deployments.apps or deployments.v1.apps`,
		},
		{
			Args{Resources: []string{"pods", "pods"}},
			`argument 2: pods may name the same objects as pods before it, and an object belongs to one stream of a pipeline; give them different namespaces or groups, or move one to another pipeline`,
		},
		{Args{}, `name at least one resource, such as pods or deployments.apps`},
		{
			Args{
				Resources: []string{"pods", "nodes"}, Namespaces: []string{"Web", "shop", "shop"}, LabelSelector: "a=b=c",
				Flags: []string{"selector", "namespace"},
			},
			`--selector: "a=b=c" is not a label selector: found '=', expected: ',' or 'end of string'; write one as kubectl -l takes it, such as app=web,tier!=cache
--namespace: "Web" is not a namespace; use lower-case letters, digits and - (at most 63, a letter or digit at both ends), or leave it out for all
--namespace: "shop" is there twice; keep one
--namespace: resource nodes is cluster-scoped and cannot be read in namespace "Web"; remove its namespaces`,
		},
		{
			Args{Resources: []string{"pods"}, DataDir: "~/state"},
			`--data-dir: "~/state" begins with ~, which is not replaced here; write the whole path, or a relative one`,
		},
		{
			Args{Resources: []string{"pods"}, Listen: ":8081", BrokerListen: ":8081"},
			`--broker-listen: ":8081" is the address of metrics and probes, too; give each server its own`,
		},
		{
			Args{
				Resources: []string{"pods"}, Listen: "8081", BrokerListen: "localhost",
				Flags: []string{"listen", "broker-listen"},
			},
			`--listen: "8081" is not an address to listen on; write host:port, such as 127.0.0.1:8080 or :8080
--broker-listen: "localhost" is not an address to listen on; write host:port, such as 127.0.0.1:4222 or :4222`,
		},
	} {
		_, err := FromArgs(c.args)
		assert.True(t, err != nil && err.Error() == c.want, "%+v: got\n%v\nwant\n%s", c.args, err, c.want)
	}
}

// Where validate is silent, the encoder must say of no object that it shares a subject.
func TestLoad_warns_of_a_subject_that_objects_may_share(t *testing.T) {
	const want = "f:4:26: pipelines[0].sink.nats.subject: objects may share a subject, so the server does not check " +
		"each object's last event: a late write of a process that was thought dead may then follow a newer one, or repeat " +
		"it; use {group}, {resource}, {namespace} and {name}, each in a word of its own between dots"
	for _, c := range []struct {
		subject string
		warned  bool
	}{
		{encode.DefaultSubject, false},
		{"a.{name}.x-{namespace}.{resource}.{group}.{version}.{pipeline}", false},
		{"k8s.{resource}.{namespace}.{name}", true},
		{"k8s.{group}.{resource}.{namespace}", true},
		{"k8s.{cluster}.{namespace}-{name}", true},
		{"k8s.{group}.{resource}.{namespace}-{name}", true},
		{"k8s.all", true},
	} {
		_, warnings, err := Parse("f",
			[]byte("pipelines:\n- name: a\n  resources: [{resource: pods}]\n  sink: {nats: {subject: \""+c.subject+"\"}}\n"))
		assert.True(t, err == nil && len(warnings) > 0 == c.warned && (!c.warned || warnings.Error() == want),
			"%s: got %v, %v, want %t: %s", c.subject, warnings, err, c.warned, want)
		template := must.Get(encode.ParseTemplate(encode.Subject, c.subject))(t)
		assert.NotEqual(t, c.warned, template.PerObject(), "%s: the encoder disagrees", c.subject)
	}
}

func TestLoad_warns_of_what_others_may_read_or_ask_for(t *testing.T) {
	for text, want := range map[string]string{
		`sink: {nats: {servers: ["nats://n:4222"], tokenEnv: A}}`: "servers[0]: shows the " +
			"token to whoever reads the network",
		`sink: {nats: {servers: ["n"], user: a, passwordFile: b}}`: "servers[0]: shows the " +
			"password to whoever reads the network",
		`sink: {nats: {servers: ["n"]}}, checkpoint: {nats: {servers: ["c:1"], tokenEnv: A}}`: "checkpoint.nats.servers[0]: shows the token",
		`sink: {nats: {servers: ["tls://n:4222"], tokenEnv: A}}`:                              "",
		`sink: {nats: {servers: ["nats://n:4222"], tls: {}, tokenEnv: A}}`:                    "",
		`sink: {nats: {servers: ["nats://localhost:4222", "[::1]:1"], tokenEnv: A}}`:          "",
		`sink: {nats: {servers: ["nats://n:4222"], nkeyFile: b}}`:                             "",
		`sink: {nats: {servers: ["nats://n:4222"]}}`:                                          "",
		"\n" + `server: {listen: ":8080", profiling: true}`: "server.profiling: whoever " +
			"reaches :8080 can keep a processor busy",
		"\n" + `server: {profiling: true}`: "",
		"\n" + `server: {listen: ":8080"}`: "",
		"\n" + `server: {admin: "0.0.0.0:8081"}`: "server.admin: whoever " +
			"reaches 0.0.0.0:8081 can have everything published again",
		"\n" + `server: {admin: "127.0.0.1:8081"}`: "",
	} {
		pipeline, server, _ := strings.Cut(text, "\n")
		if pipeline == "" {
			pipeline = "sink: {nats: {servers: [n]}}"
		}
		_, warnings, err := Parse("f",
			[]byte("pipelines:\n- {name: a, resources: [{resource: pods}], "+pipeline+"}\n"+server+"\n"))
		require.NoError(t, err, text)
		said := ""
		if warnings != nil {
			said = warnings.Error()
		}
		assert.True(t, said == "" && want == "" || want != "" && strings.Contains(said, want), "%s: %s", text, said)
	}
}

func TestLoad_gives_each_server_an_address_of_its_own(t *testing.T) {
	for server, want := range map[string]string{
		`{admin: "127.0.0.1:8080"}`: "server.admin: \"127.0.0.1:8080\" is the address of metrics " +
			"and probes, too",
		`{admin: "127.0.0.1:4222"}`:                           "sink.embedded.listen: \"127.0.0.1:4222\" is server.admin, too",
		`{admin: "8081"}`:                                     "server.admin: \"8081\" is not an address to listen on",
		`{admin: "127.0.0.1:0", listen: "127.0.0.1:0"}`:       "",
		`{admin: "127.0.0.1:8081", listen: "127.0.0.1:8082"}`: "",
	} {
		_, _, err := Parse("f", []byte("pipelines:\n- {name: a, resources: [{resource: pods}]}\nserver: "+server+"\n"))
		said := fmt.Sprint(err)
		assert.True(t, err == nil && want == "" || want != "" && strings.Contains(said, want), "%s: %s", server, said)
	}
}

func TestStateDir_follows_the_environment_where_the_file_says_nothing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, c := range []struct{ dataDir, xdg, want string }{
		{"/data", "/xdg", "/data"},
		{"", "/xdg", "/xdg/kube-eventbridge"},
		{"", "relative", home + "/.local/state/kube-eventbridge"},
		{"", "", home + "/.local/state/kube-eventbridge"},
	} {
		t.Setenv("XDG_STATE_HOME", c.xdg)
		cfg := &Config{DataDir: c.dataDir}
		p := &Pipeline{Name: "audit"}
		dir, err := cfg.StateDir()
		path, _ := cfg.CheckpointPath(p)
		store, _ := cfg.StoreDir(&Embedded{})
		assert.True(t, err == nil && dir == c.want && path == c.want+"/audit.db" && store == c.want+"/nats",
			"%+v: %s %s %s %v", c, dir, path, store, err)
	}
}

func TestKeepsState_where_something_has_no_place_of_its_own(t *testing.T) {
	const at = "{path: /p}"
	for pipeline, want := range map[string]bool{
		"sink: {stdout: {}}": true,
		"sink: {stdout: {}}, checkpoint: {file: " + at + "}":               false,
		"sink: {nats: {}}, checkpoint: {nats: {}}":                         false,
		"sink: {kafka: {brokers: [\"k:9092\"]}}, checkpoint: {kafka: {}}":  false,
		"checkpoint: {file: " + at + "}":                                   true,
		"sink: {embedded: {storeDir: /s}}, checkpoint: {file: " + at + "}": false,
		"sink: {embedded: {storeDir: /s}}":                                 true,
		"sink: {nats: {}}":                                                 true,
	} {
		cfg, _, err := Parse("f", []byte("pipelines: [{name: a, resources: [{resource: pods}], "+pipeline+"}]"))
		require.NoError(t, err)
		assert.Equal(t, want, cfg.KeepsState(), "%s: %v", pipeline, err == nil && cfg.KeepsState())
	}
}

func TestPlace_finds_the_key_or_what_is_around_it(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	text := "pipelines:\n  - name: a\n    resources: [{resource: pods}, {resource: nodes}]\n    sink: {stdout: {}}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	got := Place(file, Problems{
		{Path: "pipelines[0].sink.nats", Message: "c"},
		{Path: "kubernetes", Message: "a\nline"},
		{Path: "pipelines[0].resources[1].resource", Message: "b"},
	}).Error()
	want := file + ":1:1: kubernetes: a\uFFFDline\n" + file + ":3:46: pipelines[0].resources[1].resource: b\n" + file +
		":4:5: pipelines[0].sink.nats: c"
	assert.Equal(t, want, got)
	assert.Equal(t, "/none:1:1: x: y", Place("/none", Problems{{Path: "x", Message: "y"}}).Error(),
		"of a file that is gone")
}

func TestExclude_is_warned_of_where_it_leaves_nothing_out(t *testing.T) {
	const want = ` is nothing that *.example.com names, so it leaves nothing out; name a resource of example.com, or ` +
		`remove it`
	for exclude, warned := range map[string]bool{
		"widgets": false, "widgets.example.com": false, "widgets.v1.example.com": false, "deployments.apps": true,
		"pods.v1": true, `"*.apps"`: true, "widgets.sub.example.com": true,
	} {
		_, warnings, err := Parse("f",
			[]byte("pipelines:\n- name: a\n  resources: [{resource: \"*.example.com\", exclude: ["+exclude+"]}]\n"))
		require.NoError(t, err)
		require.Equal(t, warned, len(warnings) > 0, "%s: %v", exclude, warnings)
		text := "f:3:53: pipelines[0].resources[0].exclude[0]: " + strings.Trim(exclude, `"`) + want
		assert.True(t, !warned || warnings.Error() == text, "%v\nwant %s", warnings, text)
	}
	if _, warnings, err := Parse("f",
		[]byte("pipelines: [{name: a, resources: [{resource: \"*\", exclude: [deployments.apps, pods.v1]}]}]")); err != nil ||
		warnings != nil {
		t.Errorf("%v, %v", warnings, err)
	}
}

func TestKeep_is_warned_of_where_something_is_redacted(t *testing.T) {
	for file, want := range map[string]string{
		"pipelines: [{name: a, resources: [{resource: pods, redact: [spec]}], encoding: {keep: [lastApplied]}}]": "f:1:88: pipelines[0].encoding.keep[0]: " +
			"lastApplied may repeat what is redacted, so it is removed all the same where anything is",
		"pipelines: [{name: a, resources: [{resource: pods, redact: []}], encoding: {keep: [lastApplied]}}]": "",
	} {
		_, warnings := must.Get2(Parse("f", []byte(file)))(t)
		assert.Equal(t, want, warnings.Error())
	}
}

func TestFilter_is_warned_of_where_a_member_may_be_missing(t *testing.T) {
	const at = "f:1:62: pipelines[0].resources[0].filter: "
	for resource, want := range map[string]string{
		`filter: "object.data.a == '1'"`: at +
			"fails where an object has no object.data or no object.data.a, and the change is then published " +
			"(onFilterError: publish); guard it where it is used: has(object.data) && has(object.data.a) && …",
		`filter: "object.data == {}", onFilterError: drop`: at +
			"fails where an object has no object.data, and the change is then dropped " +
			"(onFilterError: drop); guard it where it is used: has(object.data) && …",
		`filter: "has(object.data) && object.data == {}"`: "",
	} {
		_, warnings := must.Get2(Parse("f",
			[]byte("pipelines: [{name: a, resources: [{resource: configmaps,     "+resource+"}]}]")))(t)
		if want != "" {
			assert.Equal(t, strings.Replace(want, "f:1:62", "f:1:70", 1), warnings.Error())
			continue
		}
		assert.Empty(t, warnings)
	}
}

func TestFence_is_warned_of_where_it_is_off(t *testing.T) {
	_, warnings := must.Get2(Parse("f",
		[]byte("pipelines: [{name: a, resources: [{resource: pods}], sink: {nats: {fence: false}}}]")))(t)
	assert.Equal(t,
		"f:1:75: pipelines[0].sink.nats.fence: is false: an event that is late on its way, or that a replaced process "+
			"sends, can stand behind a newer one of its object, and the same state can be there twice", warnings.Error())
}

func TestPaths_are_warned_of_where_what_they_begin_with_is_known_to_be_no_member(t *testing.T) {
	const rest = ", so the path names nothing; paths begin at the object, such as data.password"
	for pipeline, want := range map[string]string{
		"resources: [{resource: secrets, redact: [data.a, password]}]": "f:1:72: pipelines[0].resources[0].redact[1]: " +
			"password is no member of secrets" + rest,
		"resources: [{resource: deployments.apps, ignoreChanges: [Status]}]": "f:1:80: pipelines[0].resources[0].ignoreChanges[0]: " +
			"Status is no member of deployments.apps" + rest,
		"resources: [{resource: pods}, {resource: cm}], encoding: {redact: [password]}": "f:1:90: pipelines[0].encoding.redact[0]: " +
			"password is no member of any of its resources" + rest,
		"resources: [{resource: pods}, {resource: widgets.example.com}], encoding: {redact: [password]}": "",
		"resources: [{resource: widgets.example.com, redact: [password]}]":                               "",
		"resources: [{resource: \"*.apps\", redact: [password]}]":                                        "",
		"resources: [{resource: pods, ignoreChanges: [\"[*].conditions\"]}]":                             "",
	} {
		_, warnings := must.Get2(Parse("f", []byte("pipelines: [{name: a, "+pipeline+"}]")))(t)
		assert.Equal(t, want, warnings.Error(), pipeline)
	}
}

func TestConfig_sets_a_part_of_the_buffer_aside_where_watches_can_be_shared(t *testing.T) {
	const one, two = "{resource: pods}", "{resource: pods, namespaces: [a, b]}"
	for text, want := range map[string][2]value.Size{
		"pipelines: [{name: a, resources: [" + one + "]}]": {
			0,
			256 << 20,
		},
		"pipelines: [{name: a, resources: [" + two + "]}]": {
			16 << 20,
			240 << 20,
		},
		"buffer: {maxBytes: 4Mi}\npipelines: [{name: a, resources: [" + two +
			"]}]": {1 << 20, 3 << 20},
		"buffer: {maxBytes: 4Mi}\npipelines: [{name: a, resources: [" + two +
			"], buffer: {maxBytes: 4Mi}}]": {1 << 20, 4 << 20},
		"buffer: {maxBytes: 32Mi}\npipelines: [{name: a, resources: [" + two +
			"], buffer: {maxBytes: 16Mi}}]": {2 << 20, 16 << 20},
		"buffer: {maxBytes: 1Mi}\npipelines: [{name: a, resources: [" + two +
			"]}]": {1 << 20, 512 << 10},
	} {
		c, _, err := Parse("f", []byte(text))
		require.NoError(t, err, text)
		if got := [2]value.Size{c.SharedBuffer(), c.BufferShare(&c.Pipelines[0])}; got != want {
			t.Errorf("%s\nsets %v aside and leaves %v, want %v", text, got[0], got[1], want)
		}
	}
}

// Whatever the file, nothing panics; what is wrong has a place in the file and fits one line; and what is taken is
// complete.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range append(files, exampleFile) {
		data := must.Get(os.ReadFile(file))(f)
		f.Add(data)
	}
	f.Add([]byte("\"a\\nb\": 1\npipelines: [{sink: {kafka: {create: {settings: {\"c\\u2028d\": [], \"\": 1}}}}}]"))
	line := regexp.MustCompile(`^f:[1-9]\d*:[1-9]\d*: \S`)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Parse("f", data)
		require.NotEqual(t, (err == nil), (c == nil), "both or none: %v, %v", c, err)
		var problems Problems
		require.True(t, err == nil || errors.As(err, &problems) && len(problems) != 0,
			"no problems in %T %v", err, err)
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		for _, p := range append(problems, warnings...) {
			s := p.String()
			assert.True(t, line.MatchString(s) && !strings.Contains(s, "\n") && p.Line <= lines, "%q", s)
		}
		if c == nil {
			return
		}
		assert.NoError(t, c.Validate(), "taken, and not valid")
		for _, p := range c.Pipelines {
			assert.True(t, p.Sink != (Sink{}) && c.BufferShare(&p) > 0, "not complete: %+v", p)
		}
	})
}

func TestPlaceRead_is_about_what_was_read(t *testing.T) {
	found := PlaceRead("gone.yaml", []byte("\ncluster: c\ndataDir: /data\n"), Problems{{Path: "dataDir", Message: "x"}})
	got, want := fmt.Sprint(found), "gone.yaml:3:10: dataDir: x"
	assert.Equal(t, want, got)
}

// Files that would keep the parser, or whoever reads the problems, busy for long.
func TestParse_refuses_at_once_what_would_take_long(t *testing.T) {
	var paths strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&paths, "a.b.n%d, ", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"keys":               {strings.Repeat("? a\n", 12_000), "f:21:1: has many anchors, aliases"},
		"aliases":            {"a: &a b\n" + strings.Repeat("- *a\n", 12_000), "has many anchors, aliases"},
		"aliases in a line":  {"a: [" + strings.Repeat("*a,", 12_000) + "]", "has many anchors, aliases"},
		"brackets in quotes": {strings.Repeat("[\"]\",", 12_000), "nested deeper than 100 levels"},
		"brackets in lines":  {strings.Repeat("[\"]\",\n", 12_000), "nested deeper than 100 levels"},
		"braces":             {strings.Repeat("{a: '}', b: ", 10_000), "nested deeper than 100 levels"},
		"dashes":             {strings.Repeat("- ", 12_000), "nested deeper than 100 levels"},
		"indentation":        {strings.Repeat(" ", 1_000) + "a: b", "nested deeper than 100 levels"},
		"words":              {"a: [" + strings.Repeat("b,", 40_000) + "]", "50,000 words"},
		"pipelines": {
			"pipelines:\n" + strings.Repeat("- {name: a, resources: [{resource: pods}]}\n", 3_000),
			"has 3000, and a process has at most 200",
		},
		"paths": {"pipelines: [{name: a, resources: [{resource: pods}], encoding: {redact: [" + paths.String() +
			"]}}]\n", ""},
		"a long key": {strings.Repeat("k", 200_000) + ": 1", "is not a key here"},
		"a long name": {
			"pipelines: [{name: a, resources: [{resource: " + strings.Repeat("K", 200_000) + "}]}]",
			"resource",
		},
		"problems": {
			"pipelines:\n" + strings.Repeat("- a\n", 12_000),
			"there are 11901 problems more; correct these first",
		},
	} {
		_, _, err := Parse("f", []byte(c.text))
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		assert.Less(t, len(err.Error()), 100<<10, "%s: the text", name)
	}
}

func TestLoad_suggests_names_of_resources_that_Kubernetes_has(t *testing.T) {
	const unknown = " is no resource that Kubernetes 1.36 has by itself"
	for name, want := range map[string]string{
		"deploymets":              "deploymets" + unknown + ", did you mean deployments?",
		"deploymets.apps":         "deploymets.apps" + unknown + ", did you mean deployments.apps?",
		"deploymets.v1.apps":      "deploymets.v1.apps" + unknown + ", did you mean deployments.v1.apps?",
		"whatever.apps":           "whatever.apps" + unknown + ", and its group is one of Kubernetes",
		"deployments.apps":        "",
		"deploy":                  "",
		"pod":                     "",
		"pods.v1":                 "",
		"routes":                  "",
		"widgets":                 "",
		"deploymets.example.com":  "",
		"\"*.apps\"":              "",
		"\"*\"":                   "",
		"horizontalpodautoscaler": "",
	} {
		_, warnings, err := Parse("f", []byte("pipelines: [{name: a, resources: [{resource: "+name+"}]}]\n"))
		require.NoError(t, err, name)
		said := ""
		if len(warnings) > 0 {
			said = warnings[0].Message
		}
		assert.Equal(t, want, said, name)
	}
}

// A misspelt key hides nothing of the key that is meant, if that is there.
func TestLoad_reports_all_problems_beside_a_key_that_it_does_not_know(t *testing.T) {
	_, _, err := Parse("f",
		[]byte("pipeline: x\npipelines:\n- name: a\n  resources: [{resource: pods, payload: meta}]\n  audit: {interval: 1s}\n"))
	var found Problems
	require.ErrorAs(t, err, &found)
	var paths []string
	for _, p := range found {
		paths = append(paths, p.Path)
	}
	assert.Equal(t, []string{"pipeline", "pipelines[0].resources[0].payload", "pipelines[0].audit.interval"}, paths)
	_, _, err = Parse("f", []byte("pipeline: x\n"))
	require.ErrorAs(t, err, &found)
	assert.Len(t, found, 1, "it is not missing as well: %v", found)
}

func TestLoad_reports_what_is_wrong_below_a_key_that_is_misspelt(t *testing.T) {
	text := "pipelnes:\n- name: a\n  resorces: [{resource: pods, payload: meta}]\n  sinc: {nats: {maxage: 1h}}\n"
	_, _, err := Parse("f", []byte(text))
	var found Problems
	require.ErrorAs(t, err, &found)
	var paths []string
	for _, p := range found {
		paths = append(paths, fmt.Sprint(p.Line, " ", p.Path))
	}
	assert.Equal(t, []string{
		"1 pipelnes", "3 pipelines[0].resorces", "3 pipelines[0].resources[0].payload", "4 pipelines[0].sinc",
		"4 pipelines[0].sink.nats.maxage",
	}, paths)
}

func TestLoadServer_finds_the_addresses_in_a_file_that_is_wrong_elsewhere(t *testing.T) {
	for text, want := range map[string]struct{ listen, admin string }{
		"pipelines: 1\nserver: {listen: \":1\"}\n":                {":1", ":1"},
		"pipelines: 1\nserver: {listen: \":1\", admin: \":2\"}\n": {":1", ":2"},
		"server: {listen: \":1\", admin: 2}\n":                    {":1", ""},
		"server: {listen: \":1\", admin: \"2\"}\n":                {":1", ""},
		"server: {listen: \":1\", sinc: 1}\n":                     {":1", ":1"},
		"pipeline: []\n":                                          {"127.0.0.1:8080", "127.0.0.1:8080"},
		"server: {listen: 8080}\n":                                {},
		"server: 1\n":                                             {},
		"a: [\n":                                                  {},
		"":                                                        {},
		"server: {listen: \":1\"}\n<<<<<<< HEAD\na: b":            {},
	} {
		file := filepath.Join(t.TempDir(), "f.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		got, known := LoadServer(file, false)
		assert.True(t, known == (want.listen != "") && (!known || got.Listen == want.listen), "%q: %+v, %v", text, got, known)
		got, known = LoadServer(file, true)
		at := cmp.Or(got.Admin, got.Listen)
		assert.True(t, known == (want.admin != "") && (!known || at == want.admin), "%q: %+v, %v", text, got, known)
	}
	_, known := LoadServer(filepath.Join(t.TempDir(), "none"), false)
	assert.False(t, known)
}

func TestLoad_refuses_no_comment_for_its_length(t *testing.T) {
	_, _, err := Parse("f", []byte("# "+strings.Repeat("- ",
		200)+"\npipelines: [{name: a, resources: [{resource: pods}]}]\n"))
	require.NoError(t, err)
}

func TestLoad_repeats_no_URL_that_may_have_a_password(t *testing.T) {
	for _, server := range []string{"nats://u:S3CRET%40h", "nats://S3CRET:x:y", "S3CRET:h:99999999"} {
		_, _, err := Parse("f",
			[]byte("pipelines: [{name: a, resources: [{resource: pods}], sink: {nats: {servers: [\""+server+"\"]}}}]\n"))
		require.Error(t, err, server)
		assert.NotContains(t, err.Error(), "S3CRET")
	}
}
