// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// JetStream is a stream of a NATS server and the limits with which it is created.
type JetStream struct {
	Stream string `yaml:"stream"`
	// Subject is the template of each event's subject.
	Subject string `yaml:"subject"`
	// Fence lets the server refuse an event behind one of its object that the bridge does not know.
	Fence bool `yaml:"fence"`
	// MaxAge and MaxBytes limit the stream, 0: not at all.
	MaxAge   time.Duration `yaml:"maxAge"`
	MaxBytes Size          `yaml:"maxBytes"`
	// DuplicateWindow is how long the server recognises a repeated message by its id, at most MaxAge.
	DuplicateWindow time.Duration `yaml:"duplicateWindow"`
}

// NATS publishes to a NATS server with JetStream.
type NATS struct {
	Servers   []string `yaml:"servers"`
	JetStream `yaml:",inline"`
	// Replicas is the number of servers that hold the stream.
	Replicas   int `yaml:"replicas"`
	NATSAccess `yaml:",inline"`
}

// NATSAccess is how NATS servers are told who we are.
type NATSAccess struct {
	TokenFile    string `yaml:"tokenFile"`
	TokenEnv     string `yaml:"tokenEnv"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"passwordFile"`
	PasswordEnv  string `yaml:"passwordEnv"`
	NKeyFile     string `yaml:"nkeyFile"`
	CredsFile    string `yaml:"credsFile"`
	// TLS is nil where the server's URL alone decides about TLS.
	TLS *TLS `yaml:"tls"`
}

// CheckpointNATS is a checkpoint in a key-value bucket.
type CheckpointNATS struct {
	Bucket string `yaml:"bucket"`
	// Replicas of the bucket if it has to be created.
	Replicas int `yaml:"replicas"`
	// Servers are empty where those of sink.nats are meant, and what it says of who we are.
	Servers    []string `yaml:"servers"`
	NATSAccess `yaml:",inline"`
}

// CheckpointServers returns the NATS servers that have the checkpoint of p, which is in NATS, and how they are told who
// we are.
func (p *Pipeline) CheckpointServers() ([]string, *NATSAccess) {
	if c := p.Checkpoint.NATS; len(c.Servers) > 0 || p.Sink.NATS == nil {
		return c.Servers, &c.NATSAccess
	}
	return p.Sink.NATS.Servers, &p.Sink.NATS.NATSAccess
}
