// SPDX-License-Identifier: Apache-2.0

package config

// Kafka publishes to a topic of a Kafka cluster, or to several.
type Kafka struct {
	// Brokers are addresses, host:port.
	Brokers []string `yaml:"brokers"`
	// Topic is the template of each event's topic.
	Topic string `yaml:"topic"`
	// Create says how a topic is made that is missing; nil: it is refused.
	Create *KafkaTopic `yaml:"create"`
	// Compression is of batches.
	Compression Compression `yaml:"compression"`
	// Tombstones adds a record without a value behind the deletion of an object, for topics that are compacted.
	Tombstones bool `yaml:"tombstones"`
	// TLS is nil where connections are not protected; an empty one trusts the system's certificate authorities.
	TLS *TLS `yaml:"tls"`
	// SASL is nil where the brokers are not told who we are, or by a client certificate only.
	SASL *SASL `yaml:"sasl"`
}

// KafkaTopic is how a topic is made.
type KafkaTopic struct {
	// Partitions and Replicas are the brokers' defaults where they are 0.
	Partitions int `yaml:"partitions"`
	Replicas   int `yaml:"replicas"`
	// Settings are those of the topic, by Kafka's names.
	Settings map[string]string `yaml:"settings"`
}

// SASL says who we are.
type SASL struct {
	Mechanism Mechanism `yaml:"mechanism"`
	// User and one of the passwords are for PLAIN and SCRAM.
	User         string `yaml:"user"`
	PasswordFile string `yaml:"passwordFile"`
	PasswordEnv  string `yaml:"passwordEnv"`
	// TokenFile, or TokenURL with what it asks for, are for OAUTHBEARER.
	TokenFile        string   `yaml:"tokenFile"`
	TokenURL         string   `yaml:"tokenURL"`
	ClientID         string   `yaml:"clientID"`
	ClientSecretFile string   `yaml:"clientSecretFile"`
	ClientSecretEnv  string   `yaml:"clientSecretEnv"`
	Scopes           []string `yaml:"scopes"`
}

// CheckpointKafka is a checkpoint in a compacted topic of the cluster that the pipeline publishes to.
type CheckpointKafka struct {
	Topic string `yaml:"topic"`
	// Replicas of the topic if it has to be created; 0: the brokers' default.
	Replicas int `yaml:"replicas"`
}
