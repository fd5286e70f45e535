// SPDX-License-Identifier: Apache-2.0

package config

import "path/filepath"

// resolve makes the relative paths of c those of files in dir, so that they mean the same wherever the process is started.
func (c *Config) resolve(dir string) {
	for _, path := range c.paths() {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// paths returns every value that names a file or a directory.
func (c *Config) paths() []*string {
	all := []*string{&c.DataDir, &c.Kubernetes.Kubeconfig}
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		all = append(all, &p.Checkpoint.File.Path)
		if h := p.Encoding.Secrets.Hashes; h != nil {
			all = append(all, &h.KeyFile)
		}
		if e := p.Sink.Embedded; e != nil {
			all = append(all, &e.StoreDir)
		}
		if n := p.Sink.NATS; n != nil {
			all = append(all, &n.TokenFile, &n.PasswordFile, &n.NKeyFile, &n.CredsFile)
			all = append(all, n.TLS.paths()...)
		}
		if k := p.Sink.Kafka; k != nil {
			all = append(all, k.TLS.paths()...)
			if s := k.SASL; s != nil {
				all = append(all, &s.PasswordFile, &s.TokenFile, &s.ClientSecretFile)
			}
		}
	}
	return all
}

// paths returns the files that t names; a nil t names none.
func (t *TLS) paths() []*string {
	if t == nil {
		return nil
	}
	return []*string{&t.CAFile, &t.CertFile, &t.KeyFile}
}
