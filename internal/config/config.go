// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Config is a whole file. [Load] and [FromArgs] return it complete: defaults are filled in, and every pipeline has
// exactly one sink.
type Config struct {
	// Cluster names the cluster in events; empty: the uid of namespace kube-system.
	Cluster    string     `yaml:"cluster"`
	Kubernetes Kubernetes `yaml:"kubernetes"`
	Pipelines  []Pipeline `yaml:"pipelines"`
	// LeaderElection is nil where one process alone has this configuration.
	LeaderElection *LeaderElection `yaml:"leaderElection"`
	// DataDir is where state is kept; see [Config.StateDir] for what empty means.
	DataDir string `yaml:"dataDir"`
	Buffer  Buffer `yaml:"buffer"`
	Server  Server `yaml:"server"`
	Log     Log    `yaml:"log"`
}

// Kubernetes says how the API server is found; both empty: in-cluster, then the usual kubeconfig rules.
type Kubernetes struct {
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
}

// Pipeline is a list of resources and the one sink they are published to.
type Pipeline struct {
	Name       string     `yaml:"name"`
	Resources  []Resource `yaml:"resources"`
	Encoding   Encoding   `yaml:"encoding"`
	Sink       Sink       `yaml:"sink"`
	Checkpoint Checkpoint `yaml:"checkpoint"`
	Recovery   Recovery   `yaml:"recovery"`
	Audit      Audit      `yaml:"audit"`
	// OnReject says what follows when the broker refuses an event for good.
	OnReject OnReject `yaml:"onReject"`
	// Oversize says what becomes of an event that is too large for the broker.
	Oversize Oversize `yaml:"oversize"`
	// Buffer is this pipeline's part of the common one; see [Config.BufferShare] for what 0 means.
	Buffer Buffer `yaml:"buffer"`
}

// Resource is one resource in one or several scopes.
type Resource struct {
	Resource ResourceName `yaml:"resource"`
	// Exclude are the resources that a wildcard leaves out.
	Exclude []ResourceName `yaml:"exclude"`
	// Namespaces makes one stream of each; empty: one stream of all. Of a wildcard they leave out what is in no
	// namespace.
	Namespaces []string `yaml:"namespaces"`
	// NamespaceSelector makes one stream of each namespace whose labels match. Of a wildcard it leaves out what is in
	// no namespace.
	NamespaceSelector string `yaml:"namespaceSelector"`
	LabelSelector     string `yaml:"labelSelector"`
	FieldSelector     string `yaml:"fieldSelector"`
	// Operations are those of which events are published.
	Operations []Operation `yaml:"operations"`
	// IgnoreChanges lists paths, as jsonscan.ParsePath takes them: an update in which nothing else is different is not
	// published.
	IgnoreChanges []string `yaml:"ignoreChanges"`
	// Filter is an expression of CEL that is true for events that are published; empty: all are.
	Filter string `yaml:"filter"`
	// OnFilterError says what becomes of a change for which Filter cannot be evaluated.
	OnFilterError OnFilterError `yaml:"onFilterError"`

	Delivery Delivery `yaml:"delivery"`
	Payload  Payload  `yaml:"payload"`
	Snapshot Snapshot `yaml:"snapshot"`
	// Resync is how often everything that exists is published again; 0: never by itself.
	Resync time.Duration `yaml:"resync"`
	// Redact is Encoding.Redact for this resource alone.
	Redact []string `yaml:"redact"`
}

// Encoding says what an event looks like.
type Encoding struct {
	Mode Mode `yaml:"mode"`
	// Profile says whose types, sources and subjects events have.
	Profile Profile `yaml:"profile"`
	// Keep lists parts of an object that are otherwise removed.
	Keep []Part `yaml:"keep"`
	// Redact lists paths, as jsonscan.ParsePath takes them, of values that are replaced.
	Redact  []string `yaml:"redact"`
	Secrets Secrets  `yaml:"secrets"`
}

// Secrets says what leaves the process of objects of kind Secret.
type Secrets struct {
	// Values publishes the values of Secrets.
	Values bool `yaml:"values"`
	// Annotations names annotations of Secrets whose values are published all the same.
	Annotations []string `yaml:"annotations"`
	// Hashes, if not nil, makes values that are not published show when they change.
	Hashes *SecretHashes `yaml:"hashes"`
}

// SecretHashes says where the key of the hashes is: in one of a file and an environment variable.
type SecretHashes struct {
	KeyFile string `yaml:"keyFile"`
	KeyEnv  string `yaml:"keyEnv"`
}

// Sink is where events go: one of its fields is set.
type Sink struct {
	NATS     *NATS     `yaml:"nats"`
	Kafka    *Kafka    `yaml:"kafka"`
	Embedded *Embedded `yaml:"embedded"`
	Stdout   *Stdout   `yaml:"stdout"`
}

// Stdout writes one event a line to the standard output.
type Stdout struct{}

// TLS says whom to trust and how to prove who we are. Empty fields mean: the system's certificate authorities, no
// client certificate, the host that is connected to.
type TLS struct {
	CAFile     string `yaml:"caFile"`
	CertFile   string `yaml:"certFile"`
	KeyFile    string `yaml:"keyFile"`
	ServerName string `yaml:"serverName"`
}

// Embedded is the NATS server in the process itself. All pipelines that use it share one.
type Embedded struct {
	Listen string `yaml:"listen"`
	// StoreDir is where the server keeps its streams; empty: nats in [Config.StateDir].
	StoreDir  string `yaml:"storeDir"`
	JetStream `yaml:",inline"`
}

// Checkpoint says where positions are kept: in Kafka or NATS if that is set, else in a file.
type Checkpoint struct {
	File  CheckpointFile   `yaml:"file"`
	Kafka *CheckpointKafka `yaml:"kafka"`
	NATS  *CheckpointNATS  `yaml:"nats"`
}

// CheckpointFile is a checkpoint in a file; see [Config.CheckpointPath] for what an empty path means.
type CheckpointFile struct {
	Path string `yaml:"path"`
}

// Recovery bounds what is read back of the API server's history after a gap.
type Recovery struct {
	// Enabled reads back what lies in a gap, object by object.
	Enabled bool `yaml:"enabled"`
	// MaxReads and MaxTime bound it for each gap of a stream.
	MaxReads int           `yaml:"maxReads"`
	MaxTime  time.Duration `yaml:"maxTime"`
}

// Audit compares the objects that exist with those that the log has.
type Audit struct {
	// Interval is how often each stream is compared; 24h unless the file says otherwise, and 0: never.
	Interval time.Duration `yaml:"interval"`
}

// Buffer bounds what is read and not yet acknowledged.
type Buffer struct {
	MaxBytes Size `yaml:"maxBytes"`
}

// Server is the HTTP server of metrics and health.
type Server struct {
	Listen string `yaml:"listen"`
	// Admin is where requests are served that change something; empty: at Listen, on loopback only.
	Admin string `yaml:"admin"`
	// Profiling adds Go's profiles, below /debug/pprof/.
	Profiling bool `yaml:"profiling"`
}

// Log says what is logged and how.
type Log struct {
	Level  Level  `yaml:"level"`
	Format Format `yaml:"format"`
}
