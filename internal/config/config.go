// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

// Config is a whole file. [Load] and [FromArgs] return it complete: defaults are filled in, there is a pipeline or a
// replica, and every pipeline has exactly one sink. What a key is for, and what it may be, is in the table of rules, at
// its name.
type Config struct {
	Cluster    string
	Kubernetes Kubernetes
	Pipelines  []Pipeline
	Replicas   []Replica
	// LeaderElection is nil where one process alone has this configuration.
	LeaderElection *LeaderElection
	// DataDir is where state is kept; see [Config.StateDir] for what empty means.
	DataDir string
	Buffer  Buffer
	Server  Server
	Log     Log
}

// Kubernetes says how the API server is found.
type Kubernetes struct {
	Kubeconfig, Context string
}

// LeaderElection says how one of several processes with this configuration becomes the one that publishes. Its keys are
// those of Kubernetes' own components.
type LeaderElection struct {
	ResourceName, ResourceNamespace           string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Pipeline is a list of resources and the one sink they are published to.
type Pipeline struct {
	Name       string
	Resources  []Resource
	Encoding   Encoding
	Sink       Sink
	Checkpoint Checkpoint
	Recovery   Recovery
	Audit      Audit
	OnReject   OnReject
	Oversize   Oversize
	// Buffer is this pipeline's part of the common one; see [Config.BufferShare] for what 0 means.
	Buffer Buffer
}

// Resource is one resource in one or several scopes.
type Resource struct {
	Resource                                        value.ResourceName
	Exclude                                         []value.ResourceName
	Namespaces                                      []string
	NamespaceSelector, LabelSelector, FieldSelector string
	Operations                                      []Operation
	// IgnoreChanges are paths, as jsonscan.ParsePath takes them.
	IgnoreChanges []string
	Filter        string
	OnFilterError OnFilterError
	Delivery      Delivery
	Payload       Payload
	Snapshot      Snapshot
	Resync        time.Duration
	// Redact is Encoding.Redact for this resource alone.
	Redact []string
}

// Encoding says what an event looks like.
type Encoding struct {
	Mode    Mode
	Profile Profile
	Keep    []Part
	// Redact are paths, as jsonscan.ParsePath takes them.
	Redact  []string
	Secrets Secrets
}

// Secrets says what leaves the process of objects of kind Secret.
type Secrets struct {
	Values      bool
	Annotations []string
	// Hashes, if not nil, makes values that are not published show when they change.
	Hashes *SecretHashes
}

// SecretHashes says where the key of the hashes is: in one of a file and an environment variable.
type SecretHashes struct {
	KeyFile, KeyEnv string
}

// Sink is where events go: one of its fields is set.
type Sink struct {
	NATS     *NATS
	Kafka    *Kafka
	Embedded *Embedded
	Stdout   *Stdout
}

// NATS publishes to a NATS server with JetStream.
type NATS struct {
	Servers []string
	JetStream
	Replicas int
	NATSAccess
}

// JetStream is a stream of a NATS server and the limits with which it is created; a limit of 0 is none.
type JetStream struct {
	Stream string
	// Subject is the template of each event's subject.
	Subject         string
	Fence           bool
	MaxAge          time.Duration
	MaxBytes        value.Size
	DuplicateWindow time.Duration
}

// NATSAccess is how NATS servers are told who we are.
type NATSAccess struct {
	TokenFile, TokenEnv, User, PasswordFile, PasswordEnv, NKeyFile, CredsFile string
	// TLS is nil where the server's URL alone decides about TLS.
	TLS *TLS
}

// TLS says whom to trust and how to prove who we are. Empty fields mean: the system's certificate authorities, no
// client certificate, the host that is connected to.
type TLS struct {
	CAFile, CertFile, KeyFile, ServerName string
}

// Kafka publishes to a topic of a Kafka cluster, or to several.
type Kafka struct {
	Brokers []string
	// Topic is the template of each event's topic.
	Topic string
	// Create says how a topic is made that is missing; nil: it is refused.
	Create      *KafkaTopic
	Compression Compression
	Tombstones  bool
	KafkaAccess
}

// KafkaAccess is how Kafka brokers are told who we are.
type KafkaAccess struct {
	// TLS is nil where connections are not protected; an empty one trusts the system's certificate authorities.
	TLS *TLS
	// SASL is nil where the brokers are not told who we are, or by a client certificate only.
	SASL *SASL
}

// Replica keeps selected objects of the cluster in the state that a log of another cluster describes.
type Replica struct {
	// Name is the value of a label of the objects that are written, and stands in the names of consumers and groups.
	Name      string
	From      From
	Resources []ReplicaResource
	Into      Into
	Existing  Existing
	Conflicts Conflicts
	Owned     Owned
	Deletes   Deletes
	OnEpoch   OnEpoch
	Immutable Immutable
	// Status says that the status of objects is written, too.
	Status bool
}

// From is the log that a replica reads, and whose events in it count.
type From struct {
	Cluster, Pipeline string
	LogSource
}

// ReplicaResource is one resource of a replica, in the namespaces of the source; in all of them if none is listed.
type ReplicaResource struct {
	Resource   value.ResourceName
	Namespaces []string
	// Ignore are paths, as jsonscan.ParsePath takes them, whose values belong to the cluster that is written to.
	Ignore []string
}

// Into says how an object changes on its way.
type Into struct {
	// Namespaces are one to one, from the source's names to those that are written; others keep their names.
	Namespaces map[string]string
	// Labels and Annotations are added.
	Labels, Annotations map[string]string
}

// Deletes says which objects are deleted.
type Deletes struct {
	Enabled    bool
	Deselected Deselected
	Limit      value.Limit
	// MinAge is how old an object has to be for its end to count for Limit.
	MinAge time.Duration
}

// LogSource is a log that is read: one of its fields is set.
type LogSource struct {
	NATS  *NATSLog
	Kafka *KafkaLog
}

// NATSLog is a stream of a NATS server that is read.
type NATSLog struct {
	Servers []string
	Stream  string
	NATSAccess
}

// KafkaLog is a topic of a Kafka cluster that is read, or several.
type KafkaLog struct {
	Brokers []string
	// Topic is the template of the topics' names.
	Topic string
	KafkaAccess
}

// KafkaTopic is how a topic is made. Numbers that are 0 are for the brokers to choose.
type KafkaTopic struct {
	Partitions, Replicas int
	Settings             map[string]string
}

// SASL says who we are.
type SASL struct {
	Mechanism Mechanism
	// User and one of the passwords are for PLAIN and SCRAM.
	User, PasswordFile, PasswordEnv string
	// TokenFile, or TokenURL with what it asks for, are for OAUTHBEARER.
	TokenFile, TokenURL, ClientID, ClientSecretFile, ClientSecretEnv string
	Scopes                                                           []string
}

// Embedded is the NATS server in the process itself. All pipelines that use it share one.
type Embedded struct {
	Listen string
	// StoreDir is where the server keeps its streams; empty: nats in [Config.StateDir].
	StoreDir string
	JetStream
}

// Stdout writes one event a line to the standard output.
type Stdout struct{}

// Checkpoint says where positions are kept: in Kafka or NATS if that is set, else in a file.
type Checkpoint struct {
	File  CheckpointFile
	Kafka *CheckpointKafka
	NATS  *CheckpointNATS
}

// CheckpointFile is a checkpoint in a file; see [Config.CheckpointPath] for what an empty path means.
type CheckpointFile struct {
	Path string
}

// CheckpointKafka is a checkpoint in a compacted topic of the cluster that the pipeline publishes to.
type CheckpointKafka struct {
	Topic    string
	Replicas int
}

// CheckpointNATS is a checkpoint in a key-value bucket; see [Pipeline.CheckpointServers] for what no servers mean.
type CheckpointNATS struct {
	Bucket   string
	Replicas int
	Servers  []string
	NATSAccess
}

// Recovery bounds what is read back of the API server's history, for each gap of a stream.
type Recovery struct {
	Enabled  bool
	MaxReads int
	MaxTime  time.Duration
}

// Audit says how often the objects that exist are compared with those that the log has; 0: never.
type Audit struct {
	Interval time.Duration
}

// Buffer bounds what is read and not yet acknowledged.
type Buffer struct {
	MaxBytes value.Size
}

// Server is the HTTP server of metrics and health.
type Server struct {
	Listen string
	// Admin is where requests are served that change something; empty: at Listen, on loopback only.
	Admin     string
	Profiling bool
}

// Log says what is logged and how.
type Log struct {
	Level  Level
	Format Format
}
