// SPDX-License-Identifier: Apache-2.0

package config

func (Checkpoint) refused() map[string]string { return later("nats") }

// noSecret is how the refusal of a key begins that would hold a secret.
const noSecret = "a secret never stands in this file; use "

func (NATS) refused() map[string]string {
	return map[string]string{
		"token":    noSecret + "tokenFile or tokenEnv",
		"password": noSecret + "user with passwordFile or passwordEnv",
		"nkey":     noSecret + "nkeyFile",
		"seed":     noSecret + "nkeyFile",
		"creds":    noSecret + "credsFile",
	}
}

func (Kafka) refused() map[string]string {
	return map[string]string{
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

// later makes the refusals of keys that the contract has and this version has not.
func later(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[name] = "is not available in this version; valid keys: {keys}"
	}
	return m
}
