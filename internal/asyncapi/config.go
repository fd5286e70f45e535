// SPDX-License-Identifier: Apache-2.0

package asyncapi

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// Config is what is described.
type Config struct {
	// Cluster is its name in events; empty: not known.
	Cluster   string
	Pipelines []Pipeline
}

// Broker is the kind of a pipeline's broker.
type Broker string

// The brokers.
const (
	NATS  Broker = "nats"
	Kafka Broker = "kafka"
)

// Pipeline is what publishes.
type Pipeline struct {
	Name    string
	Broker  Broker
	Servers []Server
	// Address is the template of subjects or topics.
	Address *encode.Template
	// Stream is the JetStream stream.
	Stream string
	// Partitions and Replicas of a topic that is created; 0: not known.
	Partitions, Replicas int
	// Structured events have their attributes in the data; else they are in headers.
	Structured bool
	// Tombstones follow the deletions of objects.
	Tombstones bool
	// Profile is whose types and sources the events of changes have; empty: our own.
	Profile encode.Profile
	// Reduced: what is too large for the broker is published with its metadata.
	Reduced   bool
	Resources []Resource
}

// Server is an address of a broker.
type Server struct {
	// Host is host:port, and Path what follows it, if anything.
	Host, Protocol, Path string
	// TLS: connections are protected, which the protocol's name does not say.
	TLS bool
	// Security are the ways in which clients say who they are.
	Security []Security
}

// Security is a way to say who one is, as AsyncAPI calls it.
type Security struct {
	// Name is unique, and Type and the fields after it are AsyncAPI's.
	Name, Type, Scheme, In, Description string
	TokenURL                            string
	Scopes                              []string
}

// Resource is what a pipeline reads.
type Resource struct {
	// Version is empty where it is not known.
	Group, Version, Plural string
	Namespaced             bool
	// Namespaces are those that are read; empty: all.
	Namespaces []string
	// Payload is that of an [encode.Payload].
	Payload string
	// Operations are those that are published: added, updated, deleted. Empty: all.
	Operations []string
}

// publishes reports whether there are events of an operation.
func (r *Resource) publishes(op string) bool {
	return len(r.Operations) == 0 || slices.Contains(r.Operations, op)
}

// name is what kubectl calls the resource.
func (r *Resource) name() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}
