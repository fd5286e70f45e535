// SPDX-License-Identifier: Apache-2.0

package config

func (Pipeline) refused() map[string]string { return later("oversize") }

func (Resource) refused() map[string]string { return later("operations", "filter") }

func (Encoding) refused() map[string]string { return later("redact") }

func (Sink) refused() map[string]string { return later("kafka") }

func (Checkpoint) refused() map[string]string { return later("nats", "kafka") }

func (NATS) refused() map[string]string {
	const file = "a secret never stands in this file; use "
	return map[string]string{
		"token":    file + "tokenFile or tokenEnv",
		"password": file + "user with passwordFile or passwordEnv",
		"nkey":     file + "nkeyFile",
		"seed":     file + "nkeyFile",
		"creds":    file + "credsFile",
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
