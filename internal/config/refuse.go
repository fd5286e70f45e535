// SPDX-License-Identifier: Apache-2.0

package config

// noSecret is how the refusal of a key begins that would hold a secret.
const noSecret = "a secret never stands in this file; use "

// manifest is why keys of Kubernetes' objects are refused.
const manifest = "is a key of a Kubernetes manifest; give the file that is in it alone, which begins with pipelines"

func (Config) refused() map[string]string {
	const level = "is not a key here; write log: {level: debug}, or info, warn, error"
	const listen = "is not a key here; write server: {listen: \"127.0.0.1:8080\"} for metrics and probes"
	return map[string]string{
		"apiVersion": manifest, "kind": manifest, "metadata": manifest, "data": manifest, "spec": manifest,
		"logLevel": level, "loglevel": level, "logging": level, "metrics": listen, "health": listen, "listen": listen,
	}
}

func (Resource) refused() map[string]string {
	const name = "is a part of the resource's name; write resource: plural[.version][.group], such as deployments.apps"
	const labels = "is not a key here; write labelSelector as kubectl -l takes it, such as app=web,tier!=cache"
	return map[string]string{
		"apiVersion": name, "group": name, "version": name, "kind": name, "plural": name,
		"labels": labels, "selector": labels, "matchLabels": labels,
		"name": "is not a key here; one object is fieldSelector: metadata.name=NAME",
	}
}

func (Sink) refused() map[string]string {
	const sinks = "is not a key here; write the sink's name as a key, with what belongs to it below, such as nats: " +
		"{servers: [...]}; valid keys: {keys}"
	return map[string]string{"type": sinks, "kind": sinks, "url": sinks}
}

func (Server) refused() map[string]string {
	return map[string]string{
		"port":  "is not a key here; write listen: host:port, such as 127.0.0.1:8080 or :8080",
		"pprof": "is not a key here; write profiling: true",
	}
}

func (TLS) refused() map[string]string {
	const trust = "is not a key here, as servers are always verified; write caFile for their authority, and serverName " +
		"for a name that differs"
	return map[string]string{
		"enabled":            "is not a key here; tls with {} below it is TLS, without the key there is none",
		"insecureSkipVerify": trust, "insecure": trust, "skipVerify": trust,
	}
}

// textForms say of keys with texts, which other tools take as mappings, how the texts are written.
func textForms() map[string]string {
	return map[string]string{
		"labelSelector": "write it as kubectl -l takes it, such as app=web,tier!=cache",
		"fieldSelector": "write it as kubectl --field-selector takes it, such as spec.nodeName=node-1",
	}
}

func (NATS) refused() map[string]string {
	const stream = "is not a key here; what belongs to the JetStream stream is written beside servers: stream, subject, " +
		"maxAge, maxBytes"
	all := NATSAccess{}.refused()
	all["jetstream"], all["jetStream"] = stream, stream
	return all
}

func (NATSAccess) refused() map[string]string {
	const servers = "is not a key here; write servers: [nats://host:4222]"
	return map[string]string{
		"url": servers, "urls": servers, "server": servers,
		"token":    noSecret + "tokenFile or tokenEnv",
		"password": noSecret + "user with passwordFile or passwordEnv",
		"nkey":     noSecret + "nkeyFile",
		"seed":     noSecret + "nkeyFile",
		"creds":    noSecret + "credsFile",
	}
}

func (CheckpointNATS) refused() map[string]string {
	const fixed = "is not a key here; a bucket is made in files, with a history of 1, and keeps what it has"
	all := NATSAccess{}.refused()
	for _, key := range []string{"ttl", "maxAge", "maxBytes", "storage", "history"} {
		all[key] = fixed
	}
	return all
}

func (Kafka) refused() map[string]string {
	const (
		brokers = "is not a key here; write brokers: [host:9092]"
		fixed   = "is not a key here; what is published is always acknowledged by all in-sync replicas, once"
		secure  = "is not a key here; tls and sasl say how to connect"
	)
	return map[string]string{
		"bootstrapServers": brokers, "bootstrap.servers": brokers, "servers": brokers,
		"acks": fixed, "idempotence": fixed, "retries": fixed,
		"securityProtocol": secure, "security.protocol": secure,
		"password": noSecret + "sasl with user and passwordFile or passwordEnv",
		"token":    noSecret + "sasl with tokenFile",
	}
}

func (SecretHashes) refused() map[string]string {
	return map[string]string{"key": noSecret + "keyFile or keyEnv"}
}

func (SASL) refused() map[string]string {
	return map[string]string{
		"password":     noSecret + "passwordFile or passwordEnv",
		"token":        noSecret + "tokenFile",
		"clientSecret": noSecret + "clientSecretFile or clientSecretEnv",
	}
}
