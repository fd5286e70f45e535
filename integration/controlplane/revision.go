// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Revision returns etcd's current revision: the resourceVersion of the last write.
func (c *ControlPlane) Revision(ctx context.Context) (revision int64, err error) {
	err = c.withEtcd(func(client *clientv3.Client) error {
		now, err := client.Get(ctx, "/", clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("read revision: %w", err)
		}
		revision = now.Header.Revision
		return nil
	})
	return revision, err
}

// ServingCertificate returns the API server's own certificate, for a proxy on 127.0.0.1 that its clients are to take for it.
func (c *ControlPlane) ServingCertificate() (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.files.cert, c.files.key)
	if err != nil {
		return cert, fmt.Errorf("read the serving certificate: %w", err)
	}
	return cert, nil
}
