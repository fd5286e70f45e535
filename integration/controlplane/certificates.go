// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// files are the certificates and keys that kube-apiserver reads. They are written once and outlive its restarts.
type files struct {
	ca, cert, key, serviceAccount string
}

// writeFiles puts what kube-apiserver needs into dir. Its certificate is for 127.0.0.1 and the addresses.
func writeFiles(a *testcert.Authority, dir string, addresses []net.IP) (files, error) {
	f := files{
		ca: filepath.Join(dir, "ca.crt"), cert: filepath.Join(dir, "server.crt"),
		key: filepath.Join(dir, "server.key"), serviceAccount: filepath.Join(dir, "service-account.key"),
	}
	cert, key, err := a.Server(addresses...)
	if err != nil {
		return f, err
	}
	signing, err := testcert.SigningKey()
	if err != nil {
		return f, err
	}
	for path, data := range map[string][]byte{f.ca: a.PEM, f.cert: cert, f.key: key, f.serviceAccount: signing} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return f, fmt.Errorf("write certificates: %w", err)
		}
	}
	return f, nil
}
