// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// resolve makes the relative paths of c those of files in dir, so that they mean the same wherever the process is
// started.
func (c *Config) resolve(dir string) {
	for _, p := range c.paths() {
		if *p.value != "" && !filepath.IsAbs(*p.value) {
			*p.value = filepath.Join(dir, *p.value)
		}
	}
}

// homeless says what is wrong with a path that begins with ~.
const homeless = "begins with ~, which is not replaced here; write the whole path"

// homes refuses paths that only a shell would understand.
func (v *validator) homes(c *Config) {
	for _, p := range c.paths() {
		if strings.HasPrefix(*p.value, "~") {
			v.add(p.key, "%q "+homeless+", or one relative to the directory of this file", *p.value)
		}
	}
}

// filePath is a value that names a file or a directory, and the key that it is at.
type filePath struct {
	key   string
	value *string
}

// paths returns every value that names a file or a directory.
func (c *Config) paths() []filePath {
	all := []filePath{{"dataDir", &c.DataDir}, {"kubernetes.kubeconfig", &c.Kubernetes.Kubeconfig}}
	for i := range c.Pipelines {
		at, p := fmt.Sprintf("pipelines[%d].", i), &c.Pipelines[i]
		all = append(all, filePath{at + "checkpoint.file.path", &p.Checkpoint.File.Path})
		if h := p.Encoding.Secrets.Hashes; h != nil {
			all = append(all, filePath{at + "encoding.secrets.hashes.keyFile", &h.KeyFile})
		}
		all = append(all, p.Sink.paths(at+"sink.")...)
		if n := p.Checkpoint.NATS; n != nil {
			all = append(all, n.paths(at+"checkpoint.nats.")...)
		}
	}
	return all
}

// paths returns the files and directories that s names; at is what is before its keys.
func (s *Sink) paths(at string) (all []filePath) {
	if e := s.Embedded; e != nil {
		all = append(all, filePath{at + "embedded.storeDir", &e.StoreDir})
	}
	if n := s.NATS; n != nil {
		all = append(all, n.paths(at+"nats.")...)
	}
	if k := s.Kafka; k != nil {
		at := at + "kafka."
		all = append(all, k.TLS.paths(at+"tls.")...)
		if s := k.SASL; s != nil {
			all = append(all, filePath{at + "sasl.passwordFile", &s.PasswordFile}, filePath{at + "sasl.tokenFile", &s.TokenFile},
				filePath{at + "sasl.clientSecretFile", &s.ClientSecretFile})
		}
	}
	return all
}

// paths returns the files that n names.
func (n *NATSAccess) paths(at string) []filePath {
	return append([]filePath{
		{at + "tokenFile", &n.TokenFile},
		{at + "passwordFile", &n.PasswordFile},
		{at + "nkeyFile", &n.NKeyFile},
		{at + "credsFile", &n.CredsFile},
	}, n.TLS.paths(at+"tls.")...)
}

// paths returns the files that t names; a nil t names none.
func (t *TLS) paths(at string) []filePath {
	if t == nil {
		return nil
	}
	return []filePath{{at + "caFile", &t.CAFile}, {at + "certFile", &t.CertFile}, {at + "keyFile", &t.KeyFile}}
}
