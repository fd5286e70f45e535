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
		if e := p.Sink.Embedded; e != nil {
			all = append(all, &e.StoreDir)
		}
		if n := p.Sink.NATS; n != nil {
			all = append(all, &n.TokenFile, &n.PasswordFile, &n.NKeyFile, &n.CredsFile)
			if t := n.TLS; t != nil {
				all = append(all, &t.CAFile, &t.CertFile, &t.KeyFile)
			}
		}
	}
	return all
}
